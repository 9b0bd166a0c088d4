"""The one schema in which every dialect shows its entries: to `dump`, to Spark, to exports.

| column | meaning |
|---|---|
| dialect | `taskflux`, `zmqraft`, `mpy6a`, `limestone` |
| file | name of the file inside the log directory |
| offset, length | where the entry's bytes stand in that file, header and padding included |
| term | the Raft term, where the dialect has one |
| position | LSN, index or epoch: what orders the log |
| operation | what the entry does, in the dialect's words |
| stream | the queue, topic or storage that it changes |
| key | the key as its bytes on disk |
| payload | the payload, or null when it was not asked for |

Behind these stands one struct column named like the dialect, with the dialect's own fields.

With `on_damage="report"` there is a row for each place where entries should be and cannot be read: its operation is
`damage`, `offset` is the first bad byte, and the column `damage` says what is wrong. It has no position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from flintlog.core.dialect import EntryQuery, Split
from flintlog.core.finding import Finding
from flintlog.errors import DamageError, FlintlogError, UnsupportedError

if TYPE_CHECKING:
    from flintlog.core.log import Log

Makers = Mapping[str, Callable[[], pa.Array]]  # of columns, by their names

DAMAGE = "damage"
DAMAGE_FIELD = pa.field(
    DAMAGE, pa.struct([pa.field(name, pa.string()) for name in ("code", "message", "expected", "found")])
)

COMMON_FIELDS: tuple[pa.Field, ...] = (
    pa.field("dialect", pa.string(), nullable=False),
    pa.field("file", pa.string(), nullable=False),
    pa.field("offset", pa.int64(), nullable=False),
    pa.field("length", pa.int64(), nullable=False),
    pa.field("term", pa.int64()),
    pa.field("position", pa.int64(), nullable=False),
    pa.field("operation", pa.string(), nullable=False),
    pa.field("stream", pa.string()),
    pa.field("key", pa.binary()),
    pa.field("payload", pa.binary()),
)


def entry_schema(dialect: str, own: pa.StructType) -> pa.Schema:
    """The common columns and the dialect's own struct."""
    return pa.schema([*COMMON_FIELDS, pa.field(dialect, own)])


def entry_columns(schema: pa.Schema, query: EntryQuery, columns: Makers) -> pa.RecordBatch:
    """A batch of the columns that a query does not skip."""
    made = [field for field in schema if query.makes(field.name)]
    return pa.RecordBatch.from_arrays([columns[field.name]() for field in made], schema=pa.schema(made))


def reported(schema: pa.Schema) -> pa.Schema:
    """The columns of entries when damage is reported among them."""
    return pa.schema([*(pa.field(field.name, field.type) for field in schema), DAMAGE_FIELD])


def fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch with these columns; those that it lacks are null."""
    if batch.schema.equals(schema):
        return batch
    columns = [
        batch.column(field.name) if field.name in batch.schema.names else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def plan_entries(log: Log, query: EntryQuery) -> list[Split]:
    """The splits that hold the entries of a query; with `report`, damage that stops the planning is a split too."""
    try:
        return log.splits(query)
    except (DamageError, UnsupportedError) as error:
        if query.on_damage == "fail":
            raise
        error.file = error.file.removeprefix(log.root).lstrip("/") if error.file is not None else None
        return [Split(error.file or "", 0, 0, 0, None, damage=error)]


def read_entries(log: Log, split: Split, query: EntryQuery) -> Iterator[pa.RecordBatch]:
    """The entries of one split, and what `on_damage` asks for where it is damaged."""
    if split.damage is not None:
        yield from damage_rows(log.entry_schema, split.damage, query)
        return
    try:
        yield from log.read_split(split, query)
    except (DamageError, UnsupportedError) as error:
        if query.on_damage == "fail":
            raise
        error.file = split.file
        yield from damage_rows(log.entry_schema, error, query)


def damage_rows(
    schema: pa.Schema, damage: Finding | FlintlogError, query: EntryQuery
) -> Iterator[pa.RecordBatch]:
    """The row for damage, unless the query asks for other rows."""
    if not query.tells_damage:
        return
    row = {
        "dialect": schema.names[len(COMMON_FIELDS)],
        "file": damage.file or "",
        "offset": damage.offset,
        "operation": DAMAGE,
        DAMAGE: {name: getattr(damage, name, None) for name in ("code", "message", "expected", "found")},
    }
    columns = reported(schema)
    yield pa.RecordBatch.from_arrays([pa.array([row.get(f.name)], f.type) for f in columns], schema=columns)
