"""The checksums of many ranges of one buffer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flintlog.columns.checksum import crc32_mpeg2
from flintlog.columns.compile import kernel


@kernel
def _checksums(buffer: Any, start: Any, end: Any, value: Any) -> None:
    for index in range(len(start)):
        value[index] = crc32_mpeg2(buffer, start[index], end[index])


def checksums(
    buffer: bytes | memoryview, starts: Sequence[int] | NDArray[Any], ends: Sequence[int] | NDArray[Any]
) -> NDArray[np.uint32]:
    """The checksum of each `buffer[start:end]`; IndexError when one is not inside the buffer."""
    first = np.ascontiguousarray(starts, dtype=np.int64)
    last = np.ascontiguousarray(ends, dtype=np.int64)
    if first.ndim != 1 or first.shape != last.shape:
        raise ValueError("starts and ends must be two lists of the same length")
    values = np.empty(first.size, dtype=np.uint32)
    _checksums.run(int((last - first).sum()), buffer, first, last, values)
    return values
