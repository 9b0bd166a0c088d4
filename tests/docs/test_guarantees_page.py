"""docs/guarantees.md names tests and scenarios that exist."""

from __future__ import annotations

import re

import pytest
from scripts.pages.page_blocks import ROOT
from tests.crash import test_limestone, test_mpy6a, test_taskflux, test_zmqraft
from tests.docs.page_links import is_there, named, not_linked

SUITES = (*test_taskflux.SUITES, *test_zmqraft.SUITES, *test_mpy6a.SUITES, *test_limestone.SUITES)
PATH = ROOT / "docs" / "guarantees.md"
PAGE = PATH.read_text()


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def test_every_test_that_is_named_is_a_link_to_its_file():
    assert not_linked(PATH) == []


@pytest.mark.parametrize(
    ("file", "name"), sorted(set(named(PAGE))), ids=lambda value: value.rpartition("/")[2]
)
def test_the_test_that_holds_a_promise_exists(file, name):
    assert is_there(file, name)


def test_each_promise_names_the_tests_that_hold_it():
    titles = re.findall(r"^## (\d+\. .*)$", PAGE, re.MULTILINE)
    assert [int(title.partition(".")[0]) for title in titles] == list(range(1, 17))
    for title in titles:
        assert re.search(r"^- .*(`tests/|\*crash images\*|\*faults\*)", section(title), re.MULTILINE), title


def test_the_scenarios_it_names_are_in_the_suites():
    there = {scenario.name for suite in SUITES for scenario in suite.scenarios}
    table = re.findall(r"^\| .*? \| (`.*) \|$", section("The scenarios"), re.MULTILINE)
    named = table + re.findall(r"^- \*crash images\*:(.*)$", PAGE, re.MULTILINE)
    assert len(table) == 11
    assert set(re.findall(r"`([\w-]+)`", " ".join(named))) <= there
