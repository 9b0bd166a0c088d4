"""The table of rooms on the architecture page: what each folder holds, and what it may import.

python -m scripts.pages.rooms
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "flintlog"
PAGE = ROOT / "docs" / "architecture.md"
ROOMS = ("errors", "disk", "columns", "core", "dialects", "pipeline", "cli", "web", "testing")  # from below
_BEGIN, _END = "<!-- rooms -->\n", "<!-- end -->"


@cache
def imports(path: Path, *, lazy: bool = True) -> tuple[str, ...]:
    """What a file imports from the package when it runs; `lazy`: also inside of functions."""
    return tuple(_imports(path, lazy))


def _imports(path: Path, lazy: bool) -> Iterator[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in list(ast.walk(tree)):
        for_types = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        if for_types or (isinstance(node, ast.FunctionDef) and not lazy):
            node.body = []  # type: ignore[attr-defined]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "flintlog":
            yield from (f"{node.module}.{alias.name}".partition(".")[2] for alias in node.names)


def imported_rooms(room: str) -> set[str]:
    """The rooms that a room imports."""
    place = PACKAGE / room
    files = place.rglob("*.py") if place.is_dir() else [place.with_suffix(".py")]
    found = {name.partition(".")[0] for path in files for name in imports(path)}
    return (found & {*ROOMS}) - {room}


def page() -> str:
    """The page with the table drawn anew."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(_BEGIN)
    return before + _BEGIN + _table() + _END + rest.partition(_END)[2]


def _table() -> str:
    lines = ["| room | holds | imports |\n", "|---|---|---|\n"]
    for room in ROOMS:
        place = PACKAGE / room
        file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
        told = (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").partition("\n")[0]
        below = imported_rooms(room)
        used = ", ".join(f"`{name}`" for name in ROOMS if name in below) or "nothing"
        name = f"{room}/" if place.is_dir() else file.name
        lines.append(f"| `{name}` | {told.rstrip('.')} | {used} |\n")
    return "".join(lines)


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")
    print("docs: rooms")


if __name__ == "__main__":
    main()
