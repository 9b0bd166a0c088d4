"""The tables of findings on the format pages, and the codes in the index of the runbooks: both from the dialects.

python -m scripts.pages.finding_tables
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from flintlog.core.finding import Code, Codes

DOCS = Path(__file__).parents[2] / "docs"
DIALECTS = ("taskflux", "zmqraft", "mpy6a", "limestone")
RUNBOOKS = DOCS / "runbooks.md"
NAMED = ("a torn tail", "a lost file")  # runbooks whose codes are listed; a code of no other is damage
_TABLE = re.compile(r"(?<=^\| code \| severity \| what it means \| )(.*\n.*\n)(?:\|.*\n)*", re.MULTILINE)
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
_INDEX = re.compile(r"^\| (?:`\[[a-z-]+\]`, )*(.*) (\| \[(.*)\]\(#.*\) \|)$", re.MULTILINE)


def codes(dialect: str) -> Codes:
    """The table of a dialect."""
    found: Codes = import_module(f"flintlog.dialects.{dialect}.findings").CODES
    return found


def page(dialect: str) -> Path:
    """The page that tells of its findings."""
    return DOCS / "formats" / f"{dialect}.md"


def format_page(dialect: str) -> str:
    """The format page with every table of findings written anew, by the heading above it."""
    text = page(dialect).read_text(encoding="utf-8")

    def table(found: re.Match[str]) -> str:
        section = _HEADING.findall(text, 0, found.start())[-1]
        return found[1] + "".join(map(_line, _rows(codes(dialect), section)))

    return _TABLE.sub(table, text)


def _rows(table: Codes, section: str) -> Iterator[Code]:
    return (row for row in table.values() if row.section == section)


def _line(row: Code) -> str:
    cells = f"`{row.code}`", " or ".join(row.severities), row.meaning, row.opening, row.repair
    return f"| {' | '.join(cells)} |\n"


def runbooks() -> str:
    """The runbooks, with the codes in front of what else one sees."""
    rows = [row for dialect in DIALECTS for row in codes(dialect).values()]

    def line(found: re.Match[str]) -> str:
        told = {row.code for row in rows if row.runbook == found[3]} if found[3] in NAMED else set()
        return f"| {''.join(f'`[{code}]`, ' for code in sorted(told))}{found[1]} {found[2]}"

    return _INDEX.sub(line, RUNBOOKS.read_text(encoding="utf-8"))


def main() -> None:
    for dialect in DIALECTS:
        page(dialect).write_text(format_page(dialect), encoding="utf-8")
    RUNBOOKS.write_text(runbooks(), encoding="utf-8")
    print("docs: findings")


if __name__ == "__main__":
    main()
