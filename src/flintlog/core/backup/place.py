"""A place with numbered backups of one log: taking the next one, from a directory that a store may be writing to."""

from __future__ import annotations

import errno
import posixpath
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from flintlog.core.backup.copying import Known, Pinned, fill, known_files
from flintlog.core.backup.lineage import refuse_stranger
from flintlog.core.backup.listing import Backup, Copied, read_list, refuse_backup, timestamp, write_list
from flintlog.core.backup.picture import ChangedError, Picture
from flintlog.core.backup.restoring import prove
from flintlog.core.log import Log, open_log
from flintlog.core.new_place import missing, new_place, remove_empty
from flintlog.disk import Disk, Progress, assembled, no_progress, take_lock
from flintlog.errors import DamageError, DiskError, FlintlogError, RefusedError, UsageError

_ATTEMPTS = 60
_PAUSE_SECONDS = 0.02
_ANEW = "Begin anew with --full, or choose another place"
_NUMBER = re.compile(r"[0-9]{4,9}")


@dataclass(frozen=True, slots=True)
class Taken:
    """A backup that was made, or would be; `new` is False when the newest one already holds the same."""

    name: str
    path: str
    backup: Backup
    applied: bool
    new: bool = True


def backups_in(disk: Disk, place: str) -> list[tuple[str, Backup | FlintlogError]]:
    """The backups of a place in order; in place of an unreadable one its error."""
    found: list[tuple[str, Backup | FlintlogError]] = []
    for name in sorted(filter(_NUMBER.fullmatch, disk.list(place)), key=int):
        try:
            found.append((name, read_list(disk, posixpath.join(place, name))))
        except (DamageError, RefusedError) as error:
            found.append((name, error))
    return found


def check_place(disk: Disk, place: str) -> list[tuple[str, Backup | FlintlogError]]:
    """The backups of a place that must have some."""
    found = backups_in(disk, place)
    if not found:
        raise RefusedError(
            "there is no backup here", file=place, advice="Name the directory that `flintlog backup` wrote to"
        )
    return found


def take_backup(
    disk: Disk,
    path: str,
    place: str,
    *,
    full: bool = False,
    dry_run: bool = False,
    progress: Progress = no_progress,
) -> Taken:
    """Copy a log to the next number of a place: what the backups there do not hold, or with `full` everything.

    Another process may write to the directory meanwhile: this takes no lock there and changes no byte. What changes
    during the copy is copied again.
    """
    log = open_log(path, disk=disk)
    refuse_backup(disk, path)
    for inside in (path, log.root):
        if posixpath.join(place, "").startswith(posixpath.join(inside, "")):
            raise UsageError("the backup would be inside the log directory", file=place)
    with _place(disk, place, dry_run=dry_run):
        there = backups_in(disk, place)
        earlier = _earlier(log, place, there, full=full)
        name = f"{max((int(name) for name, _ in there), default=0) + 1:04d}"
        return _until_it_fits(log, posixpath.join(place, name), earlier, full, dry_run, progress)


@contextmanager
def _place(disk: Disk, place: str, *, dry_run: bool) -> Iterator[None]:
    """The place, made where it is not there, for one writer at a time."""
    if dry_run:
        yield
        return
    made = missing(disk, place)
    disk.make_directory(place)
    lock = take_lock(disk, place, "read", place)
    try:
        yield
    except BaseException:
        with suppress(FlintlogError):
            remove_empty(disk, made)
        raise
    finally:
        lock.close()


def _earlier(
    log: Log, place: str, there: list[tuple[str, Backup | FlintlogError]], *, full: bool
) -> list[tuple[str, Backup]]:
    """The backups of a place to build on; all must be of this dialect."""
    good: list[tuple[str, Backup]] = []
    for name, backup in there:
        at = posixpath.join(place, name)
        if isinstance(backup, Backup):
            if backup.dialect != log.dialect:
                raise RefusedError(
                    f"this is a backup of a {backup.dialect} log, and {log.path} is {log.dialect}",
                    file=at,
                    advice="Choose another place for this log",
                )
            good.append((at, backup))
        elif not full:
            backup.advice = _ANEW
            raise backup
    return good


def _until_it_fits(
    log: Log,
    target: str,
    earlier: list[tuple[str, Backup]],
    full: bool,
    dry_run: bool,
    progress: Progress,
) -> Taken:
    seen: tuple[object, ...] = ()
    disk = log.disk
    for attempt in range(_ATTEMPTS):
        names: object = None
        try:
            with Pinned(disk, log.root, log.is_member) as pinned:
                names = tuple(pinned.identities.items())
                return _take(log, target, earlier, full, dry_run, pinned, progress)
        except ChangedError:
            pass
        except DamageError as error:
            # A write that is not finished looks like damage. Damage is still there a moment later.
            found = (error.code, error.file, error.offset, names)
            if found == seen:
                raise
            seen = found
        except DiskError as error:
            if error.errno != errno.ENOENT or not (error.file or "").startswith(log.root):
                raise
        disk.pause(_PAUSE_SECONDS * min(attempt + 1, 5))
    raise RefusedError(
        "the directory changes faster than it can be copied",
        file=log.path,
        advice="Try again when fewer files are removed there, or close the store that writes here",
    )


def _take(
    log: Log,
    target: str,
    earlier: list[tuple[str, Backup]],
    full: bool,
    dry_run: bool,
    pinned: Pinned,
    progress: Progress,
) -> Taken:
    disk, picture = log.disk, log.picture()
    for at, backup in earlier:
        if backup.edition != picture.edition and not full:
            raise RefusedError(
                f"the backup is of the {backup.edition} edition, and the log of the {picture.edition} one",
                file=at,
                advice=_ANEW,
            )
    refuse_stranger(log, picture, earlier, full=full)
    known = known_files([] if full else earlier)
    pinned.check(picture)
    name = posixpath.basename(target)
    if not full and earlier and _holds(disk, picture, earlier[-1][1], known, pinned):
        at, newest = earlier[-1]
        return Taken(posixpath.basename(at), at, newest, False, new=False)
    if dry_run:
        files = fill(disk, picture, None, known=known, pinned=pinned, progress=progress)
        return Taken(name, target, _listed(log, picture, picture, files), False)
    with new_place(disk, target, scratch_is_ours=True) as building:
        files = fill(disk, picture, building, known=known, pinned=pinned, progress=progress)
        places = {item.name: building for item in files}
        places |= {item.name: known.holders[item.content][1] for item in files if item.held_by is not None}
        view = assembled(
            disk, building, {name: posixpath.join(place, name) for name, place in places.items()}
        )
        with log.at(view, building) as copy:
            prove(copy)
            proof = copy.picture()
        if picture.last is not None and (proof.last is None or proof.last < picture.last):
            raise ChangedError("the copy does not reach as far as the log did", file=log.path)
        backup = _listed(log, picture, proof, files)
        write_list(disk, building, backup)
    return Taken(name, target, backup, True)


def _holds(disk: Disk, picture: Picture, newest: Backup, known: Known, pinned: Pinned) -> bool:
    """Does a backup hold exactly these files? Compares sizes, and contents when those are equal."""
    if {(item.name, item.size) for item in newest.files} != {
        (part.name, part.length) for part in picture.parts
    }:
        return False
    files = fill(disk, picture, None, known=known, pinned=pinned)
    same = {item.content for item in files} == {item.content for item in newest.files}
    return same and all(item.held_by is not None for item in files)


def _inside(home: str, path: str) -> str:
    """Where the files stand below a root; files that settings put outside the root are restored inside it."""
    if home == path:
        return ""
    below = posixpath.relpath(home, path)
    return posixpath.basename(home) if below.startswith("..") else below


def _listed(log: Log, source: Picture, picture: Picture, files: tuple[Copied, ...]) -> Backup:
    """The list of a backup: `source` is the picture of the log, `picture` that of the copy."""
    return Backup(
        log.dialect,
        picture.edition,
        picture.version,
        timestamp(),
        log.path,
        picture.first,
        picture.last,
        files,
        _inside(source.path, log.path),
        source.identity,
    )
