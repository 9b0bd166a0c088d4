"""Draws the byte maps of the format pages from real bytes: one box for each field, with its place, type and content.

`python -m scripts.pages.byte_maps` draws every map anew between its mark (`<!-- map: NAME -->`) and the block's end.

What a map shows is bytes that the code has written, cut by a line such as

    type u8 | key length u32 k | storage u64 | key [k] | rest *

A field has a name and a type: u8 to u64, i32, i64, uvarint, `12B` (so many bytes), `[k]` (as many as a field before it
says; also `[8*n]` or `[-n%4]`), or `*` (everything up to the fields behind it). A letter behind a number
names its value. Words behind a colon are shown instead of the type. The fields must use the bytes up exactly.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

WIDTH = 100
_BYTES_SHOWN = 8
_FIELD = re.compile(r"(.+?) ([ui]\d+|uvarint|\d+B|\[.+\]|\*)(?: (\w))?(?: : (.+))?")
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


def cut(fields: str, sample: bytes, order: str) -> list[Box]:
    """The boxes of a line of fields over real bytes."""
    boxes, known, at, behind = [], dict[str, int](), 0, ["0"]
    parsed = [_FIELD.fullmatch(item.strip()) for item in fields.split("|")]
    for number, found in enumerate(parsed):
        assert found is not None, fields
        name, kind, letter, words = found.groups()
        begin = at
        if kind == "uvarint":
            while sample[at] & 0x80:
                at += 1
            at += 1
            value = sum((byte & 0x7F) << 7 * place for place, byte in enumerate(sample[begin:at]))
            shown = kind
        elif kind == "*":
            at, value = len(sample) - _fixed(parsed[number + 1 :]), 0
            shown = "any length"
        elif kind[0] == "[":
            at, value = at + eval(kind[1:-1], {}, known), 0
            shown = f"{kind[1:-1]} bytes"
        else:
            size = int(kind[:-1]) if kind[-1] == "B" else int(kind[1:]) // 8
            at += size
            value = int.from_bytes(sample[begin:at], order, signed=kind[0] == "i")  # type: ignore[arg-type]
            shown = f"{size} bytes" if kind[-1] == "B" else kind
        if letter:
            known[letter] = value
            shown = f"{shown} = {letter}"
        varies = kind == "uvarint" or kind[0] in "[*"
        boxes.append(Box(_place(behind), (name, words or shown, _hex(sample[begin:at])), varies))
        behind.append(kind[1:-1] if kind[0] == "[" and kind[1] != "-" else "?" if varies else str(at - begin))
    assert at == len(sample), f"{fields}: {at} bytes of {len(sample)}"
    return boxes


def _fixed(parsed: list[re.Match[str] | None]) -> int:
    """How many bytes the fields behind a `*` have."""
    kinds = [found[2] for found in parsed if found]
    return sum(int(kind[:-1]) if kind[-1] == "B" else int(kind[1:]) // 8 for kind in kinds)


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
