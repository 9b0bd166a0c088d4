"""docs/performance.md shows the saved figures, each table beside its command, and says why a row misses its aim."""

from __future__ import annotations

import re

import pytest
from benchmarks.results import Results
from scripts.pages import performance
from scripts.pages.page_blocks import ROOT

PAGE = performance.PAGE.read_text()
RESULTS = Results.read(performance.FIGURES)


def test_the_page_and_the_picture_show_the_saved_figures():
    assert performance.page(RESULTS) == PAGE, "run `make docs`"
    assert performance.picture(RESULTS) == performance.PICTURE.read_text(), "run `make docs`"


def test_every_row_is_on_the_page_below_the_command_that_measures_it():
    for dialect in ("taskflux", "zmqraft", "mpy6a", "limestone", "spark"):
        section = re.split(r"^## ", PAGE, flags=re.MULTILINE)
        [mine] = [text for text in section if f"figures of {dialect} " in text]
        assert f"python -m benchmarks --only {dialect}/ --save docs/performance.json" in mine
        rows = performance.of_dialect(RESULTS, dialect)
        assert len(rows) >= 9
        assert [row.name for row in rows if f"| {row.name} |" not in mine] == []


@pytest.mark.parametrize("name", performance.missed(RESULTS))
def test_a_row_that_misses_its_aim_has_a_sentence(name):
    """The sentence names the row, or the beginning that several rows have in common."""
    told = re.findall(r"\*([^*]+)\*", "\n".join(re.findall(r"^- .*(?:\n  .*)*", PAGE, re.MULTILINE)))
    assert [word for word in told if word in name], name


def test_every_topic_is_one_that_is_measured():
    topics = re.findall(r"--only ([\w/-]+)", PAGE)
    assert len(topics) >= 6
    for topic in topics:
        dialect, _, rest = topic.partition("/")
        source = (ROOT / "benchmarks" / f"{dialect}.py").read_text()
        assert re.search(rf"""["/]{rest.partition("/")[0]}["/]""", source) or not rest, topic
