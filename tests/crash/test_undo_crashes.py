"""Taking a repair back, at every call, under every fault, without any one sync."""

from __future__ import annotations

import pytest
from tests.crash import promises, repairs_undone

SUITES = (repairs_undone.TASKFLUX, repairs_undone.ZMQRAFT, repairs_undone.MPY6A, repairs_undone.LIMESTONE)


@pytest.mark.parametrize(("suite", "scenario"), promises.scenarios_of(SUITES))
def test_an_undo_is_whole_or_finished_by_the_next(suite, scenario, record_property, part):
    promises.assert_no_crash_image_breaks_a_promise(suite, scenario, record_property, part)


@pytest.mark.parametrize(("suite", "scenario"), promises.scenarios_of(SUITES))
def test_a_fault_in_an_undo_loses_nothing(suite, scenario, record_property, part):
    promises.assert_no_fault_loses_anything(suite, scenario, record_property, part)


@pytest.mark.long
def test_the_suite_fails_when_any_one_sync_of_an_undo_is_taken_away(record_property):
    promises.assert_every_sync_is_needed(SUITES, (), record_property)
