"""Columns to Arrow: the entries view and the state view."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from flintlog.columns.gather import binary_column
from flintlog.columns.numbers import NUMBER, number_column
from flintlog.columns.strings import repeated, words
from flintlog.core.dialect import EntryQuery
from flintlog.core.entries import entry_columns, entry_schema
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
    is_add = operation == _A

    def queue() -> pa.Array:
        return queue_column(view, records, layout)

    def key() -> pa.Array:
        at = _name_at(records, layout) + records.name_length.astype(np.int64)
        return binary_column(view, at, np.full(count, 8, np.int64), is_add)

    def own() -> pa.Array:
        return pa.StructArray.from_arrays(
            [
                pa.array(lsn),
                pa.array(records.checksum.astype(np.int64)),
                queue(),
                pa.array(records.number, mask=~is_add),
                number_column(records.number.view(np.uint64), operation == _R),
            ],
            fields=list(OWN_FIELDS),
        )

    length = layout.record_header_size + records.length + (-records.length % layout.alignment)
    return entry_columns(
        ENTRY_SCHEMA,
        query,
        {
            "dialect": lambda: repeated("taskflux", count),
            "file": lambda: repeated(file, count),
            "offset": lambda: pa.array(records.offset),
            "length": lambda: pa.array(length),
            "term": lambda: pa.array(records.term),
            "position": lambda: pa.array(lsn),
            "operation": lambda: words(WORDS, _WORD_OF[operation]),
            "stream": queue,
            "key": key,
            "payload": lambda: binary_column(view, records.payload, records.payload_length, is_add),
            "taskflux": own,
        },
    )


def queue_column(view: memoryview, records: Records, layout: Layout) -> pa.Array:
    """The queue name of each record."""
    named = records.operation > 0
    length = np.where(named, records.name_length, 0).astype(np.int64)
    return binary_column(view, _name_at(records, layout), length, named).cast(pa.string())


def _name_at(records: Records, layout: Layout) -> NDArray[np.int64]:
    return records.offset + (layout.record_header_size + 2)


WORDS = [*OPERATIONS.values(), "unreadable"]
OPERATION_WORDS = tuple(WORDS)
_WORD_OF = np.full(256, len(WORDS) - 1, np.int32)
for _at, _byte in enumerate(OPERATIONS):
    _WORD_OF[_byte] = _at


def wanted(
    view: memoryview, records: Records, lsn: np.ndarray, layout: Layout, query: EntryQuery
) -> np.ndarray:
    """Which records a query asks for."""
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
    if query.streams is not None:
        named = pa.array(sorted(query.streams), pa.string())
        keep &= pc.is_in(queue_column(view, records, layout), named).to_numpy(zero_copy_only=False)
    return keep


def _keys(text: str) -> np.ndarray:
    """The keys that the user may mean: a number, its eight bytes in hex as the output shows them, or both."""
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
