"""Columns to Arrow: the entries view and the state view.

State ids, session ids and attempts go up to 2^64 - 1, more than Spark's `bigint` can hold. The common columns `term`
and `position` hold at most 2^63 - 1; the dialect's own columns are exact decimals.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from flintlog.columns.gather import binary_column, gather
from flintlog.columns.numbers import NUMBER, number_column
from flintlog.columns.strings import repeated, words
from flintlog.columns.table import slices
from flintlog.core.dialect import EntryQuery
from flintlog.core.entries import Makers, entry_columns, entry_schema
from flintlog.core.position import Position
from flintlog.dialects.mpy6a import layout as lay
from flintlog.dialects.mpy6a import operations as ops
from flintlog.dialects.mpy6a import scan
from flintlog.dialects.mpy6a.event_columns import NONE, EventColumns
from flintlog.dialects.mpy6a.layout import Descriptor, StateID
from flintlog.dialects.mpy6a.scan import Events, Records
from flintlog.dialects.mpy6a.windows import Piece
from flintlog.errors import UsageError

BATCH_ROWS = 1 << 16
BATCH_BYTES = 64 << 20

SESSION, EXHAUSTED, DESCRIPTOR, UNREADABLE = "session", "exhausted", "descriptor", "unreadable"
OPERATIONS = {kind.code: kind.word for kind in ops.KINDS.values()}
OPERATION_WORDS = (SESSION, EXHAUSTED, DESCRIPTOR, UNREADABLE, *OPERATIONS.values())
_WORDS = [OPERATIONS.get(code, UNREADABLE) for code in range(max(OPERATIONS) + 1)]

OWN_FIELDS = pa.struct(
    [
        pa.field("term", NUMBER),
        pa.field("index", NUMBER),
        pa.field("replay_time", pa.int64()),
        pa.field("topic", pa.int32()),
        pa.field("attempts", NUMBER),
        pa.field("delay", pa.int64()),
        pa.field("name", pa.string()),
        pa.field("at", pa.int64()),
        pa.field("size", pa.int64()),
        pa.field("number", pa.int64()),
        pa.field("flags", pa.int32()),
    ]
)
ENTRY_SCHEMA = entry_schema("mpy6a", OWN_FIELDS)

STATE_SCHEMA = pa.schema(
    [
        pa.field("replay_time", pa.int64(), nullable=False),
        pa.field("delay", pa.int64(), nullable=False),
        pa.field("file", pa.string(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("id", pa.list_(NUMBER), nullable=False),
        pa.field("topic", pa.int32(), nullable=False),
        pa.field("attempts", NUMBER, nullable=False),
        pa.field("data", pa.binary(), nullable=False),
    ]
)

Ids = NDArray[np.uint64]
Mask = NDArray[np.bool_]
_BIGINT_MAX = (1 << 63) - 1


def _saturated(values: Ids) -> NDArray[np.int64]:
    return np.minimum(values, np.uint64(_BIGINT_MAX)).astype(np.int64)


def _column(values: NDArray[np.int64], kind: pa.DataType | None = None) -> pa.Array:
    """A column of these values, or of nulls when there are none."""
    return pa.array(values, kind or pa.int64(), mask=values == NONE)


# Entries


def record_batch(
    buffer: memoryview, records: Records, base: int, file: str, operation: str, query: EntryQuery
) -> pa.RecordBatch:
    """Some records of one file; their offsets count from `base`, where `buffer` begins."""
    count = len(records)
    delay = lay.parse_name(file)
    own = {
        "term": lambda: number_column(records.term),
        "index": lambda: number_column(records.index),
        "replay_time": lambda: pa.array(records.replay_time),
        "topic": lambda: pa.array(records.topic),
        "attempts": lambda: number_column(records.attempts),
        "delay": lambda: pa.repeat(pa.scalar(delay, pa.int64()), count),
        "size": lambda: pa.array(records.length),
    }
    return _entry_batch(
        file,
        records.offset + base,
        records.size,
        records.term,
        records.index,
        {
            "operation": lambda: repeated(operation, count),
            "stream": lambda: pa.array(records.topic).cast(pa.string()),
            "key": lambda: binary_column(buffer, records.offset + 8, np.full(count, 16, np.int64)),
            "payload": lambda: binary_column(buffer, records.data, records.length),
        },
        own,
        query,
    )


def event_batch(
    view: memoryview, events: Events, fields: EventColumns, file: str, query: EntryQuery
) -> pa.RecordBatch:
    """Some events of a log."""
    topic = np.where(fields.has_topic, fields.topic, 0).astype(np.int32)
    topics = pa.array(topic, mask=~fields.has_topic)
    named = fields.session != NONE
    code = np.where(fields.code == NONE, len(_WORDS), fields.code)

    def name() -> pa.Array:
        found = binary_column(view, fields.name, fields.name_length, fields.name != NONE)
        return found.cast(pa.string(), safe=False)

    own = {
        "term": lambda: number_column(events.term),
        "index": lambda: number_column(events.index),
        "replay_time": lambda: _column(np.where(fields.code == lay.CREATE, NONE, fields.time)),
        "topic": lambda: topics,
        "delay": lambda: _column(fields.delay),
        "name": name,
        "at": lambda: _column(fields.offset),
        "size": lambda: _column(fields.size),
        "number": lambda: _column(fields.number),
    }
    return _entry_batch(
        file,
        events.offset,
        events.payload + events.length - events.offset,
        events.term,
        events.index,
        {
            "operation": lambda: words([*_WORDS, UNREADABLE], code),
            "stream": lambda: topics.cast(pa.string()),
            "key": lambda: binary_column(view, fields.session, np.full(len(events), 16, np.int64), named),
            "payload": lambda: binary_column(view, fields.data, fields.length, fields.data != NONE),
        },
        own,
        query,
    )


def descriptor_batch(
    places: list[tuple[int, int, Descriptor]], file: str, query: EntryQuery
) -> pa.RecordBatch:
    """The descriptors of a snapshot, each with its offset and its length. There is one for each data file."""

    def ints(values: list[int]) -> NDArray[np.int64]:
        return np.array(values, np.int64)

    items = [item for _, _, item in places]
    term = np.array([item.last_id.term for item in items], np.uint64)
    index = np.array([item.last_id.index for item in items], np.uint64)
    own = {
        "term": lambda: number_column(term),
        "index": lambda: number_column(index),
        "replay_time": lambda: pa.array([min(item.replay, _BIGINT_MAX) for item in items], pa.int64()),
        "delay": lambda: pa.array([item.delay for item in items], pa.int64()),
        "name": lambda: pa.array([item.name for item in items], pa.string()),
        "at": lambda: pa.array([min(item.offset, _BIGINT_MAX) for item in items], pa.int64()),
        "size": lambda: pa.array([min(item.length, _BIGINT_MAX) for item in items], pa.int64()),
        "flags": lambda: pa.array([item.flags for item in items], pa.int32()),
    }
    count = len(items)
    return _entry_batch(
        file,
        ints([offset for offset, _, _ in places]),
        ints([size for _, size, _ in places]),
        term,
        index,
        {"operation": lambda: repeated(DESCRIPTOR, count)},
        own,
        query,
    )


def _entry_batch(
    file: str,
    offset: NDArray[np.int64],
    length: NDArray[np.int64],
    term: Ids,
    index: Ids,
    common: Makers,
    own: Makers,
    query: EntryQuery,
) -> pa.RecordBatch:
    """A batch of the columns that all entries have and those made for these; the rest is null."""
    count = len(offset)

    def struct() -> pa.Array:
        parts = [own[part.name]() if part.name in own else pa.nulls(count, part.type) for part in OWN_FIELDS]
        return pa.StructArray.from_arrays(parts, fields=list(OWN_FIELDS))

    columns: Makers = {
        "dialect": lambda: repeated("mpy6a", count),
        "file": lambda: repeated(file, count),
        "offset": lambda: pa.array(offset),
        "length": lambda: pa.array(length),
        "term": lambda: pa.array(_saturated(term)),
        "position": lambda: pa.array(_saturated(index)),
        "stream": lambda: pa.nulls(count, pa.string()),
        "key": lambda: pa.nulls(count, pa.binary()),
        "payload": lambda: pa.nulls(count, pa.binary()),
        "mpy6a": struct,
    }
    return entry_columns(ENTRY_SCHEMA, query, {**columns, **common})


# What a query asks for


def check_position(position: Position) -> None:
    """Raise unless a position is a term and an index, or an index of any term."""
    if len(position) > 2 or not all(0 <= part <= lay.UINT64_MAX for part in position):
        raise UsageError(
            f"{','.join(map(str, position))} is not a position of an mpy6a log",
            advice="Give TERM,INDEX, or INDEX alone for that index in whatever term",
        )


def between(term: Ids, index: Ids, query: EntryQuery) -> Mask:
    """Which state ids are within a query's bounds."""
    keep = np.ones(len(term), np.bool_)
    if query.first is not None:
        keep &= ~_before(term, index, query.first)
    if query.last is not None:
        keep &= ~_behind(term, index, query.last)
    return keep


def _before(term: Ids, index: Ids, position: Position) -> Mask:
    if len(position) == 1:
        return np.less(_saturated(index), position[0])
    return np.asarray((term < position[0]) | ((term == position[0]) & (index < position[1])))


def _behind(term: Ids, index: Ids, position: Position) -> Mask:
    if len(position) == 1:
        return np.greater(_saturated(index), position[0])
    return np.asarray((term > position[0]) | ((term == position[0]) & (index > position[1])))


def wanted_records(records: Records, query: EntryQuery) -> Mask:
    """Which records a query asks for; its operations were looked at before."""
    keep = between(records.term, records.index, query)
    if query.streams is not None:
        keep &= np.isin(records.topic, np.array(_topics(query.streams), np.int64))
    if query.key is not None:
        key = session_key(query.key)
        keep &= (records.term == key.term) & (records.index == key.index)
    return keep


def wanted_events(view: memoryview, events: Events, fields: EventColumns, query: EntryQuery) -> Mask:
    """Which events a query asks for."""
    keep = between(events.term, events.index, query)
    if query.operations is not None:
        chosen = np.array([word in query.operations for word in (*_WORDS, UNREADABLE)])
        keep &= chosen[np.where(fields.code == NONE, len(_WORDS), fields.code)]
    if query.streams is not None:
        keep &= fields.has_topic & np.isin(fields.topic, np.array(_topics(query.streams), np.int64))
    if query.key is not None:
        keep &= fields.session != NONE
        raw = np.frombuffer(lay.encode_state_id(session_key(query.key)), np.uint8)
        places = fields.session[keep][:, None] + np.arange(len(raw))
        keep[keep] = (np.frombuffer(view, np.uint8)[places] == raw).all(axis=1)
    return keep


def wanted_descriptors(query: EntryQuery) -> bool:
    """Can a query ask for descriptors?"""
    return (
        (query.operations is None or DESCRIPTOR in query.operations)
        and query.streams is None
        and query.key is None
    )


def _topics(streams: frozenset[str]) -> list[int]:
    """The topics among these words; other words match none."""
    return [int(word) for word in streams if word.removeprefix("-").isdecimal() and len(word) < 12]


def session_key(text: str) -> StateID:
    """A session id as the user types it: TERM,INDEX, or its sixteen bytes in hex as the output shows them."""
    if len(text) == 2 * 2 * 8:
        with suppress(ValueError):
            raw = bytes.fromhex(text)
            return StateID(int.from_bytes(raw[:8], "little"), int.from_bytes(raw[8:], "little"))
    parts = text.split(",")
    if len(parts) == 2 and all(part.isdecimal() and int(part) <= lay.UINT64_MAX for part in parts):
        return StateID(int(parts[0]), int(parts[1]))
    raise UsageError(f"{text!r} is not the id of a session", advice="Give TERM,INDEX, such as 3,17")


# State


def state_batches(pieces: list[Piece], order: NDArray[np.int64]) -> Iterator[pa.RecordBatch]:
    """The rows of some pieces in this order."""
    records = scan.Records.join([piece.records for piece in pieces])[order]
    which = np.repeat(np.arange(len(pieces)), [len(piece.records) for piece in pieces])[order]
    for rows in slices(records.length, BATCH_BYTES, BATCH_ROWS):
        yield _state_batch(pieces, records[rows], which[rows])


def _state_batch(pieces: list[Piece], records: Records, which: NDArray[np.int64]) -> pa.RecordBatch:
    count = len(records)
    base = np.array([piece.base for piece in pieces], np.int64)
    delay = np.array([piece.file.delay for piece in pieces], np.int64)
    ids = np.empty(2 * count, np.uint64)
    ids[::2], ids[1::2] = records.term, records.index
    arena, offsets = gather(
        [piece.buffer for piece in pieces], which.astype(np.int32), records.data, records.length
    )
    return pa.RecordBatch.from_arrays(
        [
            pa.array(records.replay_time),
            pa.array(delay[which]),
            pa.array([piece.file.name for piece in pieces], pa.string()).take(pa.array(which)),
            pa.array(records.offset + base[which]),
            pa.ListArray.from_arrays(
                pa.array(np.arange(0, 2 * count + 1, 2, dtype=np.int32)), number_column(ids)
            ),
            pa.array(records.topic),
            number_column(records.attempts),
            pa.Array.from_buffers(
                pa.binary(), count, [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(arena)]
            ),
        ],
        schema=STATE_SCHEMA,
    )
