"""The newest version of every key, in key order, from any number of entries in bounded memory.

A merge sorts a bucket of candidates (`candidates.py`) by their windows and keeps the winner of each run of equal keys.
It reads keys only where windows are equal. `passes.py` makes the buckets and keeps within the memory.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flintlog.columns.compile import kernel, window
from flintlog.dialects.limestone.candidates import (
    WINDOW,
    Candidates,
    Flags,
    Groups,
    Ints,
    Keyed,
    Source,
    Sources,
    Words,
    candidates,
)

_WINDOWS_DEPTH_MAX = 64  # so few keys that are still equal are compared whole
_WHOLE_KEYS_MAX = 1000
_COMPARE_CHUNK = 1 << 16


def numeric(storage: int) -> int:
    """Storages in the order of their numbers."""
    return storage


def by_bytes(storage: int) -> int:
    """Storages in the order of their bytes on disk, the lowest byte first: 256 before 1."""
    return int.from_bytes(storage.to_bytes(8, "little"), "big")


@kernel
def _radix(word: Any, spare: Any, order: Any, spare_order: Any, counts: Any) -> int:
    """Sort words, and the order with them; returns 1 when the result is in the spare arrays."""
    size = len(word)
    for index in range(size):
        order[index] = index
    for digit in range(8):
        for value in range(256):
            counts[digit, value] = 0
    for index in range(size):
        value = word[index]
        for digit in range(8):
            counts[digit, (value >> np.uint64(8 * digit)) & np.uint64(255)] += 1
    turned = 0
    for digit in range(8):
        shift = np.uint64(8 * digit)
        first = (spare[0] if turned else word[0]) >> shift & np.uint64(255)
        if counts[digit, first] == size:
            continue
        place = 0
        for value in range(256):
            number = counts[digit, value]
            counts[digit, value] = place
            place += number
        for index in range(size):
            value = spare[index] if turned else word[index]
            byte = value >> shift & np.uint64(255)
            place = counts[digit, byte]
            counts[digit, byte] = place + 1
            if turned:
                word[place] = value
                order[place] = spare_order[index]
            else:
                spare[place] = value
                spare_order[place] = order[index]
        turned = 1 - turned
    return turned


def _sorted_order(word: Words) -> NDArray[np.int32]:
    """The stable order of words."""
    if len(word) < 2 or not _radix.worth_compiling(16 * len(word)):
        return np.argsort(word, kind="stable").astype(np.int32)
    order, spare_order = np.empty(len(word), np.int32), np.empty(len(word), np.int32)
    counts = np.empty((8, 256), np.int64)
    turned = _radix.compiled()(word.copy(), np.empty_like(word), order, spare_order, counts)
    return spare_order if turned else order


@kernel
def _newest(order: Any, first: Any, flags: Any, major: Any, minor: Any, address: Any, out: Any) -> int:
    """Find the place of the newest entry in each run of equal keys. `first` says where in the order a run begins."""
    count = 0
    best = 0
    for at in range(len(first)):
        index = order[at]
        if first[at]:
            if at > 0:
                out[count] = best
                count += 1
            best = index
            continue
        old, new = flags[best] & 2, flags[index] & 2
        better = address[index] > address[best]
        if old != new:
            better = new == 0
        elif major[index] != major[best]:
            better = major[index] > major[best]
        elif minor[index] != minor[best]:
            better = minor[index] > minor[best]
        if better:
            best = index
    if len(first):
        out[count] = best
        count += 1
    return count


class Merge:
    """Finds winners. One merge serves one set of sources; its groups last over all passes."""

    def __init__(
        self,
        sources: Sources,
        workers: int,
        order: Callable[[int], int] = numeric,
        groups: Groups | None = None,
    ) -> None:
        self.sources = sources
        self.groups = groups or Groups(order)
        self.workers = workers

    def candidates(self, source: Source, columns: Keyed) -> Candidates:
        """Candidates from the columns of one file."""
        return candidates(self.groups, source, columns)

    def deeper(self, group: int, edge: int) -> Merge | None:
        """A merge of the keys with this window, sorted by what follows it; None when they all end inside it."""
        return Deeper(self, group, edge)

    def winners(self, part: Candidates, ranks: NDArray[np.uint32], depths: Ints) -> Candidates:
        """The newest candidate of each key, in key order."""
        return part[self.newest(part, ranks, depths)]

    def newest(self, part: Candidates, ranks: NDArray[np.uint32], depths: Ints) -> NDArray[Any]:
        """The place of the newest candidate of each key, in key order."""
        order: NDArray[Any] = _sorted_order(part.window)
        rank = ranks[part.group]
        mixed = len(rank) and bool((rank != rank[0]).any())
        if mixed:
            order = order[np.argsort(rank[order], kind="stable")]
        first = _begins(part.window[order])
        if mixed:
            first |= _begins(rank[order])
        if first.all():
            return order
        order, first = self._refined(part, order, first, depths)
        places = np.empty(int(first.sum()), np.int64)
        _newest.run(32 * len(part), order, first, part.flags, part.major, part.minor, part.address, places)
        return places

    def _refined(
        self, part: Candidates, order: NDArray[Any], first: Flags, depths: Ints
    ) -> tuple[NDArray[Any], Flags]:
        """Sort runs of equal windows by the rest of the keys, and mark where a new key begins."""
        depth = depths[part.group]
        rest = part.key_length.astype(np.int64) - depth
        again = _in_runs(first)
        within = rest[order[again]]
        if int(within.max()) <= WINDOW and bool((within == within[0]).all()):
            return order, first  # keys of one length that the window holds whole
        part, depth, rest = part[order], depth[order], rest[order]
        places = np.arange(len(part))
        window_ = np.zeros(len(again), np.uint64)  # equal within each run so far
        while len(again):
            # A key that ends in this window sorts before one that goes on with zeros.
            left = np.minimum(rest[places[again]], WINDOW + 1)
            run = np.cumsum(first)[again]
            sorted_ = np.lexsort((left, window_, run))
            places[again] = places[again[sorted_]]
            left, window_ = left[sorted_], window_[sorted_]
            new = (np.diff(run) != 0) | (np.diff(left) != 0) | (np.diff(window_) != 0)
            first[again[1:]] |= new
            # Keys that are still equal and go on are compared eight bytes further.
            on = np.zeros(len(part), bool)
            on[again] = left > WINDOW
            again = _in_runs(first)
            again = again[on[again]]
            if not len(again):
                break
            rest[places[again]] -= WINDOW
            depth[places[again]] += WINDOW
            if len(again) <= _WHOLE_KEYS_MAX and int(depth[places[again]].min()) >= _WINDOWS_DEPTH_MAX:
                self._compare_whole(part, places, first, again, depth)
                break
            window_ = self._windows(part[places[again]], depth[places[again]])
        return order[places], first

    def _windows(self, part: Candidates, depth: Ints) -> Words:
        """The windows of keys from a depth on, read from their files."""
        found = np.empty(len(part), np.uint64)
        key = part.address + part.key
        end = key + part.key_length
        key += depth.astype(np.uint64)
        for mine, buffer, start in self.sources.chunks(key, np.minimum(end, key + np.uint64(WINDOW))):
            begin = (key[mine] - np.uint64(start)).astype(np.int64)
            out = np.empty(len(mine), np.uint64)
            _fill.run(32 * len(mine), buffer, begin, (end[mine] - np.uint64(start)).astype(np.int64), out)
            found[mine] = out
        return found

    def _compare_whole(self, part: Candidates, places: Ints, first: Flags, again: Ints, depth: Ints) -> None:
        """Sort the few keys that share a long beginning."""
        key = part.address + part.key
        begin, end = key + depth.astype(np.uint64), key + part.key_length

        def rest(place: int) -> memoryview:
            found = self.sources.chunks(begin[place : place + 1], end[place : place + 1])
            _, buffer, start = next(found)
            return buffer[int(begin[place]) - start : int(end[place]) - start]

        def compare(one: int, other: int) -> int:
            return _compare(rest(one), rest(other))

        for run in np.split(again, np.flatnonzero(first[again])[1:]):
            ordered = sorted(places[run].tolist(), key=functools.cmp_to_key(compare))
            places[run] = ordered
            for at in range(1, len(ordered)):
                first[run[at]] = compare(ordered[at - 1], ordered[at]) != 0


class Deeper(Merge):
    """The keys of another merge that share a window, when they are too many. What follows the window tells them apart.
    Few of them end inside the window, where the zeros that fill it make them look alike."""

    def __init__(self, outer: Merge, group: int, edge: int) -> None:
        super().__init__(outer.sources, outer.workers, groups=outer.groups.deeper(group, edge))
        self._outer = outer
        self._group = group
        self._edge = edge

    def candidates(self, source: Source, columns: Keyed) -> Candidates:
        return candidates(self.groups, source, self._within(source, columns))

    def _within(self, source: Source, columns: Keyed) -> Keyed:
        if isinstance(self._outer, Deeper):
            columns = self._outer._within(source, columns)
        part = candidates(self._outer.groups, source, columns)
        return columns[(part.group == self._group) & (part.window == np.uint64(self._edge))]

    def deeper(self, group: int, edge: int) -> Merge | None:
        return Deeper(self, group, edge) if Groups.is_usual(group) else None


@kernel
def _fill(buffer: Any, begin: Any, end: Any, out: Any) -> None:
    for index in range(len(begin)):
        out[index] = window(buffer, begin[index], end[index])


def _begins(column: NDArray[Any]) -> Flags:
    """Which values are not those before them."""
    first = np.ones(len(column), bool)
    first[1:] = column[1:] != column[:-1]
    return first


def _in_runs(first: Flags) -> Ints:
    """The places that are in runs of more than one."""
    last = np.append(first[1:], True)
    return np.flatnonzero(~(first & last))


def _compare(one: memoryview, other: memoryview) -> int:
    for at in range(0, min(len(one), len(other)), _COMPARE_CHUNK):
        a, b = bytes(one[at : at + _COMPARE_CHUNK]), bytes(other[at : at + _COMPARE_CHUNK])
        if a != b:
            return -1 if a < b else 1
    return len(one) - len(other)
