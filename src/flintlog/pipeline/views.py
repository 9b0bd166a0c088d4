"""The views of a directory as Arrow: their columns, and the batches of views of a whole directory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from flintlog.columns.strings import repeated
from flintlog.core.dialect import dialect, dialect_names
from flintlog.core.entries import COMMON_FIELDS, DAMAGE, fitted, reported
from flintlog.core.inventory import Inventory
from flintlog.core.log import Log
from flintlog.core.position import Position
from flintlog.errors import UnsupportedError, UsageError
from flintlog.pipeline.options import ReadOptions
from flintlog.pipeline.where import Condition, expression

SOURCE = pa.field("source", pa.string(), nullable=False)
DIALECT = "dialect"
_POSITION = pa.list_(pa.decimal128(20, 0))  # each part goes up to 2^64 - 1

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


NARROW = ("position", "term", "operation", "stream", "key", "payload", "file", "offset", "length")
_NUMBERS = ("position", "term")
_GREATEST = 2**63 - 1


def arrow_schema(read: ReadOptions) -> pa.Schema:
    """The columns of a view, if the read names none. `details` gives all columns."""
    whole = whole_schema(read)
    if read.columns is not None:
        return pa.schema([_field(whole, name, read.view) for name in read.columns])
    if read.view != "entries" or read.details:
        return whole
    first = [SOURCE.name] if read.several else []
    first += [DIALECT] if len(set(read.dialects)) > 1 else []
    last = [DAMAGE] if read.query.on_damage == "report" else []
    return pa.schema([whole.field(name) for name in (*first, *NARROW, *last)])


def _field(whole: pa.Schema, name: str, view: str) -> pa.Field:
    if name not in whole.names:
        raise UsageError(
            f"option columns: the view {view!r} has no column {name!r}",
            advice=f"It has {', '.join(whole.names)}",
        )
    return whole.field(name)


def whole_schema(read: ReadOptions) -> pa.Schema:
    """All columns of a view: `source`, then those of the dialect; of several dialects each has its struct."""
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


class Shape:
    """Turns batches of a dialect into those of a read: the rows asked for, and the columns in their order."""

    def __init__(self, read: ReadOptions, schema: pa.Schema, conditions: Sequence[Condition] = ()) -> None:
        self._schema = schema
        self._whole = whole_schema(read)
        self._keep = expression(conditions, self._whole) if conditions else None
        is_exact = not set(dialect_names()).isdisjoint(schema.names)
        self._numbers = [] if is_exact or read.view != "entries" else [*_NUMBERS]

    def of(self, batch: pa.RecordBatch, source: str) -> Iterator[pa.RecordBatch]:
        """The rows of a batch that are asked for."""
        batch = with_source(batch, source)
        if self._keep is not None:
            present = pa.schema([field for field in self._whole if field.name in batch.schema.names])
            batch = fitted(batch, self._whole).filter(self._keep).select(present.names)
        if batch.num_rows:
            self._refuse_what_does_not_fit(batch)
            yield fitted(batch, self._schema)

    def _refuse_what_does_not_fit(self, batch: pa.RecordBatch) -> None:
        for name in self._numbers:
            if name in self._schema.names and pc.max(batch[name]).as_py() == _GREATEST:
                raise UnsupportedError(
                    f"a {name} is 2^63 - 1 or above, which the column {name!r} has no room for",
                    advice="Set the option details to true: the column of the dialect has the exact number",
                )


def with_source(batch: pa.RecordBatch, source: str) -> pa.RecordBatch:
    """A batch with the directory that it comes from."""
    columns = [repeated(source, batch.num_rows), *batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema([SOURCE, *batch.schema]))


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
