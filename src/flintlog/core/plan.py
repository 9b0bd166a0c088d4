"""What an upkeep verb would do, before anything is written.

A plan is made by reading only, printed, and then applied in one transaction (`disk/transaction.py`). Each step is one
sentence for the operator.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from flintlog.core.finding import Finding, exit_status
from flintlog.disk import Disk, transaction
from flintlog.errors import EXIT_UNKNOWN, RefusedError, UnsupportedError


@dataclass(frozen=True, slots=True)
class Step:
    """One action on one file, in words an operator reads."""

    action: str
    file: str
    reason: str

    def json(self) -> dict[str, Any]:
        return {"action": self.action, "file": self.file, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps of one verb on one directory.

    `lost` names, in words, the acknowledged data that applying the plan gives up; `refusal` says why it cannot be
    applied. `act` does all steps through the disk that it is given, writes at most `written_bytes` if known, and
    returns one line that says what was done. `of_backup`: the plan reads a backup. `publishes` and `by_workers` are
    those of the transaction.
    """

    verb: str
    dialect: str
    path: str
    steps: tuple[Step, ...]
    act: Callable[[Disk], str]
    lost: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    refusal: str | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    written_bytes: int | None = None
    of_backup: bool = False
    publishes: bool = False
    by_workers: bool = False
    disk: Disk = field(kw_only=True)

    @property
    def empty(self) -> bool:
        return not self.steps

    @property
    def exit_status(self) -> int:
        """The exit status of a repair that was only planned: that of `verify` for the same directory."""
        return exit_status(self.findings)

    def check(self) -> None:
        """Raise where the plan must not be applied: it is refused, or the directory is a backup."""
        if self.refusal is not None:
            kind = UnsupportedError if self.exit_status == EXIT_UNKNOWN else RefusedError
            raise kind(self.refusal, file=self.path, advice="Nothing was changed")
        if not self.of_backup:
            from flintlog.core.backup.listing import refuse_backup  # imports all of `backup`

            for place in (self.path, posixpath.dirname(self.path)):  # files may lie one floor down
                refuse_backup(self.disk, place)

    def apply(self) -> str:
        """Carry the plan out, all of it or nothing; returns one line that says what was done."""
        self.check()
        if self.empty:
            return "nothing to do"
        with transaction(self.disk, publishes=self.publishes, by_workers=self.by_workers) as disk:
            return self.act(disk)

    def json(self) -> dict[str, Any]:
        return {
            "verb": self.verb,
            "dialect": self.dialect,
            "path": self.path,
            "steps": [step.json() for step in self.steps],
            "lost": list(self.lost),
            "refusal": self.refusal,
            "facts": self.facts,
        }
