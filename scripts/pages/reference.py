"""Writes `docs/cli.md` from the parsers and the JSON contract: `python -m scripts.pages.reference`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from flintlog.cli import contract
from flintlog.cli.contract import Fields
from flintlog.cli.main import EXIT_STATUSES, VERBS, verb_parser
from flintlog.cli.verb import Verb
from flintlog.core.dialect import dialect, dialect_names

_JSON_OF_VERB: dict[str, tuple[str, Fields]] = {
    "inspect": ("One object", contract.INVENTORY_FIELDS),
    "verify": ("One object, the same as of `inspect`", contract.INVENTORY_FIELDS),
    "dump": ("One object per entry", contract.ENTRY_FIELDS),
    "tail": ("One object per entry, as of `dump`", contract.ENTRY_FIELDS),
    "repair": ("One object", contract.REPAIR_FIELDS),
    "snapshot": ("One object", contract.PLAN_FIELDS),
    "compact": ("One object", contract.PLAN_FIELDS),
    "migrate": ("One object", contract.PLAN_FIELDS),
    "backup": ("One object", contract.BACKUP_FIELDS),
    "restore": ("One object", contract.PLAN_FIELDS),
    "export": ("One object", contract.EXPORT_FIELDS),
    "diff": ("One object", contract.DIFF_FIELDS),
    "web": ("One object", contract.WEB_FIELDS),
    "doctor": ("One object", contract.DOCTOR_FIELDS),
}

_INTRODUCTION = """\
`flintlog VERB DIR`. The dialect of the directory is detected. Data goes to the standard output, talk to
the standard error. A terminal gets colour (not with `NO_COLOR`) and lines cut to its width; a pipe gets plain
text, whole (in colour with `FORCE_COLOR`). `--json` prints one object per line; bytes are lower-case hex, a
position is a number, or a list where it has several parts. Long verbs show how far they are on a terminal, and
with `--progress json` one object per line on the standard error."""


def reference() -> str:
    """The whole page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# The command line"
    yield ""
    yield "Written by `make docs` from the parsers; change it there."
    yield ""
    yield _INTRODUCTION
    yield ""
    yield from _exit_statuses()
    for verb in VERBS:
        yield ""
        yield from _verb(verb)
    for title, fields in (
        ("A file in JSON", contract.FILE_FIELDS),
        ("A finding in JSON", contract.FINDING_FIELDS),
    ):
        yield ""
        yield f"## {title}"
        yield ""
        yield from _field_table(fields)


def _exit_statuses() -> Iterator[str]:
    yield "| exit status | meaning |"
    yield "|---|---|"
    for line in EXIT_STATUSES.splitlines()[1:]:
        status, meaning = line.split(maxsplit=1)
        yield f"| {status} | {meaning} |"
    yield "| 130 | interrupted |"
    yield "| 141 | whoever read the output has gone |"


def _verb(verb: Verb) -> Iterator[str]:
    yield f"## {verb.name}"
    yield ""
    yield verb.description
    yield ""
    yield "| argument | meaning |"
    yield "|---|---|"
    for action in verb_parser(verb)._actions:
        yield f"| {_words_of(action)} | {action.help} |"
    yield ""
    yield "```"
    yield from verb.examples
    yield "```"
    yield from _json(verb)


def _words_of(action: argparse.Action) -> str:
    if not action.option_strings:
        return f"`{action.metavar}`"
    value = f" {action.metavar}" if action.nargs != 0 else ""
    return ", ".join(f"`{option}{value}`" for option in action.option_strings)


def _json(verb: Verb) -> Iterator[str]:
    if verb.name in _JSON_OF_VERB:
        sentence, fields = _JSON_OF_VERB[verb.name]
        yield ""
        yield f"`--json`: {sentence[0].lower()}{sentence[1:]}."
        yield ""
        yield from _field_table(fields)
    if verb.name == "dump":
        yield ""
        yield "`--json --hex`: one object per field."
        yield ""
        yield from _field_table(contract.BYTE_FIELDS)
    if verb.name == "backup":
        yield ""
        yield "`backup verify --json`: one object per backup, as of `verify`. `backup list --json`: one per backup."
        yield ""
        yield from _field_table(contract.BACKUP_LIST_FIELDS)
    if verb.name == "state":
        yield ""
        yield "`--json`: one object per line, with these fields, in the order that the dialect's page tells."
        yield ""
        yield "| dialect | fields |"
        yield "|---|---|"
        for name in dialect_names():
            columns = ", ".join(f"`{column}`" for column in dialect(name).state_schema.names)
            yield f"| {name} | {columns} |"


def _field_table(fields: Fields) -> Iterator[str]:
    yield "| field | meaning |"
    yield "|---|---|"
    for name, meaning in fields:
        yield f"| {name if name.startswith('(') else f'`{name}`'} | {meaning} |"


if __name__ == "__main__":
    sys.stdout.write(reference())
