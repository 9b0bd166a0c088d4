"""The golden directories of mpy6a: every case and variant, and what has to be read of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.golden_cases import GOLDEN, cases, expected, materialise

DIALECT = "mpy6a"
LOGS = "g2_oplog_torn_head"


def _all() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for case in cases(DIALECT):
        told = expected(case, DIALECT)
        if case.startswith("s"):
            variants = told.get("variants")
            found |= {f"{case}/{name}": one for name, one in variants.items()} if variants else {case: told}
    return found


TOLD = _all()  # by `case` or `case/variant`
GOOD = [name for name, told in TOLD.items() if told["ok"]]
WHOLE = [name for name in GOOD if not TOLD[name]["truncated"]]
TORN = [name for name in GOOD if TOLD[name]["truncated"]]
DAMAGED = [name for name, told in TOLD.items() if not told["ok"]]


def lay_out(name: str, tmp_path: Path) -> Path:
    """A writable copy of one directory."""
    case, _, variant = name.partition("/")
    return materialise(case, tmp_path, part=f"dir/{variant}" if variant else "dir", dialect=DIALECT)


def logs() -> list[dict[str, Any]]:
    """The logs of the original, each with what a reader keeps of it."""
    files: list[dict[str, Any]] = expected(LOGS, DIALECT)["files"]
    return files


def log_bytes(file: str) -> bytes:
    return (GOLDEN / DIALECT / LOGS / "dir" / file).read_bytes()
