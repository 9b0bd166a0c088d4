"""Text for people: colour and width on a terminal, aligned columns, sizes and bytes in words."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TextIO

_SIZE_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB")
_WIDTH_MIN = 40
_CUT = "..."


class Style(StrEnum):
    """How a word looks on a terminal, as the number in the escape sequence."""

    BOLD = "1"
    DIM = "2"
    RED = "31"
    GREEN = "32"
    YELLOW = "33"


HEALTH_STYLES = {
    "clean": Style.GREEN,
    "note": Style.DIM,
    "repairable": Style.YELLOW,
    "corrupt": Style.RED,
    "unsupported": Style.RED,
}


@dataclass(frozen=True, slots=True)
class Screen:
    """What the reader looks at: a terminal with a width and perhaps colour, or a pipe with neither."""

    width: int | None = None
    colour: bool = False

    @classmethod
    def of(cls, stream: TextIO, environment: Mapping[str, str] = os.environ) -> Screen:
        """The screen behind a stream.

        NO_COLOR and a dumb terminal take the colour away; FORCE_COLOR gives it to a pipe too.
        """
        forced = bool(environment.get("FORCE_COLOR")) and not environment.get("NO_COLOR")
        if not stream.isatty():
            return cls(colour=forced)
        colour = forced or (not environment.get("NO_COLOR") and environment.get("TERM") != "dumb")
        return cls(max(_WIDTH_MIN, shutil.get_terminal_size().columns), colour)

    def paint(self, text: str, style: Style | None) -> str:
        return f"\x1b[{style.value}m{text}\x1b[0m" if self.colour and style else text

    def line(self, parts: Iterable[tuple[str, Style | None]]) -> str:
        """The parts in a row, as many as fit the line; a pipe has room for all."""
        parts = list(parts)
        length = len("".join(text for text, _ in parts).rstrip())
        if self.width is None or length <= self.width:
            left, ending = length, ""
        else:
            left, ending = self.width - len(_CUT), _CUT
        shown = []
        for text, style in parts:
            text = text[:left]
            left -= len(text)
            shown.append(self.paint(text, style) if text else "")
        return "".join(shown) + ending


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: numbers stand to the right, words of health have their colour."""

    name: str
    right: bool = False
    health: bool = False


class Table:
    """Aligned columns, printed as the rows come, so that a long listing needs no memory.

    Rows come in chunks. A column is as wide as its widest cell so far; a later chunk may widen it.
    """

    def __init__(self, stream: TextIO, screen: Screen, columns: Sequence[Column]) -> None:
        self._stream = stream
        self._screen = screen
        self._columns = columns
        self._widths = [len(column.name) for column in columns]
        self._headed = False

    def add(self, rows: Iterable[Sequence[str]]) -> None:
        """Print these rows, and the header before the first."""
        chunk = [[visible(cell) for cell in row] for row in rows]
        if not chunk:
            return
        self._widths = [
            max(width, *(len(cell) for cell in cells))
            for width, cells in zip(self._widths, zip(*chunk, strict=True), strict=True)
        ]
        if not self._headed:
            self._headed = True
            header = self._line([column.name for column in self._columns], header=True)
            self._stream.write(f"{header}\n")
        for row in chunk:
            self._stream.write(f"{self._line(row, header=False)}\n")

    def _line(self, cells: Sequence[str], *, header: bool) -> str:
        parts: list[tuple[str, Style | None]] = []
        for cell, column, width in zip(cells, self._columns, self._widths, strict=True):
            gap = " " * (width - len(cell))
            style = Style.BOLD if header else HEALTH_STYLES.get(cell) if column.health else None
            parts += [(gap, None), (cell, style)] if column.right else [(cell, style), (gap, None)]
            parts.append(("  ", None))
        return self._screen.line(parts)


def visible(text: str) -> str:
    """The text with every control character of a terminal written out."""
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text
    )


def human_size(size: int) -> str:
    """A size as a person reads it: `414 B`, `16.0 KiB`."""
    if size < 1024:
        return f"{size} B"
    value = float(size)
    for unit in _SIZE_UNITS:
        value /= 1024
        if value < 1024:
            return f"{value:.1f} {unit}"
    return f"{value:.1f} {_SIZE_UNITS[-1]}"


def cell(value: Any) -> str:
    """A value of a column as a person reads it: printable bytes in quotes, others as hex, nothing as `-`."""
    match value:
        case None:
            return "-"
        case "":
            return '""'  # the name of a default queue is empty
        case bool():
            return "yes" if value else "no"
        case bytes():
            return _bytes_cell(value)
        case dict():
            return " ".join(f"{name}={cell(part)}" for name, part in value.items() if part is not None)
        case list() | tuple():
            return ",".join(cell(part) for part in value)
        case _:
            return str(value)


def _bytes_cell(value: bytes) -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return value.hex()
    return f'"{text}"' if text.isprintable() else value.hex()
