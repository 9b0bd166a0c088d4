"""Every golden directory of every dialect, laid out once for the tests that read them all."""

from __future__ import annotations

from pathlib import Path

from tests.golden_cases import cases, materialise
from tests.limestone import recorded as limestone
from tests.mpy6a import recorded as mpy6a

# Empty directories: nothing in them says whose they are.
NOT_RECOGNISED = {"taskflux/missing-files"}


def every_directory(home: Path, only: str = "") -> dict[str, str]:
    """The directories, good and damaged, by `dialect/case`; of all dialects, or of one."""
    found: dict[str, Path] = {}
    for dialect in ("taskflux", "zmqraft"):
        for case in cases(dialect):
            if only in ("", dialect):
                found[f"{dialect}/{case}"] = materialise(case, home / dialect, dialect=dialect)
    for name in mpy6a.TOLD if only in ("", "mpy6a") else ():
        found[f"mpy6a/{name}"] = mpy6a.lay_out(name, home / "mpy6a")
    for case, variant in limestone.every() if only in ("", "limestone") else ():
        found[f"limestone/{case}/{variant}"] = limestone.lay_out(case, variant, home / "limestone" / variant)
    return {name: str(path) for name, path in found.items() if name not in NOT_RECOGNISED}
