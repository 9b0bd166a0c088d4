"""A packed table is the table: the same values of the same types, in arrays that compiled code may write to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from flintlog.columns.packing import Packer, pack, unpack
from flintlog.columns.table import Columns


@dataclass(frozen=True, slots=True)
class Mixed(Columns):
    word: NDArray[np.uint64]
    place: NDArray[np.int64]
    length: NDArray[np.uint32]
    flags: NDArray[np.uint8]


def table(rows):
    columns = list(zip(*rows, strict=True)) or [()] * 4
    return Mixed(
        *(np.array(column, kind) for column, kind in zip(columns, Mixed.types().values(), strict=True))
    )


def same(one, other):
    for name, kind in Mixed.types().items():
        mine, theirs = getattr(one, name), getattr(other, name)
        assert mine.dtype == theirs.dtype == kind
        assert mine.tolist() == theirs.tolist()


def around(low, high, *centres):
    """Numbers that are close to each other, or as far as can be."""
    near = [st.integers(max(low, centre - 300), min(high, centre + 70_000)) for centre in centres]
    return st.one_of(st.integers(low, high), *near)


ROWS = st.lists(
    st.tuples(
        around(0, 2**64 - 1, 0, 2**63, 2**64 - 10),
        around(-(2**63), 2**63 - 1, -(2**63), -5, 2**63 - 10),
        around(0, 2**32 - 1, 2**31),
        around(0, 255, 7),
    ),
    max_size=6,
)


@given(rows=ROWS)
def test_what_is_packed_comes_back(rows):
    found = unpack(Mixed, pack(table(rows)))
    same(found, table(rows))
    for name in Mixed.types():
        assert getattr(found, name).flags.writeable and getattr(found, name).flags.aligned


@given(rows=ROWS, data=st.data())
def test_some_rows_come_back_in_the_order_that_was_asked_for(rows, data):
    packer = Packer(table(rows))
    places = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=8)) if rows else []
    which = np.array(places, np.int64)
    same(unpack(Mixed, packer.rows(which)), table(rows)[which])
    begin = data.draw(st.integers(0, len(rows)))
    same(unpack(Mixed, packer.rows(slice(begin, begin + 2))), table(rows)[begin : begin + 2])


@pytest.mark.parametrize(("step", "bytes_each"), [(0, 0), (1, 1), (200, 2), (70_000, 4), (2**40, 8)])
def test_a_column_takes_as_many_bytes_as_its_values_need(step, bytes_each):
    count = 200
    ones = np.ones(count)
    made = Mixed(
        np.arange(count).astype(np.uint64) * np.uint64(step) + np.uint64(2**60),
        *(ones.astype(kind) for kind in list(Mixed.types().values())[1:]),
    )
    assert len(pack(made)) - bytes_each * count == len(pack(table([])))
