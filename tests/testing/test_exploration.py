"""The kit finds every mistake a store can make, and none in a store that is right."""

from __future__ import annotations

import pytest
from tests.testing import toy
from tests.testing.toy import RIGHT, SUITE, Habits, ToyOracle, suite

from flintlog.disk import Disk
from flintlog.testing import (
    Scenario,
    Suite,
    explore,
    explore_suite,
    merged,
    prove_sync,
    prove_syncs,
    sync_lines,
    sync_sites,
)


def explored(habits: Habits):
    broken = suite(habits)
    return merged([explore(scenario, broken.oracle) for scenario in broken.scenarios])


def test_a_store_that_keeps_its_promises_has_no_violation():
    report = explored(RIGHT)
    assert report.explain(SUITE.target) == ""
    assert report.boundaries == sum(
        explore(scenario, SUITE.oracle, torn_bytes=0).boundaries for scenario in SUITE.scenarios
    )
    assert report.images > 4000
    assert report.recoveries > report.states + report.nested
    assert report.nested > 0


@pytest.mark.parametrize(
    ("mistake", "promise"),
    [
        (Habits(syncs_records=False), "history"),
        (Habits(syncs_names=False), "history"),
        (Habits(acknowledges_after_sync=False), "history"),
        (Habits(cuts_torn_tail=False), "continuation"),
        (Habits(checks_sums=False), "history"),
        (Habits(syncs_at_recovery=False), "nested crash"),
    ],
    ids=str,
)
def test_each_mistake_is_found(mistake, promise):
    assert promise in {violation.promise for violation in explored(mistake).violations}


def test_every_sync_that_is_taken_away_is_missed():
    proofs = prove_syncs(SUITE)
    assert len(proofs) == 6
    assert [proof.site for proof in proofs if proof.violation is None] == []


def test_the_syncs_in_the_source_are_those_that_were_proven():
    proven = {line for proof in prove_syncs(SUITE) for line in proof.site.split(" < ")}
    mistake = {line for line in sync_lines(toy) if ":_create:" in line and line not in proven}
    assert len(mistake) == 1, "the store that forgets to sync names has a sync of its own"
    unsynced = [line for line in sync_lines(toy) if line not in proven | mistake]
    assert [line.split(":")[1] for line in unsynced] == ["_append"], "the late sync of a careless store"


def idle(disk: Disk, history) -> None:
    SUITE.scenario("append").run(disk, history)
    disk.sync_directory("/")


def test_a_sync_that_nobody_needs_is_told():
    scenario = Scenario("idle", idle, packages=("flintlog", __name__, "tests.testing.toy"))
    oracle = ToyOracle()
    (site,) = [site for site in sync_sites(scenario, oracle) if ":idle:" in site and "toy" not in site]
    assert prove_sync(Suite("none", oracle, (scenario,)), site, ["idle"]).violation is None


def test_sites_are_told_apart_by_as_many_lines_as_asked_for():
    scenario = SUITE.scenario("append")
    short = sync_sites(scenario, SUITE.oracle)
    long = sync_sites(scenario, SUITE.oracle, frames=None)
    assert len(long) > len(short)
    assert all(any(chain.startswith(site) for chain in long) for site in short)


def test_parts_share_the_states_of_a_scenario():
    scenario = SUITE.scenario("batch")
    whole = explore(scenario, SUITE.oracle)
    parts = merged([explore(scenario, SUITE.oracle, part=(part, 3)) for part in range(3)])
    assert (parts.boundaries, parts.images, parts.states) == (whole.boundaries, whole.images, whole.states)


def test_processes_find_what_one_finds():
    one, two = explore_suite(SUITE), explore_suite(SUITE, processes=2)
    assert [(r.scenario, r.images, r.states, r.violations) for r in one] == [
        (r.scenario, r.images, r.states, r.violations) for r in two
    ]


def test_exploration_stops_at_the_number_of_violations_asked_for():
    broken = suite(Habits(checks_sums=False))
    assert len(explore(broken.scenario("append"), broken.oracle, violations_max=2).violations) == 2
