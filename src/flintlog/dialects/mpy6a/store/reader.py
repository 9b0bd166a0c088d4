"""Sessions that are due, in order over all delays, without holding more of them than are asked for.

Each chain of files is sorted by time already. A reader keeps a window of the next records of its chain; the windows are
merged by replay time, and among equal times the longer delay goes first, because it was stored earlier.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from flintlog.dialects.mpy6a import scan
from flintlog.dialects.mpy6a.layout import Record, StateID
from flintlog.dialects.mpy6a.operations import Place
from flintlog.dialects.mpy6a.replay import File, Machine
from flintlog.dialects.mpy6a.scan import Records
from flintlog.dialects.mpy6a.waiting import waits
from flintlog.disk import Disk
from flintlog.errors import DamageError

_WINDOW_BYTES = 1 << 16


@dataclass(slots=True)
class Window:
    """Records of one file that were read and not yet handed out. Their offsets count from `base`."""

    file: File
    base: int
    buffer: memoryview
    records: Records
    next: int = 0

    def due(self, now: int) -> int:
        """How many of the rest are due."""
        return int(np.searchsorted(self.records.replay_time[self.next :], now, side="right"))

    def forget(self, offset: int) -> None:
        """Leave out the record at this place of the file, if it is still to be handed out."""
        rest = self.records.offset[self.next :] + self.base
        keep = np.concatenate((np.ones(self.next, np.bool_), rest != offset))
        self.records = self.records[keep]


@dataclass(frozen=True, slots=True)
class Stretch:
    """Records that follow each other in one file, handed out together."""

    file: str
    delay: int
    base: int
    buffer: memoryview
    records: Records

    def place(self, row: int) -> Place:
        return Place(self.file, self.base + int(self.records.offset[row]), int(self.records.size[row]))

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

    def changed(self, offset: int, data: bytes) -> Stretch:
        """The same piece, where the session at this place of the file holds other data."""
        row = int(np.searchsorted(self.records.offset, offset - self.base))
        if row == len(self.records) or int(self.records.offset[row]) != offset - self.base:
            return self
        start, length = self.records.data.copy(), self.records.length.copy()
        start[row], length[row] = len(self.buffer), len(data)
        buffer = memoryview(b"".join((self.buffer, data)))
        return replace(self, buffer=buffer, records=replace(self.records, data=start, length=length))


class ChainReader:
    """The unread records of one delay."""

    def __init__(self, disk: Disk, directory: str, machine: Machine, delay: int) -> None:
        self._disk = disk
        self._directory = directory
        self._machine = machine
        self.delay = delay
        self.windows: list[Window] = []
        self._file: File | None = None
        self._at = 0
        self._time = 0

    def head(self) -> int | None:
        """When the next session is due; None when none waits."""
        self._trim()
        if not self.windows and not self._load(_WINDOW_BYTES):
            return None
        window = self.windows[0]
        return int(window.records.replay_time[window.next])

    def fill(self, now: int, limit: int) -> int:
        """Read until `limit` due records are in the windows, or all that are due; returns how many are due."""
        self._trim()
        due = sum(window.due(now) for window in self.windows)
        size = _WINDOW_BYTES
        while due < limit:
            if self.windows and int(self.windows[-1].records.replay_time[-1]) > now:
                break
            if not self._load(size):
                break
            size = min(size * 2, scan.COMMIT_BYTES_MAX)
            due += self.windows[-1].due(now)
        return due

    def times(self, now: int, limit: int) -> NDArray[np.int64]:
        """The replay times of the next due records, in order."""
        parts = [window.records.replay_time[window.next :][: window.due(now)] for window in self.windows]
        return np.concatenate(parts)[:limit] if parts else np.empty(0, np.int64)

    def take(self, count: int) -> Iterator[Stretch]:
        """Hand out the next `count` records."""
        while count:
            self._trim()
            window = self.windows[0]
            end = min(window.next + count, len(window.records))
            records = window.records[window.next : end]
            count -= end - window.next
            window.next = end
            yield Stretch(window.file.name, self.delay, window.base, window.buffer, records)

    def passed(self) -> list[str]:
        """The files up to the one that is being read."""
        file = self._file
        if file is None:
            return []
        chain = self._machine.chains.get(self.delay, [])
        return [item.name for item in chain if (item.replay, item.id) <= (file.replay, file.id)]

    def _trim(self) -> None:
        while self.windows and self.windows[0].next == len(self.windows[0].records):
            self.windows.pop(0)

    def _load(self, size: int) -> bool:
        """Read one more window; False when there is nothing more."""
        while True:
            file = self._current()
            if file is None:
                return False
            end = file.visible
            self._at = max(self._at, file.offset)
            jump = file.finished.get(self._at)
            if jump is not None:  # finished before the store was opened
                self._at += jump
                continue
            if self._at >= end:
                return False
            window = self._read(file, end, size)
            if len(window.records):
                self.windows.append(window)
                return True

    def _current(self) -> File | None:
        """The file to read from: this one, or the first behind it that has something to read."""
        file = self._file
        here = file is not None and self._machine.files.get(file.name) is file
        if file is not None and here and (file.written or self._at < file.length):
            return file
        for candidate in self._machine.chains.get(self.delay, []):
            behind = file is None or (candidate.replay, candidate.id) > (file.replay, file.id)
            if behind and (candidate.written or candidate.offset < candidate.length):
                self._file, self._at = candidate, candidate.offset
                self._time = max(self._time, candidate.replay)
                return candidate
        return None

    def _read(self, file: File, end: int, size: int) -> Window:
        begin = self._at
        with self._disk.open(posixpath.join(self._directory, file.name)) as opened:
            while True:
                upto = min(begin + size, end)
                buffer = memoryview(opened.pread(upto - begin, begin))
                records, stop = scan.scan_records(buffer, before=self._time, limit=len(buffer))
                assert stop is not None
                if len(records) or stop.good:
                    break  # damage behind good records is met when they are handed out
                if upto == end or stop.reason != scan.CUT:
                    self._refuse(file, buffer, begin, stop)
                size *= 4  # not one record fits
        if len(records):
            self._at = begin + int(records.offset[-1] + records.size[-1])
            self._time = int(records.replay_time[-1])
            records = self._unfinished(file, begin, records)
        return Window(file, begin, buffer, records)

    def _refuse(self, file: File, buffer: memoryview, begin: int, stop: scan.Stop) -> None:
        damage = scan.judge_records(buffer, stop, self._time, written=False)
        assert damage is not None
        raise DamageError(
            damage.message,
            code=damage.code,
            file=posixpath.join(self._directory, file.name),
            offset=begin + stop.offset,
            expected=damage.expected,
            found=damage.found,
            advice=f"Nothing was changed; `flintlog repair {self._directory}` shows what can be done",
        )

    def _unfinished(self, file: File, begin: int, records: Records) -> Records:
        if not file.finished:
            return records
        return records[waits(file, records.offset + begin)]


class DueReader:
    """All chains of a store together."""

    def __init__(self, disk: Disk, directory: str, machine: Machine) -> None:
        self._disk = disk
        self._directory = directory
        self._machine = machine
        self._readers: dict[int, ChainReader] = {}

    def _chains(self) -> list[ChainReader]:
        for delay in self._machine.chains:
            if delay not in self._readers:
                self._readers[delay] = ChainReader(self._disk, self._directory, self._machine, delay)
        return sorted(self._readers.values(), key=lambda reader: -reader.delay)

    def in_use(self) -> set[str]:
        """The files that sessions were handed out of."""
        return {name for reader in self._readers.values() for name in reader.passed()}

    def forget(self, place: Place) -> None:
        """Do not hand out what was read and is done with by now."""
        for reader in self._readers.values():
            for window in reader.windows:
                if window.file.name == place.name:
                    window.forget(place.offset)
            reader.windows = [window for window in reader.windows if len(window.records)]

    def next_due(self) -> int | None:
        """When the next session is due; None when none waits."""
        heads = (reader.head() for reader in self._chains())
        return min((head for head in heads if head is not None), default=None)

    def take(self, now: int, limit: int) -> tuple[list[Stretch], NDArray[np.int64]]:
        """Up to `limit` due records: pieces of files, and in which order to deliver their rows.

        The rows of all pieces are counted one after the other.
        """
        readers = [reader for reader in self._chains() if reader.fill(now, limit)]
        times = [reader.times(now, limit) for reader in readers]
        if not times:
            return [], np.empty(0, np.int64)
        whose = np.repeat(np.arange(len(readers)), [len(part) for part in times])
        # Readers stand from the longest delay to the shortest, and the sort is stable: ties come out right.
        order = np.argsort(np.concatenate(times), kind="stable")[:limit]
        counts = np.bincount(whose[order], minlength=len(readers))
        pieces = [
            piece for reader, count in zip(readers, counts, strict=True) for piece in reader.take(int(count))
        ]
        rank = np.argsort(np.argsort(whose[order], kind="stable"), kind="stable")
        return pieces, rank
