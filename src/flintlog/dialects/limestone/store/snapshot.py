"""`data/snapshot`: the state at opening, sorted by storage and key, to scan and to look keys up in.

It is written anew whenever a store is opened and never needed for recovery. In memory there is one key of many, so that
a state larger than memory can be looked through.
"""

from __future__ import annotations

import posixpath
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone import scan
from flintlog.dialects.limestone.layout import Entry
from flintlog.dialects.limestone.replay import Live, State
from flintlog.dialects.limestone.scan import Ints
from flintlog.dialects.limestone.store.sorted_file import sorted_records
from flintlog.disk import Disk

if TYPE_CHECKING:
    import pyarrow as pa

_STEP = 256  # records between two keys of the index


class Snapshot:
    """Keys and values as they were when the store was opened. `index` has one key of many and where it stands."""

    def __init__(self, view: memoryview, epoch: int, order: Callable[[int], int], index: Index) -> None:
        self._view = view
        self._order = order
        self.epoch = epoch
        self._keys, self._places, self._count = index.keys, index.places, index.count

    def __len__(self) -> int:
        return self._count

    def get(self, storage: int, key: bytes) -> bytes | None:
        """The value of a key; None when there is none."""
        found = self.entry(storage, key)
        return None if found is None else found.value

    def entry(self, storage: int, key: bytes) -> Entry | None:
        """The whole entry of a key, with version and blobs."""
        for entry in self.scan(storage, key):
            return entry if (entry.storage, entry.key) == (storage, key) else None
        return None

    def scan(
        self, storage: int | None = None, start: bytes = b"", stop: bytes | None = None
    ) -> Iterator[Entry]:
        """Entries in the order of their keys: all, or those of one storage from `start` on and below `stop`."""
        wanted = None if storage is None else (self._order(lay.check_number("storage", storage)), start)
        at = 0 if wanted is None else bisect_right(self._keys, wanted) - 1
        place = self._places[max(at, 0)] if self._places else len(self._view)
        while place < len(self._view):
            entry, place = lay.decode(self._view, place)
            if wanted is None:
                yield entry
                continue
            here = (self._order(entry.storage), entry.key)
            if here[0] > wanted[0] or (stop is not None and here[0] == wanted[0] and entry.key >= stop):
                return
            if here >= wanted:
                yield entry

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
