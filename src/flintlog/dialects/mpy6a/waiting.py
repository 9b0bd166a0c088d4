"""The sessions that wait, in the order of their replay over all delays, without holding more than a window of each.

Each chain of files is sorted by time already, so merging the windows of all chains is enough. Among equal times
the longer delay goes first, because it was stored earlier; then the order of the chain decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from flintlog.dialects.mpy6a.content import Content
from flintlog.dialects.mpy6a.layout import StateID
from flintlog.dialects.mpy6a.replay import OpenSession
from flintlog.dialects.mpy6a.windows import ChainReader, Piece

if TYPE_CHECKING:
    from flintlog.dialects.mpy6a.seen import Survey

_WINDOW_BYTES_MIN = 1 << 14
_WINDOW_BYTES_MAX = 1 << 20
_WINDOWS_BYTES = 64 << 20  # for all chains together


def not_after(term: NDArray[np.uint64], index: NDArray[np.uint64], position: StateID) -> NDArray[np.bool_]:
    """Which state ids are at most this one."""
    return np.asarray((term < position.term) | ((term == position.term) & (index <= position.index)))


Taken = Mapping[tuple[str, int], OpenSession]
# A place in the order of all records: time, chain, file in the chain, offset.
Cut = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Within:
    """The part of a chain between two cuts; reading its first file begins at `start`."""

    chain: int = 0
    numbers: Mapping[str, int] = field(default_factory=dict)  # of files in the chain
    start: int = 0
    low: Cut | None = None
    high: Cut | None = None

    def look(
        self, name: str, time: NDArray[np.int64], offset: NDArray[np.int64]
    ) -> tuple[NDArray[np.bool_], bool]:
        """Which records are inside, and whether all later ones are outside."""
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


class _Chain(ChainReader):
    """The waiting records of one delay in a survey, or some of them."""

    def __init__(
        self, contents: Sequence[Content], taken: Taken, window: int, until: StateID | None, within: Within
    ) -> None:
        super().__init__()
        self._contents = [item for item in contents if item.file.offset < item.file.length]
        self._size = window
        self._until = until
        self._within = within
        self._at = within.start
        self._taken: dict[str, list[tuple[int, bytes]]] = {}
        for (name, offset), session in sorted(taken.items()):
            self._taken.setdefault(name, []).append((offset, session.data))

    def filled(self) -> bool:
        """Make sure that there is a window with a record; False when no more records wait."""
        self.trim()
        return bool(self.windows) or self.load(self._size)

    @property
    def times(self) -> NDArray[np.int64]:
        """When the records of the window are due."""
        return self.windows[0].times

    @property
    def ended(self) -> bool:
        """Is this the last window?"""
        return self._current() is None

    def _current(self) -> tuple[Content, int] | None:
        while self._contents and self._at >= self._contents[0].file.length:
            del self._contents[0]
            self._at = 0
        return (self._contents[0], self._contents[0].file.length) if self._contents else None

    def _piece(self, piece: Piece) -> Piece:
        records, name = piece.records, piece.file.name
        keep, done = self._within.look(name, records.replay_time, records.offset + piece.base)
        if done:
            self._contents = []
        if self._until is not None:
            keep &= not_after(records.term, records.index, self._until)
        if not keep.all():
            piece = replace(piece, records=records[keep])
        return piece.changed(self._taken[name]) if name in self._taken else piece


def merge(found: Survey, until: StateID | None = None) -> Iterator[tuple[list[Piece], NDArray[np.int64]]]:
    """The waiting records, in rounds: pieces of files, and the order in which to take their rows, numbered through.

    `until` leaves out sessions that were begun later.
    """
    chains = [(contents, EVERYTHING) for contents in chains_of(found)]
    return merge_chains(chains, found.machine.taken, until)


def chains_of(found: Survey) -> list[list[Content]]:
    """The files of each delay; among equal times the first chain goes first."""
    chains = found.machine.chains
    return [[found.content(file) for file in chains[delay]] for delay in sorted(chains, reverse=True)]


def merge_chains(
    parts: Sequence[tuple[Sequence[Content], Within]], taken: Taken, until: StateID | None
) -> Iterator[tuple[list[Piece], NDArray[np.int64]]]:
    """The same for parts of chains."""
    window = max(_WINDOW_BYTES_MIN, min(_WINDOW_BYTES_MAX, _WINDOWS_BYTES // max(len(parts), 1)))
    chains = [_Chain(contents, taken, window, until, within) for contents, within in parts]
    while chains := [chain for chain in chains if chain.filled()]:
        pieces = [piece for piece in _round(chains) if len(piece.records)]
        times = np.concatenate([piece.records.replay_time for piece in pieces])
        yield pieces, np.argsort(times, kind="stable")


def _round(chains: list[_Chain]) -> Iterator[Piece]:
    """The records that no unread one can come before."""
    bound, last = np.iinfo(np.int64).max, len(chains)
    for at, chain in enumerate(chains):
        time = int(chain.times[-1])
        if not chain.ended and time < bound:
            bound, last = time, at
    for at, chain in enumerate(chains):
        # Among equal times an earlier chain goes first, so a later one must wait for that one's unread records.
        side: Literal["left", "right"] = "right" if at <= last else "left"
        yield chain.windows[0].take(int(np.searchsorted(chain.times, bound, side)))


def next_replay(found: Survey) -> int | None:
    """When the first session that waits is due; None when none does."""
    taken = found.machine.taken
    chains = [_Chain(files, taken, _WINDOW_BYTES_MIN, None, EVERYTHING) for files in chains_of(found)]
    return min((int(chain.times[0]) for chain in chains if chain.filled()), default=None)
