"""The pages of the verbs have the options and fields of the command line, each once, as `make docs` writes them."""

from __future__ import annotations

import pytest
from scripts.pages.reference import DOCS, PAGES, marks, parts, written

MADE = parts()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_the_page_says_what_the_parsers_say(page):
    assert page.read_text() == written(page, MADE), "run `make docs`"


def test_every_verb_and_every_object_is_on_one_page():
    assert sorted(name for page in PAGES for name in marks(page)) == sorted(MADE)
    assert [
        name for page in PAGES for name in marks(page) if name.startswith("options of ")
        if name != f"options of {page.stem}"
    ] == []  # fmt: skip


@pytest.mark.parametrize(
    ("verb", "option"),
    [
        ("state", "`--as-of POSITION`"),
        ("dump", "`--hex`"),
        ("migrate", "`--to NEWDIR`"),
        ("compact", "`--dry-run`"),
        ("repair", "`--apply`"),
        ("repair", "`--undo [NAME]`"),
        ("diff", "`DIR`"),
    ],
)
def test_an_option_has_its_line(verb, option):
    assert f"| {option} |" in MADE[f"options of {verb}"]
