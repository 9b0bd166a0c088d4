"""docs/formats/notes.md names code and tests that exist, and leaves no statement without them."""

from __future__ import annotations

import re
from itertools import groupby

import pytest
from scripts.pages.page_blocks import ROOT
from tests.docs.page_links import is_there, named, not_linked

PATH = ROOT / "docs" / "formats" / "notes.md"
PAGE = PATH.read_text()
ROWS = [
    [cell.strip() for cell in line.split("|")[1:-1]]
    for line in PAGE.splitlines()
    if re.match(r"\| \d{3}\.", line)
]


def test_every_name_is_a_link_to_its_file():
    assert not_linked(PATH) == []


@pytest.mark.parametrize("file", sorted({file for file, _ in named(PAGE)}))
def test_every_name_is_in_its_file(file):
    assert [name for other, name in named(PAGE) if other == file and not is_there(file, name)] == []


def test_code_and_tests_stand_in_their_columns():
    for number, _, where, test, _ in ROWS:
        assert all(file.startswith("src/") for file, _ in named(where)), number
        assert all(file.startswith("tests/") and name.startswith("test_") for file, name in named(test)), (
            number
        )


def test_the_numbers_are_unique_and_in_order():
    numbers = [tuple(map(int, row[0].split("."))) for row in ROWS]
    notes = {
        note: [number for _, number in rows] for note, rows in groupby(numbers, lambda number: number[0])
    }
    assert len(numbers) == sum(map(len, notes.values()))
    for note, counted in notes.items():
        assert counted == list(range(1, len(counted) + 1)), note
    assert list(notes) == sorted(notes)


def test_every_statement_has_code_and_a_test_or_says_why_not():
    for number, statement, where, test, decision in ROWS:
        assert statement, number
        assert (named(where) and named(test)) or decision, number


def test_no_statement_is_open():
    assert [number for number, *_, decision in ROWS if decision == "open"] == []
