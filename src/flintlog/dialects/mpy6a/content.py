"""The bytes of one data file as operations see it: with the bytes that only the operation log has."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass

from flintlog.dialects.mpy6a.replay import File
from flintlog.disk import Disk


def view_of(disk: Disk, path: str, *, copy: bool) -> memoryview:
    """The bytes of a file, none when it is missing; pass `copy` for a file that may be cut meanwhile."""
    if disk.stat(path) is None:
        return memoryview(b"")
    with disk.open(path) as file:
        return file.view(copy=copy)


@dataclass(frozen=True, slots=True)
class Content:
    """A data file and the bytes that may be missing at its end. A task can have it."""

    disk: Disk
    path: str
    file: File
    synced: int = 0  # `missing` takes the place of the file's bytes from here on
    missing: bytes = b""

    @property
    def place(self) -> str:
        return posixpath.join(self.path, self.file.name)

    def view(self) -> memoryview:
        """All bytes up to the length of the file."""
        view = view_of(self.disk, self.place, copy=self.file.written)
        if not self.missing or view[self.synced : self.file.length] == self.missing:
            return view[: self.file.length]
        return memoryview(b"".join((view[: self.synced], self.missing)))

    def part(self, begin: int, end: int) -> memoryview:
        """Some bytes."""
        if not self.missing:
            return self._read(begin, end)
        missing = memoryview(self.missing)[max(begin - self.synced, 0) : max(end - self.synced, 0)]
        if begin >= self.synced:
            return missing
        return memoryview(b"".join((self._read(begin, min(end, self.synced)), missing)))

    def _read(self, begin: int, end: int) -> memoryview:
        with self.disk.open(self.place) as file:
            return memoryview(file.pread(end - begin, begin))
