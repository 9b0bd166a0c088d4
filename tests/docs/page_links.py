"""What a page names as `file.py::name`: links that lead to the file, and names that are in it."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

from scripts.pages.page_blocks import ROOT

_NAMED = re.compile(r"((?:src|tests)/[\w/]+\.py)::([\w.]+)")
_LINKED = re.compile(r"\[`((?:src|tests)/[\w/]+\.py)::([\w.]+)`\]\(([^)]*)\)")


def named(text: str) -> list[tuple[str, str]]:
    """Every file and name, in order."""
    return _NAMED.findall(text)


def not_linked(page: Path) -> list[tuple[str, str]]:
    """Those that are no link to their file."""
    text = page.read_text()
    good = [
        (file, name)
        for file, name, target in _LINKED.findall(text)
        if (page.parent / target).resolve() == ROOT / file
    ]
    return [item for item in named(text) if item not in good]


def is_there(file: str, name: str) -> bool:
    """Does the file have this function, class, method or constant? A test is a function."""
    path = ROOT / file
    found = _names_in(path) if path.is_file() else {}
    return found.get(name) == "function" if file.startswith("tests/") else name in found


@functools.cache
def _names_in(path: Path) -> dict[str, str]:
    return dict(_names_of(ast.parse(path.read_text()).body, ""))


def _names_of(body: list[ast.stmt], within: str) -> Iterator[tuple[str, str]]:
    for node in body:
        match node:
            case ast.FunctionDef(name=name):
                yield within + name, "function"
            case ast.ImportFrom(module=str(module), names=names) if module.startswith("tests."):
                file = f"{module.replace('.', '/')}.py"  # tests that several modules have
                yield from ((one.asname or one.name, "function") for one in names if is_there(file, one.name))
            case ast.ClassDef(name=name):
                yield within + name, "class"
                yield from _names_of(node.body, f"{within}{name}.")
            case ast.AnnAssign(target=target) | ast.Assign(targets=[target]):
                parts = ast.walk(target)
                yield from ((within + part.id, "constant") for part in parts if isinstance(part, ast.Name))
