"""Keeps the floor plan honest: who may touch files, which rooms a dialect has, what a module looks like."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "flintlog"
MODULES = sorted(PACKAGE.rglob("*.py"))
PYTHON_FILES = sorted(
    path
    for folder in ("src", "tests", "benchmarks", "scripts")
    for path in (ROOT / folder).rglob("*")
    if path.suffix == ".py"
)
DIALECTS = sorted(path for path in (PACKAGE / "dialects").iterdir() if (path / "__init__.py").is_file())

LINES_MAX = 600

# What of these modules touches no file.
HARMLESS = {
    "os": {"environ", "PathLike", "fspath", "getpid", "cpu_count", "sched_getaffinity", "urandom", "kill"},
    "shutil": {"get_terminal_size"},
    "posixpath": {"join", "basename", "dirname", "normpath", "relpath", "split", "splitext", "commonpath"},
    "io": {"BufferedReader", "StringIO", "BytesIO", "TextIOBase", "RawIOBase", "BufferedIOBase"},
}
FORBIDDEN_MODULES = {"pathlib", "fcntl", "mmap", "tempfile", "glob", "subprocess", "fileinput", "genericpath"}
# The lanes that need a real process and a real directory to kill it in.
MAY_START_PROCESSES = {"testing/kill.py", "testing/life.py", "testing/__main__.py"}
ROOMS = ("layout", "scan", "replay", "files", "store", "upkeep", "dialect")
MAY_BE_FOLDERS = {"store", "upkeep"}


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def file_system_uses(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of everything in a module that could reach a file behind the back of `disk/`."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="open")):
                yield node.lineno, "open()"
            case ast.Attribute(value=ast.Name(id=module), attr=attribute) if module in HARMLESS:
                if attribute not in HARMLESS[module]:
                    yield node.lineno, f"{module}.{attribute}"
            case ast.Import(names=names):
                for alias in names:
                    if alias.name.split(".")[0] in FORBIDDEN_MODULES or alias.name == "os.path":
                        yield node.lineno, f"import {alias.name}"
                    if alias.name in HARMLESS and alias.asname is not None:
                        yield node.lineno, f"import {alias.name} as {alias.asname}"
            case ast.ImportFrom(module=str(module), names=names):
                if module.split(".")[0] in FORBIDDEN_MODULES or module == "os.path":
                    yield node.lineno, f"from {module} import"
                for alias in names:
                    if module in HARMLESS and alias.name not in HARMLESS[module]:
                        yield node.lineno, f"from {module} import {alias.name}"


@pytest.mark.parametrize(
    "path",
    [path for path in MODULES if not name_of(path).startswith("disk/")],
    ids=lambda path: name_of(path),
)
def test_only_the_disk_talks_to_the_file_system(path):
    if name_of(path) in MAY_START_PROCESSES:
        return
    assert list(file_system_uses(ast.parse(path.read_text()))) == []


@pytest.mark.parametrize(
    "source",
    [
        "open('x')",
        "import os\nos.replace('a', 'b')",
        "from os import rename",
        "import os as system",
        "import os.path",
        "from os.path import exists",
        "from pathlib import Path",
        "import shutil\nshutil.rmtree('x')",
        "import tempfile",
        "import mmap",
        "import io\nio.open('x')",
    ],
)
def test_a_way_around_the_disk_would_be_seen(source):
    assert list(file_system_uses(ast.parse(source)))


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda path: path.name)
@pytest.mark.parametrize("room", ROOMS)
def test_every_dialect_has_the_same_rooms(dialect, room):
    folder = room in MAY_BE_FOLDERS and (dialect / room / "__init__.py").is_file()
    assert folder or (dialect / f"{room}.py").is_file()


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda path: path.name)
def test_every_dialect_is_registered(dialect):
    from flintlog.core.dialect import dialect_names

    assert dialect.name in dialect_names()


@pytest.mark.parametrize("path", MODULES, ids=lambda path: name_of(path))
def test_every_module_says_what_it_is_for(path):
    docstring = ast.get_docstring(ast.parse(path.read_text()))
    assert docstring is not None
    assert len(docstring.split()) >= 3


@pytest.mark.parametrize("path", MODULES, ids=lambda path: name_of(path))
def test_no_module_outgrows_a_sitting(path):
    assert len(path.read_text().splitlines()) <= LINES_MAX


def tracked_text_files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    paths = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    return [path for path in paths if path.is_file() and b"\0" not in path.read_bytes()[:8192]]


def test_nothing_is_left_for_later():
    words = [first + second for first, second in (("TO", "DO"), ("FIX", "ME"), ("XX", "X"))]
    left = [
        f"{path.relative_to(ROOT)}: {word}"
        for path in PYTHON_FILES
        for word in words
        if word in path.read_text()
    ]
    assert left == []


def test_no_file_knows_the_machine_it_was_written_on():
    homes = [f"/{name}/" for name in ("root", "work", "home")]
    knowing = [
        f"{path.relative_to(ROOT)}: {home}"
        for path in tracked_text_files()
        for home in homes
        if home in path.read_text(errors="replace")
    ]
    assert knowing == []


@pytest.mark.parametrize(
    "module",
    [
        "flintlog.errors",
        "flintlog.disk",
        "flintlog.core.dialect",
        "flintlog.core.group_commit",
        "flintlog.cli.main",
    ],
)
def test_the_command_line_starts_without_heavy_libraries(module):
    heavy = "{'numba', 'numpy', 'pyarrow', 'pyspark'}"
    code = f"import sys, {module}; print(*({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_nothing_of_the_package_is_made_under_a_lock_that_a_fork_may_copy_as_taken():
    """`functools.cached_property` holds one until Python 3.12; `core/lazy.py` has none."""
    using = [
        name_of(path) for path in MODULES if "cached_property" in path.read_text() and path.stem != "lazy"
    ]
    assert using == []
