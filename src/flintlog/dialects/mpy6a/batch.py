"""Columns to the bytes of many records at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flintlog.columns.compile import kernel
from flintlog.columns.gather import offsets_of
from flintlog.columns.payloads import Payloads
from flintlog.columns.table import slices
from flintlog.dialects.mpy6a import layout as lay

Ints = NDArray[np.int64]
Ids = NDArray[np.uint64]


def split(payloads: Payloads, size_max: int) -> Iterator[Payloads]:
    """Slices of rows in order, each of at most `size_max` bytes of records; a larger record is alone."""
    for rows in slices(sizes(np.zeros(len(payloads), np.uint64), payloads.length), size_max):
        yield payloads[rows]


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
        data.array,
        data.start,
        data.length,
    )
    return out


def encode_new(replay_time: int, first: lay.StateID, topic: int, data: Payloads) -> bytearray:
    """Records of new sessions, with consecutive ids."""
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
