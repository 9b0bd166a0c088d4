"""A digest for each row of entries or states, so that rows can be compared without sending their payloads."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from flintlog.columns import ndjson
from flintlog.columns.checksums import checksums

_MIX = np.uint64(0x9E3779B97F4A7C15)


def of_column(column: pa.Array) -> NDArray[np.uint64]:
    """The checksum of each value; a null counts as no bytes."""
    offsets = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
    data = column.buffers()[2]
    starts, ends = offsets[:-1].astype(np.int64), offsets[1:].astype(np.int64)
    return checksums(memoryview(b"" if data is None else data), starts, ends).astype(np.uint64)


def digest(payload: pa.Array, *others: pa.Array) -> pa.Array:
    """64 bits for each row: the high half is the checksum of the payload, the low half one of all other columns."""
    rest = np.zeros(len(payload), np.uint64)
    for column in others:
        rest = (rest ^ of_column(column)) * _MIX
    low = rest >> np.uint64(32)
    return pa.array((of_column(payload) << np.uint64(32) | low).view(np.int64))


def text_of(own: pa.StructArray, *, without: tuple[str, ...] = ()) -> pa.Array:
    """The fields of a struct as text."""
    names = [field.name for field in own.type if field.name not in without]
    batch = pa.RecordBatch.from_arrays([pc.struct_field(own, name) for name in names], names)
    return ndjson.lines(batch)
