"""What an upkeep verb would do, before anything is written.

A plan is made by reading only, printed, and then applied by the dialect that made it. Each step is one
sentence for the operator and a function that carries it out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from flintlog.core.finding import Finding


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

    `lost` names, in words, the acknowledged data that applying the plan gives up; `refusal` says why there is no
    plan. `apply` does all steps or leaves what was there, and returns one line that says what was done.
    It writes `written_bytes` at most, where that is known.
    """

    verb: str
    dialect: str
    path: str
    steps: tuple[Step, ...]
    apply: Callable[[], str]
    lost: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    refusal: str | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    written_bytes: int | None = None

    @property
    def empty(self) -> bool:
        return not self.steps

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
