"""The sessions that wait, in the order of their replay over all delays, without holding more than a window of each.

Each chain of files is sorted by time already, so merging the windows of all chains is enough. Among equal times
the longer delay goes first, because it was stored earlier; then the order of the chain decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from flintlog.dialects.mpy6a import scan
from flintlog.dialects.mpy6a.content import Content
from flintlog.dialects.mpy6a.findings import CODES
from flintlog.dialects.mpy6a.layout import StateID
from flintlog.dialects.mpy6a.replay import File, OpenSession
from flintlog.dialects.mpy6a.scan import Records

if TYPE_CHECKING:
    from flintlog.dialects.mpy6a.seen import Survey

_WINDOW_BYTES_MIN = 1 << 14
_WINDOW_BYTES_MAX = 1 << 20
_WINDOWS_BYTES = 64 << 20  # of all chains together


def waits(file: File, offset: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which records of a file, told by their offsets, are not done with."""
    keep = offset >= file.offset
    if file.finished:
        begin = np.array(sorted(file.finished), np.int64)
        end = np.array([at + file.finished[at] for at in begin.tolist()], np.int64)
        before = np.searchsorted(begin, offset, side="right") - 1
        keep &= (before < 0) | (offset >= np.maximum.accumulate(end)[np.maximum(before, 0)])
    return keep


def not_after(term: NDArray[np.uint64], index: NDArray[np.uint64], position: StateID) -> NDArray[np.bool_]:
    """Which state ids are at most this one."""
    return np.asarray((term < position.term) | ((term == position.term) & (index <= position.index)))


@dataclass(frozen=True, slots=True)
class Piece:
    """Records of one file; offsets of records and data count from `base`, which is where `buffer` begins."""

    file: File
    base: int
    buffer: memoryview
    records: Records


Taken = Mapping[tuple[str, int], OpenSession]
# A place in the order of all records: time, chain, file in the chain, offset.
Cut = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Within:
    """The part of a chain between two places; `start` is where its first file is read from."""

    chain: int = 0
    numbers: Mapping[str, int] = field(default_factory=dict)  # of files in the chain
    start: int = 0
    low: Cut | None = None
    high: Cut | None = None

    def look(
        self, name: str, time: NDArray[np.int64], offset: NDArray[np.int64]
    ) -> tuple[NDArray[np.bool_], bool]:
        """Which records are inside, and whether no later one can be."""
        keep = np.ones(len(time), bool)
        if self.low is not None:
            keep = ~self._before(name, time, offset, self.low)
        if self.high is None:
            return keep, False
        before = self._before(name, time, offset, self.high)
        return keep & before, not before[-1]

    def _before(
        self, name: str, time: NDArray[np.int64], offset: NDArray[np.int64], cut: Cut
    ) -> NDArray[np.bool_]:
        due, *place = cut
        mine = [self.chain, self.numbers[name]]
        if mine == place[:2]:
            same = offset < place[2]
        else:
            same = np.full(len(time), mine < place[:2])
        return np.asarray((time < due) | ((time == due) & same))


EVERYTHING = Within()


class _Chain:
    """The records of one delay that wait, a window at a time."""

    def __init__(
        self, contents: Sequence[Content], taken: Taken, window: int, until: StateID | None, within: Within
    ) -> None:
        self._contents = [item for item in contents if item.file.offset < item.file.length]
        self._window = window
        self._until = until
        self._within = within
        self._at = within.start or (self._contents[0].file.offset if self._contents else 0)
        self._time = 0
        self._taken: dict[str, list[tuple[int, OpenSession]]] = {}
        for (name, offset), session in sorted(taken.items()):
            self._taken.setdefault(name, []).append((offset, session))
        self.piece: Piece | None = None

    def load(self) -> bool:
        """See to it that there is a window with a record in it; False when nothing waits any more."""
        while self.piece is None or not len(self.piece.records):
            if not self._contents:
                self.piece = None
                return False
            content = self._contents[0]
            self.piece, done = self._read(content)
            if done:
                self._contents = []
            elif self._at >= content.file.length:
                del self._contents[0]
                self._at = self._contents[0].file.offset if self._contents else 0
        return True

    @property
    def ended(self) -> bool:
        """Does nothing stand behind the window?"""
        return not self._contents

    def take(self, count: int) -> Piece:
        assert self.piece is not None
        piece = self.piece
        self.piece = replace(piece, records=piece.records[count:])
        return replace(piece, records=piece.records[:count])

    def _read(self, content: Content) -> tuple[Piece, bool]:
        """The next window, and whether nothing behind it is asked for."""
        file = content.file
        begin, size = self._at, self._window
        while True:
            end = min(begin + size, file.length)
            buffer = content.part(begin, end)
            before = max(self._time, file.replay)
            records, stop = scan.scan_records(buffer, before=before, limit=len(buffer))
            assert stop is not None
            if len(records):
                break  # damage behind them is met when they were taken
            if end == file.length or stop.reason != scan.CUT:
                raise _damage(content, buffer, begin, stop, before)
            size *= 4
        self._at = begin + int(records.offset[-1] + records.size[-1])
        self._time = int(records.replay_time[-1])
        keep = waits(file, records.offset + begin)
        if self._until is not None:
            keep &= not_after(records.term, records.index, self._until)
        inside, done = self._within.look(file.name, records.replay_time, records.offset + begin)
        keep &= inside
        kept = records if keep.all() else records[keep]
        return self._with_changes(Piece(file, begin, buffer, kept)), done

    def _with_changes(self, piece: Piece) -> Piece:
        """The piece with what open sessions hold now."""
        records, buffer = piece.records, [piece.buffer]
        size = len(piece.buffer)
        start, length = records.data.copy(), records.length.copy()
        for offset, session in self._taken.get(piece.file.name, ()):
            row = int(np.searchsorted(records.offset, offset - piece.base))
            if row < len(records) and int(records.offset[row]) == offset - piece.base:
                start[row], length[row] = size, len(session.data)
                buffer.append(memoryview(session.data))
                size += len(session.data)
        if len(buffer) == 1:
            return piece
        return replace(
            piece,
            buffer=memoryview(b"".join(buffer)),
            records=replace(records, data=start, length=length),
        )


def _damage(content: Content, buffer: memoryview, begin: int, stop: scan.Stop, before: int) -> Exception:
    damage = scan.judge_records(buffer, stop, before, written=False)
    assert damage is not None
    return CODES.of(damage, content.file.name, begin).error(content.path)


def merge(found: Survey, until: StateID | None = None) -> Iterator[tuple[list[Piece], NDArray[np.int64]]]:
    """What waits, in rounds: pieces of files, and in which order to take their rows, counted one after the other.

    With `until`, sessions that were begun later are left out.
    """
    chains = [(contents, EVERYTHING) for contents in chains_of(found)]
    return merge_chains(chains, found.machine.taken, until)


def chains_of(found: Survey) -> list[list[Content]]:
    """The files of each delay; of equal times those of the first chain go first."""
    chains = found.machine.chains
    return [[found.content(file) for file in chains[delay]] for delay in sorted(chains, reverse=True)]


def merge_chains(
    parts: Sequence[tuple[Sequence[Content], Within]], taken: Taken, until: StateID | None
) -> Iterator[tuple[list[Piece], NDArray[np.int64]]]:
    """The same for parts of chains."""
    window = max(_WINDOW_BYTES_MIN, min(_WINDOW_BYTES_MAX, _WINDOWS_BYTES // max(len(parts), 1)))
    chains = [_Chain(contents, taken, window, until, within) for contents, within in parts]
    while chains := [chain for chain in chains if chain.load()]:
        pieces = [piece for piece in _round(chains) if len(piece.records)]
        times = np.concatenate([piece.records.replay_time for piece in pieces])
        yield pieces, np.argsort(times, kind="stable")


def _round(chains: list[_Chain]) -> Iterator[Piece]:
    """As much of each window as no unread record can come before."""
    bound, last = np.iinfo(np.int64).max, len(chains)
    for at, chain in enumerate(chains):
        assert chain.piece is not None
        time = int(chain.piece.records.replay_time[-1])
        if not chain.ended and time < bound:
            bound, last = time, at
    for at, chain in enumerate(chains):
        assert chain.piece is not None
        # Of equal times the earlier chain goes first, so a later one has to wait for what it does not see yet.
        times = chain.piece.records.replay_time
        found = (
            np.searchsorted(times, bound, "right") if at <= last else np.searchsorted(times, bound, "left")
        )
        yield chain.take(int(found))


def next_replay(found: Survey) -> int | None:
    """When the first session that waits is due; None when none does."""
    heads = [
        int(chain.piece.records.replay_time[0])
        for contents in chains_of(found)
        if (chain := _Chain(contents, found.machine.taken, _WINDOW_BYTES_MIN, None, EVERYTHING)).load()
        and chain.piece is not None
    ]
    return min(heads, default=None)
