"""The records of one queue that wait in memory: lowest key first, first in first out among equal keys.

Records come one by one or in *runs* (what opening found; a batch). A run stays as columns and is walked by a
cursor; only its next record stands in the heap. So a million records cost no million objects to load.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from flintlog.dialects.taskflux import layout as lay

Ints = NDArray[np.int64]
Ids = NDArray[np.uint64]
Arena = bytes | bytearray | memoryview

_BLOCK = 1024  # records of a run that are turned into Python objects at a time, at most
_STRETCH_MIN = 16  # from so many records on columns are faster


class Record(NamedTuple):
    """What an application sees of a record."""

    id: int
    key: int
    payload: bytes


class Run:
    """Records as columns in dequeue order."""

    def __init__(self, ids: Ids, keys: Ints, orders: Ints, arena: Arena, offsets: Ints) -> None:
        self._ids = ids
        self._keys = keys
        self._orders = orders
        self._arena = arena if isinstance(arena, bytes) else memoryview(arena)
        self._offsets = offsets
        self._at = 0
        self._removed: set[int] = set()  # places
        self._by_id: Ints | None = None
        self._block: list[tuple[int, int, int, int, int]] = []
        self._block_begin = 0
        self._block_size = 1  # grows on demand: often only the head of a run is needed

    def head(self) -> tuple[int, int, int] | None:
        """(key, order, id) of the next record; None at the end."""
        while self._at in self._removed:
            self._removed.discard(self._at)
            self._at += 1
        if self._at >= len(self._ids):
            return None
        key, order, id_, _, _ = self._row()
        return key, order, id_

    def payload(self) -> bytes:
        """The payload of the next record."""
        _, _, _, begin, end = self._row()
        return bytes(self._arena[begin:end])

    def advance(self) -> None:
        self._at += 1

    @property
    def whole(self) -> bool:
        """Is the rest of the run whole, with nothing taken out of its middle?"""
        return not self._removed

    def stretch(self, limit: int, before: tuple[int, int] | None) -> list[Record]:
        """Take up to `limit` records that come before a (key, order). Only for a whole run."""
        begin, end = self._at, min(self._at + limit, len(self._ids))
        if before is not None:
            key, order = before
            keys = self._keys[begin:end]
            equal = begin + int(np.searchsorted(keys, key, "left"))
            end = begin + int(np.searchsorted(keys, key, "right"))
            end = equal + int(np.searchsorted(self._orders[equal:end], order))
        bounds = self._offsets[begin : end + 1].tolist()
        arena = self._arena
        payloads = [bytes(arena[first:last]) for first, last in pairwise(bounds)]
        self._at = end
        return list(map(Record, self._ids[begin:end].tolist(), self._keys[begin:end].tolist(), payloads))

    def _row(self) -> tuple[int, int, int, int, int]:
        place = self._at - self._block_begin
        if not 0 <= place < len(self._block):
            begin, end = self._at, min(self._at + self._block_size, len(self._ids))
            self._block_size = min(self._block_size * 8, _BLOCK)
            self._block = list(
                zip(
                    self._keys[begin:end].tolist(),
                    self._orders[begin:end].tolist(),
                    self._ids[begin:end].tolist(),
                    self._offsets[begin:end].tolist(),
                    self._offsets[begin + 1 : end + 1].tolist(),
                    strict=True,
                )
            )
            self._block_begin, place = begin, 0
        return self._block[place]

    def remove(self, id_: int) -> tuple[int, Record] | None:
        """Take a record out of the middle; returns its order and content, None when it is not here."""
        if self._by_id is None:
            self._by_id = np.argsort(self._ids)
        slot = int(np.searchsorted(self._ids, np.uint64(id_), sorter=self._by_id))
        if slot >= len(self._ids):
            return None
        place = int(self._by_id[slot])
        if self._ids[place] != id_ or place < self._at or place in self._removed:
            return None
        self._removed.add(place)
        payload = bytes(self._arena[self._offsets[place] : self._offsets[place + 1]])
        return int(self._orders[place]), Record(id_, int(self._keys[place]), payload)


Entry = tuple[int, int, int, bytes | Run]


class Waiting:
    """A queue in memory. Not thread-safe: its store holds a lock."""

    def __init__(self) -> None:
        # Key, order, id and payload of a record that was added alone; of a run the same of its next one, and the run.
        self._heap: list[Entry] = []
        # Of records added alone: ids that are removed and still in the heap, and all by id once one is asked for.
        self._gone: set[int] = set()
        self._by_id: dict[int, Entry] | None = None
        # Records that cannot be taken any more and are not removed yet: id to order and record.
        self._leaving: dict[int, tuple[int, Record]] = {}
        self._runs: list[Run] = []
        self._order = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count + len(self._leaving)

    @property
    def ready(self) -> int:
        """How many records can be taken."""
        return self._count

    def put(self, id_: int, key: int, payload: bytes) -> None:
        """Add a record behind all that have the same key."""
        entry = (key, self._order, id_, payload)
        heapq.heappush(self._heap, entry)
        if self._by_id is not None:
            self._by_id[id_] = entry
        self._order += 1
        self._count += 1

    def put_run(self, ids: Ids, keys: Ints, arena: bytes | bytearray, offsets: Ints) -> None:
        """Add many records, in the order of the columns among equal keys."""
        count = len(ids)
        if not count:
            return
        orders = np.arange(self._order, self._order + count, dtype=np.int64)
        self._order += count
        self._count += count
        if count > 1 and np.any(keys[1:] < keys[:-1]):
            by_key = np.argsort(keys, kind="stable")
            lengths = np.diff(offsets)[by_key]
            arena, offsets = _reordered(arena, offsets, by_key, lengths)
            ids, keys, orders = ids[by_key], keys[by_key], orders[by_key]
        run = Run(ids, keys, orders, arena, offsets)
        self._runs.append(run)
        self._push(run)

    def _push(self, run: Run) -> None:
        head = run.head()
        if head is None:
            self._runs.remove(run)
        else:
            heapq.heappush(self._heap, (*head, run))

    def pop(self) -> Record | None:
        """Take out the first record."""
        found = self.pop_many(1)
        return found[0] if found else None

    def pop_many(self, limit: int) -> list[Record]:
        """Take out up to `limit` records from the front."""
        result: list[Record] = []
        while len(result) < limit and (record := self.peek()) is not None:
            _, _, id_, run = heapq.heappop(self._heap)
            if isinstance(run, bytes):
                if self._by_id is not None:
                    del self._by_id[id_]
                result.append(record)
                continue
            if limit - len(result) >= _STRETCH_MIN and run.whole:
                result += run.stretch(limit - len(result), self._heap[0][:2] if self._heap else None)
            else:
                run.advance()
                result.append(record)
            self._push(run)
        self._count -= len(result)
        return result

    def peek(self) -> Record | None:
        """The first record."""
        while self._heap:
            key, order, id_, run = self._heap[0]
            if isinstance(run, bytes):
                if id_ not in self._gone:
                    return Record(id_, key, run)
                heapq.heappop(self._heap)
                self._gone.remove(id_)
            else:
                if run.head() == (key, order, id_):
                    return Record(id_, key, run.payload())
                heapq.heappop(self._heap)  # the head of the run was removed: its next record follows
                self._push(run)
        return None

    def leave(self, id_: int) -> Record | None:
        """Do not hand this record out any more. It stays until `remove`."""
        found = self._find(id_) if 0 <= id_ <= lay.ID_MAX else None
        if found is None:
            return None
        self._count -= 1
        self._leaving[id_] = found
        return found[1]

    def remove(self, id_: int) -> None:
        """Forget a record for which `leave` was called."""
        del self._leaving[id_]

    def _find(self, id_: int) -> tuple[int, Record] | None:
        """The order and the content of a record, which is no longer among those that can be taken."""
        if self._by_id is None:
            self._by_id = {entry[2]: entry for entry in self._heap if isinstance(entry[3], bytes)}
        alone = self._by_id.pop(id_, None)
        if alone is not None:
            key, order, _, payload = alone
            assert isinstance(payload, bytes)
            self._gone.add(id_)
            return order, Record(id_, key, payload)
        return next(filter(None, (run.remove(id_) for run in self._runs)), None)

    def __iter__(self) -> Iterator[Record]:
        """All records in dequeue order, also those that leave; does not change the queue."""
        copy = Waiting()
        copy._heap = [
            entry for entry in self._heap if isinstance(entry[3], bytes) and entry[2] not in self._gone
        ]
        copy._heap += ((key, order, id_, payload) for order, (id_, key, payload) in self._leaving.values())
        heapq.heapify(copy._heap)
        for run in self._runs:
            copy._runs.append(_copied(run))
            copy._push(copy._runs[-1])
        while (record := copy.pop()) is not None:
            yield record


def _copied(run: Run) -> Run:
    other = Run(run._ids, run._keys, run._orders, run._arena, run._offsets)
    other._at = run._at
    other._removed = set(run._removed)
    return other


def _reordered(
    arena: bytes | bytearray, offsets: Ints, order: Ints, lengths: Ints
) -> tuple[bytes | bytearray, Ints]:
    from flintlog.columns.gather import gather

    return gather([memoryview(arena)], np.zeros(len(order), np.int32), offsets[:-1][order], lengths)
