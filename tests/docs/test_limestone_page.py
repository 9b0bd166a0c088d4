"""docs/limestone.md cannot rot: its code runs and prints what the page shows, and the calls it names are there."""

from __future__ import annotations

import re

from scripts.pages.page_blocks import ROOT
from tests.docs.page_examples import test_each_example_prints_what_the_page_shows  # noqa: F401

from flintlog import Datastore
from flintlog.dialects.limestone.store import Channel, Session, Snapshot
from flintlog.dialects.limestone.store.auto import Automatic

PAGE = ROOT / "docs" / "limestone.md"
EXAMPLES = 3


def test_every_call_in_the_table_is_there():
    table = PAGE.read_text().split("| what you want | call")[1].split("\n\n")[0]
    calls = {
        name
        for row in table.splitlines()
        for name in re.findall(r"(\w+)\(|`(?:\w+\.)*(\w+)`", row.split("|")[2] if row.count("|") > 3 else "")
        for name in name
        if name
    }
    assert {"put_many", "switch_epoch", "compact", "get", "wait"} <= calls
    for name in calls:
        assert any(hasattr(owner, name) for owner in (Datastore, Channel, Session, Snapshot, Automatic)), name


def test_each_defect_has_its_story():
    stories = (ROOT / "tests" / "limestone" / "test_limestone_defects.py").read_text()
    table = PAGE.read_text().split("## Where the original loses data")[1]
    letters = re.findall(r"^\| ([A-J]) \|", table, re.MULTILINE)
    assert letters == list("ABCDEFGHJ")
    for letter in letters:
        assert f"def test_{letter.lower()}_" in stories
