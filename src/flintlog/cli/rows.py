"""Arrow batches to rows for printing, a bounded number at a time."""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from flintlog.errors import FlintlogError

if TYPE_CHECKING:
    import pyarrow as pa

Row = dict[str, Any]

_ROWS_MAX = 1024


def row_chunks(batches: Iterable[pa.RecordBatch], limit: int | None = None) -> Iterator[list[Row]]:
    """The first `limit` rows in lists of 1,024, whatever the size of the batches.

    Gives the rows before an error first, then raises it: the operator wants to see them.
    """
    chunk: list[Row] = []
    try:
        for row in itertools.islice(_rows(batches), limit):
            chunk.append(row)
            if len(chunk) == _ROWS_MAX:
                yield chunk
                chunk = []
    except FlintlogError:
        if chunk:
            yield chunk
        raise
    if chunk:
        yield chunk


def told_when_empty(
    chunks: Iterable[list[Row]], what: str, arguments: argparse.Namespace
) -> Iterator[list[Row]]:
    """The same chunks; when there are none, print one line that says why, unless the output is JSON."""
    seen = False
    for chunk in chunks:
        seen = True
        yield chunk
    if not seen and not arguments.json:
        print(f"flintlog: {what}", file=sys.stderr)


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
    for batch in batches:
        for start in range(0, batch.num_rows, _ROWS_MAX):
            yield from batch.slice(start, _ROWS_MAX).to_pylist()
