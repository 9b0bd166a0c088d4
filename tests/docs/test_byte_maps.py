"""The field maps of the format pages are those that the code's own bytes give; every kind of record has one."""

from __future__ import annotations

import pytest
from scripts.pages.byte_map_samples import PAGES
from scripts.pages.byte_maps import WIDTH, cut, draw, drawn, marks

from flintlog.core.fields import Field, MalformedError, Table


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_map_is_on_its_page_as_it_is_drawn(page):
    maps = PAGES[page]()
    assert sorted(marks(page)) == sorted(maps)
    assert drawn(page, maps) == page.read_text()
    assert all(len(line) <= WIDTH for text in maps.values() for line in text.splitlines())


def test_a_map_shows_where_a_field_begins_and_what_stands_there():
    table = Table(
        "little",
        Field("type", "u8"),
        Field("length", "u16 n"),
        Field("name", "[n]"),
        Field("rest", "*"),
        Field("end", "2B", words="zeros"),
    )
    assert draw(cut(table, b"\7\2\0abXYZ\0\0")) == (
        "0      1         3         3+n\n"
        "+------+---------+~~~~~~~~~+~~~~~~~~~~~~+-------+\n"
        "| type | length  | name    | rest       | end   |\n"
        "| u8   | u16 = n | n bytes | any length | zeros |\n"
        "| 07   | 02 00   | 61 62   | 58 59 5a   | 00 00 |\n"
        "+------+---------+~~~~~~~~~+~~~~~~~~~~~~+-------+\n"
    )


@pytest.mark.parametrize("sample", [b"\1", b"\1\2\3\4\5\6"], ids=["too short", "too long"])
def test_fields_that_do_not_use_the_bytes_up_are_refused(sample):
    with pytest.raises((AssertionError, MalformedError)):
        cut(Table("little", Field("type", "u8"), Field("number", "u32")), sample)
