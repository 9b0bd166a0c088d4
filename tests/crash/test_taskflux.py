"""The promises of `docs/guarantees.md` for taskflux, at every call, under every fault, without any one sync."""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
from tests.crash import taskflux_queues, taskflux_replica, taskflux_upkeep

from flintlog import QueueStore
from flintlog.core import keeper
from flintlog.dialects.taskflux.store import engine, replica, segments
from flintlog.dialects.taskflux.upkeep import convert
from flintlog.disk import disk
from flintlog.testing import (
    Proof,
    Suite,
    explore,
    inject_everywhere,
    kill_rounds,
    record,
    sync_lines,
    sync_sites,
)
from flintlog.testing.crash import PAGE_BYTES
from flintlog.testing.explore import distinct_images

SUITES = (
    taskflux_queues.SUITE,
    taskflux_replica.SUITE,
    taskflux_upkeep.SNAPSHOT,
    taskflux_upkeep.REPAIR,
    taskflux_upkeep.REPAIR_GAP,
    taskflux_upkeep.CONVERT,
)
SCENARIOS = [
    pytest.param(suite, scenario, id=scenario.name) for suite in SUITES for scenario in suite.scenarios
]
IMAGES_MIN = 50_000


@pytest.mark.parametrize(("suite", "scenario"), SCENARIOS)
def test_no_crash_image_breaks_a_promise(suite, scenario, record_property):
    report = explore(scenario, suite.oracle)
    record_property("crash", [report.boundaries, report.images, report.nested, report.recoveries])
    assert not report.violations, report.explain(suite.target)


def test_the_suite_is_as_large_as_promised():
    images = sum(
        1 for suite in SUITES for scenario in suite.scenarios for _ in distinct_images(record(scenario))
    )
    assert images >= IMAGES_MIN


@pytest.mark.parametrize(("suite", "scenario"), SCENARIOS)
def test_a_fault_at_any_call_stops_the_store_and_loses_nothing(suite, scenario, record_property):
    report = inject_everywhere(scenario, suite.oracle)
    record_property("fault", [report.calls, report.faults])
    assert not report.violations, report.explain(suite.target)


def test_the_suite_fails_when_any_one_sync_is_taken_away(record_property):
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        reached: dict[str, list[tuple[str, str]]] = {}
        places = [(suite.target, scenario.name) for suite in SUITES for scenario in suite.scenarios]
        for place, sites in zip(places, pool.map(_sites_of, places), strict=True):
            for site in sites:
                reached.setdefault(site, []).append(place)
        proofs = list(pool.map(_prove, reached.items()))
    record_property("proof", [len(proofs)])
    assert [proof.site for proof in proofs if proof.violation is None] == []
    lines = sync_lines(disk, keeper, engine, replica, segments, convert)
    assert [line for line in lines if not any(line in site for site in reached)] == []


def _sites_of(place: tuple[str, str]) -> list[str]:
    suite = Suite.load(place[0])
    return sync_sites(suite.scenario(place[1]), suite.oracle)


def _prove(item: tuple[str, Sequence[tuple[str, str]]]) -> Proof:
    """A coarse look at each scenario that reaches the site; where none shows the loss, every byte."""
    site, places = item
    for torn_bytes in (0, PAGE_BYTES):
        for target, name in places:
            suite = Suite.load(target)
            report = explore(
                suite.scenario(name), suite.oracle, elide=site, torn_bytes=torn_bytes, violations_max=1
            )
            if report.violations:
                return Proof(site, report.violations[0])
    return Proof(site, None)


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
