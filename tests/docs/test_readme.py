"""README.md cannot rot: its code runs, its session is played, and both print what the page shows."""

from __future__ import annotations

import re

from scripts.pages.page_blocks import ROOT, play_page

PAGE = ROOT / "README.md"


def test_the_examples_and_the_session_print_what_the_page_shows(tmp_path, monkeypatch, capsys):
    home = tmp_path / "app"
    home.mkdir()
    monkeypatch.chdir(home)
    # What needs Spark is played by test_readme_spark.py.
    assert play_page(PAGE, home, capsys, skip="spark") >= 5


def test_every_target_that_the_page_names_is_in_the_makefile():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"\bmake ([a-z]+)  ", PAGE.read_text()))
    assert named
    assert named <= targets
