"""What lies in a log directory: every file with its role, its range and its health."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from flintlog.core.finding import Finding, exit_status, verdict
from flintlog.core.position import Position, position_json


@dataclass(frozen=True, slots=True)
class FileItem:
    """One file. `role` is the dialect's word for it; `leftover` and `foreign` are common to all dialects."""

    name: str
    role: str
    size: int
    first: Position | None = None
    last: Position | None = None
    entries: int | None = None

    def json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "role": self.role,
            "size": self.size,
            "first": position_json(self.first),
            "last": position_json(self.last),
            "entries": self.entries,
        }


@dataclass(frozen=True, slots=True)
class Inventory:
    """A log directory at a glance; `findings` are filled by `verify`, and by `inspect` as far as it looked."""

    dialect: str
    edition: str | None
    path: str
    files: tuple[FileItem, ...]
    first: Position | None
    last: Position | None
    findings: tuple[Finding, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        return verdict(self.findings)

    @property
    def exit_status(self) -> int:
        return exit_status(self.findings)

    def json(self) -> dict[str, Any]:
        return {
            "dialect": self.dialect,
            "edition": self.edition,
            "path": self.path,
            "files": [file.json() for file in self.files],
            "first": position_json(self.first),
            "last": position_json(self.last),
            "facts": self.facts,
            "findings": [finding.json() for finding in self.findings],
            "verdict": self.verdict,
        }
