"""The promises of `docs/guarantees.md` for taskflux, at every call, under every fault, without any one sync."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.crash import loads, promises, taskflux_queues, taskflux_replica, taskflux_upkeep
from tests.crash.promises import (  # noqa: F401 -- the tests that every dialect has
    test_a_fault_at_any_call_stops_the_store_and_loses_nothing,
    test_no_crash_image_breaks_a_promise,
    test_the_suite_fails_when_any_one_sync_is_taken_away,
    test_the_suite_is_as_large_as_promised,
)

from flintlog import QueueStore
from flintlog.dialects.taskflux.store import engine, replica, segments
from flintlog.dialects.taskflux.upkeep import migrate
from flintlog.disk import disk

SUITES = (
    taskflux_queues.SUITE,
    taskflux_replica.SUITE,
    taskflux_upkeep.SNAPSHOT,
    taskflux_upkeep.REPAIR,
    taskflux_upkeep.REPAIR_GAP,
    taskflux_upkeep.CONVERT,
    loads.TASKFLUX,
)
IMAGES_MIN = 50_000
MODULES = (disk, engine, replica, segments, migrate)
ELSEWHERE = ["core/new_place.py:"]  # see test_backups.py


@pytest.mark.long
def test_a_process_killed_under_load_loses_nothing_acknowledged(tmp_path, record_property):
    root = tmp_path / "spool"

    def recover() -> list[str]:
        with QueueStore(root) as store:
            return [record.payload.decode() for record in store.queue().records()]

    promises.assert_killed_processes_lose_nothing(
        record_property,
        "tests.crash.taskflux_load",
        [str(root)],
        recover=recover,
        check=_adds_and_removals,
        rounds=25,
        seed=7,
    )
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
