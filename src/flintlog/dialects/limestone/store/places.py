"""Where the newest record of each key stands, in key order: eight bytes for each. The records stay in their files.

The files are mapped. What is durable in them never changes: a rotation renames a file, a compaction removes it, and the
mapping holds its bytes. Where eight bytes for each key are too much for the memory they are in a scratch file that has
no name.
"""

from __future__ import annotations

import posixpath
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from flintlog.columns.compile import kernel, le32, le64
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone import scan
from flintlog.dialects.limestone.layout import Entry
from flintlog.dialects.limestone.replay import Live, State
from flintlog.dialects.limestone.scan import Words
from flintlog.disk import Disk

T = TypeVar("T")
Place = tuple[int, bytes]  # a key in the order of keys: that of its storage, and its bytes

PLACES_SCRATCH = "sorting/places"
_NUMBER_BYTES = 8
_SHARE = 4  # of the memory, the numbers take one part of so many
_PIECE = 1 << 16  # entries that are looked at together
_SAMPLES_MAX = 1 << 15
_SAMPLE_STEP_MIN = 16  # records
_SAMPLE_BYTES = 1 << 10  # of a key
_KEY_LENGTH_AT, _VALUE_LENGTH_AT, _KEY_AT = lay.KEY_LENGTH_AT, lay.VALUE_LENGTH_AT, lay.PUT_HEADER.size
_STORAGE_AT = _KEY_AT - 8
_PUT, _PUT_SIZE = lay.PUT, lay.PUT_SIZE
_unpack_head = lay.PUT_HEADER.unpack_from
_COUNT_SIZE, _BLOB_SIZE = lay.BLOB_COUNT.size, lay.BLOB_SIZE


class Places:
    """Records in key order, in files that are laid end to end: the first byte of them is number 0."""

    def __init__(
        self, names: list[str], views: list[memoryview], numbers: memoryview, order: Callable[[int], int]
    ) -> None:
        self.names = names
        self.views = views
        self.starts = starts_of(views)
        self.order = order
        self._numbers = numbers
        self._samples: list[Place] | None = None
        self._step = max(len(numbers) // _SAMPLES_MAX, _SAMPLE_STEP_MIN)

    def __len__(self) -> int:
        return len(self._numbers)

    def record(self, at: int) -> tuple[int, int]:
        """The file of a record, and where it begins there."""
        number = self._numbers[at]
        which = bisect_right(self.starts, number) - 1
        return which, number - self.starts[which]

    def entry(self, at: int) -> Entry:
        which, offset = self.record(at)
        return lay.decode(self.views[which], offset)[0]

    def value(self, at: int) -> bytes:
        which, offset = self.record(at)
        view = self.views[which]
        _, key_length, value_length, _ = _unpack_head(view, offset)
        begin = offset + lay.PUT_SIZE + key_length
        return bytes(view[begin : begin + value_length])

    def key(self, at: int) -> Place:
        number = self._numbers[at]
        which = bisect_right(self.starts, number) - 1
        view, offset = self.views[which], number - self.starts[which]
        _, length, _, storage = _unpack_head(view, offset)
        begin = offset + _KEY_AT
        return self.order(storage), bytes(view[begin : begin + length])

    def place(self, storage: int, key: bytes) -> Place:
        """A key in the order of keys."""
        return self.order(lay.check_number("storage", storage)), key

    def find(self, wanted: Place) -> int | None:
        """Which record is that of a key."""
        low, high = self._around(wanted)
        while low < high:
            middle = (low + high) // 2
            here = self.key(middle)
            if here == wanted:
                return middle
            if here < wanted:
                low = middle + 1
            else:
                high = middle
        return None

    def first(self, wanted: Place) -> int:
        """The first record that is not before a key; their number when all are."""
        low, high = self._around(wanted)
        while low < high:
            middle = (low + high) // 2
            if self.key(middle) < wanted:
                low = middle + 1
            else:
                high = middle
        return low

    def _around(self, wanted: Place) -> tuple[int, int]:
        """Between which records a key belongs."""
        samples = self._samples = self._samples or self._sample()
        beginning = wanted[0], wanted[1][:_SAMPLE_BYTES]
        left = right = bisect_left(samples, beginning)
        if right < len(samples) and samples[right] == beginning:
            right = bisect_right(samples, beginning, right)
        return max(left - 1, 0) * self._step, min(right * self._step, len(self))

    def _sample(self) -> list[Place]:
        """The beginnings of some keys, so that a search reads few records."""
        keys = map(self.key, range(0, len(self), self._step))
        return [(place, key[:_SAMPLE_BYTES]) for place, key in keys]

    def mapped(self, function: Callable[[Live], T]) -> Iterator[T]:
        """What a function makes of each batch of records, in key order."""
        return (function(self._live(at, at + _PIECE)) for at in range(0, len(self), _PIECE))

    def _live(self, begin: int, end: int) -> Live:
        """Some records as columns."""
        number = np.asarray(self._numbers[begin:end])
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


def starts_of(views: Sequence[memoryview]) -> list[int]:
    """The numbers of the first bytes of files."""
    starts = [0]
    for view in views:
        starts.append(starts[-1] + len(view))
    return starts[:-1]


def places_of(disk: Disk, path: str, state: State, order: Callable[[int], int], memory_bytes: int) -> Places:
    """Where the entries of a state stand."""
    numbers = kept(disk, path, state.mapped(state.numbers), state.entries, memory_bytes)
    return Places(state.names, state.views, numbers, order)


def places_in(
    disk: Disk, path: str, names: list[str], order: Callable[[int], int], memory_bytes: int
) -> Places:
    """Where the entries of sorted files stand, each of which goes on where the one before it ends."""
    views = []
    for name in names:
        with disk.open(posixpath.join(path, name)) as file:
            views.append(file.view())
    walks = [scan.walk(view).snippets for view in views]

    def numbers() -> Iterator[Words]:
        for view, start, snippets in zip(views, starts_of(views), walks, strict=True):
            for entries in scan.read_entries(view, snippets):
                yield (entries.offset + start).astype(np.uint64)

    count = sum(int(snippets.entries.sum()) for snippets in walks)
    return Places(names, views, kept(disk, path, numbers(), count, memory_bytes), order)


def kept(disk: Disk, path: str, numbers: Iterator[Words], most: int, memory_bytes: int) -> memoryview:
    """Numbers back to back, in memory or in a file that has no name: a mapping holds it. `most` bounds how many."""
    if most * _NUMBER_BYTES <= memory_bytes // _SHARE:
        return memoryview(b"".join(some.tobytes() for some in numbers)).cast("Q")
    place = posixpath.join(path, PLACES_SCRATCH)
    disk.make_passing_directory(posixpath.dirname(place))
    with disk.create_scratch(place) as file:
        at = 0
        for some in numbers:
            file.pwrite(some.tobytes(), at)
            at += some.nbytes
        view = file.view()
        disk.unlink(place)
    return view.cast("Q")
