"""Numbers of the format for kernels: each has a body for Python and one for the compiler."""

from __future__ import annotations

from typing import Any

import numpy as np

from flintlog.columns.compile import helper
from flintlog.dialects.mpy6a import layout as lay


def _signed(value: Any) -> Any:
    return np.int64(value)


@helper(compiled=_signed)
def signed(value: int) -> int:
    """The same number as a signed one; in compiled code an unsigned and a signed number would make a float."""
    return value


def _uvarint(buffer: Any, at: int, size: int) -> Any:
    value = np.uint64(0)
    for count in range(10):
        place = at + count
        if place >= size:
            return value, -1
        byte = np.uint64(buffer[place])
        if count == 9 and byte > np.uint64(1):
            return value, -2
        value |= (byte & np.uint64(0x7F)) << np.uint64(7 * count)
        if byte < np.uint64(0x80):
            return value, place + 1
    return value, -2


@helper(compiled=_uvarint)
def uvarint_at(buffer: Any, at: int, size: int) -> tuple[int, int]:
    """The value at `at` and where it ends; -1 when the bytes end first, -2 when it is too large."""
    value = 0
    for count in range(10):
        if at + count >= size:
            return value, -1
        byte = int(buffer[at + count])
        value |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            return (value, at + count + 1) if value <= lay.UINT64_MAX else (value, -2)
    return value, -2
