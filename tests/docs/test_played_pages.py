"""Pages that are sessions from beginning to end: every block is played, and prints what the page shows."""

from __future__ import annotations

import re

import pytest
from scripts.pages.page_blocks import ROOT, play_page

QUESTIONS = [
    "How it shows itself",
    "What to type",
    "How to see that it worked",
    "What it costs",
    "How to go back",
    "When to stop and ask",
]
RUNBOOKS = (ROOT / "docs" / "runbooks.md").read_text().split("\n## ")[1:]
VERBS = ROOT / "docs" / "verbs"
FORMATS = sorted(
    f"formats/{page.name}" for page in (ROOT / "docs" / "formats").glob("*.md") if page.name != "notes.md"
)
PAGES = sorted(page.name for page in VERBS.glob("*.md") if page.name != "README.md")


@pytest.fixture
def home(tmp_path, monkeypatch):
    home = tmp_path / "app"
    home.mkdir()
    monkeypatch.chdir(home)
    return home


@pytest.mark.parametrize("name", ["tutorial.md", "runbooks.md", *FORMATS])
def test_the_page_prints_what_it_shows(name, home, capsys):
    assert play_page(ROOT / "docs" / name, home, capsys) >= 2


@pytest.mark.parametrize("name", PAGES)
def test_the_page_of_a_verb_prints_what_it_shows(name, home, capsys):
    assert play_page(VERBS / "README.md", home, capsys) == 1  # the logs that every page begins with
    assert play_page(VERBS / name, home, capsys) >= 3


@pytest.mark.parametrize("section", RUNBOOKS, ids=lambda text: text.split("\n")[0])
def test_every_runbook_answers_the_same_questions_in_the_same_order(section):
    assert re.findall(r"^\*([A-Z][a-z ]+)\.\*", section, re.MULTILINE) == QUESTIONS
