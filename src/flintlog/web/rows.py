"""Rows for a page: those of `--json`, cut to a size that a browser can show.

It cuts long values, and the row says so: its field `cut` names the cut fields with their real lengths.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from flintlog.cli.decoders import Decoding
from flintlog.cli.output import plain
from flintlog.cli.rows import Row

if TYPE_CHECKING:
    import pyarrow as pa

VALUE_BYTES_MAX = 4096
_ITEMS_MAX = 256
_DECODE_BYTES_MAX = 1 << 20
_DECODED_LETTERS_MAX = 1 << 14


def columns_json(schema: pa.Schema | pa.StructType, names: Sequence[str]) -> list[dict[str, Any]]:
    """The columns with the kind of their values, so that the page can tell bytes from words."""
    return [_column(name, schema.field(name).type if name in schema.names else None) for name in names]


def _column(name: str, kind: pa.DataType | None) -> dict[str, Any]:
    import pyarrow as pa

    if kind is None:
        return {"name": name, "kind": "any"}
    if pa.types.is_struct(kind):
        return {"name": name, "kind": "object", "fields": [_column(part.name, part.type) for part in kind]}
    if pa.types.is_list(kind):
        return {"name": name, "kind": "list"}
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return {"name": name, "kind": "bytes"}
    if pa.types.is_string(kind):
        return {"name": name, "kind": "text"}
    return {"name": name, "kind": "number"}


def rows_of(batch: pa.RecordBatch) -> Iterator[Row]:
    """The rows one by one; makes no more than a page has room for."""
    for at in range(batch.num_rows):
        yield batch.slice(at, 1).to_pylist()[0]


def shown(row: Row, columns: Sequence[str], decoding: Decoding | None = None) -> dict[str, Any]:
    """The row as JSON has it, in the order of the columns, cut where it is too long."""
    if decoding is not None:
        row = _decoded(row, decoding)
    cut: dict[str, int] = {}
    found = {name: _cut(plain(row[name]), name, cut, isinstance(row[name], bytes)) for name in columns}
    return {**found, "cut": cut} if cut else found


def _decoded(row: Row, decoding: Decoding) -> Row:
    payload = row["payload"]
    if payload is not None and len(payload) > _DECODE_BYTES_MAX:
        decoding.failed += 1
        return {**row, "decoded": None}
    ((found,),) = decoding.rows([[row]])
    try:
        text = json.dumps(plain(found["decoded"]), allow_nan=False)
    except (ValueError, RecursionError):  # a number that JSON does not have, or lists in lists without end
        decoding.failed += 1
        return {**found, "decoded": None}
    if len(text) > _DECODED_LETTERS_MAX:
        return {**found, "decoded": text[:_DECODED_LETTERS_MAX] + "..."}
    return found


def _cut(value: Any, name: str, cut: dict[str, int], is_bytes: bool = False) -> Any:
    """A value cut to size; `is_bytes`: two of its letters are one byte."""
    match value:
        case str() if name == "decoded":
            return value
        case str() if is_bytes and len(value) > 2 * VALUE_BYTES_MAX:
            cut[name] = len(value) // 2
            return value[: 2 * VALUE_BYTES_MAX]
        case str() if not is_bytes and len(value) > VALUE_BYTES_MAX:
            cut[name] = len(value)
            return value[:VALUE_BYTES_MAX]
        case dict() if name != "decoded":
            return {key: _cut(part, f"{name}.{key}", cut) for key, part in value.items()}
        case list() if name != "decoded" and len(value) > _ITEMS_MAX:
            cut[name] = len(value)
            return value[:_ITEMS_MAX]
        case _:
            return value
