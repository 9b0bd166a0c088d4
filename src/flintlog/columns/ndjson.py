"""Arrow columns to lines of JSON, without Python per row. Bytes are lower-case hex, numbers have any size."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_HEX = np.array([list(b"%02x" % byte) for byte in range(256)], np.uint8)
_ESCAPES = [("\\", "\\\\"), ('"', '\\"')] + [
    (chr(code), {8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r"}.get(code, f"\\u{code:04x}"))
    for code in range(32)
]
_NULL = "null"


def lines(batch: pa.RecordBatch) -> pa.Array:
    """One object for each row, without the line break."""
    return _object(batch.schema.names, batch.columns)


def encode(batch: pa.RecordBatch) -> memoryview:
    """The rows as bytes, each with its line break."""
    column = pc.binary_join_element_wise(lines(batch), "", "\n")
    offsets = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
    start, end = int(offsets[0]), int(offsets[-1])
    data = column.buffers()[2]
    return memoryview(b"") if data is None else memoryview(data)[start:end]


def _object(names: list[str], columns: list[pa.Array]) -> pa.Array:
    parts: list[pa.Array | str] = []
    for at, (name, column) in enumerate(zip(names, columns, strict=True)):
        parts += [("{" if not at else ", ") + f'"{name}": ', _value(column)]
    return pc.binary_join_element_wise(*parts, "}", "")


def _value(column: pa.Array) -> pa.Array:
    """The JSON of each value, null where there is none."""
    kind = column.type
    if pa.types.is_struct(kind):
        text = _object([field.name for field in kind], column.flatten())
    elif pa.types.is_list(kind):
        text = _list(column)
    elif pa.types.is_binary(kind):
        text = pc.binary_join_element_wise('"', _hex(column), '"', "")
    elif pa.types.is_string(kind):
        text = pc.binary_join_element_wise('"', _escaped(column), '"', "")
    else:
        text = column.cast(pa.string())
    return pc.if_else(column.is_valid(), text, _NULL)


def _list(column: pa.Array) -> pa.Array:
    offsets = pc.subtract(column.offsets, column.offsets[0])
    inner = pa.ListArray.from_arrays(offsets, _value(column.flatten()))
    return pc.binary_join_element_wise("[", pc.binary_join(inner, ", "), "]", "")


def _hex(column: pa.Array) -> pa.Array:
    offsets = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
    data = column.buffers()[2]
    raw = (
        np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]] if data is not None else np.empty(0, np.uint8)
    )
    wide = (offsets.astype(np.int64) - offsets[0]) * 2
    buffers = [None, pa.py_buffer(wide), pa.py_buffer(_HEX[raw])]
    return pa.Array.from_buffers(pa.large_string(), len(column), buffers).cast(pa.string())


def _escaped(column: pa.Array) -> pa.Array:
    """Text with what JSON does not allow; most columns hold nothing of it."""
    if not pc.any(pc.match_substring_regex(column, r'[\x00-\x1f"\\]')).as_py():
        return column
    for plain, escaped in _ESCAPES:
        column = pc.replace_substring(column, plain, escaped)
    return column
