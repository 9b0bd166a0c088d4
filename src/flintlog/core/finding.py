"""What verify saw, and the verdict that follows from it: one rule for every dialect and every verb.

| verdict | exit status | when |
|---|---|---|
| clean | 0 | it opens, and there is nothing to report but notes |
| repairable | 1 | it opens, or `repair` makes it open; nothing that was acknowledged is lost |
| corrupt | 3 | something that was acknowledged is gone or cannot be read: a repair gives it up, or is refused |
| unsupported | 4 | a version or value that this release does not know |

`verify`, `inspect`, `backup verify` and the explorer say the verdict of what they found. `repair` has the exit status
that `verify` has at that moment: of the directory as it is, and with `--apply` of what it has become.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
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


def damage_finding(error: DamageError, severity: Severity = Severity.CORRUPT) -> Finding:
    """What an error that a reader raised tells, as a finding; its file is named from the log directory."""
    return Finding(severity, error.code, error.message, error.file, error.offset, error.expected, error.found)


def gravest(findings: Iterable[Finding]) -> Finding | None:
    """The first finding of the gravest severity."""
    return max(findings, key=lambda finding: _GRAVITY.index(finding.severity), default=None)


def verdict(findings: Iterable[Finding]) -> str:
    """`clean`, `repairable`, `corrupt` or `unsupported`."""
    worst = gravest(findings)
    return "clean" if worst is None or worst.severity is Severity.NOTE else worst.severity.value


def exit_status(findings: Iterable[Finding]) -> int:
    """The exit status that belongs to the verdict."""
    worst = gravest(findings)
    return EXIT_OK if worst is None else _EXIT_STATUS[worst.severity]
