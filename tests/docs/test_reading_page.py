"""docs/reading.md cannot rot: its code runs and prints what the page shows, and the calls it names are there."""

from __future__ import annotations

import re

from scripts.pages.page_blocks import ROOT, blocks

from flintlog import Log, Rows

PAGE = ROOT / "docs" / "reading.md"


def test_the_page_prints_what_it_shows_and_names_what_is_there(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    examples = [block for block in blocks(PAGE) if block.language == "python"]
    assert len(examples) == 3
    for block in examples:
        exec(compile(block.text, str(PAGE), "exec"), {"__name__": "page"})
        assert capsys.readouterr().out == block.output
    table = PAGE.read_text().split("| what you want |")[1].split("\n\n")[0]
    named = {"".join(pair) for pair in re.findall(r"`log\.(\w+)|`(plan_\w+)`", table)}
    assert len(named) > 10
    assert [name for name in named if not hasattr(Log, name)] == ["path"]  # of each log, not of all
    assert {"to_table", "to_pandas"} <= set(dir(Rows))
