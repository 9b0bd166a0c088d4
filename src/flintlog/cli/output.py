"""What the verbs show, in two forms: `TextOutput` for people, `JsonOutput` for programs.

A verb works out what is true and hands it to an `Output`, which prints it in its form. Data goes to the standard
output, messages to the standard error.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from flintlog.cli.rows import Row
from flintlog.cli.terminal import HEALTH_STYLES, Column, Screen, Style, Table, cell, human_size, visible
from flintlog.core.dialect import ByteField
from flintlog.core.finding import Finding, exit_status
from flintlog.core.inventory import FileItem, Inventory
from flintlog.core.plan import Plan
from flintlog.core.position import Position, position_json
from flintlog.disk import Disk
from flintlog.errors import EXIT_OK, tell

if TYPE_CHECKING:
    from flintlog.core.rounds import Repaired

_HEX_BYTES_PER_LINE = 16


class Output(Protocol):
    """The things a verb can show."""

    def inventory(self, inventory: Inventory) -> None:
        """What is here."""

    def verification(self, inventory: Inventory) -> None:
        """Each file clean or with its findings, and the verdict."""

    def rows(self, columns: Sequence[str], chunks: Iterable[list[Row]]) -> None:
        """Entries or state, in the order they come."""

    def fields(self, fields: Iterable[ByteField]) -> None:
        """Annotated bytes."""

    def summary(self, value: dict[str, Any], words: Iterable[str]) -> None:
        """What a job found or did: as an object, or in a few lines."""

    def plan(self, plan: Plan, *, apply: bool) -> None:
        """What would be done; with `apply`, do it and say so."""

    def repair(self, plan: Plan, carry_out: Callable[[], Repaired]) -> Inventory:
        """Carry a repair out: show its rounds and what verify says then; returns that."""


@contextmanager
def telling(plan: Plan) -> Iterator[Plan]:
    """Give the plan to apply; an interrupt that comes after its work says what was done."""
    done: list[str] = []

    def act(disk: Disk) -> str:
        done.append(plan.act(disk))
        return done[0]

    try:
        yield replace(plan, act=act)
    except KeyboardInterrupt as interrupt:
        if done and not str(interrupt):  # an interrupt inside the work says already what became of it
            tell(interrupt, f"The work was done: {done[0]}")
        raise


def choose_output(*, as_json: bool) -> Output:
    """The output in the form asked for, on the standard output."""
    return JsonOutput(sys.stdout) if as_json else TextOutput(sys.stdout, Screen.of(sys.stdout))


def plain(value: Any) -> Any:
    """A value as JSON has it, also inside lists and objects: bytes as lower-case hex, whole numbers of any size."""
    match value:
        case bytes():
            return value.hex()
        case Decimal():
            return int(value)  # numbers that need more than 63 bits
        case dict():
            return {name: plain(part) for name, part in value.items()}
        case list() | tuple():
            return [plain(part) for part in value]
        case _:
            return value


class JsonOutput:
    """One JSON object per line."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def inventory(self, inventory: Inventory) -> None:
        self._object(inventory.json())

    def verification(self, inventory: Inventory) -> None:
        self._object(inventory.json())

    def rows(self, columns: Sequence[str], chunks: Iterable[list[Row]]) -> None:
        for chunk in chunks:
            for row in chunk:
                self._object({name: row[name] for name in columns})

    def fields(self, fields: Iterable[ByteField]) -> None:
        for field in fields:
            self._object(
                {
                    "file": field.file,
                    "offset": field.offset,
                    "bytes": field.data,
                    "name": field.name,
                    "meaning": field.meaning,
                }
            )

    def summary(self, value: dict[str, Any], words: Iterable[str]) -> None:
        self._object(value)

    def plan(self, plan: Plan, *, apply: bool) -> None:
        done = plan.apply() if apply else None
        self._object({**plan.json(), "applied": apply, "done": done})

    def repair(self, plan: Plan, carry_out: Callable[[], Repaired]) -> Inventory:
        found = carry_out()
        self._object(
            {
                **plan.json(),
                "applied": True,
                "done": found.rounds[0][1],
                "rounds": [{**each.json(), "done": done} for each, done in found.rounds[1:]],
                "further": None if found.further is None else found.further.json(),
                "findings": [item.json() for item in found.after.findings],
                "verdict": found.after.verdict,
            }
        )
        return found.after

    def _object(self, value: dict[str, Any]) -> None:
        self._stream.write(json.dumps(plain(value)) + "\n")


class TextOutput:
    """Tables; with colour on a terminal, plain in a pipe."""

    def __init__(self, stream: TextIO, screen: Screen) -> None:
        self._stream = stream
        self._screen = screen

    def inventory(self, inventory: Inventory) -> None:
        self._title(inventory)
        table = Table(
            self._stream,
            self._screen,
            [
                Column("file"),
                Column("role"),
                Column("size", right=True),
                Column("first", right=True),
                Column("last", right=True),
                Column("entries", right=True),
            ],
        )
        table.add(_file_cells(file) for file in inventory.files)
        self._facts(inventory.facts)
        self._findings(inventory.findings)
        self._line(f"range: {_range(inventory)}; {human_size(sum(file.size for file in inventory.files))}")
        self._verdict("health", inventory)

    def verification(self, inventory: Inventory) -> None:
        self._title(inventory)
        table = Table(
            self._stream,
            self._screen,
            [
                Column("file"),
                Column("health", health=True),
                Column("byte", right=True),
                Column("what was seen"),
            ],
        )
        table.add(_health_cells(inventory))
        self._verdict("verdict", inventory)

    def rows(self, columns: Sequence[str], chunks: Iterable[list[Row]]) -> None:
        columns = [name for name in columns if name != "dialect"]  # the same in every row
        table: Table | None = None
        for chunk in chunks:
            if table is None:
                table = Table(self._stream, self._screen, [_column(name, chunk) for name in columns])
            table.add([cell(row[name]) for name in columns] for row in chunk)

    def fields(self, fields: Iterable[ByteField]) -> None:
        file = None
        for field in fields:
            if field.file != file:
                file = field.file
                self._line(visible(file), Style.BOLD)
            for line in _hex_lines(field):
                self._line(self._screen.line([(line, None)]))

    def summary(self, value: dict[str, Any], words: Iterable[str]) -> None:
        for line in words:
            self._line(visible(line))

    def plan(self, plan: Plan, *, apply: bool) -> None:
        self._line(f"{plan.verb} {visible(plan.path)} ({plan.dialect})", Style.BOLD)
        self._findings(plan.findings)
        table = Table(self._stream, self._screen, [Column("step"), Column("file"), Column("why")])
        table.add([step.action, step.file, step.reason] for step in plan.steps)
        self._facts(plan.facts)
        for loss in plan.lost:
            self._line(visible(f"lost: {loss}"), Style.RED)
        if plan.refusal is not None:
            self._line(visible(f"refused: {plan.refusal}"), Style.RED)
        elif plan.empty and exit_status(plan.findings) != EXIT_OK:
            self._line("a repair can do nothing here; restore what is missing from a backup", Style.RED)
        elif plan.empty:
            self._line("nothing to do", Style.GREEN)
        if apply:
            self._stream.flush()  # the plan is read while it is carried out
            self._line(visible(f"done: {plan.apply()}"), Style.GREEN)

    def repair(self, plan: Plan, carry_out: Callable[[], Repaired]) -> Inventory:
        self.plan(plan, apply=False)
        self._stream.flush()  # the plan is read while it is carried out
        found = carry_out()
        self._line(f"done: {found.rounds[0][1]}", Style.GREEN)
        for number, (each, done) in enumerate(found.rounds[1:], 2):
            self._line(f"round {number}, which loses nothing more:", Style.BOLD)
            self.plan(each, apply=False)
            self._line(f"done: {done}", Style.GREEN)
        if found.further is not None:
            self._further(found.further)
        self._verdict("verdict", found.after)
        return found.after

    def _further(self, plan: Plan) -> None:
        """Show what is left to repair, and the command that goes on."""
        self._line("not all is repaired. Another round would be:", Style.BOLD)
        self.plan(plan, apply=False)
        if not plan.empty:
            self._line(f"`flintlog repair {visible(plan.path)} --apply` goes on with it")

    def _title(self, inventory: Inventory) -> None:
        edition = f", {inventory.edition} edition" if inventory.edition else ""
        self._line(f"{visible(inventory.path)}: {inventory.dialect}{edition}", Style.BOLD)

    def _findings(self, findings: Iterable[Finding]) -> None:
        for finding in findings:
            severity = self._screen.paint(finding.severity.value, HEALTH_STYLES[finding.severity.value])
            self._line(f"{severity}: {_place(finding)}{_sentence(finding)} [{finding.code}]")

    def _facts(self, facts: dict[str, Any]) -> None:
        for name, value in facts.items():
            text = human_size(value) if name.endswith("_bytes") else cell(value)
            self._line(f"{name.replace('_', ' ')}: {visible(text)}")

    def _verdict(self, name: str, inventory: Inventory) -> None:
        verdict = inventory.verdict
        repair = f"; `flintlog repair {visible(inventory.path)}` shows what can be done"
        advice = {
            "repairable": repair,
            "corrupt": f"{repair} and what is lost",
            "unsupported": "; a newer release may know it",
        }
        self._line(f"{name}: {self._screen.paint(verdict, HEALTH_STYLES[verdict])}{advice.get(verdict, '')}")

    def _line(self, text: str, style: Style | None = None) -> None:
        self._stream.write(self._screen.paint(text, style) + "\n")


def _file_cells(file: FileItem) -> list[str]:
    return [
        file.name,
        file.role,
        human_size(file.size),
        _position_cell(file.first),
        _position_cell(file.last),
        cell(file.entries),
    ]


def _position_cell(position: Position | None) -> str:
    return cell(position_json(position))


def _range(inventory: Inventory) -> str:
    if inventory.first is None or inventory.last is None:
        return "no entries"
    return f"{_position_cell(inventory.first)} to {_position_cell(inventory.last)}"


def _place(finding: Finding) -> str:
    if finding.file is None:
        return ""
    byte = "" if finding.offset is None else f", byte {finding.offset}"
    return f"{visible(finding.file)}{byte}: "


def _sentence(finding: Finding) -> str:
    text = finding.message
    if finding.expected is not None or finding.found is not None:
        text += f" (expected {finding.expected}, found {finding.found})"
    return visible(text)


def _health_cells(inventory: Inventory) -> Iterator[list[str]]:
    """One line per file, then the findings of no listed file."""
    names = {file.name for file in inventory.files}
    for file in inventory.files:
        mine = [finding for finding in inventory.findings if finding.file == file.name]
        if not mine:
            yield [file.name, "clean", "-", ""]
        for finding in mine:
            yield _finding_cells(file.name, finding)
    for finding in inventory.findings:
        if finding.file is None or finding.file not in names:
            yield _finding_cells(finding.file or "-", finding)


def _finding_cells(name: str, finding: Finding) -> list[str]:
    return [name, finding.severity.value, cell(finding.offset), f"{_sentence(finding)} [{finding.code}]"]


def _column(name: str, rows: Sequence[Row]) -> Column:
    numbers = all(isinstance(row[name], int | Decimal | None) for row in rows)
    return Column(name, right=numbers)


def _hex_lines(field: ByteField) -> Iterator[str]:
    """The bytes in lines of sixteen, the name and the meaning beside the first."""
    text = f"{field.name}: {field.meaning}" if field.meaning else field.name
    for start in range(0, max(1, len(field.data)), _HEX_BYTES_PER_LINE):
        part = field.data[start : start + _HEX_BYTES_PER_LINE]
        line = f"{field.offset + start:>12}  {part.hex(' '):<{_HEX_BYTES_PER_LINE * 3}}"
        yield (f"{line} {visible(text)}" if start == 0 else line).rstrip()
