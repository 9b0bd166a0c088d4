"""Writes what can be read from the code into pages: options and JSON fields of the verbs, and the public names.

`python -m scripts.pages.reference` writes every part anew, between its mark (`<!-- made: NAME -->`) and `<!-- end -->`.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from scripts.pages import contract
from scripts.pages.contract import Fields
from scripts.pages.page_blocks import ROOT
from scripts.pages.public import MODULES, first_sentence, found, names

from flintlog.cli.main import EXIT_STATUSES, VERBS, build_parser
from flintlog.cli.verb import Verb
from flintlog.core.dialect import dialect, dialect_names

DOCS = ROOT / "docs"
PAGES = sorted([*(DOCS / "verbs").glob("*.md"), DOCS / "web.md", DOCS / "api.md"])
_MARK = re.compile(r"^<!-- made: (.+?) -->\n(.*?)^<!-- end -->$", re.DOTALL | re.MULTILINE)
_EVERYWHERE = {"--help", "--json", "--debug"}  # docs/verbs/README.md says it once
_FIELDS: dict[str, Fields] = {
    "entry": contract.ENTRY_FIELDS,
    "byte": contract.BYTE_FIELDS,
    "inventory": contract.INVENTORY_FIELDS,
    "file": contract.FILE_FIELDS,
    "finding": contract.FINDING_FIELDS,
    "plan": contract.REPAIR_FIELDS,
    "backup": contract.BACKUP_FIELDS,
    "backup list": contract.BACKUP_LIST_FIELDS,
    "export": contract.EXPORT_FIELDS,
    "diff": contract.DIFF_FIELDS,
    "web": contract.WEB_FIELDS,
    "doctor": contract.DOCTOR_FIELDS,
}


def parts() -> dict[str, str]:
    """Every part that a page shows, by the name in its mark."""
    return {
        "exit statuses": _exit_statuses(),
        **{f"options of {verb.name}": _options(verb) for verb in VERBS},
        **{f"fields of {name}": _table("field", _named(fields)) for name, fields in _FIELDS.items()},
        **{f"names of {module}": _names(module) for module in MODULES},
        "fields of state": _table("dialect", _state_fields(), "fields, in this order"),
    }


def written(page: Path, made: dict[str, str]) -> str:
    """The page with its parts written anew."""
    return _MARK.sub(
        lambda mark: f"<!-- made: {mark[1]} -->\n\n{made[mark[1]]}\n<!-- end -->",
        page.read_text(encoding="utf-8"),
    )


def marks(page: Path) -> list[str]:
    """The names of the parts of a page."""
    return [name for name, _ in _MARK.findall(page.read_text(encoding="utf-8"))]


def _exit_statuses() -> str:
    rows = [tuple(line.split(maxsplit=1)) for line in EXIT_STATUSES.splitlines()[1:]]
    rows += [("130", "interrupted"), ("141", "the reader of the output went away")]
    return _table("exit status", rows)


def _options(verb: Verb) -> str:
    parsers = next(item.choices for item in build_parser()._actions if item.dest == "verb")
    actions = [item for item in parsers[verb.name]._actions if not _EVERYWHERE & set(item.option_strings)]
    words = " ".join(_word(action) for action in actions if not action.option_strings)
    rows = [(_typed(action), str(action.help)) for action in actions]
    return f"`flintlog {verb.name} {words}`\n\n{_table('argument', rows)}"


def _word(action: argparse.Action) -> str:
    shown = f"{action.metavar} ..." if action.nargs in ("+", "*") else str(action.metavar)
    return f"[{shown}]" if action.nargs in ("?", "*") else shown


def _typed(action: argparse.Action) -> str:
    if not action.option_strings:
        return f"`{action.metavar}`"
    value = f" {_word(action)}" if action.nargs != 0 else ""
    return ", ".join(f"`{option}{value}`" for option in action.option_strings)


def _named(fields: Fields) -> list[tuple[str, str]]:
    return [(name if name.startswith("(") else f"`{name}`", meaning) for name, meaning in fields]


def _names(module: str) -> str:
    rows = [(f"`{name}`", first_sentence(found(module, name))) for name in names(module)]
    return _table("name", rows, "what it is")


def _state_fields() -> list[tuple[str, str]]:
    return [
        (name, ", ".join(f"`{column}`" for column in dialect(name).state_schema.names))
        for name in dialect_names()
    ]


def _table(title: str, rows: list[tuple[str, ...]], meaning: str = "meaning") -> str:
    lines = [(title, meaning), ("---", "---"), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines).replace("| --- | --- |", "|---|---|")


def main() -> None:
    made = parts()
    for page in PAGES:
        page.write_text(written(page, made), encoding="utf-8")
    print("docs: options and fields in docs/verbs and docs/web.md, names in docs/api.md")


if __name__ == "__main__":
    main()
