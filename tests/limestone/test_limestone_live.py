"""Readers of a directory whose store writes, rotates and compacts: what they see was true at a moment."""

from __future__ import annotations

import threading

import pytest

from flintlog.core.log import Log
from flintlog.dialects.limestone.dialect import DIALECT
from flintlog.dialects.limestone.store import Datastore
from flintlog.disk import Disk
from flintlog.errors import RefusedError

READS = 12


def write(store: Datastore, stop: threading.Event, acknowledged: list[int]) -> None:
    """Two channels that say the same in every epoch, beside one whose session is open while logs are rotated."""
    first, second, third = store.channel(), store.channel(), store.channel()
    while not stop.is_set():
        number = acknowledged[-1] + 1
        third.begin().put(3, b"other", b"x" * 200)
        for storage, channel in ((1, first), (2, second)):
            with channel.session() as session:
                session.put(storage, b"number", b"%d" % number)
                session.put(storage, b"%d" % (number % 20), b"%d" % number)
        if number % 3 == 0:
            store.rotate()
        if number % 5 == 0:
            store.compact()
        third.end()
        store.switch_epoch()
        acknowledged.append(number)


@pytest.mark.parametrize("edition", ["designed", "shipped"])
def test_readers_of_a_busy_directory_see_a_moment_or_are_told_to_look_again(edition, tmp_path):
    path, stop, acknowledged = str(tmp_path / "log"), threading.Event(), [0]
    with Datastore(path, edition=edition, snapshot=False, flush_bytes=64) as store:
        thread = threading.Thread(target=write, args=(store, stop, acknowledged))
        thread.start()
        try:
            store.wait_durable(1)
            for _ in range(READS):
                low = acknowledged[-1]
                rows = [row for batch in Log(DIALECT, Disk(), path).state() for row in batch.to_pylist()]
                high = acknowledged[-1] + 1
                state = {(int(row["storage_id"]), row["key"]): row["value"] for row in rows}
                assert low <= int(state[1, b"number"]) <= high
                assert state[1, b"number"] == state[2, b"number"]
                try:
                    assert Log(DIALECT, Disk(), path).verify().verdict in ("clean", "repairable")
                except RefusedError as error:
                    assert "again" in (error.advice or "")
        finally:
            stop.set()
            thread.join()
