"""The state at opening, to scan and to look keys up in.

It reads the records where they stand. `data/snapshot` is the same state as a sorted file. That is written when it is
asked for, and by a compaction: from then on the snapshot reads it, so that the logs that go leave no bytes behind.
Recovery never needs it.
"""

from __future__ import annotations

import posixpath
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np

from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone.layout import Entry
from flintlog.dialects.limestone.replay import State
from flintlog.dialects.limestone.scan import Words
from flintlog.dialects.limestone.store.places import Places, kept
from flintlog.dialects.limestone.store.sorted_file import Sorted, sorted_records
from flintlog.disk import Disk, FailStop

if TYPE_CHECKING:
    import pyarrow as pa


class Snapshot:
    """Keys and values as they were when the store was opened."""

    def __init__(
        self, disk: Disk, path: str, places: Places, epoch: int, memory_bytes: int, failstop: FailStop
    ) -> None:
        self._disk = disk
        self._failstop = failstop
        self._path = path
        self._places = places
        self._memory_bytes = memory_bytes
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self._read())

    def _read(self) -> Places:
        """The records, which stay after the store is closed, but not in a forked child."""
        self._failstop.check_process()
        return self._places

    def get(self, storage: int, key: bytes) -> bytes | None:
        """The value of a key; None when there is none."""
        places = self._read()
        at = places.find(places.place(storage, key))
        return None if at is None else places.value(at)

    def entry(self, storage: int, key: bytes) -> Entry | None:
        """The whole entry of a key, with version and blobs."""
        places = self._read()
        at = places.find(places.place(storage, key))
        return None if at is None else places.entry(at)

    def scan(
        self, storage: int | None = None, start: bytes = b"", stop: bytes | None = None
    ) -> Iterator[Entry]:
        """Entries in the order of their keys: all, or those of one storage from `start` on and below `stop`."""
        places = self._read()
        first = 0 if storage is None else places.first(places.place(storage, start))
        for entry in map(places.entry, range(first, len(places))):
            if storage is not None and (entry.storage != storage or (stop is not None and entry.key >= stop)):
                return
            yield entry

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All of it as Arrow batches: storage_id, key, value, write_version, blob_ids."""
        from flintlog.dialects.limestone.tables import state_batches

        places = self._read()
        for live in places.mapped(lambda live: live):
            yield from state_batches(places.views, places.names, live)

    def write(self) -> None:
        """Write `data/snapshot`, and read that from now on. Whether it outlives a crash does not matter."""
        self._failstop.check()
        with closing(_written(self._disk, self._path, self._places)) as written:
            numbers = kept(self._disk, self._path, written, len(self), self._memory_bytes)
        with self._disk.open(posixpath.join(self._path, lay.SNAPSHOT_FILE)) as file:
            self._places = Places([lay.SNAPSHOT_FILE], [file.view()], numbers, self._places.order)

    @property
    def is_written(self) -> bool:
        """Does it read `data/snapshot`?"""
        return self._places.names == [lay.SNAPSHOT_FILE]


def write_snapshot(disk: Disk, path: str, state: State) -> None:
    """Write `data/snapshot`. Whether it outlives a crash does not matter."""
    for _ in _written(disk, path, state):
        pass


def _written(disk: Disk, path: str, records: Sorted) -> Generator[Words]:
    """Write `data/snapshot` as it is asked for; gives where the records begin in it."""
    target = posixpath.join(path, lay.SNAPSHOT_FILE)
    disk.make_passing_directory(posixpath.dirname(target))
    with disk.create_scratch(target + ".new") as file:
        head = lay.encode_begin(0)
        file.pwrite(head, 0)
        at = len(head)
        for data, starts in sorted_records(records):
            file.pwrite(data, at)
            yield (starts[:-1] + at).astype(np.uint64)
            at += len(data)
        disk.rename(file.path, target)
