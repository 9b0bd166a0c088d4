"""Unsigned numbers of 64 bits as exact decimals: Spark has no unsigned numbers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

NUMBER = pa.decimal128(20, 0)


def number_column(values: NDArray[np.uint64], valid: NDArray[np.bool_] | None = None) -> pa.Array:
    """The numbers, and nulls where they are not `valid`."""
    wide = np.zeros((len(values), 2), np.uint64)
    wide[:, 0] = values
    bits = None if valid is None else pa.array(valid).buffers()[1]
    return pa.Array.from_buffers(NUMBER, len(values), [bits, pa.py_buffer(wide)])
