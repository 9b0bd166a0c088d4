"""Imports go one way: what reads a log loads no store, a dialect knows no other, and nothing outside imports one."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from scripts.pages.rooms import PAGE, ROOMS, imported_rooms, imports, page

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


# What a room may import, from below. `testing` also imports the stores by the doors of the package.
BELOW = {
    "errors": set(),
    "disk": {"errors"},
    "columns": {"errors", "disk"},
    "core": {"errors", "disk"},
    "dialects": {"errors", "disk", "columns", "core"},
    "pipeline": {"errors", "disk", "columns", "core"},
    "cli": {"errors", "disk", "columns", "core", "pipeline", "web"},
    "web": {"errors", "core", "cli"},
    "testing": {"errors", "disk", "core", "dialects"},
}
BYTES = {"layout", "findings"}


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_what_stands_below_it(room):
    assert imported_rooms(room) <= BELOW[room]


def test_the_architecture_page_shows_what_the_rooms_import():
    assert PAGE.read_text() == page()


def _floor(name: str) -> int:
    """Bytes, reading, store, upkeep: from 0 on."""
    room = name.partition(".")[0]
    return 0 if room in BYTES else {"store": 2, "upkeep": 3}.get(room, 1)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_module_of_a_dialect_imports_nothing_from_a_floor_above(dialect):
    folder = SOURCE / "dialects" / dialect
    for path in folder.rglob("*.py"):
        mine = _floor(".".join(path.relative_to(folder).with_suffix("").parts))
        own = {
            name.partition(f"dialects.{dialect}.")[2]
            for name in imports(path)
            if f"dialects.{dialect}." in name
        }
        if path.name != "__init__.py" or path.parent != folder:  # that is the door of the dialect
            assert {name for name in own if _floor(name) > mine} == set(), path


def test_no_modules_import_each_other_in_a_circle():
    done: set[str] = set()

    def visit(name: str, path: Path, above: tuple[str, ...]) -> None:
        assert name not in above, " < ".join((*above, name))
        if name in done:
            return
        for other in imports(path, lazy=False):
            found = _module(other)
            if found is not None and found != path:
                visit(str(found), found, (*above, name))
        done.add(name)

    for path in SOURCE.rglob("*.py"):
        visit(str(path), path, ())


def _module(name: str) -> Path | None:
    """The file of a module, or of what is imported from it."""
    for parts in (name.split("."), name.split(".")[:-1]):
        place = SOURCE.joinpath(*parts)
        if place.with_suffix(".py").is_file():
            return place.with_suffix(".py")
        if (place / "__init__.py").is_file() and parts:
            return place / "__init__.py"
    return None


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
