"""Sessions that are due, in order over all delays, without holding more of them than the caller asks for.

Each chain of files is sorted by time already. A reader keeps a window of the next records of its chain; the windows are
merged by replay time, and among equal times the longer delay goes first, because it was stored earlier.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from flintlog.dialects.mpy6a import scan
from flintlog.dialects.mpy6a.content import Content
from flintlog.dialects.mpy6a.operations import Place
from flintlog.dialects.mpy6a.replay import File, Machine
from flintlog.dialects.mpy6a.windows import ChainReader, Piece, Window
from flintlog.disk import Disk

_WINDOW_BYTES = 1 << 16


class _Chain(ChainReader):
    """The unread records of one delay, also those stored meanwhile."""

    def __init__(self, disk: Disk, directory: str, machine: Machine, delay: int) -> None:
        super().__init__()
        self._disk = disk
        self._directory = directory
        self._machine = machine
        self.delay = delay
        self._file: File | None = None

    def head(self) -> int | None:
        """When the next session is due; None when none waits."""
        if not self.windows and not self.load(_WINDOW_BYTES):
            return None
        return self.windows[0].head

    def fill(self, now: int, limit: int) -> int:
        """Read until `limit` due records are in the windows, or all that are due; returns how many are due."""
        due = sum(_due(window, now) for window in self.windows)
        size = _WINDOW_BYTES
        while due < limit:
            if self.windows and int(self.windows[-1].times[-1]) > now:
                break
            if not self.load(size):
                break
            size = min(size * 2, scan.COMMIT_BYTES_MAX)
            due += _due(self.windows[-1], now)
        return due

    def times(self, now: int, limit: int) -> NDArray[np.int64]:
        """The replay times of the next due records, in order."""
        parts = [window.times[: _due(window, now)] for window in self.windows]
        return np.concatenate(parts)[:limit] if parts else np.empty(0, np.int64)

    def take(self, count: int) -> Iterator[Piece]:
        """Hand out the next `count` records."""
        while count:
            piece = self.windows[0].take(count)
            self.trim()
            count -= len(piece.records)
            yield piece

    def passed(self) -> list[str]:
        """The files up to the one it reads now."""
        file = self._file
        if file is None:
            return []
        chain = self._machine.chains.get(self.delay, [])
        return [item.name for item in chain if (item.replay, item.id) <= (file.replay, file.id)]

    def _current(self) -> tuple[Content, int] | None:
        """This file, or the first behind it that has something to read."""
        file = self._file
        here = file is not None and self._machine.files.get(file.name) is file
        if file is None or not here or not (file.written or self._at < file.length):
            file = self._behind(file)
            if file is None:
                return None
            self._file, self._at = file, file.offset
        return Content(self._disk, self._directory, file), file.visible

    def _behind(self, file: File | None) -> File | None:
        for candidate in self._machine.chains.get(self.delay, []):
            behind = file is None or (candidate.replay, candidate.id) > (file.replay, file.id)
            if behind and (candidate.written or candidate.offset < candidate.length):
                return candidate
        return None


def _due(window: Window, now: int) -> int:
    """How many of the remaining records are due."""
    return int(np.searchsorted(window.times, now, side="right"))


class DueReader:
    """All chains of a store together."""

    def __init__(self, disk: Disk, directory: str, machine: Machine) -> None:
        self._disk = disk
        self._directory = directory
        self._machine = machine
        self._readers: dict[int, _Chain] = {}

    def _chains(self) -> list[_Chain]:
        """From the longest delay to the shortest."""
        new = self._machine.chains.keys() - self._readers.keys()
        if new:
            self._readers |= {
                delay: _Chain(self._disk, self._directory, self._machine, delay) for delay in new
            }
            self._readers = dict(sorted(self._readers.items(), reverse=True))
        return [*self._readers.values()]

    def in_use(self) -> set[str]:
        """The files whose sessions were handed out."""
        return {name for reader in self._readers.values() for name in reader.passed()}

    def forget(self, place: Place) -> None:
        """Leave out a record that was read and is done by now."""
        for reader in self._readers.values():
            for window in reader.windows:
                if window.piece.file.name == place.name:
                    window.forget(place.offset)
            reader.windows = [window for window in reader.windows if len(window.piece.records)]

    def next_due(self) -> int | None:
        """When the next session is due; None when none waits."""
        heads = (reader.head() for reader in self._chains())
        return min((head for head in heads if head is not None), default=None)

    def take(self, now: int, limit: int) -> tuple[list[Piece], NDArray[np.int64]]:
        """Up to `limit` due records: pieces of files, and in which order to deliver their rows.

        The rows of all pieces are counted one after the other.
        """
        chains = self._chains()
        heads = [(head, at) for at, reader in enumerate(chains) if (head := reader.head()) is not None]
        # No other reader has one of the first `limit`; among equal heads the longer delay goes first.
        first = sorted(item for item in heads if item[0] <= now)[:limit]
        readers = [chains[at] for at in sorted(at for _, at in first)]
        if limit == 1 and readers:
            return [*readers[0].take(1)], np.arange(1)
        due = [reader.fill(now, limit) for reader in readers]
        if len(readers) < 2:
            pieces = [piece for reader in readers for piece in reader.take(min(due[0], limit))]
            return pieces, np.arange(sum(len(piece.records) for piece in pieces))
        times = [reader.times(now, limit) for reader in readers]
        whose = np.repeat(np.arange(len(readers)), [len(part) for part in times])
        # Readers stand from the longest delay to the shortest, and the sort is stable: ties come out right.
        order = np.argsort(np.concatenate(times), kind="stable")[:limit]
        counts = np.bincount(whose[order], minlength=len(readers))
        pieces = [
            piece for reader, count in zip(readers, counts, strict=True) for piece in reader.take(int(count))
        ]
        rank = np.argsort(np.argsort(whose[order], kind="stable"), kind="stable")
        return pieces, rank
