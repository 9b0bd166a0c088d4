"""Copies of a live directory, whole or with what is new, and the way back.

A backup is a directory of plain files with a list of them in `flintlog-backup.json`. A later one names what an earlier
one holds, compared by content, and copies only the rest. Channels go on while files are copied.

Backups and restored directories are written to `<target>.new`, read back, and get their name last: they are there as a
whole or not at all.

A chain may cross an upgrade of the format: the logs of an older version are read by every later one, and the manifest
of the newest backup counts. It may not cross editions: that is refused before anything is written.
"""

from __future__ import annotations

import hashlib
import json
import os
import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from flintlog.dialects.limestone import files
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone.store.datastore import Datastore
from flintlog.dialects.limestone.survey import survey
from flintlog.disk import Buffer, Disk, write_all
from flintlog.errors import DamageError, RefusedError, UsageError

_LIST_SIZE_MAX = 256 << 20
_FORMAT = 1
Path = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class Copied:
    """One file of a backup. `held_by` is the name that the earlier backup with its bytes had."""

    name: str
    size: int
    sha256: str
    held_by: str | None = None

    @property
    def content(self) -> tuple[str, int, str]:
        return self.name, self.size, self.sha256


@dataclass(frozen=True, slots=True)
class Backup:
    """What a backup holds."""

    edition: str
    version: int
    epoch: int
    files: tuple[Copied, ...]

    @property
    def copied_bytes(self) -> int:
        """How much this backup itself holds."""
        return sum(item.size for item in self.files if item.held_by is None)


def back_up(store: Datastore, target: Path, *, since: Sequence[Path] = ()) -> Backup:
    """Copy a live directory to an empty place; with `since`, only what those backups do not hold."""
    disk = store.disk
    known: dict[tuple[str, int, str], str] = {}
    for place in map(disk.resolve, since):
        for item in _read_of_edition(disk, place, store.edition).files:
            if item.held_by is None:
                known[item.content] = posixpath.basename(place)
    sizes = {(name, size) for name, size, _ in known}
    with _new_place(disk, disk.resolve(target)) as building, store.held() as epoch:
        copied = []
        for name in _names(disk, store.path):
            source = posixpath.join(store.path, name)
            size = _size(disk, source)
            content = (name, size, _digest(disk, source, size) if (name, size) in sizes else "")
            if content in known:
                copied.append(Copied(*content, held_by=known[content]))
            else:
                copied.append(_copy(disk, source, building, name, size))
        manifest = lay.decode_manifest(_read(disk, store.path, lay.MANIFEST_FILE))
        done = Backup(store.edition, manifest.version, epoch, tuple(copied))
        listing = {"format": _FORMAT, "dialect": "limestone", **asdict(done)}
        _write(disk, building, lay.BACKUP_FILE, [json.dumps(listing, indent=1).encode()])
    return done


def read_backup(disk: Disk, path: str) -> Backup:
    """The list of a backup, which is durable then: whoever made it may have died before its name was."""
    place = posixpath.join(path, lay.BACKUP_FILE)
    if disk.stat(place) is None:
        raise RefusedError("there is no backup here", file=path, advice=f"A backup has a {lay.BACKUP_FILE}")
    disk.sync_ancestors(path)
    try:
        content = json.loads(disk.read(place, _LIST_SIZE_MAX))
        if content["format"] != _FORMAT or content["dialect"] != "limestone":
            raise ValueError("another kind of backup")
        items = tuple(Copied(**item) for item in content["files"])
        for item in items:
            _check_name(item.name)
            if not isinstance(item.size, int) or not isinstance(item.sha256, str):
                raise ValueError(f"the file {item.name}")
        return Backup(
            content["edition"],
            lay.check_number("version", content["version"]),
            lay.check_number("epoch", content["epoch"]),
            items,
        )
    except (ValueError, KeyError, TypeError, RecursionError, RefusedError, UsageError) as error:
        raise DamageError(
            "this is not the list of a backup", code="backup-list", file=place, found=str(error)
        ) from None


def check_backup(
    source: Path, *, chain: Iterable[Path] = (), disk: Disk | None = None
) -> tuple[Backup, dict[str, str]]:
    """Read every file of a backup and compare it with the list; gives the list, and where each file is."""
    disk = disk or Disk()
    origin = disk.resolve(source)
    backup = read_backup(disk, origin)
    holders = {item.content: origin for item in backup.files if item.held_by is None}
    for place in map(disk.resolve, chain):
        for item in _read_of_edition(disk, place, backup.edition).files:
            if item.held_by is None:
                holders.setdefault(item.content, place)
    return backup, {item.name: _compared(disk, holders, origin, item) for item in backup.files}


def restore(
    source: Path,
    target: Path,
    *,
    chain: Iterable[Path] = (),
    epoch: int | None = None,
    disk: Disk | None = None,
) -> Backup:
    """Make an empty place what the directory was at the time of a backup, or at an earlier epoch of it.

    `chain` are the backups that this one builds on. Everything is compared with the list before anything is written.
    """
    disk = disk or Disk()
    origin = disk.resolve(source)
    backup, sources = check_backup(origin, chain=chain, disk=disk)
    reached = backup.epoch if epoch is None else _check_epoch(disk, origin, backup, sources, epoch)
    with _new_place(disk, disk.resolve(target)) as building:
        _write(disk, building, lay.EPOCH_FILE, [lay.encode_durable(reached)] if reached else [])
        for name, place in sources.items():
            if not name.startswith(lay.EPOCH_FILE):
                _copy(disk, place, building, name, _size(disk, place))
        _prove(disk, building, backup.edition)
    return backup


def restore_files(
    source: Path, target: Path, entries: Mapping[str, str] | None = None, *, disk: Disk | None = None
) -> None:
    """Make an empty place from plain copies of files: all of `source` that belong to the format, or `entries` of
    source name to target name. Blobs find their folder by their name."""
    disk = disk or Disk()
    origin = disk.resolve(source)
    if entries is None and disk.stat(posixpath.join(origin, lay.BACKUP_FILE)) is not None:
        raise RefusedError("this is a backup with a list", file=origin, advice="Use `restore`")
    names = _plain_names(disk, origin) if entries is None else dict(entries)
    sources: dict[str, str] = {}
    for name, destination in names.items():
        blob = lay.BLOB_NAME.fullmatch(posixpath.basename(name))
        goal = _check_name(lay.blob_path(int(blob[1], 16)) if blob else destination)
        if goal in sources:
            raise UsageError(f"two files shall become {goal}", file=origin)
        sources[goal] = posixpath.normpath(posixpath.join(origin, name))
        if not sources[goal].startswith(posixpath.join(origin, "")):
            raise UsageError(f"{name!r} is outside the source", file=origin)
    if lay.MANIFEST_FILE not in sources:
        raise RefusedError("there is no manifest among these files", file=origin)
    sizes = {name: _size(disk, place) for name, place in sources.items()}
    with _new_place(disk, disk.resolve(target)) as building:
        for name in sorted(sources, key=lambda name: name == lay.MANIFEST_FILE):
            _copy(disk, sources[name], building, name, sizes[name])
        _prove(disk, building, None)


# What belongs to a backup


def _names(disk: Disk, path: str) -> Iterator[str]:
    """The files of a directory that was rotated: all that count, but the active logs and the active epoch file."""
    found = files.list_files(disk, path)
    yield lay.CATALOG_FILE
    yield from sorted(found.compacted)
    yield from (log.name for log in found.logs if not log.active)
    yield from (name for name in sorted(found.epochs) if name != lay.EPOCH_FILE)
    yield from map(lay.blob_path, sorted(files.blobs(disk, path)))
    yield lay.MANIFEST_FILE  # last: without it nothing looks like a directory of ours


def _plain_names(disk: Disk, path: str) -> dict[str, str]:
    names = [name for name in disk.list(path) if _is_name(name) or lay.BLOB_NAME.fullmatch(name)]
    names += map(lay.blob_path, files.blobs(disk, path))
    return {name: name for name in names if not disk.is_directory(posixpath.join(path, name))}


def _is_name(name: str) -> bool:
    """Can a directory of ours have such a file, and a backup copy it? A list comes from outside."""
    if "/" in name:
        match = lay.BLOB_NAME.fullmatch(posixpath.basename(name))
        return match is not None and name == lay.blob_path(int(match[1], 16))
    known = (lay.MANIFEST_FILE, lay.CATALOG_FILE, lay.COMPACTED_PREVIOUS)
    return (
        name in known
        or lay.is_wal_name(name)
        or lay.is_compacted_name(name)
        or name == lay.EPOCH_FILE
        or lay.ROTATED_EPOCH_NAME.fullmatch(name) is not None
    )


def _check_name(name: object) -> str:
    if not isinstance(name, str) or "\0" in name or not _is_name(name):
        raise RefusedError(f"{name!r} is not the name of a file of this format")
    return name


def _read_of_edition(disk: Disk, place: str, edition: str) -> Backup:
    held = read_backup(disk, place)
    if held.edition != edition:
        raise RefusedError(
            f"the backup is of the {held.edition} edition, and the chain of the {edition} one",
            file=place,
            advice="Begin a new chain with a full backup",
        )
    return held


# Checks before anything is written


def _compared(disk: Disk, holders: Mapping[tuple[str, int, str], str], origin: str, item: Copied) -> str:
    """Where the bytes of a file are, after they were read and found to be those of the list."""
    if item.content not in holders:
        raise RefusedError(
            f"{item.name} is in the backup {item.held_by}",
            file=origin,
            advice="Name that backup in the chain too",
        )
    place = posixpath.join(holders[item.content], item.name)
    if disk.stat(place) is None:
        raise DamageError("a file of the backup is missing", code="backup-file-missing", file=place)
    size = _size(disk, place)
    digest = _digest(disk, place, size)
    if (size, digest) != (item.size, item.sha256):
        raise DamageError(
            "a file of the backup is not what was copied",
            code="backup-file",
            file=place,
            expected=f"{item.size} bytes, {item.sha256[:16]}",
            found=f"{size} bytes, {digest[:16]}",
        )
    return place


def _check_epoch(disk: Disk, origin: str, backup: Backup, sources: Mapping[str, str], epoch: int) -> int:
    if lay.check_number("epoch", epoch) > backup.epoch:
        raise UsageError(f"the backup reaches to epoch {backup.epoch}, not to {epoch}", file=origin)
    catalog = lay.Catalog()
    if lay.CATALOG_FILE in sources:
        catalog = lay.decode_catalog(disk.read(sources[lay.CATALOG_FILE], lay.CATALOG_SIZE_MAX))
    if catalog.compacted and epoch < catalog.max_epoch:
        raise RefusedError(
            f"epoch {epoch} is no longer there: the log was compacted up to epoch {catalog.max_epoch}",
            file=origin,
            advice="Restore a backup from before that compaction",
        )
    return epoch


def _prove(disk: Disk, path: str, edition: str | None) -> None:
    """Every record of a restored directory can be read, or it does not get its name."""
    found = survey(disk, path)
    found.refuse_damage()
    if edition is not None and found.edition != edition:
        raise DamageError(
            "the files are not of the edition that the list says",
            code="backup-list",
            file=path,
            expected=edition,
            found=found.edition,
        )


# Writing


@contextmanager
def _new_place(disk: Disk, target: str) -> Iterator[str]:
    """A new directory to fill; it gets its name, durable, when the block ends well."""
    stat = disk.stat(target)
    if stat is not None and (not stat.is_directory or disk.list(target)):
        raise RefusedError("this place is taken", file=target, advice="Name an empty or a new directory")
    building = f"{target}.new"
    if disk.stat(building) is not None:
        raise RefusedError(
            "what was not finished lies here", file=building, advice="Remove it, then try again"
        )
    disk.make_directory(building)
    yield building
    disk.sync_directory(building)
    disk.rename(building, target)
    disk.sync_directory(posixpath.dirname(target))


def _copy(disk: Disk, source: str, directory: str, name: str, size: int) -> Copied:
    digest = hashlib.sha256()

    def chunks() -> Iterator[bytes]:
        with disk.open(source) as file:
            for chunk in file.chunks(0, size):
                digest.update(chunk)
                yield chunk

    if "/" in name:
        disk.make_directory(posixpath.join(directory, posixpath.dirname(name)))
    written = _write(disk, directory, name, chunks())
    if "/" in name:
        disk.sync_directory(posixpath.join(directory, posixpath.dirname(name)))
    return Copied(name, written, digest.hexdigest())


def _write(disk: Disk, directory: str, name: str, chunks: Iterable[Buffer]) -> int:
    with disk.open(posixpath.join(directory, name), "create") as file:
        size = write_all(file, chunks)
        file.sync()
    return size


def _digest(disk: Disk, path: str, size: int) -> str:
    digest = hashlib.sha256()
    with disk.open(path) as file:
        for chunk in file.chunks(0, size):
            digest.update(chunk)
    return digest.hexdigest()


def _size(disk: Disk, path: str) -> int:
    stat = disk.stat(path)
    if stat is None or stat.is_directory:
        raise RefusedError("this is not a file", file=path)
    return stat.size


def _read(disk: Disk, directory: str, name: str) -> bytes:
    return disk.read(posixpath.join(directory, name), lay.MANIFEST_SIZE_MAX)
