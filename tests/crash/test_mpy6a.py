"""The promises of `docs/guarantees.md` for mpy6a, at every call, under every fault, without any one sync."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from tests.crash import mpy6a_sessions, promises
from tests.crash.promises import (  # noqa: F401 -- the tests that every dialect has
    test_a_fault_at_any_call_stops_the_store_and_loses_nothing,
    test_no_crash_image_breaks_a_promise,
    test_the_suite_fails_when_any_one_sync_is_taken_away,
    test_the_suite_is_as_large_as_promised,
)

from flintlog.dialects.mpy6a.store import SessionStore, engine, following, note_files, operation_log

SUITES = (mpy6a_sessions.SUITE, mpy6a_sessions.STRICT_SUITE)
IMAGES_MIN = 15_000
# The lines of `disk` itself are proven by the scenarios of taskflux and limestone.
MODULES = (engine, following, note_files, operation_log)


@pytest.mark.long
def test_a_process_killed_under_load_loses_no_session(tmp_path, record_property):
    root = tmp_path / "sessions"

    def recover() -> list[str]:
        with SessionStore(root) as store:
            waiting = [
                record.data.decode() for record, _ in store.due_batch(1_900_000_000, 10_000_000).rows()
            ]
            return waiting + [session.data.decode() for session in store.sessions() if not session.place]

    promises.assert_killed_processes_lose_nothing(
        record_property,
        "tests.crash.mpy6a_load",
        [str(root)],
        recover=recover,
        check=_no_session_lost,
        rounds=20,
        seed=11,
    )


def _no_session_lost(
    observed: Sequence[str], issued: Sequence[str], acknowledged: Sequence[str]
) -> str | None:
    stored = {item[1:] for item in acknowledged if item[0] == "s"}
    deleted = {item[1:] for item in issued if item[0] == "d"}
    if lost := stored - deleted - set(observed):
        return f"{len(lost)} stored sessions are gone, one is {min(lost)}"
    if back := {item[1:] for item in acknowledged if item[0] == "d"} & set(observed):
        return f"{len(back)} deleted sessions came back, one is {min(back)}"
    whole = [item for item in observed if len(item) > 3]  # an open one may have its beginning only
    if twice := [item for item, count in Counter(whole).items() if count > 1]:
        return f"{len(twice)} sessions are there twice, one is {min(twice)}"
    prefixes = {item[1:] for item in issued} | {item[1:4] for item in issued}
    if invented := set(observed) - prefixes:
        return f"{len(invented)} sessions were never stored"
    return None
