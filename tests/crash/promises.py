"""What the crash tests of every dialect check of their suites.

A module of tests imports those that it has. They take from it what they need: `SUITES`, `IMAGES_MIN`, `MODULES` (all
their syncs must be reached) and `ELSEWHERE`.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from types import ModuleType
from typing import Any, TypeVar

import pytest

from flintlog.core.plan import Plan
from flintlog.disk import Disk
from flintlog.testing import (
    History,
    Proof,
    Scenario,
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

Step = TypeVar("Step")
Shown = TypeVar("Shown")
Note = Callable[[str, object], None]
Part = Callable[[int], tuple[int, int]]
_IMAGES_SHARE = 50  # of so many images `make test` looks at one
_FAULTS_SHARE = 40
_KEPT = "core/kept.py:"  # copies of what opening cuts: `kept_cuts.py` has the scenario that misses its syncs


def judge(
    observed: Shown,
    issued: Sequence[Step],
    acknowledged: Sequence[Step],
    *,
    start: Shown,
    after: Callable[[Shown, Step], Shown],
    between: Callable[[Shown, Step], set[Shown]],
) -> str | None:
    """Is this what the acknowledged steps make, some of the issued ones behind them, or the midst of one?"""
    allowed = set()
    reached = start
    for at, step in enumerate(issued):
        if at >= len(acknowledged):
            allowed |= {reached} | between(reached, step)
        reached = after(reached, step)
    allowed.add(reached)
    return None if observed in allowed else f"{observed} is none of {allowed}"


def applied(word: str, plan: Callable[[Disk], Plan]) -> Callable[[Disk, History[str]], None]:
    """What a scenario does: a plan is made and applied."""

    def act(disk: Disk, history: History[str]) -> None:
        history.issue(word)
        plan(disk).apply()
        history.acknowledge(word)

    return act


def contents(disk: Disk, directory: str) -> list[bytes]:
    """The bytes of every file below a directory."""
    found = []
    for name in disk.list(directory):
        path = f"{directory}/{name}"
        found += contents(disk, path) if disk.is_directory(path) else [disk.read(path, 1 << 20)]
    return found


def scenarios_of(suites: Sequence[Suite]) -> list[Any]:
    """One parameter set for each scenario."""
    return [
        pytest.param(suite, scenario, id=scenario.name) for suite in suites for scenario in suite.scenarios
    ]


def test_no_crash_image_breaks_a_promise(suite, scenario, record_property, part):
    assert_no_crash_image_breaks_a_promise(suite, scenario, record_property, part)


def assert_no_crash_image_breaks_a_promise(
    suite: Suite, scenario: Scenario[Any], note: Note, part: Part
) -> None:
    report = explore(scenario, suite.oracle, part=part(_IMAGES_SHARE))
    note("crash", [report.boundaries, report.images, report.nested, report.recoveries])
    assert not report.violations, report.explain(suite.target)


@pytest.mark.long
def test_the_suite_is_as_large_as_promised(request):
    found = sum(
        1
        for suite in request.module.SUITES
        for scenario in suite.scenarios
        for _ in distinct_images(record(scenario))
    )
    assert found >= request.module.IMAGES_MIN


def test_a_fault_at_any_call_stops_the_store_and_loses_nothing(suite, scenario, record_property, part):
    report = inject_everywhere(scenario, suite.oracle, part=part(_FAULTS_SHARE))
    record_property("fault", [report.calls, report.faults])
    assert not report.violations, report.explain(suite.target)


@pytest.mark.long
def test_the_suite_fails_when_any_one_sync_is_taken_away(request, record_property):
    module = request.module
    elsewhere = getattr(module, "ELSEWHERE", ())
    assert_every_sync_is_needed(module.SUITES, module.MODULES, record_property, elsewhere=elsewhere)


def assert_killed_processes_lose_nothing(
    record_property: Note, *load: Any, rounds: int, **judge: Any
) -> None:
    """Kill a process under load, so many times; nothing that it acknowledged may be gone."""
    report = kill_rounds(*load, rounds=rounds, **judge)
    record_property("kill", [report.rounds, report.acknowledged])
    assert not report.violations, report.violations
    assert report.acknowledged > 100


def assert_every_sync_is_needed(
    suites: Sequence[Suite],
    modules: Sequence[ModuleType],
    note: Note,
    *,
    elsewhere: Sequence[str] = (),
    kept: str = _KEPT,
) -> None:
    """Without any one sync some scenario fails, and every line of these modules that syncs is reached.

    `elsewhere` names functions whose syncs count on a cluster only: a machine flushes its own cache, and the kit has
    one machine, on which whoever syncs the file last has synced it for all.
    """
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        reached: dict[str, list[tuple[str, str]]] = {}
        places = [(suite.target, scenario.name) for suite in suites for scenario in suite.scenarios]
        for place, sites in zip(places, pool.map(_sites_of, places), strict=True):
            for site in sites:
                reached.setdefault(site, []).append(place)
        proved = {
            site: places
            for site, places in reached.items()
            if not any(word in site for word in (*elsewhere, kept))
        }
        proofs = list(pool.map(_prove, proved.items()))
    note("proof", [len(proofs)])
    unproved = [proof.site for proof in proofs if proof.violation is None]
    assert not unproved, unproved
    unreached = [line for line in sync_lines(*modules) if not any(line in site for site in reached)]
    assert not unreached, unreached


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
