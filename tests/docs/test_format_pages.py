"""docs/formats/taskflux.md says of every finding what verify, opening and repair really do."""

from __future__ import annotations

import re

import pytest
from tests.damaged_directories import CASES, numbered, without_a_beginning
from tests.docs.format_page import FormatPage, planned

from flintlog import QueueStore
from flintlog.core.log import Log
from flintlog.dialects.taskflux import layout
from flintlog.dialects.taskflux.dialect import DIALECT
from flintlog.dialects.taskflux.rules import Limits
from flintlog.disk import Disk

PAGE = FormatPage(
    "taskflux",
    "metadata|snapshot|segment|record|delta|log|torn|stale|term|create|remove|delete|unsupported",
    QueueStore,
    frozenset({"errors.py"}),  # of a queue
)


def test_every_code_has_a_row_and_a_directory_that_shows_it():
    assert set(PAGE.rows) == PAGE.codes_in_the_source()
    assert {code for code, _ in CASES} == set(PAGE.rows)


@pytest.mark.parametrize(
    ("code", "make"), [pytest.param(code, make, id=name) for name, code, make in numbered(CASES)]
)
def test_the_row_says_what_verify_opening_and_repair_do(code, make, tmp_path):
    make(tmp_path / "root")
    PAGE.check_row(code, tmp_path / "root", tmp_path / "copy")


def test_a_log_without_its_beginning_is_not_repaired(tmp_path):
    without_a_beginning(tmp_path / "root")
    plan = Log(DIALECT, Disk(), str(tmp_path / "root")).plan_repair()
    assert (plan.findings[0].code, planned(plan)) == ("log-start", "refused")
    assert "refused without one" in PAGE.rows["log-start"][3]


def test_markers_sizes_and_defaults_are_those_of_the_code():
    page = PAGE.path.read_text()
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
