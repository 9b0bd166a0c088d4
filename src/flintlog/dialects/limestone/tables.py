"""Columns to Arrow: the entries view and the state view.

Storage ids, write versions and blob numbers are unsigned 64-bit numbers and use their highest bit. Here they are
decimals of 20 digits, because Spark has no unsigned numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from flintlog.columns.compile import kernel, le32
from flintlog.columns.gather import binary_column, gather, offsets_of
from flintlog.columns.numbers import NUMBER, number_column
from flintlog.columns.strings import repeated, words
from flintlog.columns.table import slices
from flintlog.core.dialect import EntryQuery
from flintlog.core.entries import entry_columns, entry_schema
from flintlog.core.position import one_number
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone.replay import Live
from flintlog.dialects.limestone.scan import Entries, Ints, Snippets, Words
from flintlog.errors import UnsupportedError

BATCH_ENTRIES = 1 << 16
BATCH_BYTES = 64 << 20
VALUE_SIZE_MAX = 2**31 - 1  # of one value in an Arrow column
_KEY_LENGTH_AT, _VALUE_LENGTH_AT = lay.KEY_LENGTH_AT, lay.VALUE_LENGTH_AT
_PUT_BLOBS, _PUT_SIZE = lay.PUT_BLOBS, lay.PUT_SIZE

NUMBERS = pa.list_(NUMBER)
WORDS = [lay.OPERATIONS.get(number, "") for number in range(256)]
OPERATION_WORDS = tuple(lay.OPERATIONS.values())

DURABLE, PENDING, INVALIDATED, COMPACTED = "durable", "pending", "invalidated", "compacted"

OWN_FIELDS = pa.struct(
    [
        pa.field("status", pa.string()),
        pa.field("snippet", pa.int64()),
        pa.field("storage_id", NUMBER),
        pa.field("write_version", NUMBERS),
        pa.field("blob_ids", NUMBERS),
        pa.field("epoch", NUMBER),
    ]
)
ENTRY_SCHEMA = entry_schema("limestone", OWN_FIELDS)

STATE_SCHEMA = pa.schema(
    [
        pa.field("storage_id", NUMBER, nullable=False),
        pa.field("key", pa.binary(), nullable=False),
        pa.field("value", pa.binary(), nullable=False),
        pa.field("write_version", NUMBERS, nullable=False),
        pa.field("blob_ids", NUMBERS, nullable=False),
    ]
)


def version_column(major: Words, minor: Words) -> pa.Array:
    """[major, minor] for each entry."""
    parts = number_column(np.stack([major, minor], axis=1).ravel() if len(major) else major)
    return pa.ListArray.from_arrays(np.arange(0, 2 * len(major) + 1, 2, dtype=np.int32), parts)


def _blob_column(views: Sequence[memoryview], file: NDArray[np.int32], end: Ints, count: Ints) -> pa.Array:
    """The blob numbers of each entry, which are the last bytes of its record."""
    some = np.flatnonzero(count)
    raw, _ = gather(
        list(views), file[some], end[some] - lay.BLOB_SIZE * count[some], lay.BLOB_SIZE * count[some]
    )
    numbers = number_column(np.frombuffer(raw, "<u8").astype(np.uint64))
    return pa.ListArray.from_arrays(offsets_of(count).astype(np.int32), numbers)


# --- entries -----------------------------------------------------------------------------------------------------


def entry_batches(
    view: memoryview,
    entries: Entries,
    snippets: Snippets,
    statuses: NDArray[np.int32],
    file: str,
    query: EntryQuery,
) -> Iterator[pa.RecordBatch]:
    """Some entries of one file in the common schema; `statuses` says how each snippet counts."""
    for piece in pieces(entries.key_length + (entries.value_length if query.payload else 0), file):
        some = entries[piece]
        yield _entry_batch(view, some, snippets, statuses, file, query)


STATUSES = [DURABLE, PENDING, INVALIDATED, COMPACTED]


def statuses_of(snippets: Snippets, durable: int, *, base: bool) -> NDArray[np.int32]:
    """How each snippet counts, as an index into `STATUSES`."""
    if base:
        return np.full(len(snippets), STATUSES.index(COMPACTED), np.int32)
    found = np.where(snippets.epoch > np.uint64(durable), STATUSES.index(PENDING), STATUSES.index(DURABLE))
    return np.where(snippets.kind == lay.INVALIDATED, STATUSES.index(INVALIDATED), found).astype(np.int32)


def _entry_batch(
    view: memoryview,
    entries: Entries,
    snippets: Snippets,
    statuses: NDArray[np.int32],
    file: str,
    query: EntryQuery,
) -> pa.RecordBatch:
    count = len(entries)
    of_keys = (entries.type == lay.PUT) | (entries.type == lay.REMOVE) | (entries.type == lay.PUT_BLOBS)
    puts = (entries.type == lay.PUT) | (entries.type == lay.PUT_BLOBS)

    def own() -> pa.Array:
        blobs = entries.blob_count
        return pa.StructArray.from_arrays(
            [
                words(STATUSES, statuses[entries.snippet]),
                pa.array(snippets.offset[entries.snippet]),
                number_column(entries.storage),
                version_column(entries.major, entries.minor),
                _blob_column([view], np.zeros(count, np.int32), entries.offset + entries.length, blobs),
                number_column(snippets.epoch[entries.snippet]),
            ],
            fields=list(OWN_FIELDS),
        )

    return entry_columns(
        ENTRY_SCHEMA,
        query,
        {
            "dialect": lambda: repeated("limestone", count),
            "file": lambda: repeated(file, count),
            "offset": lambda: pa.array(entries.offset),
            "length": lambda: pa.array(entries.length),
            "term": lambda: pa.nulls(count, pa.int64()),
            "position": lambda: pa.array(snippets.positions()[entries.snippet]),
            "operation": lambda: words(WORDS, entries.type),
            "stream": lambda: _storage_column(entries.storage),
            "key": lambda: binary_column(view, entries.key, entries.key_length, of_keys),
            "payload": lambda: binary_column(view, entries.value, entries.value_length, puts),
            "limestone": own,
        },
    )


def _storage_column(storage: Words) -> pa.Array:
    if len(storage) and (storage == storage[0]).all():
        return repeated(str(int(storage[0])), len(storage))
    return pa.array(storage).cast(pa.string())


def wanted(view: memoryview, entries: Entries, snippets: Snippets, query: EntryQuery) -> NDArray[np.bool_]:
    """Which entries a query asks for."""
    keep = np.ones(len(entries), bool)
    epoch = snippets.positions()[entries.snippet]
    if query.first is not None:
        keep &= epoch >= _epoch(query.first)
    if query.last is not None:
        keep &= epoch <= _epoch(query.last)
    if query.operations is not None:
        keep &= np.array([word in query.operations for word in WORDS])[entries.type]
    if query.streams is not None:
        named = [int(name) for name in query.streams if name.isascii() and name.isdecimal()]
        known = [number for number in named if number <= lay.NUMBER_MAX]
        keep &= np.isin(entries.storage, np.array(known, np.uint64))
    if query.key is not None:
        keep &= np.logical_or.reduce([_has_key(view, entries, key) for key in keys_of(query.key)])
    return keep


def _epoch(position: tuple[int, ...]) -> int:
    return min(max(one_number(position, "limestone", "epoch"), -1), 2**63 - 1)


def keys_of(text: str) -> list[bytes]:
    """The keys that the user may mean: text, with or without the quotes of the output, or bytes in hex.

    Text that can be read in several ways gives a key for each.
    """
    found = [text.encode("utf-8", "surrogateescape")]
    if len(text) > 1 and text[0] == text[-1] == '"':
        found.append(text[1:-1].encode("utf-8", "surrogateescape"))
    with suppress(ValueError):
        found.append(bytes.fromhex(text))
    return found


def _has_key(view: memoryview, entries: Entries, key: bytes) -> NDArray[np.bool_]:
    prefix = int.from_bytes(key[:8].ljust(8, b"\0"), "big")
    keep: NDArray[np.bool_] = (entries.prefix == np.uint64(prefix)) & (entries.key_length == len(key))
    keep &= (entries.type == lay.PUT) | (entries.type == lay.REMOVE) | (entries.type == lay.PUT_BLOBS)
    if len(key) > 8:
        for at in np.flatnonzero(keep).tolist():
            begin = int(entries.key[at])
            keep[at] = view[begin : begin + len(key)] == key
    return keep


# --- state -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fields:
    """Where the parts of live records stand in their files."""

    key: Ints
    key_length: Ints
    value_length: Ints
    blob_count: Ints

    @property
    def value(self) -> Ints:
        return self.key + self.key_length + lay.VERSION_SIZE

    @property
    def end(self) -> Ints:
        behind = np.where(self.blob_count > 0, lay.BLOB_COUNT.size + lay.BLOB_SIZE * self.blob_count, 0)
        return self.value + self.value_length + behind


@kernel
def _read_fields(buffer: Any, offset: Any, keys: Any, values: Any, blobs: Any) -> None:
    for index in range(len(offset)):
        at = offset[index]
        keys[index] = le32(buffer, at + _KEY_LENGTH_AT)
        values[index] = le32(buffer, at + _VALUE_LENGTH_AT)
        blobs[index] = 0
        if int(buffer[at]) == _PUT_BLOBS:
            blobs[index] = le32(buffer, at + _PUT_SIZE + keys[index] + values[index])


def fields_of(views: Sequence[memoryview], live: Live) -> Fields:
    """The fields of live records, from their heads; live records are all puts."""
    columns = [np.empty(len(live), np.int64) for _ in range(3)]
    for which in np.unique(live.file):
        mine = np.flatnonzero(live.file == which)
        found = [np.empty(len(mine), np.int64) for _ in range(3)]
        _read_fields.run(64 * len(mine), views[which], live.offset[mine], *found)
        for column, values in zip(columns, found, strict=True):
            column[mine] = values
    return Fields(live.offset + lay.PUT_HEADER.size, *columns)


def zero_versions(data: bytearray | memoryview, start: Ints, key_length: Ints) -> None:
    """Put zeros in the place of the write versions of put records."""
    at = start + lay.PUT_HEADER.size + key_length
    np.frombuffer(data, np.uint8)[(at[:, None] + np.arange(lay.VERSION_SIZE)).ravel()] = 0


def state_batches(views: Sequence[memoryview], names: Sequence[str], live: Live) -> Iterator[pa.RecordBatch]:
    """Live entries in the order of the contract."""
    fields = fields_of(views, live)
    name = names[int(live.file[0])] if len(live) else ""
    for piece in pieces(fields.key_length + fields.value_length, name):
        file = live.file[piece]

        def bytes_of(
            start: Ints, length: Ints, piece: slice = piece, file: NDArray[np.int32] = file
        ) -> pa.Array:
            data, offsets = gather(list(views), file, start[piece], length[piece])
            buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
            return pa.Array.from_buffers(pa.binary(), len(file), buffers)

        yield pa.RecordBatch.from_arrays(
            [
                number_column(live.storage[piece]),
                bytes_of(fields.key, fields.key_length),
                bytes_of(fields.value, fields.value_length),
                version_column(live.major[piece], live.minor[piece]),
                _blob_column(views, file, fields.end[piece], fields.blob_count[piece]),
            ],
            schema=STATE_SCHEMA,
        )


def pieces(size: Ints, file: str) -> Iterator[slice]:
    """Slices of rows whose bytes fit in a batch."""
    if len(size) and int(size.max()) > VALUE_SIZE_MAX:
        raise UnsupportedError(f"a value of {int(size.max())} bytes does not fit in a column", file=file)
    yield from slices(size, BATCH_BYTES, BATCH_ENTRIES)
