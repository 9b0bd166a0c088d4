"""The promises of `docs/guarantees.md` for taskflux, at every call, under every fault, without any one sync."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.crash import promises, taskflux_queues, taskflux_replica, taskflux_upkeep

from flintlog import QueueStore
from flintlog.dialects.taskflux.store import engine, replica, segments
from flintlog.dialects.taskflux.upkeep import migrate
from flintlog.disk import disk
from flintlog.testing import kill_rounds

SUITES = (
    taskflux_queues.SUITE,
    taskflux_replica.SUITE,
    taskflux_upkeep.SNAPSHOT,
    taskflux_upkeep.REPAIR,
    taskflux_upkeep.REPAIR_GAP,
    taskflux_upkeep.CONVERT,
)
IMAGES_MIN = 50_000


@pytest.mark.parametrize(("suite", "scenario"), promises.scenarios_of(SUITES))
def test_no_crash_image_breaks_a_promise(suite, scenario, record_property, part):
    promises.assert_no_crash_image_breaks_a_promise(suite, scenario, record_property, part)


@pytest.mark.long
def test_the_suite_is_as_large_as_promised():
    assert promises.count_images(SUITES) >= IMAGES_MIN


@pytest.mark.parametrize(("suite", "scenario"), promises.scenarios_of(SUITES))
def test_a_fault_at_any_call_stops_the_store_and_loses_nothing(suite, scenario, record_property, part):
    promises.assert_no_fault_loses_anything(suite, scenario, record_property, part)


@pytest.mark.long
def test_the_suite_fails_when_any_one_sync_is_taken_away(record_property):
    modules = (disk, engine, replica, segments, migrate)
    heads = ["core/new_place.py:"]  # see test_backups.py
    promises.assert_every_sync_is_needed(SUITES, modules, record_property, elsewhere=heads)


@pytest.mark.long
def test_a_process_killed_under_load_loses_nothing_acknowledged(tmp_path, record_property):
    root = tmp_path / "spool"

    def recover() -> list[str]:
        with QueueStore(root) as store:
            return [record.payload.decode() for record in store.queue().records()]

    report = kill_rounds(
        "tests.crash.taskflux_load", [str(root)], recover=recover, check=_adds_and_removals, rounds=25, seed=7
    )
    record_property("kill", [report.rounds, report.acknowledged])
    assert not report.violations, report.violations
    assert report.acknowledged > 100
    assert len(list(Path(root, "data", "log").iterdir())) >= 1


def _adds_and_removals(
    observed: Sequence[str], issued: Sequence[str], acknowledged: Sequence[str]
) -> str | None:
    there = set(observed)
    added = {item[1:] for item in acknowledged if item[0] == "a"}
    maybe_removed = {item[1:] for item in issued if item[0] == "r"}
    removed = {item[1:] for item in acknowledged if item[0] == "r"}
    if lost := added - maybe_removed - there:
        return f"{len(lost)} acknowledged records are gone, one is {min(lost)}"
    if back := removed & there:
        return f"{len(back)} acknowledged removals are undone, one is {min(back)}"
    if invented := there - {item[1:] for item in issued if item[0] == "a"}:
        return f"{len(invented)} records were never issued"
    if len(there) < len(observed):
        return "a record is there twice"
    return None
