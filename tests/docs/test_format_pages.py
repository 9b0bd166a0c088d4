"""docs/formats/taskflux.md has the markers, sizes and defaults of the code."""

from __future__ import annotations

import re

from scripts.pages.page_blocks import ROOT
from tests.damaged_directories import without_a_beginning
from tests.docs.format_page import planned

from flintlog.core.log import Log
from flintlog.dialects.taskflux import layout
from flintlog.dialects.taskflux.dialect import DIALECT
from flintlog.dialects.taskflux.findings import CODES
from flintlog.dialects.taskflux.rules import Limits
from flintlog.disk import Disk

PAGE = ROOT / "docs" / "formats" / "taskflux.md"


def test_a_log_without_its_beginning_is_not_repaired(tmp_path):
    without_a_beginning(tmp_path / "root")
    plan = Log(DIALECT, Disk(), str(tmp_path / "root")).plan_repair()
    assert (plan.findings[0].code, planned(plan)) == ("log-start", "refused")
    assert "refused without one" in CODES["log-start"].repair


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
