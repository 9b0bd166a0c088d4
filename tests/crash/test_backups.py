"""Backups and restores of every dialect: at every call, under every fault, complete or not there."""

from __future__ import annotations

from tests.crash.backups import SUITES  # noqa: F401
from tests.crash.promises import (  # noqa: F401
    test_a_fault_at_any_call_stops_the_store_and_loses_nothing,
    test_no_crash_image_breaks_a_promise,
)
