"""Taking a repair back, at every call, under every fault, without any one sync."""

from __future__ import annotations

from tests.crash import repairs_undone
from tests.crash.promises import (  # noqa: F401
    test_a_fault_at_any_call_stops_the_store_and_loses_nothing,
    test_no_crash_image_breaks_a_promise,
    test_the_suite_fails_when_any_one_sync_is_taken_away,
)

SUITES = (repairs_undone.TASKFLUX, repairs_undone.ZMQRAFT, repairs_undone.MPY6A, repairs_undone.LIMESTONE)
MODULES = ()
