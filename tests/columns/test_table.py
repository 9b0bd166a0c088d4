"""Tables as columns, and rows cut by their bytes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from flintlog.columns import table
from flintlog.columns.table import Columns, slices
from flintlog.columns.zeros import has_zero_sector, zeros_from


@dataclass(frozen=True, slots=True)
class Pairs(Columns):
    place: NDArray[np.int64]
    kind: NDArray[np.uint8]


def test_the_columns_have_the_types_of_their_annotations():
    assert Pairs.types() == {"place": np.int64, "kind": np.uint8}
    assert [column.dtype for column in Pairs.room(3)] == [np.int64, np.uint8]


def test_rows_are_chosen_and_joined_across_all_columns():
    columns = Pairs.room(4)
    columns[0][:], columns[1][:] = [1, 2, 3, 4], [5, 6, 7, 8]
    three = Pairs.filled(columns, 3)
    both = Pairs.join([three[:1], three[np.array([False, False, True])]])
    assert (len(three), both.place.tolist(), both.kind.tolist()) == (3, [1, 3], [5, 7])
    assert Pairs.join([three]) is three
    assert (len(Pairs.join([])), Pairs.join([]).kind.dtype) == (0, np.uint8)


def test_very_many_rows_are_chosen_in_pieces_and_come_out_the_same():
    count = 3 * table._PIECE_ROWS + 7
    many = Pairs(np.arange(count), np.arange(count).astype(np.uint8))
    backwards = np.arange(count)[::-1]
    for which in (backwards, backwards % 3 == 0, np.zeros(count, np.bool_)):
        chosen = many[which]
        assert np.array_equal(chosen.place, many.place[which])
        assert np.array_equal(chosen.kind, many.kind[which])
        assert chosen.kind.dtype == np.uint8


@pytest.mark.parametrize(
    ("sizes", "rows_max", "expected"),
    [
        ([], None, []),
        ([4, 4, 4], None, [(0, 2), (2, 3)]),
        ([0, 0, 0], 2, [(0, 2), (2, 3)]),
        ([99, 1, 99], None, [(0, 1), (1, 2), (2, 3)]),
    ],
)
def test_pieces_hold_so_many_bytes_and_rows_and_at_least_one(sizes, rows_max, expected):
    found = slices(np.array(sizes, np.int64), 8, rows_max)
    assert [(piece.start, piece.stop) for piece in found] == expected


def test_zeros_are_found_up_to_the_end_and_in_whole_sectors():
    raw = memoryview(b"x" * 100 + bytes(3 << 20))
    assert (zeros_from(raw, 0), zeros_from(raw, 200), zeros_from(raw[:100], 0)) == (100, 200, 100)
    assert has_zero_sector(raw, 100, 2000)
    assert has_zero_sector(raw, 96, 512) == (not any(raw[100:512]))
    assert not has_zero_sector(memoryview(b"x" * 4096), 0, 4096)
