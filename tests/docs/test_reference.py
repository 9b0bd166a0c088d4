"""`docs/cli.md` says what the command line does."""

from __future__ import annotations

from pathlib import Path

from scripts.pages.reference import reference

from flintlog.cli.main import VERBS

PAGE = Path(__file__).parent.parent.parent / "docs" / "cli.md"


def test_the_page_is_what_the_parsers_say():
    assert PAGE.read_text() == reference(), "run `make docs`"


def test_every_verb_and_option_has_its_line():
    text = reference()
    for verb in VERBS:
        assert f"\n## {verb.name}\n" in text
    for option in ("`--as-of POSITION`", "`--hex`", "`--to NEWDIR`", "`--dry-run`", "`--apply`"):
        assert f"| {option} |" in text
