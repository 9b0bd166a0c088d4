"""Spans become fields: long ones in pieces, gaps and errors filled, ranges cut."""

from __future__ import annotations

import pytest

from flintlog.core.dialect import ByteRange
from flintlog.core.fields import Span
from flintlog.core.file_fields import (
    PIECE_BYTES,
    UNEXPLAINED,
    every_byte,
    fields_of,
    file_view,
    leftover,
    shortened,
)
from flintlog.disk import Disk
from flintlog.errors import DamageError

VIEW = memoryview(bytes(range(200)))


def told(fields):
    return [(field.offset, len(field.data), field.name, field.meaning) for field in fields]


def test_spans_get_their_bytes():
    (field,) = fields_of("f", VIEW, [Span(3, 6, "name", "meaning")])
    assert (field.file, field.offset, field.data) == ("f", 3, b"\x03\x04\x05")
    (field,) = fields_of("f", VIEW, [Span(103, 106, "name", "meaning")], base=100)
    assert (field.offset, field.data) == (103, b"\x03\x04\x05")


def test_what_no_span_has_is_a_field_and_what_two_have_is_told_once():
    spans = [Span(0, 4, "a", ""), Span(10, 20, "b", ""), Span(15, 30, "c", ""), Span(16, 18, "d", "")]
    assert told(every_byte("f", VIEW, spans)) == [
        (0, 4, "a", ""),
        (4, 6, "rest", UNEXPLAINED),
        (10, 10, "b", ""),
        (20, 10, "c", ""),
        (30, 170, "rest", UNEXPLAINED),
    ]
    assert told(every_byte("f", VIEW, [Span(0, 900, "long", "")])) == [(0, 200, "long", "")]
    assert told(every_byte("f", VIEW[:0], [])) == []


def test_an_empty_field_stays_where_it_is():
    spans = [Span(0, 100, "a", ""), Span(100, 100, "empty", "''"), Span(100, 200, "b", "")]
    assert [field.name for field in every_byte("f", VIEW, spans)] == ["a", "empty", "b"]
    names = [field.name for field in every_byte("f", VIEW, spans, ByteRange("f", 50, 100))]
    assert names == ["a", "empty"]


def test_damage_that_is_raised_is_a_field_up_to_the_end():
    def spans():
        yield Span(0, 8, "good", "")
        raise DamageError("no more", code="x", expected="more")

    assert told(every_byte("f", VIEW, spans())) == [
        (0, 8, "good", ""),
        (8, 192, "damage", "no more; expected more"),
    ]


def test_a_long_span_comes_in_pieces_and_a_range_of_it_in_few():
    view = memoryview(bytes(3 * PIECE_BYTES + 5))
    spans = [Span(0, 5, "head", ""), Span(5, len(view), "data", "all of it")]
    fields = list(every_byte("f", view, spans))
    assert [len(field.data) for field in fields] == [5, PIECE_BYTES, PIECE_BYTES, PIECE_BYTES]
    assert fields[1].meaning == "all of it"
    assert fields[2].meaning == f"goes on: byte {PIECE_BYTES} of {3 * PIECE_BYTES}"
    assert list(every_byte("f", view, spans, ByteRange("f", PIECE_BYTES + 5, PIECE_BYTES + 6))) == [fields[2]]
    assert list(every_byte("f", view, spans, ByteRange("f", 4, 6))) == fields[:2]


def test_a_range_needs_only_the_spans_that_touch_it():
    spans = [Span(40, 60, "b", "")]
    assert told(every_byte("f", VIEW, spans, ByteRange("f", 50, 55))) == [(40, 20, "b", "")]
    assert told(every_byte("f", VIEW, spans, ByteRange("f", 55, 70))) == [
        (40, 20, "b", ""),
        (60, 10, "rest", UNEXPLAINED),
    ]
    assert told(every_byte("f", VIEW, [], ByteRange("f", 190, 1 << 62))) == [(190, 10, "rest", UNEXPLAINED)]


def test_a_file_that_is_gone_or_a_directory_has_no_bytes(tmp_path):
    (tmp_path / "file").write_bytes(b"abc")
    (tmp_path / "folder").mkdir()
    assert bytes(file_view(Disk(), str(tmp_path), "file")) == b"abc"
    assert file_view(Disk(), str(tmp_path), "folder") is None
    assert file_view(Disk(), str(tmp_path), "gone") is None


@pytest.mark.parametrize("size", [0, 7])
def test_a_leftover_is_one_field(size):
    assert [(span.begin, span.end) for span in leftover(size)] == ([(0, size)] if size else [])


def test_long_meanings_are_shortened():
    assert shortened("x" * 400) == "x" * 400
    assert len(shortened("x" * 4000)) == 400
