"""The views of a directory as Arrow: their columns, and the batches of those that a task makes of a whole directory."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa

from flintlog.core.dialect import dialect, dialect_names
from flintlog.core.entries import COMMON_FIELDS, reported
from flintlog.core.inventory import Inventory
from flintlog.core.log import Log
from flintlog.core.position import Position
from flintlog.pipeline.options import ReadOptions

SOURCE = pa.field("source", pa.string(), nullable=False)
_POSITION = pa.list_(pa.decimal128(20, 0))  # its parts go up to 2^64 - 1

_DIRECTORY = (pa.field("dialect", pa.string(), nullable=False), pa.field("edition", pa.string()))
FILES = pa.schema(
    [
        *_DIRECTORY,
        pa.field("file", pa.string(), nullable=False),
        pa.field("role", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("first", _POSITION),
        pa.field("last", _POSITION),
        pa.field("entries", pa.int64()),
    ]
)
FINDINGS = pa.schema(
    [
        *_DIRECTORY,
        pa.field("severity", pa.string(), nullable=False),
        pa.field("code", pa.string(), nullable=False),
        pa.field("file", pa.string()),
        pa.field("offset", pa.int64()),
        pa.field("message", pa.string(), nullable=False),
        pa.field("expected", pa.string()),
        pa.field("found", pa.string()),
    ]
)


def arrow_schema(read: ReadOptions) -> pa.Schema:
    """The columns of a view: `source`, then those of the dialect; of several dialects each has its struct."""
    match read.view:
        case "entries":
            own = _entry_schema(read)
        case "state":
            own = dialect(read.dialect).state_schema
        case "files":
            own = FILES
        case "findings":
            own = FINDINGS
    return pa.schema([SOURCE, *own])


def _entry_schema(read: ReadOptions) -> pa.Schema:
    spoken = [name for name in dialect_names() if name in read.dialects]
    structs = [dialect(name).entry_schema.field(name) for name in spoken]
    schema = pa.schema([*COMMON_FIELDS, *structs])
    return reported(schema) if read.query.on_damage == "report" else schema


def directory_batches(read: ReadOptions, log: Log) -> Iterator[pa.RecordBatch]:
    """The rows of a view other than the entries, of one directory."""
    match read.view:
        case "files":
            yield _files(log.inspect())
        case "findings":
            yield _findings(log.verify())
        case _:
            yield from log.state(read.as_of)


def _files(found: Inventory) -> pa.RecordBatch:
    return _batch(
        FILES,
        found,
        [
            {
                "file": item.name,
                "role": item.role,
                "size": item.size,
                "first": _parts(item.first),
                "last": _parts(item.last),
                "entries": item.entries,
            }
            for item in found.files
        ],
    )


def _findings(found: Inventory) -> pa.RecordBatch:
    return _batch(FINDINGS, found, [item.json() for item in found.findings])


def _batch(schema: pa.Schema, found: Inventory, rows: list[dict[str, Any]]) -> pa.RecordBatch:
    directory = {"dialect": found.dialect, "edition": found.edition}
    return pa.RecordBatch.from_pylist([{**directory, **row} for row in rows], schema=schema)


def _parts(position: Position | None) -> list[Decimal] | None:
    return None if position is None else [Decimal(part) for part in position]
