"""Pages that are sessions from beginning to end: every block is played, and prints what the page shows."""

from __future__ import annotations

import pytest
from tests.page_blocks import ROOT, play_page


@pytest.mark.parametrize("name", ["tutorial.md", "runbooks.md", "verbs.md"])
def test_the_page_prints_what_it_shows(name, tmp_path, monkeypatch, capsys):
    home = tmp_path / "app"
    home.mkdir()
    monkeypatch.chdir(home)
    assert play_page(ROOT / "docs" / name, home, capsys) >= 5
