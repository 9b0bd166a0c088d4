"""Backups of an open store, whole or with what is new, and the way back; `core.backup` has the list and the checks.

An open store rotates its logs first, so that a later backup finds them unchanged. Channels go on while files are
copied. A directory that another process has open is copied by `flintlog backup`.

A chain may cross an upgrade of the format: the logs of an older version are read by every later one, and the manifest
of the newest backup counts. It may not cross editions: that is refused before anything is written.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence

from flintlog.core import backup as core
from flintlog.core.backup import Backup, Checked, Part, Picture
from flintlog.core.backup.copying import fill, known_files
from flintlog.core.backup.listing import timestamp, write_list
from flintlog.core.backup.restoring import read_of_kind, restore_backup
from flintlog.core.new_place import new_place
from flintlog.dialects.limestone import files
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone.picture import is_member, make_picture
from flintlog.dialects.limestone.store.datastore import Datastore
from flintlog.dialects.limestone.survey import survey
from flintlog.disk import Disk, assembled
from flintlog.errors import RefusedError, UsageError

_DIALECT = "limestone"
Path = str | os.PathLike[str]


def back_up(store: Datastore, target: Path, *, since: Sequence[Path] = ()) -> Backup:
    """Copy a live directory to an empty place; with `since`, only what those backups do not hold."""
    disk = store.disk
    places = [disk.resolve(place) for place in since]
    known = known_files([(place, read_of_kind(disk, place, _DIALECT, store.edition)) for place in places])
    with new_place(disk, disk.resolve(target)) as building, store.held() as epoch:
        names = [(name, _size(disk, posixpath.join(store.path, name))) for name in _names(disk, store.path)]
        picture = make_picture(survey(disk, store.path, walk=False), epoch, names)
        copied = fill(disk, picture, building, known=known)
        done = Backup(
            _DIALECT,
            store.edition,
            picture.version,
            timestamp(),
            store.path,
            picture.first,
            picture.last,
            copied,
        )
        write_list(disk, building, done)
    return done


def check_backup(source: Path, *, chain: Iterable[Path] = (), disk: Disk | None = None) -> Checked:
    """Read every file of a backup and compare it with the list; gives the list, and where each file is."""
    disk = disk or Disk()
    return core.check_backup(disk, disk.resolve(source), chain=[disk.resolve(place) for place in chain])


def restore(
    source: Path,
    target: Path,
    *,
    chain: Iterable[Path] = (),
    epoch: int | None = None,
    disk: Disk | None = None,
) -> Backup:
    """Make an empty place what the directory was at the time of a backup, or at an earlier epoch of it.

    `chain` are the backups that this one builds on. Everything is compared with the list, and decoded, before anything
    is written.
    """
    disk = disk or Disk()
    return restore_backup(
        disk,
        disk.resolve(source),
        disk.resolve(target),
        to=None if epoch is None else (epoch,),
        chain=[disk.resolve(place) for place in chain],
    )


def restore_files(
    source: Path, target: Path, entries: Mapping[str, str] | None = None, *, disk: Disk | None = None
) -> None:
    """Make an empty place from plain copies of files: all of `source` that belong to the format, or `entries` of
    source name to target name. Blobs find their folder by their name."""
    disk = disk or Disk()
    origin = disk.resolve(source)
    if entries is None and disk.stat(posixpath.join(origin, core.BACKUP_FILE)) is not None:
        raise RefusedError("this is a backup with a list", file=origin, advice="Use `restore`")
    names = _plain_names(disk, origin) if entries is None else dict(entries)
    sources: dict[str, str] = {}
    for name, destination in names.items():
        blob = lay.BLOB_NAME.fullmatch(posixpath.basename(name))
        goal = lay.blob_path(int(blob[1], 16)) if blob else destination
        if "\0" in goal or not _is_name(goal):
            raise RefusedError(f"{goal!r} is not the name of a file of this format")
        if goal in sources:
            raise UsageError(f"two files would get the name {goal}", file=origin)
        sources[goal] = posixpath.normpath(posixpath.join(origin, name))
        if not sources[goal].startswith(posixpath.join(origin, "")):
            raise UsageError(f"{name!r} is outside the source", file=origin)
    if lay.MANIFEST_FILE not in sources:
        raise RefusedError("there is no manifest among these files", file=origin)
    parts = tuple(Part(name, _size(disk, place)) for name, place in sources.items())
    view = assembled(disk, origin, sources)
    with new_place(disk, disk.resolve(target)) as building:
        fill(view, Picture(origin, None, None, None, None, parts), building, to=disk)
        survey(disk, building).refuse_damage()


# What belongs to a backup


def _names(disk: Disk, path: str) -> Iterator[str]:
    """The files of a directory that was rotated: the compacted ones, and all logs but the active."""
    found = files.list_files(disk, path)
    yield from sorted(found.compacted)
    yield from (log.name for log in found.logs if not log.active)


def _plain_names(disk: Disk, path: str) -> dict[str, str]:
    names = [name for name in disk.list(path) if _is_name(name) or lay.BLOB_NAME.fullmatch(name)]
    names += map(lay.blob_path, files.blobs(disk, path))
    return {name: name for name in names if not disk.is_directory(posixpath.join(path, name))}


def _is_name(name: str) -> bool:
    """What a backup can have, and epoch files that were rotated."""
    return is_member(name) or lay.ROTATED_EPOCH_NAME.fullmatch(name) is not None


def _size(disk: Disk, path: str) -> int:
    stat = disk.stat(path)
    if stat is None or stat.is_directory:
        raise RefusedError("this is not a file", file=path)
    return stat.size
