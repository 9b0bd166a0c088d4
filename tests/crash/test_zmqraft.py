"""The promises of `docs/guarantees.md` for zmqraft, at every call, under every fault, without any one sync."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.crash import promises, zmqraft_log, zmqraft_peer, zmqraft_tokens, zmqraft_upkeep
from tests.crash.promises import (  # noqa: F401 -- the tests that every dialect has
    test_a_fault_at_any_call_stops_the_store_and_loses_nothing,
    test_no_crash_image_breaks_a_promise,
    test_the_suite_fails_when_any_one_sync_is_taken_away,
    test_the_suite_is_as_large_as_promised,
)

from flintlog import RaftStore
from flintlog.dialects.zmqraft.store import (
    file_log,
    index_file,
    raft_store,
    snapshot_file,
    state_file,
    token_file,
)

SUITES = (
    zmqraft_peer.SUITE,
    zmqraft_log.SUITE,
    zmqraft_tokens.SUITE,
    zmqraft_upkeep.COMPACT,
    zmqraft_upkeep.SNAPSHOT,
    zmqraft_upkeep.REPAIR,
    zmqraft_upkeep.REPAIR_COVERED,
)
IMAGES_MIN = 5_000
# The lines of `disk` itself are proven by the scenarios of taskflux and limestone.
MODULES = (file_log, index_file, raft_store, snapshot_file, state_file, token_file)


@pytest.mark.long
def test_a_process_killed_under_load_loses_nothing_acknowledged(tmp_path, record_property):
    root = tmp_path / "peer"

    def recover() -> list[str]:
        with RaftStore(root) as store:
            entries = [f"a{entry.data.decode()}" for entry in store.entries(store.first_index)]
            return [*entries, f"t{store.hard_state.term}"]

    promises.assert_killed_processes_lose_nothing(
        record_property,
        "tests.crash.zmqraft_load",
        [str(root)],
        recover=recover,
        check=_entries_and_terms,
        rounds=20,
        seed=7,
    )


def _entries_and_terms(
    observed: Sequence[str], issued: Sequence[str], acknowledged: Sequence[str]
) -> str | None:
    entries = [item for item in observed if item[0] == "a"]
    if lost := {item for item in acknowledged if item[0] == "a"} - set(entries):
        return f"{len(lost)} acknowledged entries are gone, one is {min(lost)}"
    if invented := set(entries) - set(issued):
        return f"{len(invented)} entries were never issued"
    if len(set(entries)) < len(entries):
        return "an entry is there twice"
    term = int(observed[-1][1:])
    if term < max((int(item[1:]) for item in acknowledged if item[0] == "t"), default=0):
        return f"term {term} is below one that was acknowledged"
    return None
