"""Where in the source a sync was asked for, as the chain of lines that led to it, innermost first.

`disk/disk.py:publish:171 < dialects/taskflux/store.py:_roll:88`: a prefix of such a chain names a site.
"""

from __future__ import annotations

import ast
import inspect
import sys
from types import FrameType, ModuleType

# Frames between a store and the kernel, the same for every sync.
_WAY_DOWN = frozenset({"_retried", "_call", "sync", "sync_directory"})
_SEPARATOR = " < "
_KIT = ""
_SYNCING = frozenset({"sync", "sync_directory", "publish", "install", "make_directory"})


class Sites:
    """Finds the chain of the caller, among frames of the given packages."""

    def __init__(self, packages: tuple[str, ...] = ("flintlog",)) -> None:
        self._packages = packages
        self._labels: dict[tuple[str, int], str | None] = {}

    def chain(self) -> str:
        """The chain of lines that led here."""
        frame: FrameType | None = sys._getframe(1)
        labels = self._labels
        parts: list[str] = []
        while frame is not None:
            key = (frame.f_code.co_filename, frame.f_lineno)
            if key not in labels:
                labels[key] = self._label(frame)
            label = labels[key]
            if label == _KIT and parts:
                break  # above here are the kit's own frames
            if label:
                parts.append(label)
            frame = frame.f_back
        return _SEPARATOR.join(parts)

    def _label(self, frame: FrameType) -> str | None:
        module = str(frame.f_globals.get("__name__", ""))
        function = frame.f_code.co_name
        if module.startswith("flintlog.testing"):
            return _KIT
        if not any(module == package or module.startswith(f"{package}.") for package in self._packages):
            return None
        if module == "flintlog.disk.kernel":
            return None
        if module == "flintlog.disk.disk" and function in _WAY_DOWN:
            return None
        return f"{_file(module)}:{function}:{frame.f_lineno}"


def trimmed(chain: str, frames: int | None) -> str:
    """The chain up to its first `frames` lines outside `disk/`; all of it for None."""
    if frames is None:
        return chain
    parts = chain.split(_SEPARATOR)
    outside = 0
    for count, part in enumerate(parts, 1):
        outside += not part.startswith("disk/")
        if outside == frames:
            return _SEPARATOR.join(parts[:count])
    return chain


def is_at(chain: str, site: str) -> bool:
    """Does a sync with this chain belong to the site?"""
    return chain == site or chain.startswith(site + _SEPARATOR)


def sync_lines(*modules: ModuleType) -> list[str]:
    """Every line of these modules that asks the disk for a sync, written as in a chain: `store.py:_roll:88`.

    No scenario reaches a line that is in no proven site.
    """
    return [
        line for module in modules for line in _sync_lines(ast.parse(inspect.getsource(module)), module, "")
    ]


def _sync_lines(node: ast.AST, module: ModuleType, function: str) -> list[str]:
    found = []
    for child in ast.iter_child_nodes(node):
        inside = child.name if isinstance(child, ast.FunctionDef) else function
        match child:
            case ast.Call(func=ast.Attribute(attr=name, end_lineno=line)) if name in _SYNCING:
                found.append(f"{_file(module.__name__)}:{inside}:{line}")
        found += _sync_lines(child, module, inside)
    return found


def _file(module: str) -> str:
    _, _, inside = module.partition(".")
    return f"{(inside or module).replace('.', '/')}.py"
