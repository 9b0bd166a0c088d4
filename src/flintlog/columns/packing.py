"""Tables of whole numbers in few bytes, to send between processes.

A packed column is its smallest value and how far each value is above it, in the narrowest type that holds that. A
column of one value takes no room.
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


class Packer:
    """A table whose rows are packed some at a time."""

    def __init__(self, table: Columns) -> None:
        self._count = len(table)
        self._columns = [_narrowed(getattr(table, name)) for name in table.types()]

    def rows(self, which: slice | NDArray[np.int64]) -> bytes:
        """These rows, which `unpack` reads back."""
        count = len(range(self._count)[which]) if isinstance(which, slice) else len(which)
        parts = [_ROWS.pack(count)]
        for low, above in self._columns:
            parts.append(_COLUMN.pack(0 if above is None else above.itemsize, low))
            if above is not None:
                parts.append(above[which].tobytes())
        return b"".join(parts)


def pack(table: Columns) -> bytes:
    """The rows of a table, which `unpack` reads back."""
    return Packer(table).rows(slice(None))


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


def _narrowed(column: NDArray[Any]) -> tuple[int, NDArray[Any] | None]:
    """The smallest value, and what the values have above it."""
    if not len(column):
        return 0, None
    low, high = column.min(), column.max()
    if low == high:
        return int(low) & _WORD, None
    for width in _NARROW:
        if width < column.itemsize and int(high) - int(low) < 1 << 8 * width:
            return int(low) & _WORD, (column - low).astype(f"<u{width}")
    return 0, column


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
