"""docs/zmqraft.md cannot rot: its code runs and prints what the page shows, and the calls it names are there."""

from __future__ import annotations

import re

from scripts.pages.page_blocks import ROOT
from tests.docs.page_examples import test_each_example_prints_what_the_page_shows  # noqa: F401

from flintlog import RaftStore
from flintlog.dialects.zmqraft import store

PAGE = ROOT / "docs" / "zmqraft.md"
EXAMPLES = 2


def test_every_call_in_the_table_is_one_of_the_store():
    table = PAGE.read_text().split("## The calls")[1].split("\n\n`data`")[0]
    named = {
        name
        for row in table.splitlines()
        for name in re.findall(r"`(\w+)[(`]", row.split("|")[2] if "|" in row else "")
    }
    assert {"append", "truncate", "entries", "snapshot", "install_snapshot"} <= named
    assert named - set(dir(RaftStore)) - {"write"} == set()


def test_every_piece_in_the_table_is_exported_and_has_the_calls():
    table = PAGE.read_text().split("## The pieces alone")[1].split("\n\nThey take")[0]
    rows = re.findall(r"^\| `(\w+)` \| .*? \| (.*) \|$", table, re.MULTILINE)
    assert [name for name, _ in rows] == ["TokenFile", "IndexFile", "FileLog", "SnapshotFile", "StateFile"]
    for name, calls in rows:
        assert set(re.findall(r"`(\w+)`", calls)) <= set(dir(getattr(store, name)))
