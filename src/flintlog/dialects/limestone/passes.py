"""From many candidates to the winners in key order, in bounded memory.

A pass collects candidates, cuts them into buckets at sampled windows, and merges each bucket in the processor's cache,
several at a time. When the candidates outgrow the memory, it drops those that a newer one beats. If that is not enough,
it puts off the upper part of the key range, for which the next pass reads the files again. When more keys than fit
share one window, they are merged on their own by what follows it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from flintlog.columns.compile import kernel
from flintlog.core.workers import threads
from flintlog.dialects.limestone.candidates import CANDIDATE_SIZE, Bound, Candidates, Flags, Slab
from flintlog.dialects.limestone.merge import Merge

MEMORY_BYTES = 512 << 20

_BUCKET_CANDIDATES = 1 << 16
_BUCKETS_MAX = 1 << 12
_SLAB_CANDIDATES_MIN = 1 << 10  # a small log needs no more, and memory costs time
_SLAB_CANDIDATES = 1 << 20
_SAMPLES = 32  # for each bucket
_SHARE_MAX = 0.5  # share of winners: above it, dropping the others is not worth the time
_SHARE_CANDIDATES = 1 << 16  # candidates that are sampled for it
_FILL_MAX = 0.75  # share of the memory that may be in use after it

T = TypeVar("T")
Streams = Callable[[Merge], Sequence[Iterator[Candidates]]]  # gives the candidates of each file
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Buckets:
    """Parts with the order that sorts each into buckets. `edges` says where a bucket begins in each order."""

    parts: Sequence[Candidates]
    orders: Sequence[NDArray[np.int32]]
    edges: Ints  # parts by buckets + 1
    ranks: NDArray[np.uint32]
    depths: Ints
    pivots: tuple[
        NDArray[np.uint32], NDArray[np.uint64]
    ]  # the first rank and window of each bucket but the first

    def __len__(self) -> int:
        return int(self.edges.shape[1]) - 1

    def size(self, bucket: int) -> int:
        return int((self.edges[:, bucket + 1] - self.edges[:, bucket]).sum())

    def take(self, bucket: int) -> Candidates:
        """The candidates of one bucket."""
        pieces = []
        for part, order, edge in zip(self.parts, self.orders, self.edges, strict=True):
            if edge[bucket + 1] > edge[bucket]:
                pieces.append(part[order[edge[bucket] : edge[bucket + 1]].astype(np.int64)])
        return Candidates.join(pieces or [self.parts[0][:0]])


class Heap:
    """Candidates in slabs."""

    def __init__(self) -> None:
        self._slabs: list[Slab] = []

    def __len__(self) -> int:
        return sum(slab.used for slab in self._slabs)

    @property
    def parts(self) -> list[Candidates]:
        return [slab.part for slab in self._slabs]

    def add(self, part: Candidates) -> None:
        while len(part):
            if not self._slabs or self._slabs[-1].full:
                room = max(len(part), 2 * len(self), _SLAB_CANDIDATES_MIN)
                self._slabs.append(Slab(min(room, _SLAB_CANDIDATES)))
            part = self._slabs[-1].fill(part)

    def keep(self, which: Callable[[Candidates], Flags]) -> None:
        """Drop all but the chosen candidates, and free slabs that become empty."""
        full = self._slabs
        self._slabs = []
        for at, slab in enumerate(full):
            part = slab.part
            kept = part[which(part)]  # a copy, so that the slab can be filled anew
            slab.used = 0
            del part
            while len(kept):
                if not self._slabs or self._slabs[-1].full:
                    self._slabs.append(full[len(self._slabs)])
                kept = self._slabs[-1].fill(kept)
            assert len(self._slabs) <= at + 1  # never writes where it has not read


@dataclass(frozen=True, slots=True)
class Heavy:
    """A window that too many keys share, and the merge that tells them apart."""

    merge: Merge
    group: int
    window: int


class Passes:
    """Reads streams of candidates as often as it takes, and gives the winners of all in key order."""

    def __init__(
        self,
        merge: Merge,
        streams: Streams,
        memory_bytes: int = MEMORY_BYTES,
        tell: Callable[[], None] = lambda: None,
    ) -> None:
        self._merge = merge
        self._streams = streams
        self._tell = tell  # called whenever something was read
        self._memory_bytes = memory_bytes
        self._limit = max(memory_bytes // CANDIDATE_SIZE, 1)
        self.count = 0  # passes over the files so far

    def __iter__(self) -> Iterator[Candidates]:
        return self.mapped(lambda winners: winners)

    def mapped(self, function: Callable[[Candidates], T]) -> Iterator[T]:
        """Call a function with each bucket of winners, in the workers' threads; gives its results in key order."""
        low: Bound | None = None
        with threads(self._merge.workers) as pool:
            while True:
                self.count += 1
                heap, high, heavy = self._collected(pool, low)
                yield from self._merged(pool, heap.parts, function)
                del heap  # before the next one grows
                if heavy is not None:
                    yield from self._within(heavy, function)
                    high = self._merge.groups.bound_behind(heavy.group, heavy.window)
                if high is None:
                    return
                low = high

    def _within(self, heavy: Heavy, function: Callable[[Candidates], T]) -> Iterator[T]:
        """The winners among keys that share a window, with the group numbers of this merge."""
        inner = Passes(heavy.merge, self._streams, self._memory_bytes, self._tell)
        yield from inner.mapped(
            lambda winners: function(replace(winners, group=np.full_like(winners.group, heavy.group)))
        )
        self.count += inner.count

    def _collected(self, pool: Executor, low: Bound | None) -> tuple[Heap, Bound | None, Heavy | None]:
        """The candidates from `low` on, up to the bound that fits the memory; or the first window, when its candidates
        alone are too many."""
        waiting = deque(self._streams(self._merge))
        running: dict[Future[Candidates | None], Iterator[Candidates]] = {}
        heap = Heap()
        high: Bound | None = None
        limit = self._limit
        while waiting or running:
            while waiting and len(running) < self._merge.workers:
                stream = waiting.popleft()
                running[pool.submit(_next, stream)] = stream
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                stream = running.pop(future)
                part = future.result()
                self._tell()
                if part is not None:
                    waiting.appendleft(stream)
                    heap.add(self._between(part, low, high))
            if len(heap) > limit:
                heap, high, heavy = self._shrunk(pool, heap, low, high)
                if heavy is not None:
                    wait(running)
                    return Heap(), None, heavy
                limit = max(self._limit, 2 * len(heap))
        return heap, high, None

    def _between(self, part: Candidates, low: Bound | None, high: Bound | None) -> Candidates:
        keep = np.ones(len(part), bool)
        if low is not None:
            keep &= ~self._merge.groups.below(part, low)
        if high is not None:
            keep &= self._merge.groups.below(part, high)
        return part if keep.all() else part[keep]

    def _shrunk(
        self, pool: Executor, heap: Heap, low: Bound | None, high: Bound | None
    ) -> tuple[Heap, Bound | None, Heavy | None]:
        """Drop candidates that a newer one beats; if that is not enough, the upper part of the key range."""
        buckets = self._buckets(pool, heap.parts)
        if self._winning_share(buckets) <= _SHARE_MAX:
            newest = Heap()
            for winners in self._merged(pool, heap.parts, lambda winners: winners):
                newest.add(winners)
            heap = newest
            if len(heap) <= _FILL_MAX * self._limit:
                return heap, high, None
            buckets = self._buckets(pool, heap.parts)
        bound = self._middle(buckets)
        if bound is None:  # most of them share the first window
            if not len(buckets.pivots[0]):
                return heap, high, None
            group, window = self._pivot(buckets, -1)
            bound = self._merge.groups.bound(group, window)
            if bound == low:  # no candidate comes before them
                inner = self._merge.deeper(group, window)
                return heap, high, None if inner is None else Heavy(inner, group, window)
        del buckets
        heap.keep(lambda part: self._merge.groups.below(part, bound))
        return heap, bound, None

    def _winning_share(self, buckets: Buckets) -> float:
        """About which share of the candidates wins."""
        seen = won = 0
        for bucket in range(len(buckets)):
            seen += buckets.size(bucket)
            won += len(self._winners(buckets, bucket))
            if seen >= _SHARE_CANDIDATES:
                break
        return won / max(seen, 1)

    def _middle(self, buckets: Buckets) -> Bound | None:
        """A bound with about half of the candidates below it, at least one; None when there is none."""
        sizes = (buckets.edges[:, 1:] - buckets.edges[:, :-1]).sum(axis=0)
        below = np.cumsum(sizes)[:-1]
        usable = np.flatnonzero(below > 0)
        if not len(usable):
            return None
        at = int(usable[np.argmin(np.abs(below[usable] - below.max() // 2))])
        return self._merge.groups.bound(*self._pivot(buckets, at))

    def _pivot(self, buckets: Buckets, at: int) -> tuple[int, int]:
        """The group and the window of a pivot."""
        rank, window = int(buckets.pivots[0][at]), int(buckets.pivots[1][at])
        return int(np.flatnonzero(buckets.ranks == rank)[0]), window

    def _winners(self, buckets: Buckets, bucket: int) -> Candidates:
        return self._merge.winners(buckets.take(bucket), buckets.ranks, buckets.depths)

    def _merged(
        self, pool: Executor, parts: Sequence[Candidates], function: Callable[[Candidates], T]
    ) -> Iterator[T]:
        """The winners bucket by bucket; works a few buckets ahead of the caller."""
        if not sum(map(len, parts)):
            return
        buckets = self._buckets(pool, parts)
        ahead: deque[Future[T]] = deque()
        for bucket in range(len(buckets)):
            if buckets.size(bucket):
                ahead.append(pool.submit(lambda number: function(self._winners(buckets, number)), bucket))
            if len(ahead) > self._merge.workers:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()

    def _buckets(self, pool: Executor, parts: Sequence[Candidates]) -> Buckets:
        ranks, depths = self._merge.groups.ranks(), self._merge.groups.depths()
        count = min(sum(map(len, parts)) // _BUCKET_CANDIDATES + 1, _BUCKETS_MAX)
        pivots = pivots_of(parts, ranks, count)
        sorted_in = list(pool.map(lambda part: sort_in(part, ranks, pivots), parts))
        return Buckets(
            parts,
            [order for order, _ in sorted_in],
            np.stack([edges for _, edges in sorted_in]),
            ranks,
            depths,
            pivots,
        )


def _next(stream: Iterator[Candidates]) -> Candidates | None:
    return next(stream, None)


def pivots_of(
    parts: Sequence[Candidates], ranks: NDArray[np.uint32], buckets: int
) -> tuple[NDArray[np.uint32], NDArray[np.uint64]]:
    """Ranks and windows that cut the candidates into so many buckets of about equal size."""
    step = max(sum(map(len, parts)) // (buckets * _SAMPLES), 1)
    window = np.concatenate([part.window[::step] for part in parts])
    rank = np.concatenate([ranks[part.group[::step]] for part in parts])
    order = np.lexsort((window, rank))
    if not len(order):
        return rank, window
    places = np.linspace(0, len(order), buckets + 1).astype(np.int64)[1:-1]
    window, rank = window[order[places]], rank[order[places]]
    new = np.ones(len(places), bool)
    new[1:] = (np.diff(window) != 0) | (np.diff(rank) != 0)
    return rank[new], window[new]


@kernel
def _assign(
    ranks: Any,
    group: Any,
    window: Any,
    pivot_rank: Any,
    pivot_window: Any,
    bucket: Any,
    edges: Any,
    order: Any,
) -> None:
    """The order that sorts candidates into buckets, and where each bucket begins in it."""
    for index in range(len(group)):
        rank = ranks[group[index]]
        low = 0
        high = len(pivot_rank)
        while low < high:  # the number of pivots at or below the candidate
            middle = (low + high) // 2
            above = pivot_rank[middle] > rank
            if pivot_rank[middle] == rank:
                above = pivot_window[middle] > window[index]
            if above:
                high = middle
            else:
                low = middle + 1
        bucket[index] = low
        edges[low + 1] += 1
    for number in range(len(edges) - 1):
        edges[number + 1] += edges[number]
    for index in range(len(group)):
        mine = bucket[index]
        order[edges[mine]] = index
        edges[mine] += 1
    for number in range(len(edges) - 1, 0, -1):
        edges[number] = edges[number - 1]
    edges[0] = 0


def sort_in(
    part: Candidates,
    ranks: NDArray[np.uint32],
    pivots: tuple[NDArray[np.uint32], NDArray[np.uint64]],
) -> tuple[NDArray[np.int32], Ints]:
    """The order that sorts candidates into buckets, and where each bucket begins in it."""
    edges = np.zeros(len(pivots[0]) + 2, np.int64)
    bucket, order = np.empty(len(part), np.int16), np.empty(len(part), np.int32)
    _assign.run(24 * len(part), ranks, part.group, part.window, *pivots, bucket, edges, order)
    return order, edges
