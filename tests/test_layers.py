"""Imports go one way: what reads a log loads no store, a dialect knows no other, and nothing outside imports one."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "flintlog"
DIALECTS = sorted(path.name for path in (SOURCE / "dialects").iterdir() if (path / "dialect.py").is_file())
WRITERS = ("store", "upkeep")
# The doors of the package and the stores of the kit: they are there to name dialects.
NAMING = ("__init__.py", "core/dialect.py", "testing/stores.py", "dialects/")


def imported(path: Path) -> set[str]:
    """The modules that a file imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_reads_imports_nothing_that_writes(dialect):
    folder = SOURCE / "dialects" / dialect
    for path in [*folder.glob("*.py"), *folder.glob("distributed/*.py"), *folder.glob("upkeep/verify.py")]:
        writing = tuple(f"flintlog.dialects.{dialect}.{room}" for room in WRITERS)
        assert {name for name in imported(path) if name.startswith(writing)} == set(), path.name


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_dialect_imports_no_other_and_nothing_above_it(dialect):
    above = ("flintlog.cli", "flintlog.pipeline", "flintlog.web", "flintlog.testing", "pyspark")
    others = tuple(f"flintlog.dialects.{name}" for name in DIALECTS if name != dialect)
    for path in (SOURCE / "dialects" / dialect).rglob("*.py"):
        assert {name for name in imported(path) if name.startswith((*above, *others))} == set(), path.name


def test_nothing_outside_a_dialect_imports_one():
    for path in SOURCE.rglob("*.py"):
        if not path.relative_to(SOURCE).as_posix().startswith(NAMING):
            assert {name for name in imported(path) if name.startswith("flintlog.dialects.")} == set(), path


@pytest.mark.parametrize("name", ["taskflux-designed", "zmqraft", "mpy6a-ordinary", "limestone-designed"])
def test_looking_at_a_log_loads_no_store(name):
    code = "import sys; from flintlog.cli.main import main; main(sys.argv[1:]); "
    code += "print([name for name in sys.modules if name.startswith('flintlog.') and '.store' in name])"
    log = ROOT / "tests" / "written_before" / f"{name}-closed" / "dir"
    done = subprocess.run(
        [sys.executable, "-c", code, "inspect", str(log)], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
