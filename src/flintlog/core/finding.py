"""Findings, and the verdict that follows from them: one rule for every dialect and every verb.

A reader says what is wrong with the bytes of a file: a `Damage`. The dialect's table, its `Codes`, says how grave that
is and makes it a `Finding`.

| verdict | exit status | when |
|---|---|---|
| clean | 0 | it opens, and there is nothing to report but notes |
| repairable | 1 | it opens, or `repair` makes it open; nothing that was acknowledged is lost |
| corrupt | 3 | something acknowledged is gone or cannot be read: a repair gives it up, or is refused |
| unsupported | 4 | a version or value that this release does not know |

`verify`, `inspect`, `backup verify` and the explorer say the verdict of what they found. `repair` has the exit status
that `verify` has at that moment: of the directory as it is, and with `--apply` of what it has become.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from flintlog.errors import (
    EXIT_OK,
    EXIT_REFUSED,
    EXIT_REPAIRABLE,
    EXIT_UNKNOWN,
    DamageError,
    UnsupportedError,
)


class Severity(StrEnum):
    """How much a finding matters. The gravest one is the verdict."""

    NOTE = "note"  # worth knowing; nothing to do
    REPAIRABLE = "repairable"  # healed without losing anything acknowledged: by opening, or by `repair`
    CORRUPT = "corrupt"  # acknowledged data is damaged or missing; a person decides
    UNSUPPORTED = "unsupported"  # a version or value this release does not know


_GRAVITY = list(Severity)
_EXIT_STATUS = {
    Severity.NOTE: EXIT_OK,
    Severity.REPAIRABLE: EXIT_REPAIRABLE,
    Severity.CORRUPT: EXIT_REFUSED,
    Severity.UNSUPPORTED: EXIT_UNKNOWN,
}


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes that cannot be what was written, as the reader of a file sees them."""

    code: str
    message: str
    offset: int
    expected: str
    found: str
    torn: bool = False  # no acknowledged write can have stood here
    resumes: int | None = None  # where good bytes begin again


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that verify saw: what, where, what was expected, what was found."""

    severity: Severity
    code: str
    message: str
    file: str | None = None
    offset: int | None = None
    expected: str | None = None
    found: str | None = None

    def json(self) -> dict[str, Any]:
        return {
            "severity": self.severity.value,
            "code": self.code,
            "file": self.file,
            "offset": self.offset,
            "message": self.message,
            "expected": self.expected,
            "found": self.found,
        }

    @property
    def is_grave(self) -> bool:
        """Does it stop a store from opening the directory?"""
        return self.severity in (Severity.CORRUPT, Severity.UNSUPPORTED)

    def lowered(self, why: str | None = None) -> Finding:
        """The same finding where other bytes hold the data, so that nothing is lost: corrupt becomes repairable."""
        if self.severity is not Severity.CORRUPT:
            return self
        message = self.message if why is None else f"{self.message}; {why}"
        return replace(self, severity=Severity.REPAIRABLE, message=message)

    def error(self, directory: str) -> DamageError | UnsupportedError:
        """The error that opening raises for this finding."""
        file = f"{directory}/{self.file}" if self.file else directory
        if self.severity is Severity.UNSUPPORTED:
            return UnsupportedError(
                self.message,
                file=file,
                offset=self.offset,
                advice="A newer release may read it; nothing was changed",
            )
        return DamageError(
            self.message,
            code=self.code,
            file=file,
            offset=self.offset,
            expected=self.expected,
            found=self.found,
            advice=f"Nothing was changed; `flintlog repair {directory}` shows what can be done",
        )


@dataclass(frozen=True, slots=True)
class Code:
    """What a code stands for, and what follows from it. `opening` and `repair` begin with a word that tests play."""

    code: str
    section: str  # of the format page
    severities: tuple[Severity, ...]  # `verify` says the first where nothing else is wrong
    meaning: str
    opening: str
    repair: str
    runbook: str  # a title of docs/runbooks.md

    @property
    def opens(self) -> bool:
        """Does a store open a directory with this finding? It then heals what is repairable."""
        return self.opening.startswith("opens")

    @property
    def action(self) -> str:
        """The last step of a repair, `nothing` or `refused`."""
        return re.split("[:;,]", self.repair)[0]


class Codes(Mapping[str, Code]):
    """The codes of one dialect. A finding is made here and nowhere else, so that no code lacks a row.

    `table` has one line for each code: its cells, with a bar between them, are the fields of `Code` without the
    section, whose title stands above its lines. A line without a runbook gets one by its severity and opening.
    """

    def __init__(self, table: str) -> None:
        self._rows: dict[str, Code] = {}
        section = ""
        for line in filter(None, table.splitlines()):
            if line.startswith("#"):
                section = line.lstrip("# ")
                continue
            code, severities, meaning, opening, repair, *runbook = line.split(" | ")
            if code in self._rows:
                raise ValueError(f"{code} has two rows")
            words = tuple(map(Severity, severities.split(" or ")))
            told = runbook[0] if runbook else _runbook(words, opening)
            self._rows[code] = Code(code, section, words, meaning, opening, repair, told)

    def __getitem__(self, code: str) -> Code:
        return self._rows[code]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def finding(
        self,
        code: str,
        message: str,
        file: str | None = None,
        offset: int | None = None,
        expected: str | None = None,
        found: str | None = None,
        severity: Severity | None = None,
    ) -> Finding:
        """A finding with this severity, by default the gravest that its code can have."""
        possible = self[code].severities
        told = severity or max(possible, key=_GRAVITY.index)
        if told not in possible:
            raise ValueError(f"{code} cannot be {told}: its row says {' or '.join(possible)}")
        return Finding(told, code, message, file, offset, expected, found)

    def of(self, damage: Damage | DamageError, file: str | None = None, begin: int = 0) -> Finding:
        """The finding for a reader's damage; its offset counts from `begin`. A `DamageError` names its file itself."""
        severity = None
        if isinstance(damage, DamageError):
            file = damage.file
        elif damage.torn:
            severity = Severity.REPAIRABLE
        offset = None if damage.offset is None else begin + damage.offset
        expected, found = damage.expected, damage.found
        return self.finding(damage.code, damage.message, file, offset, expected, found, severity)


def _runbook(severities: tuple[Severity, ...], opening: str) -> str:
    if severities[0] is Severity.REPAIRABLE and opening.startswith("opens"):
        return "a torn tail"
    return "damage in the middle" if {*severities} & {Severity.REPAIRABLE, Severity.CORRUPT} else ""


def gravest(findings: Iterable[Finding]) -> Finding | None:
    """The first finding of the gravest severity."""
    return max(findings, key=lambda finding: _GRAVITY.index(finding.severity), default=None)


def refuse_grave(findings: Iterable[Finding], directory: str) -> None:
    """Raise the gravest finding, if it must stop a store from opening."""
    worst = gravest(findings)
    if worst is not None and worst.is_grave:
        raise worst.error(directory)


def verdict(findings: Iterable[Finding]) -> str:
    """`clean`, `repairable`, `corrupt` or `unsupported`."""
    worst = gravest(findings)
    return "clean" if worst is None or worst.severity is Severity.NOTE else worst.severity.value


def exit_status(findings: Iterable[Finding]) -> int:
    """The exit status that belongs to the verdict."""
    worst = gravest(findings)
    return EXIT_OK if worst is None else _EXIT_STATUS[worst.severity]
