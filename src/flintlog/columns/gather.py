"""Copy many byte ranges into one buffer, or into an Arrow column, without Python per range."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flintlog.columns.compile import helper, kernel

if TYPE_CHECKING:
    import pyarrow as pa

Ints = NDArray[np.int64]


def _copy_loop(out: Any, target: int, buffer: Any, start: int, size: int) -> None:
    to, at = (
        np.uint64(target),
        np.uint64(start),
    )  # unsigned: Numba checks no index, so it moves whole words
    for index in range(size):
        out[to + np.uint64(index)] = buffer[at + np.uint64(index)]


@helper(compiled=_copy_loop)
def _copy_range(out: Any, target: int, buffer: Any, start: int, size: int) -> None:
    out[target : target + size] = buffer[start : start + size]


@kernel
def _copy(out: Any, target: Any, buffer: Any, start: Any, length: Any) -> None:
    for index in range(len(start)):
        size = length[index]
        if size > 0:
            _copy_range(out, target[index], buffer, start[index], size)


def copy_ranges(out: NDArray[np.uint8], target: Ints, buffer: memoryview, start: Ints, length: Ints) -> None:
    """out[target : target + length] = buffer[start : start + length], for each range."""
    size = int(length.sum()) + 16 * len(length)
    source = np.frombuffer(buffer, np.uint8) if len(buffer) else np.empty(0, np.uint8)
    _copy.run(size, out, target, source, start, length)


def offsets_of(length: Ints) -> Ints:
    """Where each of these lengths begins when they stand back to back; one more for the end."""
    offsets = np.zeros(len(length) + 1, np.int64)
    np.cumsum(length, out=offsets[1:])
    return offsets


def gather(
    sources: list[memoryview], source: NDArray[np.int32], start: Ints, length: Ints
) -> tuple[bytearray, Ints]:
    """The ranges back to back in order, from several buffers; and where each begins (one more for the end).

    `source` counts into `sources`, also from the end as Python does (-1 is the last).
    """
    offsets = offsets_of(length)
    arena = bytearray(int(offsets[-1]))
    out = np.frombuffer(arena, np.uint8)
    if len(source) and bool((source == source[0]).all()):
        copy_ranges(out, offsets[:-1], sources[source[0]], start, length)
        return arena, offsets
    for which in np.unique(source):
        mine = np.flatnonzero(source == which)
        copy_ranges(out, offsets[mine], sources[which], start[mine], length[mine])
    return arena, offsets


def binary_column(
    buffer: memoryview, start: Ints, length: Ints, valid: NDArray[np.bool_] | None = None
) -> pa.Array:
    """An Arrow binary column of ranges of one buffer; null where `valid` is False."""
    import pyarrow as pa

    if valid is not None:
        length = np.where(valid, length, 0)
    offsets = offsets_of(length)
    arena = np.empty(int(offsets[-1]), np.uint8)
    copy_ranges(arena, offsets[:-1], buffer, start, length)
    bits = None if valid is None else pa.array(valid).buffers()[1]
    return pa.Array.from_buffers(
        pa.binary(), len(length), [bits, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(arena)]
    )
