"""Many byte strings in one buffer, from a list or from an Arrow column."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flintlog.columns.gather import offsets_of
from flintlog.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

Ints = NDArray[np.int64]


class Payloads:
    """Where each string begins in the buffer, and how long it is."""

    def __init__(self, buffer: memoryview, start: Ints, length: Ints) -> None:
        self.buffer = buffer
        self.start = start
        self.length = length

    def __len__(self) -> int:
        return len(self.start)

    def __getitem__(self, which: slice) -> Payloads:
        return Payloads(self.buffer, self.start[which], self.length[which])

    @property
    def array(self) -> NDArray[np.uint8]:
        """The buffer as a kernel takes it."""
        return np.frombuffer(self.buffer, np.uint8) if len(self.buffer) else np.empty(0, np.uint8)

    @staticmethod
    def of(data: Sequence[bytes] | pa.Array | pa.ChunkedArray) -> Payloads:
        """From a list of byte strings, or from an Arrow column of them without copying it."""
        if not isinstance(data, Sequence):
            return _of_arrow(data)
        joined, offsets = back_to_back(data)
        return Payloads(memoryview(joined), offsets[:-1], np.diff(offsets))


def back_to_back(data: Sequence[bytes | bytearray | memoryview]) -> tuple[bytes, Ints]:
    """Byte strings in one buffer, and where each begins (one more for the end). Views count in bytes."""
    with suppress(TypeError, BufferError):
        offsets = offsets_of(np.fromiter(map(len, data), np.int64, len(data)))
        joined = b"".join(data)
        if len(joined) == offsets[-1]:
            return joined, offsets
    if any(isinstance(part, memoryview) for part in data):  # its items are longer than a byte, or it has gaps
        return back_to_back([bytes(part) if isinstance(part, memoryview) else part for part in data])
    raise UsageError("a payload is not bytes", advice="Encode it first")


def _of_arrow(data: Any) -> Payloads:
    import pyarrow as pa

    array = data.combine_chunks() if isinstance(data, pa.ChunkedArray) else data
    if isinstance(array, pa.FixedSizeBinaryArray):
        array = array.cast(pa.binary())
    if not isinstance(array, pa.BinaryArray | pa.StringArray | pa.LargeBinaryArray | pa.LargeStringArray):
        kind = getattr(array, "type", type(array).__name__)
        raise UsageError(f"a column of byte strings is needed, not {kind}")
    if array.null_count:
        raise UsageError("a column of byte strings has nulls", advice="Use empty byte strings")
    large = isinstance(array, pa.LargeBinaryArray | pa.LargeStringArray)
    _, raw, values = array.buffers()
    offsets = np.frombuffer(raw, np.int64 if large else np.int32)[
        array.offset : array.offset + len(array) + 1
    ]
    start = offsets[:-1].astype(np.int64)
    return Payloads(memoryview(values or b""), start, np.diff(offsets).astype(np.int64))
