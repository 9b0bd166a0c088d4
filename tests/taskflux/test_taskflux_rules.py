"""The notes' rules, with the notes' own examples."""

from __future__ import annotations

import pytest

from flintlog.dialects.taskflux.rules import Limits, snapshot_due, superfluous

# The note: segments 0 to 7, each of ten entries; the snapshot's index in 2, the commit index in 6, 7 is open.
FIRSTS = [10 * number for number in range(8)]
IN_SEGMENT_2, IN_SEGMENT_6 = 25, 65


def test_the_notes_example_makes_a_snapshot_with_three_and_none_with_five():
    assert snapshot_due("designed", 3, FIRSTS, IN_SEGMENT_2, IN_SEGMENT_6)
    assert not snapshot_due("designed", 5, FIRSTS, IN_SEGMENT_2, IN_SEGMENT_6)


def test_designed_asks_for_more_than_the_threshold_not_for_as_many():
    # 3, 4, 5 and 6 count: four.
    assert not snapshot_due("designed", 4, FIRSTS, IN_SEGMENT_2, IN_SEGMENT_6)


@pytest.mark.parametrize("index", [20, 29])
def test_the_whole_segment_of_the_snapshot_is_left_out(index):
    assert snapshot_due("designed", 3, FIRSTS, index, IN_SEGMENT_6)
    assert not snapshot_due("designed", 4, FIRSTS, index, IN_SEGMENT_6)


@pytest.mark.parametrize(("commit", "due"), [(59, False), (60, True), (69, True)])
def test_the_segment_of_the_commit_index_counts_from_its_first_entry_on(commit, due):
    assert snapshot_due("designed", 3, FIRSTS, IN_SEGMENT_2, commit) is due


def test_the_open_segment_does_not_count():
    assert not snapshot_due("designed", 0, [0], -1, 5)
    assert not snapshot_due("designed", 4, FIRSTS, IN_SEGMENT_2, 79)
    assert snapshot_due("designed", 3, FIRSTS, IN_SEGMENT_2, 79)


def test_without_a_snapshot_all_closed_segments_count():
    assert snapshot_due("designed", 6, FIRSTS, -1, 79)
    assert not snapshot_due("designed", 7, FIRSTS, -1, 79)


def test_shipped_counts_sealed_segments_below_the_commit_index_and_asks_for_as_many():
    # 0 to 5 end at or below 65: six, the one that holds the snapshot among them.
    assert snapshot_due("shipped", 6, FIRSTS, IN_SEGMENT_2, IN_SEGMENT_6)
    assert not snapshot_due("shipped", 7, FIRSTS, IN_SEGMENT_2, IN_SEGMENT_6)
    assert snapshot_due("shipped", 7, FIRSTS, IN_SEGMENT_2, 69)


def test_shipped_with_threshold_zero_asks_after_every_command_but_not_before_the_first():
    assert snapshot_due("shipped", 0, [0], -1, 0)
    assert not snapshot_due("shipped", 0, [0], -1, -1)
    assert not snapshot_due("shipped", 0, [10], 9, 9)


def test_a_segment_rolls_over_the_soft_limit_when_all_is_committed_and_over_the_hard_limit_always():
    limits = Limits(soft=100, hard=200)
    assert not limits.rolls(100, all_committed=True)  # over, not at
    assert limits.rolls(101, all_committed=True)
    assert not limits.rolls(101, all_committed=False)
    assert not limits.rolls(200, all_committed=False)
    assert limits.rolls(201, all_committed=False)


def test_defaults_are_those_of_the_format_page():
    assert Limits() == Limits(16777216, 33554432, 5)


def test_inside_a_batch_shipped_is_full_at_the_hard_limit_and_designed_above_it():
    limits = Limits(soft=100, hard=200)
    assert (limits.full_at("shipped"), limits.full_at("designed")) == (200, 201)


@pytest.mark.parametrize(
    ("index", "count"),
    [(-1, 0), (0, 0), (9, 0), (10, 1), (19, 1), (20, 2), (69, 6), (70, 7), (79, 7), (10**6, 7)],
)
def test_segments_go_whose_every_index_is_below_the_snapshot(index, count):
    """One that ends exactly at the snapshot stays, and so does the newest, whatever it holds."""
    assert superfluous(FIRSTS, index) == count
    assert all(first - 1 < index for first in FIRSTS[1 : count + 1])
