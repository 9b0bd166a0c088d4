"""The Spark lines of README.md run after the session before them, and print what the page shows."""

from __future__ import annotations

import pytest
from scripts.pages.page_blocks import ROOT, blocks, commands, play

pytestmark = pytest.mark.spark


def test_the_spark_example_prints_what_the_page_shows(spark, tmp_path, monkeypatch, capsys):
    home = tmp_path / "app"
    home.mkdir()
    monkeypatch.chdir(home)
    for block in blocks(ROOT / "README.md"):
        if block.language == "console":
            for command, _ in commands(block.text):
                play(command, home)
        elif block.language == "python" and "spark" not in block.text:
            exec(compile(block.text, "README.md", "exec"), {})
        elif block.language == "python":
            capsys.readouterr()
            # Spark's processes stay where they were started, so the directory is named in full.
            code = block.text.replace('"spool"', repr(str(home / "spool")))
            exec(compile(code, "README.md", "exec"), {})
            assert capsys.readouterr().out.strip() == (block.output or "").strip()
