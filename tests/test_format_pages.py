"""docs/formats/taskflux.md says of every finding what verify, opening and repair really do."""

from __future__ import annotations

import ast
import re
import shutil

import pytest
from tests.damaged_directories import CASES, numbered, without_a_beginning
from tests.page_blocks import ROOT, blocks, commands, play

from flintlog import QueueStore
from flintlog.core.dialect import no_progress
from flintlog.dialects.taskflux import layout
from flintlog.dialects.taskflux.dialect import DIALECT
from flintlog.dialects.taskflux.rules import Limits
from flintlog.disk import Disk
from flintlog.errors import FlintlogError

PAGE = ROOT / "docs" / "formats" / "taskflux.md"
SOURCES = sorted((ROOT / "src" / "flintlog" / "dialects" / "taskflux").rglob("*.py"))
ROW = re.compile(r"^\| `([a-z-]+)` \| (\w+) \| (.*?) \| (.*?) \| (.*?) \|$", re.MULTILINE)
ROWS = {code: rest for code, *rest in ROW.findall(PAGE.read_text())}
KINDS = "metadata|snapshot|segment|record|delta|log|torn|stale|term|create|remove|delete|unsupported"
ONE_WORD = {"leftover", "scratch", "foreign"}


def codes_in_the_source() -> set[str]:
    """Every string of the dialect that has the form of a finding's code, but those of a queue's own errors."""
    found = {
        node.value
        for path in SOURCES
        if path.name != "errors.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    return {text for text in found if re.fullmatch(rf"(?:{KINDS})(?:-[a-z]+)+", text)} | ONE_WORD


def test_every_code_has_a_row_and_a_directory_that_shows_it():
    assert set(ROWS) == codes_in_the_source()
    assert {code for code, _ in CASES} == set(ROWS)


@pytest.mark.parametrize(
    ("code", "make"), [pytest.param(code, make, id=name) for name, code, make in numbered()]
)
def test_the_row_says_what_verify_opening_and_repair_do(code, make, tmp_path):
    root = tmp_path / "root"
    make(root)
    severity, _, opening, repair = ROWS[code]
    inventory = DIALECT.verify(Disk(), str(root), no_progress)
    assert {item.severity for item in inventory.findings if item.code == code} == {severity}

    shutil.copytree(root, tmp_path / "copy")
    assert opened(tmp_path / "copy") == re.split(r"\W", opening)[0]

    plan = DIALECT.plan_repair(Disk(), str(root))
    assert planned(plan) == re.split(r"[:;,]", repair)[0]
    if plan.steps:
        plan.apply()
        assert DIALECT.verify(Disk(), str(root), no_progress).verdict == "clean"
        assert opened(root) == "opens"


def opened(root) -> str:
    try:
        QueueStore(root).close()
    except FlintlogError:
        return "refuses"
    return "opens"


def planned(plan) -> str:
    """The last step names the plan: a cut comes after the segments behind it went aside."""
    if plan.refusal is not None:
        return "refused"
    return plan.steps[-1].action if plan.steps else "nothing"


def test_a_log_without_its_beginning_is_not_repaired(tmp_path):
    without_a_beginning(tmp_path / "root")
    plan = DIALECT.plan_repair(Disk(), str(tmp_path / "root"))
    assert (plan.findings[0].code, planned(plan)) == ("log-start", "refused")
    assert "refused without one" in ROWS["log-start"][3]


def test_the_session_prints_what_the_page_shows(tmp_path, monkeypatch):
    home = tmp_path / "app"
    home.mkdir()
    monkeypatch.chdir(home)
    for block in blocks(PAGE):
        if block.language == "python":
            exec(compile(block.text, PAGE.name, "exec"), {})
        elif block.language == "console":
            for command, output in commands(block.text):
                assert play(command, home) == output


def test_markers_sizes_and_defaults_are_those_of_the_code():
    page = PAGE.read_text()
    for marker in ("FILE", "RECORD", "SNAPSHOT", "METADATA"):
        assert getattr(layout, f"{marker}_MARKER").hex().upper() in page
    assert (layout.DESIGNED.record_header_size, layout.SHIPPED.record_header_size) == (16, 20)
    assert (layout.DESIGNED.metadata_size, layout.SHIPPED.metadata_size) == (20, 24)
    limits = Limits()
    for key, value in (
        ("LogFileSoftLimit", limits.soft),
        ("LogFileHardLimit", limits.hard),
        ("SnapshotCreationSegmentsThreshold", limits.threshold),
    ):
        assert re.search(rf"^\| `{key}` \| `\w+` \| {value} \|$", page, re.MULTILINE)
