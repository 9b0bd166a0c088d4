"""docs/performance.md: every figure has the command that made it beside it, and the command can be typed."""

from __future__ import annotations

import re

from scripts.pages.page_blocks import ROOT

PAGE = (ROOT / "docs" / "performance.md").read_text()
# A block without a language, and a table with figures in it; the tables of commands have none.
FIGURES = re.compile(r"^```\n.*?^```$|(?:^\|[^\n]*\|\n)+", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"^```sh\n((?:python -m benchmarks.*\n)+)```$", re.MULTILINE)


def test_every_block_and_table_of_figures_has_its_command_above_it():
    text = COMMAND.sub(lambda found: "COMMAND " + found[1], PAGE)
    figures = [found for found in FIGURES.finditer(text) if "python -m" not in found[0]]
    assert len(figures) == 12
    behind = 0
    for found in figures:
        assert "COMMAND python -m benchmarks" in text[behind : found.start()], found[0][:200]
        behind = found.end()


def test_every_topic_is_one_that_is_measured():
    topics = re.findall(r"--only ([\w/-]+)", PAGE)
    assert len(topics) >= 6
    for topic in topics:
        dialect, _, rest = topic.partition("/")
        source = (ROOT / "benchmarks" / f"{dialect}.py").read_text()
        assert re.search(rf"""["/]{rest.partition("/")[0]}["/]""", source) or not rest, topic
