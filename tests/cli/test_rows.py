"""Batches of any size become chunks of rows that fit in memory."""

from __future__ import annotations

import pyarrow as pa
import pytest

from flintlog.cli.rows import row_chunks
from flintlog.errors import DamageError


def batches(*sizes):
    start = 0
    for size in sizes:
        yield pa.record_batch({"n": list(range(start, start + size))})
        start += size


@pytest.mark.parametrize("sizes", [(), (0,), (1, 1, 1), (3000,), (1024, 0, 1), (1000, 1000, 1000)])
@pytest.mark.parametrize("limit", [None, 0, 1, 2, 1024, 1025, 9999])
def test_rows_come_in_order_up_to_the_limit_in_bounded_chunks(sizes, limit):
    chunks = list(row_chunks(batches(*sizes), limit))
    total = sum(sizes) if limit is None else min(limit, sum(sizes))
    assert [row["n"] for chunk in chunks for row in chunk] == list(range(total))
    assert all(len(chunk) == 1024 for chunk in chunks[:-1])
    assert all(0 < len(chunk) <= 1024 for chunk in chunks)


def test_batches_behind_the_limit_are_not_read():
    def failing():
        yield from batches(5)
        raise AssertionError("read on")

    assert sum(len(chunk) for chunk in row_chunks(failing(), 5)) == 5


@pytest.mark.parametrize("size", [1, 1024, 1500])
def test_the_rows_before_an_error_come_first(size):
    def damaged():
        yield from batches(size)
        raise DamageError("no record begins here", code="record")

    seen = []
    with pytest.raises(DamageError):
        for chunk in row_chunks(damaged()):
            seen += chunk
    assert [row["n"] for row in seen] == list(range(size))
