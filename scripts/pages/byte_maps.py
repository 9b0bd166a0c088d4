"""Draws the field maps of the format pages from real bytes: one box for each field, with its place, type and content.

`python -m scripts.pages.byte_maps` draws every map anew between its mark (`<!-- map: NAME -->`) and the end of the
block. A map shows bytes that the code has written, cut by the field table of the record. The fields must use them up
exactly.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from flintlog.core.fields import Field, Table

WIDTH = 100
_BYTES_SHOWN = 8
_MARK = re.compile(r"^<!-- map: (.+?) -->\n```\n(.*?)^```\n", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Box:
    """One field: where it begins (empty when that depends on numbers before it), and three lines to show."""

    place: str
    lines: tuple[str, str, str]
    varies: bool

    @property
    def width(self) -> int:
        return 2 + max(len(self.place) - 1, *map(len, self.lines))


def cut(table: Table, sample: bytes, words: Mapping[str, str] | None = None) -> list[Box]:
    """The boxes of a table over real bytes; `words` stand in place of some types."""
    boxes, end, behind = [], 0, ["0"]
    for field, begin, end, _ in table.walk(sample):
        shown = (words or {}).get(field.name) or field.words or _type(field)
        varies = field.size is None
        boxes.append(Box(_place(behind), (field.name, shown, _hex(sample[begin:end])), varies))
        behind.append(str(end - begin) if not varies else "?" if field.is_zeros else field.length or "?")
    assert end == len(sample), f"{end} bytes of {len(sample)}"
    return boxes


def _type(field: Field) -> str:
    size = field.length or field.size
    shown = "any length" if field.kind == "*" else f"{size} bytes" if field.is_bytes else field.kind
    return f"{shown} = {field.letter}" if field.letter else shown


def _place(sizes: list[str]) -> str:
    if "?" in sizes:
        return ""
    words = [size for size in sizes if not size.isdigit()]
    return "+".join([str(sum(int(size) for size in sizes if size.isdigit())), *words])


def _hex(raw: bytes) -> str:
    return raw.hex(" ") if len(raw) <= _BYTES_SHOWN else f"{raw[:4].hex(' ')} .."


def draw(boxes: list[Box]) -> str:
    """The boxes beside each other, in as many strips as a terminal needs."""
    strips: list[list[Box]] = [[]]
    for box in boxes:
        if strips[-1] and sum(item.width + 1 for item in strips[-1]) + box.width + 2 > WIDTH:
            strips.append([])
        strips[-1].append(box)
    return "".join(line.rstrip() + "\n" for strip in strips for line in _strip(strip))


def _strip(strip: list[Box]) -> Iterator[str]:
    edge = "+" + "+".join(("~" if box.varies else "-") * box.width for box in strip) + "+"
    yield "".join(f"{box.place:<{box.width + 1}}" for box in strip)
    yield edge
    for number in range(3):
        yield "|" + "|".join(f" {box.lines[number]:<{box.width - 1}}" for box in strip) + "|"
    yield edge


def drawn(page: Path, maps: dict[str, str]) -> str:
    """The page with every map drawn anew."""
    return _MARK.sub(
        lambda mark: f"<!-- map: {mark[1]} -->\n```\n{maps[mark[1]]}```\n", page.read_text(encoding="utf-8")
    )


def marks(page: Path) -> list[str]:
    """The names of the maps of a page."""
    return [name for name, _ in _MARK.findall(page.read_text(encoding="utf-8"))]


def main(pages: dict[Path, Callable[[], dict[str, str]]]) -> None:
    for page, maps in pages.items():
        page.write_text(drawn(page, maps()), encoding="utf-8")
        print(f"docs: {page.name}")


if __name__ == "__main__":
    from scripts.pages.byte_map_samples import PAGES

    main(PAGES)
