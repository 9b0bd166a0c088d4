"""Repair of a directory of sessions, cut short at every call and with a fault at every call."""

from __future__ import annotations

import pytest
from tests.crash import mpy6a_upkeep, promises

SUITES = (mpy6a_upkeep.RECORD, mpy6a_upkeep.READ, mpy6a_upkeep.LOGS, mpy6a_upkeep.COMPACT)


@pytest.mark.parametrize(("suite", "scenario"), promises.scenarios_of(SUITES))
def test_no_crash_image_breaks_a_promise(suite, scenario, record_property, part):
    promises.assert_no_crash_image_breaks_a_promise(suite, scenario, record_property, part)


@pytest.mark.parametrize(("suite", "scenario"), promises.scenarios_of(SUITES))
def test_a_fault_at_any_call_loses_nothing(suite, scenario, record_property, part):
    promises.assert_no_fault_loses_anything(suite, scenario, record_property, part)
