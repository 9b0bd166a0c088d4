"""The golden directories of limestone: every case with its variants, and what should come out of each."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from tests.golden_cases import GOLDEN, materialise

ROOT = GOLDEN / "limestone"
# The names of recovered rows that belong to a directory, first those that tell the truth where the original errs.
ROWS = ("truth{}.jsonl", "expected{}.jsonl")

Rows = dict[tuple[int, bytes], bytes]


def cases() -> list[str]:
    """The names of all cases, sorted."""
    return sorted(path.name for path in ROOT.iterdir() if (path / "meta.json").is_file())


def variants(case: str) -> list[str]:
    """The directories of a case that a store can be asked to open."""
    return sorted(path.name for path in (ROOT / case).iterdir() if path.is_dir())


def every() -> list[tuple[str, str]]:
    """Every directory: (case, variant)."""
    return [(case, variant) for case in cases() for variant in variants(case)]


def lay_out(case: str, variant: str, tmp_path: Path) -> Path:
    """A writable copy of a directory."""
    return materialise(case, tmp_path, part=variant, dialect="limestone")


def rows_of(case: str, variant: str) -> Rows | None:
    """What a correct recovery of this directory returns; None when the original only failed on it."""
    tag = variant.removeprefix("dir") if variant.startswith("dir") else f"_{variant}"
    found = _rows(case, tag)
    if found is None and tag.startswith("_after"):
        # The directory after the original has opened, repaired or compacted another one.
        found = _rows(case, tag.removeprefix("_after")) or _rows(case, tag.removesuffix("_recovered"))
        found = found or _rows(case, tag.removeprefix("_after").removesuffix("_recovered"))
    if found is None and variant.endswith("_after"):
        found = _rows(case, tag.removesuffix("_after"))
    return found


def _rows(case: str, tag: str) -> Rows | None:
    for name in ROWS:
        path = ROOT / case / name.format(tag)
        if path.is_file():
            lines = [json.loads(line) for line in path.read_text().splitlines()]
            return {
                (int(line["storage_id"], 16), bytes.fromhex(line["key"])): bytes.fromhex(line["value"])
                for line in lines
            }
    return None


def errs(case: str, variant: str) -> bool:
    """Did the original give an answer here that is not the truth?"""
    tag = variant.removeprefix("dir")
    return (ROOT / case / f"truth{tag}.jsonl").is_file()


def aborted(case: str, variant: str) -> bool:
    """Did the original refuse to start on this directory?"""
    return (ROOT / case / f"expected_error{variant.removeprefix('dir')}.txt").is_file()


@cache
def meta(case: str) -> dict[str, Any]:
    """What the original reported. Shared: do not change it."""
    found: dict[str, Any] = json.loads((ROOT / case / "meta.json").read_text())
    return found


def inspected(case: str) -> int | None:
    """The exit status of the original's own inspection of `dir`: 0 fine, 1 repairable, 2 not, 64 it cannot tell."""
    runs = [run["exit"] for run in meta(case).get("tglogutil", []) if run["args"] == ["inspect"]]
    return runs[0] if runs else None
