"""docs/formats/mpy6a.md says of every finding what verify, opening and repair really do."""

from __future__ import annotations

import ast
import re

import pytest
from scripts.pages.page_blocks import ROOT
from tests.docs.format_page import opened
from tests.mpy6a.damaged import FIRST, SECOND, but, cut, in_event, in_record, logged, noted

from flintlog.core.log import Log
from flintlog.dialects.mpy6a import layout as lay
from flintlog.dialects.mpy6a import tables
from flintlog.dialects.mpy6a.dialect import DIALECT
from flintlog.dialects.mpy6a.findings import CODES
from flintlog.disk import Disk

PAGE = ROOT / "docs" / "formats" / "mpy6a.md"
WHERE = ("snapshot", "log", "operation")  # codes that are put together from what is wrong and where it stands


def _malformed():
    """The first word of every `MalformedError` in what reads bytes and operations."""
    found = set()
    for name in ("layout", "operations", "replay", "survey"):
        path = ROOT / "src" / "flintlog" / "dialects" / "mpy6a" / f"{name}.py"
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(func=ast.Name(id="MalformedError"), args=[ast.Constant(value=str(word)), *_]):
                    found.add(word)
    return found


def test_every_word_of_a_malformed_error_is_part_of_a_code():
    assert _malformed() <= {code.partition("-")[2] for code in CODES if code.startswith(WHERE)}


@pytest.mark.parametrize(
    ("code", "make"),
    [
        ("record-cut", but(noted, in_record(FIRST, 3, 29, b"\x7f"))),
        ("record-cut", but(noted, in_record(SECOND, 1, 29, b"\x7f"))),
        ("event-cut", but(noted, in_event(lay.CHANGES_FILE, 0, 16, b"\x7f"))),
    ],
)
def test_what_is_torn_at_the_end_is_damage_elsewhere(code, make, tmp_path):
    make(tmp_path / "root")
    found = Log(DIALECT, Disk(), str(tmp_path / "root")).verify().findings
    assert [(item.code, item.severity) for item in found] == [(code, "corrupt")]
    assert opened("mpy6a", tmp_path / "root") == "refuses"


@pytest.mark.parametrize(
    ("code", "make"),
    [
        ("event-checksum", but(logged, in_event(lay.OPERATIONS_FILE, -1, 20, b"\xff"))),
        ("event-length", but(noted, in_event(lay.CHANGES_FILE, -1, 16, b"\x00"))),
        ("record-order", but(noted, in_record(SECOND, -1, 3, b"\x00"))),
    ],
)
def test_what_is_damage_elsewhere_is_torn_at_the_end(code, make, tmp_path):
    make(tmp_path / "root")
    found = Log(DIALECT, Disk(), str(tmp_path / "root")).verify().findings
    assert (code, "repairable") in [(item.code, item.severity) for item in found]
    assert {item.severity for item in found} == {"repairable"}
    assert opened("mpy6a", tmp_path / "root") == "opens"


def test_codes_sizes_and_roles_are_those_of_the_code():
    page = PAGE.read_text()
    for code, word in tables.OPERATIONS.items():
        assert re.search(rf"^\| {code} \| `{word}` \|", page, re.MULTILINE), word
    for name in (lay.SNAPSHOT_FILE, lay.CHANGES_FILE, lay.OPERATIONS_FILE, lay.EXHAUSTED_FILE):
        assert f"| `{name}` |" in page
    assert str(lay.DELAY_MAX) in page
    assert (lay.CHANGES_FRAME, lay.OPERATIONS_FRAME) == ((4096, 1024), (33554432, 33554412))
    assert lay.BESIDE_FRAME == (4096, 1023)
    assert "frames of 4096 bytes and\npayloads up to 1024" in page
    assert "Frames have 33554432 bytes, payloads up to\n33554412" in page
    assert (lay.RECORD_SIZE_MIN, lay.RECORD_HEADER_SIZE, lay.LOG_HEADER_SIZE) == (30, 28, 16)
    for word in (tables.SESSION, tables.EXHAUSTED, tables.DESCRIPTOR, tables.UNREADABLE):
        assert f"`{word}`" in page


def test_the_example_is_a_record():
    page = PAGE.read_text()
    (example,) = re.findall(r"^```\n([0-9a-f ]+)\n```$", page, re.MULTILINE)
    record, end = lay.read_record(bytes.fromhex(example), 0)
    assert (record, end) == (lay.Record(1651165230, lay.StateID(1, 2), -5, 0, b"hi"), 32)


def test_what_is_cut_below_the_length_that_the_snapshot_knows_is_no_torn_end(tmp_path):
    but(noted, cut(SECOND, 100))(tmp_path / "root")
    (found,) = Log(DIALECT, Disk(), str(tmp_path / "root")).verify().findings
    assert (found.code, found.severity) == ("file-short", "corrupt")
