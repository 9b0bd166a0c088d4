"""Text for people: sizes, cells, aligned columns, colour only where it is wanted."""

from __future__ import annotations

import io

import pytest

from flintlog.cli.terminal import Column, Screen, Style, Table, cell, human_size, visible


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (16 << 20, "16.0 MiB"),
        (3 << 40, "3.0 TiB"),
        (5 << 60, "5120.0 PiB"),
    ],
)
def test_sizes_read_as_people_say_them(size, text):
    assert human_size(size) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (7, "7"),
        (True, "yes"),
        ("orders", "orders"),
        ("", '""'),
        (b"hello", '"hello"'),
        (b"", '""'),
        ("привет".encode(), '"привет"'),
        (b"\x00\x05", "0005"),
        (b"\xff\xfe", "fffe"),
        (b"\x1b[31m", "1b5b33316d"),
        ([1, 2], "1,2"),
        ({"id": 3, "code": None, "name": "q"}, "id=3 name=q"),
    ],
)
def test_values_read_as_people_expect_them(value, text):
    assert cell(value) == text


def test_control_characters_cannot_reach_the_terminal():
    assert visible("a\x1b[2Jb\n") == "a\\x1b[2Jb\\n"
    stream = io.StringIO()
    Table(stream, Screen(), [Column("file")]).add([["evil\x1b]0;x\x07\n"]])
    assert "\x1b" not in stream.getvalue()
    assert len(stream.getvalue().splitlines()) == 2


def test_columns_stand_under_each_other_and_numbers_to_the_right():
    stream = io.StringIO()
    table = Table(stream, Screen(), [Column("name"), Column("size", right=True), Column("role")])
    table.add([["a", "1", "log"], ["longer", "1000", "snapshot"]])
    assert stream.getvalue() == "name    size  role\na          1  log\nlonger  1000  snapshot\n"


def test_later_chunks_get_no_second_header_and_may_widen_a_column():
    stream = io.StringIO()
    table = Table(stream, Screen(), [Column("n", right=True), Column("x")])
    table.add([["1", "a"]])
    table.add([["1000", "b"]])
    table.add([["2", "c"]])
    assert stream.getvalue() == "n  x\n1  a\n1000  b\n   2  c\n"


def test_a_table_without_rows_prints_nothing():
    stream = io.StringIO()
    Table(stream, Screen(), [Column("n")]).add([])
    assert stream.getvalue() == ""


def test_a_terminal_gets_lines_of_its_width_and_a_pipe_gets_all():
    rows = [["a", "x" * 200]]
    narrow, wide = io.StringIO(), io.StringIO()
    Table(narrow, Screen(width=60), [Column("n"), Column("payload")]).add(rows)
    Table(wide, Screen(), [Column("n"), Column("payload")]).add(rows)
    assert max(len(line) for line in narrow.getvalue().splitlines()) == 60
    assert narrow.getvalue().endswith("...\n")
    assert "x" * 200 in wide.getvalue()


def test_health_has_a_colour_and_the_same_word_elsewhere_has_none():
    stream = io.StringIO()
    columns = [Column("queue"), Column("health", health=True)]
    Table(stream, Screen(width=80, colour=True), columns).add([["corrupt", "corrupt"]])
    row = stream.getvalue().splitlines()[1]
    assert row == "corrupt  \x1b[31mcorrupt\x1b[0m"


@pytest.mark.parametrize(
    ("stream", "environment", "colour"),
    [
        (Terminal(), {}, True),
        (Terminal(), {"NO_COLOR": ""}, True),
        (Terminal(), {"NO_COLOR": "1"}, False),
        (Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {}, False),
    ],
)
def test_colour_is_for_terminals_that_want_it(stream, environment, colour):
    screen = Screen.of(stream, environment)
    assert screen.colour is colour
    assert (screen.width is not None) is stream.isatty()
    assert screen.paint("x", Style.RED) == ("\x1b[31mx\x1b[0m" if colour else "x")
