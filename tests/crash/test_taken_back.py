"""A verb that takes back what it did, crashed at every call: as before, and it goes on well."""

from __future__ import annotations

import pytest
from tests.crash import promises, taken_back

SUITES = (taken_back.TASKFLUX, taken_back.ZMQRAFT, taken_back.MPY6A, taken_back.LIMESTONE)


@pytest.mark.parametrize(("suite", "scenario"), promises.scenarios_of(SUITES))
def test_a_crash_on_the_way_back_loses_nothing(suite, scenario, record_property, part):
    promises.assert_no_crash_image_breaks_a_promise(suite, scenario, record_property, part)
