"""docs/mpy6a.md cannot rot: its code runs and prints what the page shows, and the calls it names are there."""

from __future__ import annotations

import re

from scripts.pages.page_blocks import ROOT
from tests.docs.page_examples import test_each_example_prints_what_the_page_shows  # noqa: F401

from flintlog import SessionStore
from flintlog.dialects.mpy6a.store import Replays, Session

PAGE = ROOT / "docs" / "mpy6a.md"
EXAMPLES = 3


def test_every_call_in_the_table_is_there():
    table = PAGE.read_text().split("## The life of a session")[1].split("\n\n`due`")[0]
    rows = [row.split("|") for row in table.splitlines() if row.startswith("| ")][1:]
    named = {name for row in rows for name in re.findall(r"`(?:store\.|session\.)?(\w+)\(", "|".join(row))}
    assert {"new", "append", "store", "due", "delete", "put_many", "finish"} <= named
    assert named - set(dir(SessionStore)) - set(dir(Session)) - set(dir(Replays)) == set()
