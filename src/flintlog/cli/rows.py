"""Arrow batches to rows for printing, a bounded number at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

Row = dict[str, Any]

_ROWS_MAX = 1024


def row_chunks(batches: Iterable[pa.RecordBatch], limit: int | None = None) -> Iterator[list[Row]]:
    """The rows in lists of at most 1,024, the first `limit` of them."""
    left = limit
    for batch in batches:
        for start in range(0, batch.num_rows, _ROWS_MAX):
            if left is not None and left <= 0:
                return
            count = _ROWS_MAX if left is None else min(_ROWS_MAX, left)
            chunk: list[Row] = batch.slice(start, count).to_pylist()
            if left is not None:
                left -= len(chunk)
            yield chunk
        if left is not None and left <= 0:
            return
