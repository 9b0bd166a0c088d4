"""Columns to Arrow: the entries view and the state view."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import pyarrow as pa

from flintlog.columns.gather import binary_column
from flintlog.columns.numbers import NUMBER, number_column
from flintlog.core.dialect import EntryQuery
from flintlog.core.entries import entry_schema
from flintlog.dialects.taskflux.layout import OPERATIONS, Layout
from flintlog.dialects.taskflux.scan import Records
from flintlog.dialects.taskflux.state import QueueState, State
from flintlog.errors import UsageError

BATCH_RECORDS = 1 << 16
_A, _R = b"AR"

OWN_FIELDS = pa.struct(
    [
        pa.field("lsn", pa.int64()),
        pa.field("checksum", pa.int64()),
        pa.field("queue", pa.string()),
        pa.field("key", pa.int64()),
        pa.field("id", NUMBER),
    ]
)
ENTRY_SCHEMA = entry_schema("taskflux", OWN_FIELDS)

STATE_SCHEMA = pa.schema(
    [
        pa.field("queue", pa.string(), nullable=False),
        pa.field("id", NUMBER, nullable=False),
        pa.field("key", pa.int64(), nullable=False),
        pa.field("payload", pa.binary(), nullable=False),
    ]
)


def entry_batch(
    view: memoryview, records: Records, lsn: np.ndarray, file: str, layout: Layout, query: EntryQuery
) -> pa.RecordBatch:
    """Some entries of one segment in the common schema."""
    count = len(records)
    operation = records.operation
    named = operation > 0
    data = records.offset + layout.record_header_size
    queue = binary_column(
        view, data + 2, np.where(named, records.name_length, 0).astype(np.int64), named
    ).cast(pa.string())
    is_add = operation == _A
    key_at = data + 2 + records.name_length
    own = pa.StructArray.from_arrays(
        [
            pa.array(lsn),
            pa.array(records.checksum.astype(np.int64)),
            queue,
            pa.array(records.number, mask=~is_add),
            number_column(records.number.view(np.uint64), operation == _R),
        ],
        fields=list(OWN_FIELDS),
    )
    payload = (
        binary_column(view, records.payload, records.payload_length, is_add)
        if query.payload
        else pa.nulls(count, pa.binary())
    )
    length = layout.record_header_size + records.length + (-records.length % layout.alignment)
    return pa.RecordBatch.from_arrays(
        [
            pa.repeat(pa.scalar("taskflux"), count),
            pa.repeat(pa.scalar(file), count),
            pa.array(records.offset),
            pa.array(length),
            pa.array(records.term),
            pa.array(lsn),
            _operation_column(operation),
            queue,
            binary_column(view, key_at, np.full(count, 8, np.int64), is_add),
            payload,
            own,
        ],
        schema=ENTRY_SCHEMA,
    )


WORDS = [*OPERATIONS.values(), "unreadable"]
OPERATION_WORDS = tuple(WORDS)
_WORD_OF = np.full(256, len(WORDS) - 1, np.int32)
for _at, _byte in enumerate(OPERATIONS):
    _WORD_OF[_byte] = _at


def _operation_column(operation: np.ndarray) -> pa.Array:
    return pa.array(WORDS).take(pa.array(_WORD_OF[operation]))


def wanted(records: Records, lsn: np.ndarray, query: EntryQuery) -> np.ndarray:
    """Which records a query asks for, by position and operation; streams are looked at in Arrow."""
    keep = np.ones(len(records), bool)
    if query.first is not None:
        keep &= lsn >= query.first[0]
    if query.last is not None:
        keep &= lsn <= query.last[0]
    if query.operations is not None:
        names = np.array([word in query.operations for word in WORDS])
        keep &= names[_WORD_OF[records.operation]]
    if query.key is not None:
        keep &= (records.operation == _A) & np.isin(records.number, _keys(query.key))
    return keep


def _keys(text: str) -> np.ndarray:
    """A key as a person types it: a number, or its eight bytes in hex as they are shown. What can be both is both."""
    found = []
    with suppress(ValueError, OverflowError):
        found.append(np.int64(int(text)))
    if len(text) == 2 * 8:
        with suppress(ValueError):
            found.append(np.int64(int.from_bytes(bytes.fromhex(text), "big", signed=True)))
    if not found:
        raise UsageError(
            f"{text!r} is not a key of a queue", advice="Keys are whole numbers of 64 bits"
        ) from None
    return np.array(found)


def state_batches(state: State) -> Iterator[pa.RecordBatch]:
    """Queues by name, records in dequeue order."""
    buffers = [*(source.buffer for source in state.sources), state.snapshot]
    for queue in state.queues:
        for begin in range(0, len(queue.records), BATCH_RECORDS):
            yield _state_batch(queue, begin, buffers)


def _state_batch(queue: QueueState, begin: int, buffers: list[memoryview]) -> pa.RecordBatch:
    records = queue.records[begin : begin + BATCH_RECORDS]
    parts = [(np.flatnonzero(records.source == which), buffers[which]) for which in np.unique(records.source)]
    if len(parts) == 1:
        payload = binary_column(parts[0][1], records.payload, records.payload_length)
    else:
        columns = [
            binary_column(buffer, records.payload[mine], records.payload_length[mine])
            for mine, buffer in parts
        ]
        back = np.argsort(np.concatenate([mine for mine, _ in parts]))
        payload = pa.concat_arrays(columns).take(pa.array(back))
    return pa.RecordBatch.from_arrays(
        [
            pa.repeat(pa.scalar(queue.spec.name), len(records)),
            number_column(records.id),
            pa.array(records.key),
            payload,
        ],
        schema=STATE_SCHEMA,
    )
