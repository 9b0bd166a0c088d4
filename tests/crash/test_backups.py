"""Backups and restores of every dialect: at every call, under every fault."""

from __future__ import annotations

import pytest
from tests.crash import backups, promises


@pytest.mark.parametrize(("suite", "scenario"), promises.scenarios_of(backups.SUITES))
def test_an_interrupted_backup_or_restore_is_complete_or_not_there(suite, scenario, record_property, part):
    promises.assert_no_crash_image_breaks_a_promise(suite, scenario, record_property, part)


@pytest.mark.parametrize(("suite", "scenario"), promises.scenarios_of(backups.SUITES))
def test_a_fault_at_any_call_leaves_it_complete_or_not_there(suite, scenario, record_property, part):
    promises.assert_no_fault_loses_anything(suite, scenario, record_property, part)
