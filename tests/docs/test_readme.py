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


def test_the_page_is_read_in_five_minutes():
    assert len(PAGE.read_text().split()) <= 750


def test_the_figures_are_those_of_the_measured_run():
    line = PAGE.read_text().split("## How fast\n")[1].split("##")[0]
    measured = (ROOT / "docs" / "performance.md").read_text()
    figures = re.findall(r"\d+,\d{3}|\d\.\d\d", line)
    assert len(figures) == 4
    assert [figure for figure in figures if figure not in measured] == []
    assert "python -m benchmarks" in line
