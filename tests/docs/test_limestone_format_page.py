"""docs/formats/limestone.md says of every finding what verify, reading and repair do, and of every record its size."""

from __future__ import annotations

import ast
import re

import pytest
from scripts.pages.page_blocks import ROOT
from tests.limestone.directories import CASES

from flintlog.core.log import Log
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone.dialect import DIALECT
from flintlog.dialects.limestone.layout import Catalog
from flintlog.disk import Disk
from flintlog.errors import FlintlogError

PAGE = ROOT / "docs" / "formats" / "limestone.md"
SOURCES = sorted((ROOT / "src" / "flintlog" / "dialects" / "limestone").rglob("*.py"))
ROWS = dict(
    re.findall(r"^\| `([a-z-]+)` \| (\w+ \| .*? \| \w+ \| [\w ]+) \|$", PAGE.read_text(), re.MULTILINE)
)
KINDS = "manifest|catalog|compacted|epoch|torn|not|entry|snippet|left|blob|odd"
ONE_WORD = {"leftover", "foreign"}


def codes_in_the_source() -> set[str]:
    found = {
        node.value
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    return {text for text in found if re.fullmatch(rf"(?:{KINDS})(?:-[a-z]+)+", text)} | ONE_WORD


def test_every_code_has_a_row_and_a_directory_that_shows_it():
    assert set(ROWS) == codes_in_the_source()
    assert {code for code, _ in CASES} == set(ROWS)


@pytest.mark.parametrize(("code", "make"), CASES)
def test_the_row_says_what_verify_reading_and_repair_do(code, make, tmp_path):
    make(tmp_path / "root")
    severity, _, reading, repair = ROWS[code].split(" | ")
    findings = Log(DIALECT, Disk(), str(tmp_path / "root")).verify().findings
    assert {item.severity for item in findings if item.code == code} == {severity}
    assert read(tmp_path / "root") == reading
    plan = Log(DIALECT, Disk(), str(tmp_path / "root")).plan_repair()
    actions = " and ".join(dict.fromkeys(step.action for step in plan.steps)) or "nothing"
    assert ("refuses" if plan.refusal else actions) == repair


def read(root) -> str:
    try:
        list(Log(DIALECT, Disk(), str(root)).state())
    except FlintlogError:
        return "refuses"
    return "opens"


def test_sizes_and_the_catalog_are_those_of_the_code():
    page = PAGE.read_text()
    sizes = {
        int(number): text for number, text in re.findall(r"^\| (\d+) \| .* \| ([\d +knv]+) \|$", page, re.M)
    }
    records = {
        lay.PUT: lay.put(1, b"kk", b"vvv", (1, 2)).encode(),
        lay.BEGIN: lay.encode_begin(1),
        lay.END: lay.encode_end(1),
        lay.DURABLE: lay.encode_durable(1),
        lay.REMOVE: lay.remove(1, b"kk", (1, 2)).encode(),
        lay.INVALIDATED: lay.encode_begin(1),
        lay.CLEAR_STORAGE: lay.Entry(lay.CLEAR_STORAGE, 1).encode(),
        lay.ADD_STORAGE: lay.Entry(lay.ADD_STORAGE, 1).encode(),
        lay.REMOVE_STORAGE: lay.Entry(lay.REMOVE_STORAGE, 1).encode(),
        lay.PUT_BLOBS: lay.put(1, b"kk", b"vvv", (1, 2), (5, 6, 7, 8)).encode(),
    }
    assert set(sizes) == set(records)
    for number, text in sizes.items():
        formula = text.replace("8n", "8 * n")
        assert eval(formula, {"k": 2, "v": 3, "n": 4}) == len(records[number]), number
    example = Catalog({"cmpct_0001": 1}, frozenset({"pwal_0000.01794726954958.0"}), 6, 0)
    assert f"```\n{example.encode().decode()}```" in page
