"""Columns of whole numbers in few bytes, to send between processes.

A packed column is its smallest value and how far each value is above it, in the narrowest type that holds that. A
column of one value takes no room.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

_NARROW = (np.uint8, np.uint16, np.uint32)


def pack(columns: Mapping[str, NDArray[Any]]) -> bytes:
    """Some columns of one length, which `unpack` reads back."""
    return pickle.dumps({name: _packed(column) for name, column in columns.items()}, protocol=5)


def unpack(data: bytes) -> dict[str, NDArray[Any]]:
    """The columns that `pack` took."""
    return {name: _unpacked(*packed) for name, packed in pickle.loads(data).items()}


def _packed(column: NDArray[Any]) -> tuple[int, str, int, NDArray[Any] | None]:
    if not len(column):
        return 0, column.dtype.str, 0, None
    low, high = int(column.min()), int(column.max())
    if low == high:
        return len(column), column.dtype.str, low, None
    for kind in _NARROW:
        if np.dtype(kind).itemsize < column.dtype.itemsize and high - low <= np.iinfo(kind).max:
            return len(column), column.dtype.str, low, (column - column.dtype.type(low)).astype(kind)
    return len(column), column.dtype.str, 0, np.ascontiguousarray(column)


def _unpacked(size: int, kind: str, low: int, above: NDArray[Any] | None) -> NDArray[Any]:
    if above is None:
        return np.full(size, low, kind)
    if above.dtype.str == kind:
        return above
    values: NDArray[Any] = above.astype(kind) + np.dtype(kind).type(low)
    return values
