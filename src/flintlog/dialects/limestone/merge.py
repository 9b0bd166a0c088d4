"""The newest version of every key, in key order, from any number of entries in bounded memory.

An entry is carried as a *candidate*: where its record stands, its write version, and eight bytes of its key as a
number that sorts like them (the *window*). Keys stay in the files and are looked at again only where windows are
equal. A bucket of candidates is sorted by their windows, and the winner of each run of equal keys stays.

Keys of one storage often begin alike. The bytes that the first many keys of a storage have in common are left out of
the window. A key that does not begin so sorts before or behind all that do; it belongs to another *class* of its
storage, whose windows begin at the first byte. So storage, class, window and the rest of the key sort like storage
and key. `passes.py` makes the buckets and keeps within the memory.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flintlog.columns.compile import kernel, window
from flintlog.columns.table import Columns

Words = NDArray[np.uint64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

LENGTH_MAX = 2**32 - 1

REMOVE = 1  # the entry takes its key away
BASE = 2  # it loses against every entry without this flag

_WINDOW = 8
_COMMON_MIN = 1024  # keys that must begin alike before their beginning is left out
_SKIP_MAX = 1 << 16
_WINDOWS_DEPTH_MAX = 64  # a few keys that are equal so far are compared as a whole
_WHOLE_KEYS_MAX = 1000
_COMPARE_CHUNK = 1 << 16
_CLASSES = 3  # before, with and behind the common beginning
_WITH = 1
_WINDOW_MAX = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Source:
    """A file that entries stand in. Its records have addresses from `start` on."""

    buffer: memoryview
    start: int


class Sources:
    """The files that entries stand in, each whole in a buffer."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = sources
        self.starts = np.array([source.start for source in sources], np.uint64)

    def of(self, address: Words) -> NDArray[np.int32]:
        """Which source each address belongs to."""
        return (np.searchsorted(self.starts, address, "right") - 1).astype(np.int32)

    def chunks(self, begin: Words, end: Words) -> Iterator[tuple[Ints, memoryview, int]]:
        """Buffers that hold the bytes between addresses: the places of those in it, the buffer, its first address."""
        owner = self.of(begin)
        for which in np.unique(owner).tolist():
            yield np.flatnonzero(owner == which), self._sources[which].buffer, self._sources[which].start


@dataclass(frozen=True, slots=True)
class Candidates(Columns):
    """Columns of entries that may be the newest of their keys."""

    group: NDArray[np.uint32]  # storage and class
    window: Words
    key_length: NDArray[np.uint32]
    major: Words
    minor: Words
    address: Words
    length: NDArray[np.uint32]  # of the record; LENGTH_MAX: at least so long
    key: NDArray[np.uint8]  # where the key begins, from the address on
    flags: NDArray[np.uint8]


CANDIDATE_SIZE = sum(kind.itemsize for kind in Candidates.types().values())


class Slab:
    """Room for candidates in one piece of memory, so large that it goes back to the system when it is freed."""

    def __init__(self, room: int) -> None:
        memory = np.empty(room * CANDIDATE_SIZE, np.uint8)
        columns, at = {}, 0
        for name, kind in sorted(Candidates.types().items(), key=lambda item: -item[1].itemsize):
            size = room * kind.itemsize
            columns[name] = memory[at : at + size].view(kind)
            at += size
        self._all = Candidates(**columns)
        self.used = 0

    @property
    def full(self) -> bool:
        return self.used == len(self._all)

    @property
    def part(self) -> Candidates:
        """What is in it."""
        return self._all[: self.used]

    def fill(self, part: Candidates) -> Candidates:
        """Take in as many as there is room for; gives back the others."""
        count = min(len(part), len(self._all) - self.used)
        for name in Candidates.types():
            getattr(self._all, name)[self.used : self.used + count] = getattr(part, name)[:count]
        self.used += count
        return part[count:]


Bound = tuple[int, int, int]  # the storage's place in the order, class, window


def numeric(storage: int) -> int:
    """Storages in the order of their numbers."""
    return storage


def by_bytes(storage: int) -> int:
    """Storages in the order of their bytes on disk, the lowest byte first: 256 before 1."""
    return int.from_bytes(storage.to_bytes(8, "little"), "big")


class Groups:
    """Storages by number of appearance, each with the beginning that most of its keys have in common."""

    def __init__(self, order: Callable[[int], int] = numeric) -> None:
        self._order = order
        self._lock = threading.Lock()
        self._slots: dict[int, int] = {}
        self.storages: list[int] = []
        self.beginnings: list[bytes] = []

    @classmethod
    def of(cls, storages: Sequence[int], beginnings: Sequence[bytes], order: Callable[[int], int]) -> Groups:
        """Groups that are known already."""
        groups = cls(order)
        groups.storages, groups.beginnings = list(storages), list(beginnings)
        groups._slots = {storage: slot for slot, storage in enumerate(storages)}
        return groups

    @staticmethod
    def usual(slot: int) -> int:
        """The group of the keys that begin like most of their storage."""
        return _CLASSES * slot + _WITH

    def slots(self, buffer: memoryview, storage: Words, key: Ints, length: Ints) -> NDArray[np.uint32]:
        """The slot of each entry's storage; a storage that was not seen before gets one."""
        if not len(storage):
            return np.empty(0, np.uint32)
        if bool((storage == storage[0]).all()):
            return np.full(len(storage), self._slot(buffer, int(storage[0]), key, length), np.uint32)
        found, inverse = np.unique(storage, return_inverse=True)
        slots = np.empty(len(found), np.uint32)
        for at, number in enumerate(found.tolist()):
            known = self._slots.get(number)
            if known is None:
                mine = inverse == at
                known = self._slot(buffer, number, key[mine], length[mine])
            slots[at] = known
        return slots[inverse]

    def _slot(self, buffer: memoryview, storage: int, key: Ints, length: Ints) -> int:
        known = self._slots.get(storage)
        if known is not None:
            return known
        beginning = b""
        if len(key) >= _COMMON_MIN:
            size = int(_common.run(16 * len(key), buffer, key, length, min(int(length.min()), _SKIP_MAX)))
            beginning = bytes(buffer[int(key[0]) : int(key[0]) + size])
        with self._lock:
            if storage not in self._slots:
                self.storages.append(storage)
                self.beginnings.append(beginning)
                self._slots[storage] = len(self.storages) - 1
            return self._slots[storage]

    def ranks(self) -> NDArray[np.uint32]:
        """For each group its place in the order of storages and classes."""
        places = [self._order(storage) for storage in self.storages]
        order = sorted(range(len(places)), key=places.__getitem__)
        ranks = np.empty(_CLASSES * len(order), np.uint32)
        for place, slot in enumerate(order):
            ranks[_CLASSES * slot : _CLASSES * (slot + 1)] = np.arange(_CLASSES) + _CLASSES * place
        return ranks

    def depths(self) -> Ints:
        """For each group how many bytes of the key its windows leave out."""
        depths = np.zeros(_CLASSES * len(self.storages), np.int64)
        depths[1::_CLASSES] = [len(beginning) for beginning in self.beginnings]
        return depths

    def storage_of(self, group: NDArray[np.uint32]) -> Words:
        return np.array(self.storages, np.uint64)[group // _CLASSES]

    def bound(self, group: int, edge: int) -> Bound:
        """The bound at a window of a group."""
        return self._order(self.storages[group // _CLASSES]), group % _CLASSES, edge

    def bound_behind(self, group: int, edge: int) -> Bound:
        """The bound behind a window of a group."""
        place, class_, _ = self.bound(group, edge)
        return (place, class_, edge + 1) if edge < _WINDOW_MAX else (place, class_ + 1, 0)

    def deeper(self, group: int, edge: int) -> Groups:
        """The keys of a group that have this window, by what follows it."""
        slot, class_ = divmod(group, _CLASSES)
        beginning = self.beginnings[slot] if class_ == _WITH else b""
        return Groups.of([self.storages[slot]], [beginning + edge.to_bytes(_WINDOW, "big")], self._order)

    def below(self, part: Candidates, bound: Bound) -> Flags:
        """Which candidates stand before a bound."""
        place, class_, edge = bound
        places = np.array([self._order(storage) for storage in self.storages], np.uint64)
        numbers = np.arange(len(places) * _CLASSES)
        own, kind = places[numbers // _CLASSES], numbers % _CLASSES
        at = (own == np.uint64(place)) & (kind == class_)
        before = (own < np.uint64(place)) | ((own == np.uint64(place)) & (kind < class_))
        found: Flags = before[part.group] | (at[part.group] & (part.window < np.uint64(edge)))
        return found


@kernel
def _common(buffer: Any, key: Any, length: Any, most: int) -> int:
    """How many bytes these keys have in common at their beginning."""
    first = key[0]
    for index in range(1, len(key)):
        same = 0
        at = key[index]
        while same < most and buffer[first + same] == buffer[at + same]:
            same += 1
        most = same
    return most


@kernel
def _classify(
    buffer: Any,
    key: Any,
    length: Any,
    slot: Any,
    skip: Any,
    start: Any,
    beginnings: Any,
    group: Any,
    out: Any,
) -> None:
    """Class and window of each key against the common beginning of its storage."""
    for index in range(len(key)):
        mine = slot[index]
        size = skip[mine]
        at = key[index]
        end = at + length[index]
        class_ = 1
        place = 0
        while place < size and class_ == 1:
            if at + place >= end or buffer[at + place] < beginnings[start[mine] + place]:
                class_ = 0
            elif buffer[at + place] > beginnings[start[mine] + place]:
                class_ = 2
            place += 1
        group[index] = 3 * mine + class_
        if class_ == 1:
            at += size
        out[index] = window(buffer, at, end)


@dataclass(frozen=True, slots=True)
class Keyed(Columns):
    """Entries of keys as they stand in one file."""

    storage: Words
    offset: Ints
    length: Ints
    key: Ints
    key_length: Ints
    prefix: Words  # the first eight bytes of the key
    major: Words
    minor: Words
    flags: NDArray[np.uint8]


def candidates(groups: Groups, source: Source, columns: Keyed) -> Candidates:
    """Candidates from the columns of one file."""
    key, key_length, prefix = columns.key, columns.key_length, columns.prefix
    slot = groups.slots(source.buffer, columns.storage, key, key_length)
    group = slot * np.uint32(_CLASSES) + np.uint32(1)
    skip = np.array([len(beginning) for beginning in groups.beginnings], np.int64)
    if skip.any():
        start = np.cumsum(skip) - skip
        joined = np.frombuffer(b"".join(groups.beginnings[: len(skip)]), np.uint8)
        prefix = np.empty(len(slot), np.uint64)
        _classify.run(
            32 * len(slot), source.buffer, key, key_length, slot, skip, start, joined, group, prefix
        )
    return Candidates(
        group,
        prefix,
        key_length.astype(np.uint32),
        columns.major,
        columns.minor,
        columns.offset.astype(np.uint64) + np.uint64(source.start),
        np.minimum(columns.length, LENGTH_MAX).astype(np.uint32),
        (key - columns.offset).astype(np.uint8),
        columns.flags,
    )


# --- one bucket --------------------------------------------------------------------------------------------------


@kernel
def _radix(word: Any, spare: Any, order: Any, spare_order: Any, counts: Any) -> int:
    """Sort words, and the order with them; returns 1 when the result stands in the spare arrays."""
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
def _newest(first: Any, flags: Any, major: Any, minor: Any, address: Any, out: Any) -> int:
    """The place of the newest of each run of equal keys. `first` says where a run begins."""
    count = 0
    best = 0
    for index in range(len(first)):
        if first[index]:
            if index > 0:
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
        """A merge of the keys that have this window, by what follows it; None where nothing but their ends does."""
        return Deeper(self, group, edge)

    def winners(self, part: Candidates, ranks: NDArray[np.uint32], depths: Ints) -> Candidates:
        """The newest candidate of each key, in key order."""
        order = _sorted_order(part.window)
        rank = ranks[part.group]
        if len(rank) and bool((rank != rank[0]).any()):
            order = order[np.argsort(rank[order], kind="stable")]
        part, rank = part[order], rank[order]
        first = np.ones(len(part), bool)
        first[1:] = (part.window[1:] != part.window[:-1]) | (rank[1:] != rank[:-1])
        if first.all():
            return part
        part, first = self._refined(part, first, depths)
        places = np.empty(int(first.sum()), np.int64)
        _newest.run(32 * len(part), first, part.flags, part.major, part.minor, part.address, places)
        return part[places]

    def _refined(self, part: Candidates, first: Flags, depths: Ints) -> tuple[Candidates, Flags]:
        """Sort runs of equal windows by the rest of the keys, and tell where a key begins."""
        places = np.arange(len(part))
        depth = depths[part.group]
        rest = part.key_length.astype(np.int64) - depth
        again = _in_runs(first)
        within = rest[again]
        if int(within.max()) <= _WINDOW and bool((within == within[0]).all()):
            return part, first  # keys of one length that the window holds whole
        window_ = np.zeros(len(again), np.uint64)  # equal within each run as far as it was looked at
        while len(again):
            # A key that ends in this window sorts before one that goes on with zeros.
            left = np.minimum(rest[places[again]], _WINDOW + 1)
            run = np.cumsum(first)[again]
            order = np.lexsort((left, window_, run))
            places[again] = places[again[order]]
            left, window_ = left[order], window_[order]
            new = (np.diff(run) != 0) | (np.diff(left) != 0) | (np.diff(window_) != 0)
            first[again[1:]] |= new
            # What is still equal and goes on is looked at eight bytes further.
            on = np.zeros(len(part), bool)
            on[again] = left > _WINDOW
            again = _in_runs(first)
            again = again[on[again]]
            if not len(again):
                break
            rest[places[again]] -= _WINDOW
            depth[places[again]] += _WINDOW
            if len(again) <= _WHOLE_KEYS_MAX and int(depth[places[again]].min()) >= _WINDOWS_DEPTH_MAX:
                self._compare_whole(part, places, first, again, depth)
                break
            window_ = self._windows(part[places[again]], depth[places[again]])
        return part[places], first

    def _windows(self, part: Candidates, depth: Ints) -> Words:
        """The windows of keys from a depth on, read from their files."""
        found = np.empty(len(part), np.uint64)
        key = part.address + part.key
        end = key + part.key_length
        key += depth.astype(np.uint64)
        for mine, buffer, start in self.sources.chunks(key, np.minimum(end, key + np.uint64(_WINDOW))):
            begin = (key[mine] - np.uint64(start)).astype(np.int64)
            out = np.empty(len(mine), np.uint64)
            _fill.run(32 * len(mine), buffer, begin, (end[mine] - np.uint64(start)).astype(np.int64), out)
            found[mine] = out
        return found

    def _compare_whole(self, part: Candidates, places: Ints, first: Flags, again: Ints, depth: Ints) -> None:
        """Sort the few keys that are long and equal for long."""
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
    """The keys of another merge that share a window, which are too many. What follows the window tells them apart; of
    those that end before its end, which look alike when they are filled with zeros, there are few."""

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
        return Deeper(self, group, edge) if group % _CLASSES == _WITH else None


@kernel
def _fill(buffer: Any, begin: Any, end: Any, out: Any) -> None:
    for index in range(len(begin)):
        out[index] = window(buffer, begin[index], end[index])


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
