"""README.md cannot rot: its code runs, its session is played, and both print what the page shows."""

from __future__ import annotations

import re

from tests.page_blocks import ROOT, blocks, commands, play, timeless

PAGE = ROOT / "README.md"


def test_the_examples_and_the_session_print_what_the_page_shows(tmp_path, monkeypatch, capsys):
    home = tmp_path / "app"
    home.mkdir()
    monkeypatch.chdir(home)
    played = 0
    for block in blocks(PAGE):
        if "spark" in block.text:
            continue  # played by tests/pipeline/test_readme_spark.py
        if block.language == "python":
            exec(compile(block.text, "README.md", "exec"), {})
            assert capsys.readouterr().out == block.output
            played += 1
        elif block.language == "console":
            for command, output in commands(block.text):
                assert timeless(play(command, home)) == timeless(output), command
                played += 1
    assert played >= 5


def test_every_target_that_the_page_names_is_in_the_makefile():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"\bmake ([a-z]+)  ", PAGE.read_text()))
    assert named
    assert named <= targets
