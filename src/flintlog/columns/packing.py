"""Tables of whole numbers as few bytes, for a way between processes.

A column is its smallest value and what its values have above that, in the narrowest type that holds it. A column of
one value takes no room.
"""

from __future__ import annotations

import struct
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from flintlog.columns.table import Columns

T = TypeVar("T", bound=Columns)

_ROWS = struct.Struct("<Q")
_COLUMN = struct.Struct("<BQ")  # bytes of a value above the smallest one, and that one
_WORD = 2**64 - 1
_NARROW = (1, 2, 4)


def pack(table: Columns) -> bytes:
    """The rows of a table, which `unpack` reads back."""
    parts = [_ROWS.pack(len(table))]
    for name in table.types():
        parts += _packed(getattr(table, name))
    return b"".join(parts)


def unpack(kind: type[T], data: bytes) -> T:
    """The table that `pack` took."""
    [rows] = _ROWS.unpack_from(data)
    at = _ROWS.size
    columns = []
    for dtype in kind.types().values():
        width, low = _COLUMN.unpack_from(data, at)
        at += _COLUMN.size
        columns.append(_unpacked(data, at, rows, width, np.uint64(low).astype(dtype)))
        at += rows * width
    return kind(*columns)


def _packed(column: NDArray[Any]) -> tuple[bytes, bytes]:
    if not len(column):
        return _COLUMN.pack(0, 0), b""
    low, high = column.min(), column.max()
    if low == high:
        return _COLUMN.pack(0, int(low) & _WORD), b""
    for width in _NARROW:
        if width < column.itemsize and int(high) - int(low) < 1 << 8 * width:
            return _COLUMN.pack(width, int(low) & _WORD), (column - low).astype(f"<u{width}").tobytes()
    return _COLUMN.pack(column.itemsize, 0), column.tobytes()


def _unpacked(data: bytes, at: int, rows: int, width: int, low: Any) -> NDArray[Any]:
    if not width:
        return np.full(rows, low)
    above = np.frombuffer(data, low.dtype if width == low.itemsize else f"<u{width}", rows, at)
    values: NDArray[Any] = above.astype(
        low.dtype
    )  # a copy: what is compiled takes arrays that may be written
    if low:
        values += low
    return values
