"""Repair of a directory of sessions, cut short at every call and with a fault at every call."""

from __future__ import annotations

from tests.crash import mpy6a_upkeep
from tests.crash.promises import (  # noqa: F401
    test_a_fault_at_any_call_stops_the_store_and_loses_nothing,
    test_no_crash_image_breaks_a_promise,
)

SUITES = (mpy6a_upkeep.RECORD, mpy6a_upkeep.READ, mpy6a_upkeep.LOGS, mpy6a_upkeep.COMPACT)
