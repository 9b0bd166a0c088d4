"""The promises of `docs/guarantees.md` for limestone, at every call, under every fault, without any one sync."""

from __future__ import annotations

import pytest
from tests.crash import (
    limestone_backup,
    limestone_epochs,
    limestone_note,
    limestone_original,
    limestone_store,
    limestone_upkeep,
    loads,
    promises,
)
from tests.crash.promises import (  # noqa: F401 -- the tests that every dialect has
    test_a_fault_at_any_call_stops_the_store_and_loses_nothing,
    test_no_crash_image_breaks_a_promise,
    test_the_suite_fails_when_any_one_sync_is_taken_away,
    test_the_suite_is_as_large_as_promised,
)

from flintlog.core.backup import copying, listing
from flintlog.dialects.limestone.store import (
    Datastore,
    blobs,
    channel,
    compaction,
    creation,
    datastore,
    epoch_file,
    healing,
    places,
    present,
    snapshot,
    staged,
)
from flintlog.disk import disk
from flintlog.testing import nothing_lost_nothing_invented

SUITES = (
    limestone_store.SUITE,
    limestone_original.SUITE,
    limestone_note.SUITE,
    limestone_epochs.SUITE,
    limestone_upkeep.COMPACT,
    limestone_upkeep.REPAIR,
    limestone_upkeep.CONVERT,
    limestone_backup.RESTORE_FILES,  # the quick ones first: the proof goes through them in this order
    limestone_backup.RESTORE,
    limestone_backup.RESTORE_EPOCH,
    limestone_backup.CHAIN,
    limestone_backup.BACKUP,
    limestone_upkeep.COMPACT_BY_WORKERS,
    loads.LIMESTONE,
)
IMAGES_MIN = 5_000
MODULES = (
    disk,
    copying,
    listing,
    blobs,
    channel,
    compaction,
    creation,
    datastore,
    epoch_file,
    healing,
    places,
    present,
    snapshot,
    staged,
)
ELSEWHERE = ["dialects/limestone/distributed/writing.py:write_files:", "core/new_place.py:"]


@pytest.mark.long
@pytest.mark.parametrize("edition", ["designed", "shipped"])
def test_a_process_killed_under_load_loses_nothing_acknowledged(edition, tmp_path, record_property):
    root = tmp_path / "log"

    def recover() -> list[str]:
        with Datastore(root) as store:
            assert store.snapshot is not None
            return [entry.key.decode() for entry in store.snapshot.scan()]

    promises.assert_killed_processes_lose_nothing(
        record_property,
        "tests.crash.limestone_load",
        [str(root), edition],
        recover=recover,
        check=nothing_lost_nothing_invented,
        rounds=10,
        seed=7,
    )
