"""Pieces that the tasks of one job hand to each other, in scratch files beside the sorted ones.

The driver makes every file before a task runs, and removes it when the job is over: a late task finds no file. A task
that runs twice writes the same bytes to the same places, so that another one may read them meanwhile.

Nothing is synced, because no file outlives its job. A machine that dies can take bytes with it that its tasks wrote.
So each piece has a checksum, and the job refuses one that is not whole.
"""

from __future__ import annotations

import contextlib
import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from flintlog.disk import Disk
from flintlog.errors import DiskError, RefusedError

_PLACE = struct.Struct("<QQI")  # where a piece begins and ends, and its checksum


@dataclass(frozen=True, slots=True)
class Scratch:
    """The scratch files of one step: one for each of its tasks, with a piece for each task of the next step."""

    disk: Disk
    path: str
    files: int
    pieces: int

    @contextlib.contextmanager
    def made(self) -> Iterator[None]:
        """The files are there inside this block."""
        names = [self._name(number) for number in range(self.files)]
        try:
            for name in names:
                self.disk.create_scratch(name).close()
            yield
            for name in names:
                self.disk.unlink(name)
        except BaseException:
            for name in names:
                with contextlib.suppress(DiskError):
                    self.disk.unlink(name)
            raise

    def write(self, number: int, pieces: Iterable[tuple[int, bytes]]) -> None:
        """Write the file of a task."""
        at = self.pieces * _PLACE.size
        places = [(at, at, zlib.crc32(b""))] * self.pieces
        with self.disk.open(self._name(number), "write") as file:
            for piece, data in pieces:
                file.pwrite(data, at)
                places[piece] = (at, at + len(data), zlib.crc32(data))
                at += len(data)
            file.pwrite(b"".join(_PLACE.pack(*place) for place in places), 0)

    def read(self, number: int, piece: int) -> bytes:
        """A piece of a file; no bytes where its task had nothing to give."""
        with self.disk.open(self._name(number)) as file:
            place = file.pread(_PLACE.size, piece * _PLACE.size)
            if len(place) == _PLACE.size:
                begin, end, checksum = _PLACE.unpack(place)
                data = file.pread(end - begin, begin) if begin <= end <= file.size() else b""
                if begin and zlib.crc32(data) == checksum:
                    return data
        raise RefusedError(
            "a task did not find what another one wrote",
            file=self._name(number),
            advice="Every worker must see the directory under the same path; nothing was published",
        )

    def _name(self, number: int) -> str:
        return f"{self.path}.{number}"
