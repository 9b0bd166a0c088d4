"""docs/backup.md cannot rot: its commands run and print what the page shows."""

from __future__ import annotations

import re

from scripts.pages.page_blocks import ROOT, blocks, commands, play

PAGE = ROOT / "docs" / "backup.md"
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")


def test_the_commands_print_what_the_page_shows(tmp_path, monkeypatch):
    home = tmp_path / "app"
    home.mkdir()
    monkeypatch.chdir(home)
    for block in blocks(PAGE):
        if block.language == "python":
            exec(compile(block.text, PAGE.name, "exec"), {})
            continue
        for command, shown in commands(block.text):
            assert _MOMENT.sub("now", play(command, home)) == _MOMENT.sub("now", shown), command
