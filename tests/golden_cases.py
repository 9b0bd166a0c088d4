"""The golden directories: list them, read what the original program said, lay one out for a test."""

from __future__ import annotations

import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).parent / "golden"


def cases(dialect: str = "taskflux") -> list[str]:
    """The names of all cases of a dialect, sorted."""
    return sorted(entry.name for entry in (GOLDEN / dialect).iterdir() if (entry / "expected.json").is_file())


@cache
def expected(case: str, dialect: str = "taskflux") -> dict[str, Any]:
    """What the original program reported for this case. Shared: do not change it."""
    found: dict[str, Any] = json.loads((GOLDEN / dialect / case / "expected.json").read_text())
    return found


def materialise(case: str, tmp_path: Path, *, part: str = "dir", dialect: str = "taskflux") -> Path:
    """A writable copy of the case's `dir` or `after`, with the empty directories that git leaves out."""
    source = GOLDEN / dialect / case
    target = tmp_path / case / part
    target.mkdir(parents=True)
    if (source / part).is_dir():
        shutil.copytree(source / part, target, dirs_exist_ok=True)
    empty = source / "EMPTY_DIRS"
    for name in empty.read_text().split() if empty.is_file() else ():
        if name.startswith(f"{part}/"):
            (target.parent / name).mkdir(parents=True, exist_ok=True)
    return target


def snapshot_of(directory: Path) -> dict[str, bytes | None]:
    """Every name below a directory with its bytes (None for a directory): equal means nothing was changed."""
    return {
        str(path.relative_to(directory)): path.read_bytes() if path.is_file() else None
        for path in sorted(directory.rglob("*"))
    }
