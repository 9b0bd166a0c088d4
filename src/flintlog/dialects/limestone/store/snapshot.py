"""The state at opening, to scan and to look keys up in: where the newest record of each key stands, in key order.

The records stay in the logs and the compacted files, which are mapped. What is durable there never changes: a rotation
renames a file, a compaction removes it, and the mapping holds its bytes. In memory there are eight bytes for each key,
or, where those would be too many, in a scratch file that has no name.

`data/snapshot` is the same state as a sorted file. It is written when it is asked for, and by a compaction: from then
on the snapshot reads it, so that the logs that go leave no bytes behind. Recovery never needs it.
"""

from __future__ import annotations

import posixpath
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from flintlog.columns.compile import kernel, le32, le64
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone.layout import Entry
from flintlog.dialects.limestone.replay import Live, State
from flintlog.dialects.limestone.scan import Words
from flintlog.dialects.limestone.store.sorted_file import Sorted, sorted_records
from flintlog.disk import Disk

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

PLACES_SCRATCH = "sorting/places"
_PLACE_BYTES = 8
_SHARE = 4  # of the memory, places take one part of so many
_PIECE = 1 << 16  # entries that are looked at together
_KEPT_KEYS = 1 << 16  # that a search looks at first
_KEPT_KEY_BYTES = 1 << 10
_KEY_LENGTH_AT, _VALUE_LENGTH_AT, _KEY_AT = lay.KEY_LENGTH_AT, lay.VALUE_LENGTH_AT, lay.PUT_HEADER.size
_STORAGE_AT = _KEY_AT - 8
_PUT, _PUT_SIZE = lay.PUT, lay.PUT_SIZE
_COUNT_SIZE, _BLOB_SIZE = lay.BLOB_COUNT.size, lay.BLOB_SIZE


@dataclass(frozen=True, slots=True)
class Places:
    """Where records stand, in key order: in files that are laid end to end, the first byte of which is number 0."""

    names: Sequence[str]
    views: Sequence[memoryview]
    starts: Sequence[int]  # of the files
    numbers: memoryview  # of eight bytes each

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, at: int) -> tuple[memoryview, int]:
        """The file of a record, and where it begins there."""
        number = self.numbers[at]
        which = bisect_right(self.starts, number) - 1
        return self.views[which], number - self.starts[which]

    def live(self, begin: int, end: int) -> Live:
        """Some records as columns."""
        number = np.asarray(self.numbers[begin:end])
        starts = np.array(self.starts, np.uint64)
        file = (np.searchsorted(starts, number, "right") - 1).astype(np.int32)
        offset = (number - starts[file]).astype(np.int64)
        columns = [np.empty(len(number), kind) for kind in list(Live.types().values())[2:]]
        for which in np.unique(file).tolist():
            mine = np.flatnonzero(file == which)
            _read_heads.run(64 * len(mine), self.views[which], offset, mine, *columns)
        return Live(file, offset, *columns)


@kernel
def _read_heads(
    buffer: Any,
    offset: Any,
    which: Any,
    storage: Any,
    major: Any,
    minor: Any,
    key_length: Any,
    length: Any,
) -> None:
    for index in range(len(which)):
        row = which[index]
        at = offset[row]
        keys = le32(buffer, at + _KEY_LENGTH_AT)
        size = _PUT_SIZE + keys + le32(buffer, at + _VALUE_LENGTH_AT)
        if buffer[at] != _PUT:
            size += _COUNT_SIZE + _BLOB_SIZE * le32(buffer, at + size)
        storage[row] = le64(buffer, at + _STORAGE_AT)
        major[row] = le64(buffer, at + _KEY_AT + keys)
        minor[row] = le64(buffer, at + _KEY_AT + keys + 8)
        key_length[row] = keys
        length[row] = size


class Snapshot:
    """Keys and values as they were when the store was opened."""

    def __init__(
        self, disk: Disk, path: str, state: State, order: Callable[[int], int], memory_bytes: int
    ) -> None:
        self._disk = disk
        self._path = path
        self._order = order
        self._memory_bytes = memory_bytes
        self.epoch = state.epoch
        numbers = self._kept(state.mapped(state.numbers), state.entries)
        self._places = Places(state.names, state.views, state.starts, numbers)
        # What every search looks at first, so that it touches few pages.
        self._kept_keys: dict[int, tuple[int, bytes]] = {}
        self._kept_span = len(numbers) // _KEPT_KEYS

    def __len__(self) -> int:
        return len(self._places)

    def get(self, storage: int, key: bytes) -> bytes | None:
        """The value of a key; None when there is none."""
        found = self._record(storage, key)
        if found is None:
            return None
        view, at = found
        _, key_length, value_length, _ = lay.PUT_HEADER.unpack_from(view, at)
        begin = at + lay.PUT_SIZE + key_length
        return bytes(view[begin : begin + value_length])

    def entry(self, storage: int, key: bytes) -> Entry | None:
        """The whole entry of a key, with version and blobs."""
        found = self._record(storage, key)
        return None if found is None else lay.decode(*found)[0]

    def scan(
        self, storage: int | None = None, start: bytes = b"", stop: bytes | None = None
    ) -> Iterator[Entry]:
        """Entries in the order of their keys: all, or those of one storage from `start` on and below `stop`."""
        places = self._places
        for at in range(0 if storage is None else self._find(places, storage, start), len(places)):
            entry, _ = lay.decode(*places[at])
            if storage is not None and (entry.storage != storage or (stop is not None and entry.key >= stop)):
                return
            yield entry

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All of it as Arrow batches: storage_id, key, value, write_version, blob_ids."""
        from flintlog.dialects.limestone.tables import state_batches

        places = self._places
        for live in _lives(places):
            yield from state_batches(places.views, places.names, live)

    def write(self) -> None:
        """Write `data/snapshot`, and read that from now on. Whether it outlives a crash does not matter."""
        with closing(_written(self._disk, self._path, _SortedPlaces(self._places))) as numbers:
            kept = self._kept(numbers, len(self))
        with self._disk.open(posixpath.join(self._path, lay.SNAPSHOT_FILE)) as file:
            self._places = Places([lay.SNAPSHOT_FILE], [file.view()], [0], kept)

    @property
    def is_written(self) -> bool:
        """Does it read `data/snapshot`?"""
        return self._places.names == [lay.SNAPSHOT_FILE]

    def _kept(self, numbers: Iterator[Words], most: int) -> memoryview:
        """Numbers back to back, in memory or in a file that has no name: a mapping holds it. `most` bounds how many."""
        if most * _PLACE_BYTES <= self._memory_bytes // _SHARE:
            return memoryview(b"".join(some.tobytes() for some in numbers)).cast("Q")
        place = posixpath.join(self._path, PLACES_SCRATCH)
        self._disk.make_passing_directory(posixpath.dirname(place))
        with self._disk.create_scratch(place) as file:
            at = 0
            for some in numbers:
                file.pwrite(some.tobytes(), at)
                at += some.nbytes
            view = file.view()
            self._disk.unlink(place)
        return view.cast("Q")

    def _record(self, storage: int, key: bytes) -> tuple[memoryview, int] | None:
        """Where the record of a key stands."""
        places = self._places
        at = self._find(places, storage, key)
        if at == len(places) or self._key(places, at) != (self._order(storage), key):
            return None
        return places[at]

    def _find(self, places: Places, storage: int, key: bytes) -> int:
        """The first record that is not before this key; their number when all are."""
        wanted = (self._order(lay.check_number("storage", storage)), key)
        low, high = 0, len(places)
        while low < high:
            middle = (low + high) // 2
            here = self._kept_keys.get(middle)
            if here is None:
                here = self._key(places, middle)
                if high - low > self._kept_span and len(here[1]) <= _KEPT_KEY_BYTES:
                    self._kept_keys[middle] = here
            if here < wanted:
                low = middle + 1
            else:
                high = middle
        return low

    def _key(self, places: Places, at: int) -> tuple[int, bytes]:
        """A key, by its place in the order."""
        view, offset = places[at]
        _, length, _, storage = lay.PUT_HEADER.unpack_from(view, offset)
        begin = offset + lay.PUT_HEADER.size
        return self._order(storage), bytes(view[begin : begin + length])


class _SortedPlaces:
    """Records in key order, by where they stand."""

    def __init__(self, places: Places) -> None:
        self.views, self.names = list(places.views), list(places.names)
        self._places = places

    def mapped(self, function: Callable[[Live], T]) -> Iterator[T]:
        return map(function, _lives(self._places))


def _lives(places: Places) -> Iterator[Live]:
    return (places.live(at, at + _PIECE) for at in range(0, len(places), _PIECE))


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
