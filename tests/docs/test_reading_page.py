"""docs/reading.md cannot rot: its code runs and prints what the page shows, and the calls it names are there."""

from __future__ import annotations

import re

from scripts.pages.page_blocks import ROOT
from tests.docs.page_examples import test_each_example_prints_what_the_page_shows  # noqa: F401

from flintlog import Log, Rows

PAGE = ROOT / "docs" / "reading.md"
EXAMPLES = 3


def test_every_call_in_the_table_is_there():
    table = PAGE.read_text().split("| what you want |")[1].split("\n\n")[0]
    named = {"".join(pair) for pair in re.findall(r"`log\.(\w+)|`(plan_\w+)`", table)}
    assert len(named) > 10
    assert [name for name in named if not hasattr(Log, name)] == ["path"]  # of each log, not of all
    assert {"to_table", "to_pandas"} <= set(dir(Rows))
