"""`data/snapshot`: the state at opening, sorted by storage and key, to scan and to look keys up in.

It is written anew whenever a store is opened and never needed for recovery. In memory there is one key of many, so that
a state larger than memory can be looked through.
"""

from __future__ import annotations

import posixpath
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from flintlog.columns.compile import helper, kernel, le32
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone import scan
from flintlog.dialects.limestone.layout import Entry
from flintlog.dialects.limestone.merge import by_bytes
from flintlog.dialects.limestone.replay import Live, State
from flintlog.dialects.limestone.scan import Ints
from flintlog.dialects.limestone.store.sorted_file import sorted_records
from flintlog.disk import Disk

if TYPE_CHECKING:
    import pyarrow as pa

_STEP = 64  # records between two keys of the index


class Snapshot:
    """Keys and values as they were when the store was opened. `index` has one key of many and where it stands."""

    def __init__(self, view: memoryview, epoch: int, order: Callable[[int], int], index: Index) -> None:
        self._view = view
        self._bytes = np.frombuffer(view, np.uint8)
        self._order = order
        self.epoch = epoch
        self._keys, self._places, self._count = index.keys, index.places, index.count

    def __len__(self) -> int:
        return self._count

    def get(self, storage: int, key: bytes) -> bytes | None:
        """The value of a key; None when there is none."""
        place, view = self._find(storage, key), self._view
        if place == len(view):
            return None
        _, key_length, value_length, other = lay.PUT_HEADER.unpack_from(view, place)
        begin = place + lay.PUT_HEADER.size
        if other != storage or view[begin : begin + key_length] != key:
            return None
        begin = place + lay.PUT_SIZE + key_length
        return bytes(view[begin : begin + value_length])

    def entry(self, storage: int, key: bytes) -> Entry | None:
        """The whole entry of a key, with version and blobs."""
        place = self._find(storage, key)
        if place == len(self._view):
            return None
        entry, _ = lay.decode(self._view, place)
        return entry if (entry.storage, entry.key) == (storage, key) else None

    def scan(
        self, storage: int | None = None, start: bytes = b"", stop: bytes | None = None
    ) -> Iterator[Entry]:
        """Entries in the order of their keys: all, or those of one storage from `start` on and below `stop`."""
        place = lay.MARKER_SIZE if storage is None else self._find(storage, start)
        while place < len(self._view):
            entry, place = lay.decode(self._view, place)
            if storage is not None and (entry.storage != storage or (stop is not None and entry.key >= stop)):
                return
            yield entry

    def _find(self, storage: int, key: bytes) -> int:
        """Where the first record stands that is not before this key; the end of the file when all are."""
        wanted = (self._order(lay.check_number("storage", storage)), key)
        at = max(bisect_right(self._keys, wanted) - 1, 0)
        if at >= len(self._places):
            return len(self._view)
        place = self._places[at]
        room = self._places[at + 1] - place if at + 1 < len(self._places) else len(self._view) - place
        return _find.run(room, self._bytes, place, wanted[0].to_bytes(8, "big"), key, self._order is by_bytes)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All of it as Arrow batches: storage_id, key, value, write_version, blob_ids."""
        from flintlog.dialects.limestone.tables import state_batches

        for entries in scan.read_entries(self._view, scan.walk(self._view).snippets):
            file = np.zeros(len(entries), np.int32)
            live = Live(
                file,
                entries.offset,
                entries.storage,
                entries.major,
                entries.minor,
                entries.key_length,
                entries.length,
            )
            yield from state_batches([self._view], [lay.SNAPSHOT_FILE], live)


def _stands_before(view: Any, place: int, length: int, storage: Any, key: Any, low_first: bool) -> bool:
    for at in range(8):
        here = view[place + 9 + (at if low_first else 7 - at)]
        if here != storage[at]:
            return bool(here < storage[at])
    for at in range(min(length, len(key))):
        here = view[place + 17 + at]
        if here != key[at]:
            return bool(here < key[at])
    return bool(length < len(key))


@helper(compiled=_stands_before)
def _is_before(view: Any, place: int, length: int, storage: bytes, key: bytes, low_first: bool) -> bool:
    """Does the key of a record come before this one? The bytes of its storage are given in the order of storages."""
    raw = bytes(view[place + 9 : place + 17])
    here = raw if low_first else raw[::-1]
    return here < storage or (here == storage and bytes(view[place + 17 : place + 17 + length]) < key)


@kernel
def _find(view: Any, place: int, storage: Any, key: Any, low_first: bool) -> int:
    """The first record from `place` on that is not before a key, or the end."""
    while place < len(view):
        length = le32(view, place + 1)
        if not _is_before(view, place, length, storage, key, low_first):
            return place
        size = 33 + length + le32(view, place + 5)
        place += size if view[place] == 1 else size + 4 + 8 * le32(view, place + size)
    return place


class Index:
    """One key of every so many, and where its record begins in the file."""

    def __init__(self, order: Callable[[int], int]) -> None:
        self._order = order
        self.keys: list[tuple[int, bytes]] = []
        self.places: list[int] = []
        self.count = 0

    def add(self, data: bytearray, starts: Ints, at: int) -> None:
        """Take in records that stand at `at` in the file; `starts` says where each begins in `data`."""
        for start in starts[-self.count % _STEP : -1 : _STEP].tolist():
            _, length, _, storage = lay.PUT_HEADER.unpack_from(data, start)
            key = start + lay.PUT_HEADER.size
            self.keys.append((self._order(storage), bytes(data[key : key + length])))
            self.places.append(at + start)
        self.count += len(starts) - 1


def write_snapshot(disk: Disk, path: str, state: State, order: Callable[[int], int]) -> Snapshot:
    """Write `data/snapshot` and open it. Whether it outlives a crash does not matter."""
    target = posixpath.join(path, lay.SNAPSHOT_FILE)
    disk.make_passing_directory(posixpath.dirname(target))
    index = Index(order)
    with disk.create_scratch(target + ".new") as file:
        head = lay.encode_begin(0)
        file.pwrite(head, 0)
        at = len(head)
        for data, starts in sorted_records(state):
            index.add(data, starts, at)
            file.pwrite(data, at)
            at += len(data)
        disk.rename(file.path, target)
    with disk.open(target) as file:
        return Snapshot(file.view(), state.epoch, order, index)
