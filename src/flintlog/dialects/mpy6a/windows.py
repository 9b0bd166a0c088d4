"""The records of one delay that wait, a window at a time: what a look shows, and what a store hands out.

The files of a chain follow each other in time already. A subclass says which one comes next and how far to read it;
this module makes records of the bytes, reports damage and leaves out done records.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from flintlog.dialects.mpy6a import scan
from flintlog.dialects.mpy6a.content import Content
from flintlog.dialects.mpy6a.findings import CODES
from flintlog.dialects.mpy6a.layout import Record, StateID
from flintlog.dialects.mpy6a.operations import Place
from flintlog.dialects.mpy6a.replay import File
from flintlog.dialects.mpy6a.scan import Records


def waits(file: File, offset: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which records of a file, given by their offsets, are not done."""
    keep = offset >= file.offset
    if file.finished:
        begin = np.array(sorted(file.finished), np.int64)
        end = np.array([at + file.finished[at] for at in begin.tolist()], np.int64)
        before = np.searchsorted(begin, offset, side="right") - 1
        keep &= (before < 0) | (offset >= np.maximum.accumulate(end)[np.maximum(before, 0)])
    return keep


@dataclass(frozen=True, slots=True)
class Piece:
    """Records of one file; offsets of records and data count from `base`, which is where `buffer` begins."""

    file: File
    base: int
    buffer: memoryview
    records: Records

    def place(self, row: int) -> Place:
        return Place(self.file.name, self.base + int(self.records.offset[row]), int(self.records.size[row]))

    def record(self, row: int) -> Record:
        records = self.records
        begin = int(records.data[row])
        return Record(
            int(records.replay_time[row]),
            StateID(int(records.term[row]), int(records.index[row])),
            int(records.topic[row]),
            int(records.attempts[row]),
            bytes(self.buffer[begin : begin + int(records.length[row])]),
        )

    def changed(self, sessions: Iterable[tuple[int, bytes]]) -> Piece:
        """The same piece with other data for the sessions at these offsets of the file."""
        records, buffer = self.records, [self.buffer]
        size = len(self.buffer)
        start, length = records.data.copy(), records.length.copy()
        for offset, data in sessions:
            row = int(np.searchsorted(records.offset, offset - self.base))
            if row < len(records) and int(records.offset[row]) == offset - self.base:
                start[row], length[row] = size, len(data)
                buffer.append(memoryview(data))
                size += len(data)
        if len(buffer) == 1:
            return self
        whole = memoryview(b"".join(buffer))
        return replace(self, buffer=whole, records=replace(records, data=start, length=length))


@dataclass(slots=True)
class Window:
    """A piece that was read; the rows from `next` on are not handed out yet."""

    piece: Piece
    next: int = 0
    head: int = field(init=False)  # when the first of those that are left is due

    def __post_init__(self) -> None:
        self._look()

    @property
    def times(self) -> NDArray[np.int64]:
        """When the remaining records are due."""
        return self.piece.records.replay_time[self.next :]

    def _look(self) -> None:
        times = self.piece.records.replay_time
        if self.next < len(times):
            self.head = int(times[self.next])

    def take(self, count: int) -> Piece:
        """Hand out so many, or all that are left."""
        piece, begin = self.piece, self.next
        self.next = min(begin + count, len(piece.records))
        self._look()
        return Piece(piece.file, piece.base, piece.buffer, piece.records[begin : self.next])

    def forget(self, offset: int) -> None:
        """Leave out the record at this offset of the file, if it is not handed out yet."""
        rest = self.piece.records.offset[self.next :] + self.piece.base
        keep = np.concatenate((np.ones(self.next, np.bool_), rest != offset))
        self.piece = replace(self.piece, records=self.piece.records[keep])
        self._look()


class ChainReader(ABC):
    """The windows of one chain that are read and not handed out, in order."""

    def __init__(self) -> None:
        self.windows: list[Window] = []
        self._at = 0  # where to read on in the file
        self._time = 0  # when the last record read is due: later ones are not due before it

    @abstractmethod
    def _current(self) -> tuple[Content, int] | None:
        """The file to read from, and how far to read it; sets `_at` inside it."""

    def _piece(self, piece: Piece) -> Piece:
        """The records of a piece that are asked for."""
        return piece

    def load(self, size: int) -> bool:
        """Read one more window; False when there is nothing more."""
        while (found := self._current()) is not None:
            content, end = found
            file = content.file
            self._at = max(self._at, file.offset)
            if (run := file.finished.get(self._at)) is not None:
                self._at += run
            elif self._at >= end:
                return False
            else:
                piece = self._read(content, end, size)
                if len(piece.records):
                    self.windows.append(Window(piece))
                    return True
        return False

    def trim(self) -> None:
        """Drop the windows that were handed out."""
        while self.windows and self.windows[0].next == len(self.windows[0].piece.records):
            self.windows.pop(0)

    def _read(self, content: Content, end: int, size: int) -> Piece:
        file, begin = content.file, self._at
        before = max(self._time, file.replay)
        while True:
            upto = min(begin + size, end)
            buffer = content.part(begin, upto)
            records, stop = scan.scan_records(buffer, before=before, limit=len(buffer))
            assert stop is not None
            if len(records) or stop.good:
                break  # damage behind good records comes up in the next read
            if upto == end or stop.reason != scan.CUT:
                damage = scan.judge_records(buffer, stop, before, written=False)
                assert damage is not None
                raise CODES.of(damage, file.name, begin).error(content.path)
            size *= 4  # not one record fits
        if len(records):
            self._at = begin + int(records.offset[-1] + records.size[-1])
            self._time = int(records.replay_time[-1])
        keep = waits(file, records.offset + begin)
        piece = Piece(file, begin, buffer, records if keep.all() else records[keep])
        return self._piece(piece) if len(piece.records) else piece
