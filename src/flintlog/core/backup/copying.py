"""Copying: a place that gets its name last, files with their checksums, what earlier backups hold."""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from flintlog.core.backup.listing import Backup, Copied
from flintlog.core.backup.picture import ChangedError, Part, Picture
from flintlog.core.dialect import Progress, no_progress
from flintlog.disk import Buffer, Disk, write_all
from flintlog.errors import FlintlogError, RefusedError

Identity = tuple[int, int]


@dataclass(slots=True)
class Known:
    """The files that earlier backups hold, by name and content: which backup, and where it is."""

    holders: dict[tuple[str, int, str], tuple[str, str]] = field(default_factory=dict)
    sizes: set[tuple[str, int]] = field(default_factory=set)


def known_files(backups: Iterable[tuple[str, Backup]]) -> Known:
    """What backups at these places hold themselves."""
    known = Known()
    for place, backup in backups:
        for item in backup.files:
            if item.held_by is None:
                known.holders[item.content] = (posixpath.basename(place), place)
                known.sizes.add((item.name, item.size))
    return known


@contextmanager
def new_place(disk: Disk, target: str, *, scratch_is_ours: bool = False) -> Iterator[str]:
    """A new directory to fill; it gets its name, durable, when the block ends well, and goes when it does not.

    `scratch_is_ours` says that what an interrupted run left there may be removed.
    """
    refuse_taken(disk, target)
    building = f"{target}.new"
    if disk.stat(building) is not None:
        if not scratch_is_ours:
            raise RefusedError(
                "what was not finished lies here", file=building, advice="Remove it, then try again"
            )
        disk.remove_directory(building)
    try:
        disk.make_directory(building)
        yield building
        disk.sync_directory(building)
        disk.rename(building, target)
    except BaseException:
        with suppress(FlintlogError):
            disk.remove_directory(building)
        raise
    disk.sync_directory(posixpath.dirname(target))


def refuse_taken(disk: Disk, target: str) -> None:
    """Only an empty place, or a new one, is written to."""
    stat = disk.stat(target)
    if stat is not None and (not stat.is_directory or disk.list(target)):
        raise RefusedError("this place is taken", file=target, advice="Name an empty or a new directory")


def identities(disk: Disk, path: str) -> dict[str, Identity]:
    """Every file below a directory, and which one it is."""
    found: dict[str, Identity] = {}
    folders = [""]
    while folders:
        folder = folders.pop()
        for name in disk.list(posixpath.join(path, folder) if folder else path):
            inner = posixpath.join(folder, name)
            stat = disk.stat(posixpath.join(path, inner))
            if stat is None:
                continue
            if stat.is_directory:
                folders.append(inner)
            else:
                found[inner] = stat.identity
    return found


def fill(
    disk: Disk,
    picture: Picture,
    building: str | None,
    *,
    to: Disk | None = None,
    known: Known | None = None,
    expected: Mapping[str, Identity] | None = None,
    progress: Progress = no_progress,
) -> tuple[Copied, ...]:
    """Copy the files of a picture that no earlier backup holds; without `building` only say which.

    `expected` are the files that the picture was made of: another one under its name is a change.
    """
    known = known or Known()
    total = sum(part.length for part in picture.parts)
    done = 0
    copied = []
    folders: set[str] = set()
    for part in picture.parts:
        item = _held(disk, picture.path, part, known, expected)
        if item is None and building is None:
            item = _digested(disk, picture.path, part, expected)
        elif item is None:
            assert building is not None
            folders.add(posixpath.dirname(part.name))
            item = _copy(disk, picture.path, part, to or disk, building, expected)
        copied.append(item)
        done += part.length
        progress(done, total)
    if building is not None:
        for folder in sorted(_with_parents(folders), reverse=True):
            (to or disk).sync_directory(posixpath.join(building, folder))
    return tuple(copied)


def _with_parents(folders: Iterable[str]) -> set[str]:
    found = set()
    for folder in folders:
        while folder:
            found.add(folder)
            folder = posixpath.dirname(folder)
    return found


def _held(
    disk: Disk, path: str, part: Part, known: Known, expected: Mapping[str, Identity] | None
) -> Copied | None:
    """The file as an earlier backup has it; not where the bytes there are no longer what was copied."""
    if (part.name, part.length) not in known.sizes:
        return None
    item = _digested(disk, path, part, expected)
    if item.content not in known.holders:
        return None
    name, place = known.holders[item.content]
    if digest(disk, posixpath.join(place, part.name)) != (item.size, item.sha256):
        return None
    return Copied(*item.content, held_by=name)


def _digested(disk: Disk, path: str, part: Part, expected: Mapping[str, Identity] | None) -> Copied:
    summed = hashlib.sha256()
    size = 0
    for chunk in _chunks(disk, path, part, expected):
        summed.update(chunk)
        size += len(chunk)
    return Copied(part.name, size, summed.hexdigest())


def _copy(
    disk: Disk, path: str, part: Part, to: Disk, building: str, expected: Mapping[str, Identity] | None
) -> Copied:
    summed = hashlib.sha256()

    def chunks() -> Iterator[Buffer]:
        for chunk in _chunks(disk, path, part, expected):
            summed.update(chunk)
            yield chunk

    target = posixpath.join(building, part.name)
    to.make_passing_directory(posixpath.dirname(target))
    with to.open(target, "create") as file:
        size = write_all(file, chunks())
        file.sync()
    return Copied(part.name, size, summed.hexdigest())


def _chunks(disk: Disk, path: str, part: Part, expected: Mapping[str, Identity] | None) -> Iterator[Buffer]:
    if part.made:
        yield from part.chunks(None)
        return
    with disk.open(posixpath.join(path, part.name)) as file:
        if expected is not None and file.stat().identity != expected.get(part.name):
            raise ChangedError("another file has this name now", file=file.path)
        yield from part.chunks(file)


def digest(disk: Disk, path: str) -> tuple[int, str] | None:
    """Size and checksum of a file; None when there is none."""
    stat = disk.stat(path)
    if stat is None or stat.is_directory:
        return None
    summed = hashlib.sha256()
    size = 0
    with disk.open(path) as file:
        for chunk in file.chunks(0, stat.size):
            summed.update(chunk)
            size += len(chunk)
    return size, summed.hexdigest()
