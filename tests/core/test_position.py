"""Positions as people type them and as JSON has them."""

from __future__ import annotations

import pytest

from flintlog.core.position import parse_position, position_json, span
from flintlog.errors import UsageError


@pytest.mark.parametrize(
    ("text", "position"), [("17", (17,)), ("3,17", (3, 17)), ("3-17", (3, 17)), ("1,2,3", (1, 2, 3))]
)
def test_a_position_is_read_as_it_is_typed(text, position):
    assert parse_position(text) == position


@pytest.mark.parametrize("text", ["", "x", "1,", "1.5", "1,,2"])
def test_what_is_not_a_position_is_wrong_usage(text):
    with pytest.raises(UsageError) as caught:
        parse_position(text)
    assert caught.value.advice == "Give a number, or numbers separated by commas"


def test_a_single_number_stands_for_itself_in_json():
    assert position_json((17,)) == 17
    assert position_json((3, 17)) == [3, 17]
    assert position_json(None) is None


def test_positions_compare_in_log_order():
    assert (9,) < (10,)
    assert parse_position("2,100") < parse_position("3,1")


def test_a_span_of_one_position_is_told_once():
    assert (span(6, 6), span(6, 9)) == ("6", "6 to 9")
