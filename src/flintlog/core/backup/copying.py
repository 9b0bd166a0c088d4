"""Copying: files with their checksums, and what earlier backups hold."""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from flintlog.core.backup.listing import Backup, Copied
from flintlog.core.backup.picture import ChangedError, Part, Picture
from flintlog.core.closes import Closes
from flintlog.disk import Buffer, Disk, File, Progress, no_progress

Identity = tuple[int, int]
_HANDLES_MAX = 200  # some systems allow a process 256


@dataclass(slots=True)
class Known:
    """The files that earlier backups hold, by name and content: which backup, and where it is."""

    holders: dict[tuple[str, int, str], tuple[str, str]] = field(default_factory=dict)
    sizes: set[tuple[str, int]] = field(default_factory=set)


def known_files(backups: Iterable[tuple[str, Backup]]) -> Known:
    """The files that the backups at these places hold themselves."""
    known = Known()
    for place, backup in backups:
        for item in backup.files:
            if item.held_by is None:
                known.holders[item.content] = (posixpath.basename(place), place)
                known.sizes.add((item.name, item.size))
    return known


def identities(disk: Disk, path: str) -> dict[str, Identity]:
    """Every file below a directory with its identity. Follows no link."""
    found: dict[str, Identity] = {}
    folders = [""]
    while folders:
        folder = folders.pop()
        for name in disk.list(posixpath.join(path, folder) if folder else path):
            inner = posixpath.join(folder, name)
            place = posixpath.join(path, inner)
            stat = None if disk.is_link(place) else disk.stat(place)
            if stat is None:
                continue
            if stat.is_directory:
                folders.append(inner)
            else:
                found[inner] = stat.identity
    return found


class Pinned(Closes):
    """The files of a directory, held open from before the survey until they are copied.

    An open file can still be read after it was removed, and no other file gets its identity. So the reader finds out
    whether the names still mean the same files. Of very many files it holds only the first open.
    """

    def __init__(self, disk: Disk, path: str, wanted: Callable[[str], bool]) -> None:
        self.identities = identities(disk, path)
        self._disk = disk
        self._path = path
        self._files: dict[str, File] = {}
        try:
            for name in filter(wanted, sorted(self.identities)):
                if len(self._files) == _HANDLES_MAX:
                    break
                self._files[name] = file = disk.open(posixpath.join(path, name))
                self.identities[name] = file.stat().identity
        except BaseException:
            self.close()
            raise

    def check(self, picture: Picture) -> None:
        """Raise unless the names of this picture still mean the files held open."""
        for part in picture.parts:
            if not part.made:
                stat = self._disk.stat(posixpath.join(picture.path, part.name))
                self._compare(picture, part.name, None if stat is None else stat.identity)

    @contextmanager
    def open(self, picture: Picture, name: str) -> Iterator[File]:
        held = self._files.get(self._inside(picture, name))
        if held is not None:
            yield held
            return
        with self._disk.open(posixpath.join(picture.path, name)) as file:
            self._compare(picture, name, file.stat().identity)
            yield file

    def _compare(self, picture: Picture, name: str, identity: Identity | None) -> None:
        if identity is None or identity != self.identities.get(self._inside(picture, name)):
            raise ChangedError("another file has this name now", file=posixpath.join(picture.path, name))

    def _inside(self, picture: Picture, name: str) -> str:
        return posixpath.relpath(posixpath.join(picture.path, name), self._path)

    def close(self) -> None:
        for file in self._files.values():
            file.close()


def fill(
    disk: Disk,
    picture: Picture,
    building: str | None,
    *,
    to: Disk | None = None,
    known: Known | None = None,
    pinned: Pinned | None = None,
    progress: Progress = no_progress,
) -> tuple[Copied, ...]:
    """Copy the files of a picture that no earlier backup holds; without `building` only list them.

    `pinned` are the files that the picture was made of.
    """
    known = known or Known()
    total = sum(part.length for part in picture.parts)
    done = 0
    copied = []
    folders: set[str] = set()
    for part in picture.parts:
        item = _held(disk, picture, part, known, pinned)
        if item is None and building is None:
            item = _digested(disk, picture, part, pinned)
        elif item is None:
            assert building is not None
            folders.add(posixpath.dirname(part.name))
            item = _copy(
                disk, picture, part, to or disk, building, pinned, partial(_tell, progress, done, total)
            )
        copied.append(item)
        done += part.length
        progress(done, total)
    if building is not None:
        for folder in sorted(_with_parents(folders), reverse=True):
            (to or disk).sync_directory(posixpath.join(building, folder))
    return tuple(copied)


def _tell(progress: Progress, done: int, total: int, more: int) -> None:
    progress(done + more, total)


def _with_parents(folders: Iterable[str]) -> set[str]:
    found = set()
    for folder in folders:
        while folder:
            found.add(folder)
            folder = posixpath.dirname(folder)
    return found


def _held(disk: Disk, picture: Picture, part: Part, known: Known, pinned: Pinned | None) -> Copied | None:
    """The file as an earlier backup holds it; None when none does, or its copy no longer has these bytes."""
    if (part.name, part.length) not in known.sizes:
        return None
    item = _digested(disk, picture, part, pinned)
    if item.content not in known.holders:
        return None
    name, place = known.holders[item.content]
    if digest(disk, posixpath.join(place, part.name)) != (item.size, item.sha256):
        return None
    return Copied(*item.content, held_by=name)


def _digested(disk: Disk, picture: Picture, part: Part, pinned: Pinned | None) -> Copied:
    return Copied(part.name, *_summed(_chunks(disk, picture, part, pinned)))


def _summed(chunks: Iterable[Buffer]) -> tuple[int, str]:
    """How long these bytes are, and their checksum."""
    summed = hashlib.sha256()
    size = 0
    for chunk in chunks:
        summed.update(chunk)
        size += len(chunk)
    return size, summed.hexdigest()


def _copy(
    disk: Disk,
    picture: Picture,
    part: Part,
    to: Disk,
    building: str,
    pinned: Pinned | None,
    tell: Callable[[int], None],
) -> Copied:
    summed = hashlib.sha256()

    def chunks() -> Iterator[Buffer]:
        done = 0
        for chunk in _chunks(disk, picture, part, pinned):
            summed.update(chunk)
            yield chunk
            done += len(chunk)
            tell(done)

    target = posixpath.join(building, part.name)
    to.make_passing_directory(posixpath.dirname(target))
    size = to.write_new(target, chunks(), like=disk.stat(posixpath.join(picture.path, part.name)))
    return Copied(part.name, size, summed.hexdigest())


def _chunks(disk: Disk, picture: Picture, part: Part, pinned: Pinned | None) -> Iterator[Buffer]:
    if part.made:
        yield from part.chunks(None)
        return
    if pinned is not None:
        with pinned.open(picture, part.name) as file:
            yield from part.chunks(file)
        return
    with disk.open(posixpath.join(picture.path, part.name)) as file:
        yield from part.chunks(file)


def digest(disk: Disk, path: str) -> tuple[int, str] | None:
    """Size and checksum of a file; None when there is none."""
    stat = disk.stat(path)
    if stat is None or stat.is_directory:
        return None
    with disk.open(path) as file:
        return _summed(file.chunks(0, stat.size))
