"""Columns to the bytes of many records at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flintlog.columns.compile import kernel
from flintlog.columns.gather import offsets_of
from flintlog.dialects.mpy6a import layout as lay
from flintlog.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

Ints = NDArray[np.int64]
Ids = NDArray[np.uint64]


class Payloads:
    """Many byte strings in one buffer."""

    def __init__(self, buffer: memoryview, start: Ints, length: Ints) -> None:
        self.buffer = buffer
        self.start = start
        self.length = length

    def __len__(self) -> int:
        return len(self.start)

    def split(self, size_max: int) -> Iterator[Payloads]:
        """Pieces whose records are about so long, in order."""
        size = np.cumsum(sizes(np.zeros(len(self), np.uint64), self.length))
        begin = 0
        while begin < len(self):
            done = int(size[begin - 1]) if begin else 0
            end = max(int(np.searchsorted(size, done + size_max, side="right")), begin + 1)
            yield Payloads(self.buffer, self.start[begin:end], self.length[begin:end])
            begin = end

    @staticmethod
    def of(data: Sequence[bytes] | pa.Array | pa.ChunkedArray) -> Payloads:
        """From a list of byte strings, or from an Arrow column of them without copying it."""
        if not isinstance(data, Sequence):
            return _of_arrow(data)
        length = np.fromiter(map(len, data), np.int64, len(data))
        return Payloads(memoryview(b"".join(data)), offsets_of(length)[:-1], length)


def _of_arrow(data: Any) -> Payloads:
    import pyarrow as pa

    array = data.combine_chunks() if isinstance(data, pa.ChunkedArray) else data
    if not isinstance(array, pa.BinaryArray | pa.StringArray | pa.LargeBinaryArray | pa.LargeStringArray):
        raise UsageError(f"sessions are byte strings, not {getattr(array, 'type', type(array).__name__)}")
    if array.null_count:
        raise UsageError("a session's data cannot be null", advice="Use an empty byte string")
    large = isinstance(array, pa.LargeBinaryArray | pa.LargeStringArray)
    _, raw, values = array.buffers()
    offsets = np.frombuffer(raw, np.int64 if large else np.int32)[
        array.offset : array.offset + len(array) + 1
    ]
    start = offsets[:-1].astype(np.int64)
    return Payloads(memoryview(values or b""), start, np.diff(offsets).astype(np.int64))


def sizes(attempts: Ids, length: Ints) -> Ints:
    """How long each record is."""
    return lay.RECORD_HEADER_SIZE + _uvarint_size(attempts) + _uvarint_size(length.astype(np.uint64)) + length


def _uvarint_size(values: Ids) -> Ints:
    size = np.ones(len(values), np.int64)
    rest = values >> np.uint64(7)
    while rest.any():
        size += rest > 0
        rest >>= np.uint64(7)
    return size


def encode(
    replay_time: int, term: Ids, index: Ids, topic: NDArray[np.int32], attempts: Ids, data: Payloads
) -> bytearray:
    """Records that are all due at the same time, back to back."""
    ends = offsets_of(sizes(attempts, data.length))
    out = bytearray(int(ends[-1]))
    _encode.run(
        len(out),
        np.frombuffer(out, np.uint8),
        ends,
        replay_time,
        term,
        index,
        topic,
        attempts,
        np.frombuffer(data.buffer, np.uint8) if len(data.buffer) else np.empty(0, np.uint8),
        data.start,
        data.length,
    )
    return out


def encode_new(replay_time: int, first: lay.StateID, topic: int, data: Payloads) -> bytearray:
    """Records of sessions that never waited before, with ids that follow each other."""
    count = len(data)
    return encode(
        replay_time,
        np.full(count, first.term, np.uint64),
        np.arange(count, dtype=np.uint64) + np.uint64(first.index),
        np.full(count, topic, np.int32),
        np.zeros(count, np.uint64),
        data,
    )


@kernel
def _encode(
    out: Any,
    ends: Any,
    replay_time: int,
    term: Any,
    index: Any,
    topic: Any,
    attempts: Any,
    buffer: Any,
    start: Any,
    length: Any,
) -> None:
    low = np.uint64(0xFF)
    for row in range(len(term)):
        at = ends[row]
        time, first, second = np.uint64(replay_time), np.uint64(term[row]), np.uint64(index[row])
        number = np.uint64(np.int64(topic[row]) & 0xFFFFFFFF)
        for place in range(8):
            shift = np.uint64(8 * place)
            out[at + place] = (time >> shift) & low
            out[at + 8 + place] = (first >> shift) & low
            out[at + 16 + place] = (second >> shift) & low
            if place < 4:
                out[at + 24 + place] = (number >> shift) & low
        at += 28
        size = length[row]
        for which in range(2):
            value = np.uint64(attempts[row]) if which == 0 else np.uint64(size)
            while value >= np.uint64(0x80):
                out[at] = (value & np.uint64(0x7F)) | np.uint64(0x80)
                value >>= np.uint64(7)
                at += 1
            out[at] = value
            at += 1
        out[at : at + size] = buffer[start[row] : start[row] + size]
