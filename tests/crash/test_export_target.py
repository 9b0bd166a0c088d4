"""Exports under the fault kit: a power failure at every call, every fault, and a reader who looks in between."""

from __future__ import annotations

from tests.crash import export_target
from tests.crash.promises import (  # noqa: F401
    test_a_fault_at_any_call_stops_the_store_and_loses_nothing,
)

from flintlog.disk import Disk
from flintlog.testing import MemoryKernel, explore, record
from flintlog.testing.explore import distinct_images

SUITES = (export_target.ENTRIES, export_target.STATE)


def test_no_crash_image_of_an_export_loses_or_doubles_a_row(suite, scenario):
    # A commit is published whole, so that it does not matter at which of its bytes a write is torn.
    report = explore(scenario, suite.oracle, torn_bytes=0)
    assert not report.violations, report.explain(suite.target)
    assert report.images >= 20


def test_a_reader_of_any_image_sees_no_row_twice_and_all_of_what_had_ended(suite, scenario):
    view = "state" if suite is export_target.STATE else "entries"
    looks = 0
    for image, _, expectation in distinct_images(record(scenario)):
        if image.pending:
            continue  # the system lived on, and nothing was lost
        seen = export_target.shown(Disk(MemoryKernel(image.state)))
        wrong = export_target.wrong_for_a_reader(view, seen, ended=bool(expectation.acknowledged))
        assert wrong is None, f"{image}: {wrong}"
        looks += 1
    assert looks > 100
