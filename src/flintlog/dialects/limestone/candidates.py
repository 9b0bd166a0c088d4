"""Candidates: entries that may be the newest of their keys, as columns that sort like storage and key.

A candidate holds the place of a record, its write version, and eight bytes of its key as a number that sorts like them
(the *window*). Keys stay in the files.

Keys of one storage often begin alike. The bytes that the first many keys of a storage have in common are left out of
the window. A key that does not begin so sorts before or behind all that do; it belongs to another *class* of its
storage, whose windows begin at the first byte. So storage, class, window and the rest of the key sort like storage
and key.
"""

from __future__ import annotations

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
WINDOW = 8

REMOVE = 1  # the entry takes its key away
BASE = 2  # an entry without this flag beats it

_COMMON_MIN = 1024  # fewer keys keep their common beginning
_SKIP_MAX = 1 << 16
_CLASSES = 3
_BEFORE, _WITH, _BEHIND = 0, 1, 2  # the common beginning
_WINDOW_MAX = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Source:
    """A file with entries. Its records have addresses from `start` on."""

    buffer: memoryview
    start: int


class Sources:
    """The files with entries, each whole in a buffer."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = sources
        self.starts = np.array([source.start for source in sources], np.uint64)

    def of(self, address: Words) -> NDArray[np.int32]:
        """The number of the source that each address belongs to."""
        return (np.searchsorted(self.starts, address, "right") - 1).astype(np.int32)

    def chunks(self, begin: Words, end: Words) -> Iterator[tuple[Ints, memoryview, int]]:
        """For each buffer that holds some of these ranges: which ranges, the buffer, and its first address."""
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
    length: NDArray[np.uint32]  # of the record; LENGTH_MAX means that or more
    key: NDArray[np.uint8]  # where the key begins, counted from the address
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
        """The candidates in it."""
        return self._all[: self.used]

    def fill(self, part: Candidates) -> Candidates:
        """Take in as many as fit; returns the others."""
        count = min(len(part), len(self._all) - self.used)
        for name in Candidates.types():
            getattr(self._all, name)[self.used : self.used + count] = getattr(part, name)[:count]
        self.used += count
        return part[count:]


Bound = tuple[int, int, int]  # the storage's place in the order, class, window


class Groups:
    """Storages in the order in which they appear, each with the beginning that most of its keys share."""

    def __init__(self, order: Callable[[int], int]) -> None:
        self._order = order
        self._lock = threading.Lock()
        self._slots: dict[int, int] = {}
        self.storages: list[int] = []
        self.beginnings: list[bytes] = []

    @classmethod
    def of(cls, storages: Sequence[int], beginnings: Sequence[bytes], order: Callable[[int], int]) -> Groups:
        """Groups for storages with known beginnings."""
        groups = cls(order)
        groups.storages, groups.beginnings = list(storages), list(beginnings)
        groups._slots = {storage: slot for slot, storage in enumerate(storages)}
        return groups

    @staticmethod
    def usual(slot: int) -> int:
        """The group of the keys that begin like most of their storage."""
        return _CLASSES * slot + _WITH

    @staticmethod
    def is_usual(group: int) -> bool:
        return group % _CLASSES == _WITH

    def slots(self, buffer: memoryview, storage: Words, key: Ints, length: Ints) -> NDArray[np.uint32]:
        """The slot of each entry's storage; a new storage gets one."""
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
        """Groups for the keys of a group with this window, sorted by what follows it."""
        slot, class_ = divmod(group, _CLASSES)
        beginning = self.beginnings[slot] if class_ == _WITH else b""
        return Groups.of([self.storages[slot]], [beginning + edge.to_bytes(WINDOW, "big")], self._order)

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
    """How many bytes these keys share at their beginning."""
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
        class_ = _WITH
        place = 0
        while place < size and class_ == _WITH:
            if at + place >= end or buffer[at + place] < beginnings[start[mine] + place]:
                class_ = _BEFORE
            elif buffer[at + place] > beginnings[start[mine] + place]:
                class_ = _BEHIND
            place += 1
        group[index] = _CLASSES * mine + class_
        if class_ == _WITH:
            at += size
        out[index] = window(buffer, at, end)


@dataclass(frozen=True, slots=True)
class Keyed(Columns):
    """Entries with keys, in the order of one file."""

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
    group = slot * np.uint32(_CLASSES) + np.uint32(_WITH)
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
