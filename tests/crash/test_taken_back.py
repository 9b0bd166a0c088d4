"""A verb that takes back what it did, crashed at every call: as before, and it goes on well."""

from __future__ import annotations

from tests.crash import taken_back
from tests.crash.promises import test_no_crash_image_breaks_a_promise  # noqa: F401

SUITES = (taken_back.TASKFLUX, taken_back.ZMQRAFT, taken_back.MPY6A, taken_back.LIMESTONE)
