"""Columns to Arrow: the entries view and the state view."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from flintlog.columns.gather import binary_column
from flintlog.columns.strings import repeated, words
from flintlog.core.dialect import EntryQuery
from flintlog.core.entries import entry_columns, entry_schema
from flintlog.dialects.zmqraft import layout as lay
from flintlog.dialects.zmqraft import scan
from flintlog.dialects.zmqraft.scan import Entries
from flintlog.errors import UsageError

BATCH_ENTRIES = 1 << 16
WORDS = [lay.TYPES.get(number, str(number)) for number in range(256)]
OPERATION_WORDS = tuple(WORDS)

OWN_FIELDS = pa.struct(
    [
        pa.field("index", pa.int64()),
        pa.field("type", pa.int64()),
        pa.field("request_id", pa.binary()),
    ]
)
ENTRY_SCHEMA = entry_schema("zmqraft", OWN_FIELDS)

STATE_SCHEMA = pa.schema(
    [
        pa.field("index", pa.int64(), nullable=False),
        pa.field("term", pa.int64(), nullable=False),
        pa.field("type", pa.string(), nullable=False),
        pa.field("request_id", pa.binary(), nullable=False),
        pa.field("data", pa.binary(), nullable=False),
    ]
)


def entry_batch(view: memoryview, entries: Entries, file: str, query: EntryQuery) -> pa.RecordBatch:
    """Some entries of one index file in the common schema."""
    count = len(entries)

    def key() -> pa.Array:
        request_ids = scan.request_ids(view, entries)
        return _request_column(request_ids, request_ids != np.void(lay.NO_REQUEST))

    def own() -> pa.Array:
        request_ids = _request_column(scan.request_ids(view, entries))
        return pa.StructArray.from_arrays(
            [pa.array(entries.index), pa.array(entries.type.astype(np.int64)), request_ids],
            fields=list(OWN_FIELDS),
        )

    return entry_columns(
        ENTRY_SCHEMA,
        query,
        {
            "dialect": lambda: repeated("zmqraft", count),
            "file": lambda: repeated(file, count),
            "offset": lambda: pa.array(entries.offset),
            "length": lambda: pa.array(entries.length),
            "term": lambda: pa.array(entries.term),
            "position": lambda: pa.array(entries.index),
            "operation": lambda: _word_column(entries),
            "stream": lambda: pa.nulls(count, pa.string()),
            "key": key,
            "payload": lambda: _data_column(view, entries),
            "zmqraft": own,
        },
    )


def state_batch(view: memoryview, entries: Entries) -> pa.RecordBatch:
    """Some entries of the live range in the order of the contract."""
    return pa.RecordBatch.from_arrays(
        [
            pa.array(entries.index),
            pa.array(entries.term),
            _word_column(entries),
            _request_column(scan.request_ids(view, entries)),
            _data_column(view, entries),
        ],
        schema=STATE_SCHEMA,
    )


def _word_column(entries: Entries) -> pa.Array:
    return words(WORDS, entries.type)


def _request_column(ids: NDArray[np.void], valid: NDArray[np.bool_] | None = None) -> pa.Array:
    """A column of ids, which are back to back already; null where `valid` is False."""
    ends = np.arange(0, lay.REQUEST_ID_SIZE * (len(ids) + 1), lay.REQUEST_ID_SIZE, dtype=np.int32)
    bits = None if valid is None else pa.array(valid).buffers()[1]
    buffers = [bits, pa.py_buffer(ends), pa.py_buffer(ids.view(np.uint8))]
    return pa.Array.from_buffers(pa.binary(), len(ids), buffers)


def _data_column(view: memoryview, entries: Entries) -> pa.Array:
    head = lay.ENTRY_HEADER_SIZE * entries.has_head
    return binary_column(view, entries.offset + head, entries.length - head)


def wanted(view: memoryview, entries: Entries, query: EntryQuery) -> NDArray[np.bool_]:
    """Which entries a query asks for."""
    keep = np.ones(len(entries), bool)
    if query.first is not None:
        keep &= entries.index >= query.first[0]
    if query.last is not None:
        keep &= entries.index <= query.last[0]
    if query.operations is not None:
        keep &= np.array([word in query.operations for word in WORDS])[entries.type]
    if query.streams is not None:
        keep[:] = False  # a peer has one log and no streams in it
    if query.key is not None:
        keep &= scan.request_ids(view, entries) == np.void(_request_id(query.key))
    return keep


def _request_id(text: str) -> bytes:
    try:
        request_id = bytes.fromhex(text)
    except ValueError:
        request_id = b""
    if len(request_id) != lay.REQUEST_ID_SIZE:
        raise UsageError(
            f"{text!r} is not a request id",
            advice=f"The key of an entry is {lay.REQUEST_ID_SIZE} bytes in hex",
        )
    return request_id
