"""Columns of strings that repeat: one string, or some words by their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_ROWS = 1 << 16


@lru_cache(maxsize=64)
def _block(text: str) -> pa.Array:
    return pa.repeat(pa.scalar(text, pa.string()), _ROWS)


def repeated(text: str, count: int) -> pa.Array:
    """The same string in each row; columns of one string share their bytes."""
    if count <= _ROWS and len(text) <= 64:
        return _block(text).slice(0, count)
    return pa.repeat(pa.scalar(text, pa.string()), count)


def words(known: Sequence[str], numbers: NDArray[np.integer]) -> pa.Array:
    """The word of each number; rows that all have the same one cost nothing."""
    if len(numbers) and (numbers == numbers[0]).all():
        return repeated(known[int(numbers[0])], len(numbers))
    return pa.array(known).take(pa.array(numbers.astype(np.int32)))
