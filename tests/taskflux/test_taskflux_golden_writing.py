"""The same deltas, written by us in the shipped edition, give the bytes that the original wrote."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest
from tests.golden_cases import GOLDEN, expected, materialise, snapshot_of
from tests.taskflux.recorded import Logged, recorded, recorded_entries

from flintlog.columns.checksum import crc32_mpeg2
from flintlog.dialects.taskflux.layout import SHIPPED, AddRecord, delta_problem, encode_delta
from flintlog.dialects.taskflux.store import QueueStore, ReplicaLog
from flintlog.errors import RefusedError, UsageError

FIRST = "log/0000000000000000000.log"

# One segment from LSN 0 on, written by appends: the order of bytes is decided by the order of calls alone.
APPENDED = [
    "delta-bad-queue-name",
    "delta-bool-2",
    "delta-delete-default-queue",
    "delta-delete-missing-queue",
    "delta-duplicate-create",
    "delta-empty",
    "delta-negative-limit",
    "delta-queue-array-without-range",
    "delta-range-reversed",
    "delta-remove-missing-record",
    "delta-trailing-bytes",
    "delta-unknown-code",
    "delta-unknown-type",
    "fresh-init",
    "fresh-init-prealloc",
    "leader-append-never-rolls",
    "odd-queue-names",
    "payload-lengths",
    "server-create-queue-not-logged",
    "server-http-double-remove",
    "single-segment",
]
# Everything in them happened in term 1 and without a vote, as in a store that no Raft drives.
BY_QUEUE_STORE = ["fresh-init", "fresh-init-prealloc", "odd-queue-names", "payload-lengths"]


def golden(case: str) -> dict[str, bytes | None]:
    """Every file and directory of a case, as the original left it."""
    found = snapshot_of(GOLDEN / "taskflux" / case / "dir")
    for name in expected(case)["input_empty_dirs"]:
        found[name] = None
    return dict(sorted(found.items()))


def new_log(root: Path, case: str, **limits: int) -> ReplicaLog:
    """A new directory that preallocates as the case did; limits are those of the case unless given."""
    options = recorded(case)["open_options"]
    limits = limits or {
        "soft_limit": options.get("soft", 16 << 20),
        "hard_limit": options.get("hard", 32 << 20),
    }
    return ReplicaLog(root, edition="shipped", preallocate=options.get("prealloc", False), **limits)


def vote_as_recorded(log: ReplicaLog, case: str) -> None:
    metadata = recorded(case)["metadata"]
    log.set_term(metadata["term"], metadata["voted_for"])


def batch(entries: list[Logged]) -> list[tuple[int, bytes]]:
    return [(entry.term, entry.data) for entry in entries]


def is_junk(entry: Logged) -> bool:
    return delta_problem(entry.data, SHIPPED) is not None


JUNK = [case for case in APPENDED if any(map(is_junk, recorded_entries(case)))]
GOOD = [case for case in APPENDED if case not in JUNK]


@pytest.mark.parametrize("case", GOOD)
def test_appending_the_recorded_entries_writes_the_recorded_files(case, tmp_path):
    # The original never begins a new segment for an append, so the limits must not either.
    limits = {"soft_limit": 4096, "hard_limit": 1 << 20}
    with new_log(tmp_path, case, **limits) as log:
        for entry in recorded_entries(case):
            log.append(entry.term, [entry.data])
        vote_as_recorded(log, case)
    assert snapshot_of(tmp_path / "data") == golden(case)


@pytest.mark.parametrize("case", JUNK)
def test_what_the_original_logs_and_cannot_apply_is_not_logged(case, tmp_path):
    with new_log(tmp_path, case) as log:
        with pytest.raises(UsageError, match="no delta"):
            log.append_entries(0, batch(recorded_entries(case)))
        assert log.last_lsn == -1


@pytest.mark.parametrize("case", GOOD)
def test_one_batch_writes_the_same_bytes_as_many_appends(case, tmp_path):
    with new_log(tmp_path, case, soft_limit=4096, hard_limit=1 << 20) as log:
        log.append_entries(0, batch(recorded_entries(case)))
    assert (tmp_path / "data" / FIRST).read_bytes() == golden(case)[FIRST]


@pytest.mark.parametrize("case", BY_QUEUE_STORE)
def test_the_queues_write_the_recorded_files(case, tmp_path):
    prealloc = recorded(case)["open_options"].get("prealloc", False)
    with QueueStore(tmp_path, edition="shipped", preallocate=prealloc, soft_limit=4096) as store:
        for entry in recorded(case)["entries"]:
            delta = entry["delta"]
            if delta["type"] == "CreateQueue":
                key_range = delta["priority_range"]
                store.create(
                    delta["queue"],
                    code=delta["code"],
                    max_size=delta["max_queue_size"],
                    max_payload=delta["max_payload_size"],
                    key_range=tuple(key_range) if key_range else None,
                )
            elif delta["type"] == "AddRecord":
                store.queue(delta["queue"]).add(bytes.fromhex(delta["payload"]), delta["priority"])
            elif delta["type"] == "RemoveRecord":
                store.queue(delta["queue"]).remove(delta["id"])
            else:
                store.delete(delta["queue"])
    assert snapshot_of(tmp_path / "data") == golden(case)


@pytest.mark.parametrize("name", ["очередь", "a b", "q" * 256])
def test_names_that_the_original_refuses_are_refused(name, tmp_path):
    refused = [line for line in expected("odd-queue-names")["driver_trace"] if "!!" in line]
    assert len(refused) == 3
    with QueueStore(tmp_path, edition="shipped") as store:
        with pytest.raises(UsageError):
            store.create(name)
        assert store.last_lsn == -1


def entries_of_24() -> list[Logged]:
    """The 24 records that four of the cases share."""
    return recorded_entries("leader-append-never-rolls")


def test_follower_batches_roll_where_the_original_rolled_and_keep_what_its_snapshot_keeps(tmp_path):
    case = "snapshot-plus-suffix"
    after = recorded_entries(case)
    first = after[0].lsn
    entries = entries_of_24()[:first] + after
    assert [entry.data for entry in entries[:24]] == [entry.data for entry in entries_of_24()]
    trace = expected(case)["driver_trace"]
    with new_log(tmp_path, case) as log:
        done = 0
        for line in trace:
            if last := re.match(r"insert -> last (\d+), segments (\d+)", line):
                upto = int(last[1]) + 1
                log.append_entries(done, batch(entries[done:upto]))
                done = upto
                assert len(segments(tmp_path)) == int(last[2]), line
            elif info := re.match(r"info: start (\d+) last (\d+) commit (\d+) segs \[(.*)\]", line):
                log.commit(int(info[3]))
                if int(info[1]) > log.first_lsn:  # here the driver asked for a snapshot
                    log.snapshot()
                assert segments(tmp_path) == info[4].split(",")
                assert (log.first_lsn, log.last_lsn) == (int(info[1]), int(info[2]))
        vote_as_recorded(log, case)
    ours, theirs = snapshot_of(tmp_path / "data"), golden(case)
    snapshot, recorded_snapshot = ours.pop("tflux.snapshot"), theirs.pop("tflux.snapshot")
    assert ours == theirs
    assert snapshot == in_dequeue_order(recorded_snapshot)


def segments(root: Path) -> list[str]:
    return sorted(path.name for path in (root / "data" / "log").iterdir())


def in_dequeue_order(snapshot: bytes) -> bytes:
    """A shipped snapshot of one queue without a range, its records sorted by key: the one thing we write otherwise.

    The original writes them in the order of its table, and so loses the order among equal keys.
    """
    head = 24 + 4 + 1 + 20 + 1 + 4  # header, count of queues, name, code to limits, flag, count of records
    body, at = snapshot[head:-4], 0
    rows = []
    while at < len(body):
        (size,) = struct.unpack_from(">i", body, at + 16)
        rows.append(body[at : at + 20 + size])
        at += 20 + size
    rows.sort(key=lambda row: struct.unpack_from(">q", row, 8))
    state = snapshot[24:head] + b"".join(rows)
    return snapshot[:24] + state + struct.pack(">I", crc32_mpeg2(state, 0, len(state)))


def test_the_segments_of_a_follower_are_cut_where_the_original_cut_them(tmp_path):
    case = "overwrite-into-sealed-fails"
    with new_log(tmp_path, case) as log:
        log.append_entries(0, batch(entries_of_24()))
        assert segments(tmp_path) == [f"{first:019d}.log" for first in (0, 10, 20)]
        log.commit(7)
        # The original deletes the last segment here, then throws; we overwrite.
        log.append_entries(8, [(5, b"D\x01a"), (5, b"D\x01b")])
        assert [(entry.term, entry.data) for entry in log.entries(8)] == [(5, b"D\x01a"), (5, b"D\x01b")]
    with new_log(tmp_path, case) as log:
        assert log.last_lsn == 9
        log.roll_back(8)
        log.append_entries(8, batch(entries_of_24()[8:10]))
    assert (tmp_path / "data" / FIRST).read_bytes() == golden(case)[FIRST]


def test_overwriting_uncommitted_entries_gives_the_recorded_bytes_and_no_stale_ones(tmp_path):
    case = "overwrite-uncommitted"
    entries = recorded_entries(case)
    never_committed = [(1, encode_delta(AddRecord("", at, b"uncommitted and longer"))) for at in range(4)]
    with new_log(tmp_path, case) as log:
        log.append_entries(0, batch(entries[:3]))
        log.commit(2)
        log.append_entries(3, [batch(entries)[3], *never_committed[1:]])
        log.append_entries(3, batch(entries[3:]))
        assert log.last_lsn == 4
        with pytest.raises(RefusedError, match="committed"):
            log.append_entries(1, [(2, b"D\x01x")])
        vote_as_recorded(log, case)
    ours, theirs = snapshot_of(tmp_path / "data"), golden(case)
    end = 8 + sum(20 + len(entry.data) for entry in entries) + 4
    assert len(theirs[FIRST]) > end and any(theirs[FIRST][end:])  # the original leaves the old bytes there
    theirs[FIRST] = theirs[FIRST][:end]
    assert ours == theirs


def test_a_snapshot_after_every_command_gives_the_recorded_files(tmp_path):
    case = "snapshot-every-command"
    with new_log(tmp_path, case) as log:
        vote_as_recorded(log, case)
    with QueueStore(tmp_path, snapshot_threshold=0, snapshot_in_background=False) as store:
        for lsn in range(3):
            store.queue().add(b"x", key=lsn)
            assert store.snapshot_lsn == lsn
    assert snapshot_of(tmp_path / "data") == golden(case)


def test_a_leader_with_a_record_in_flight_writes_it_into_the_snapshot(tmp_path):
    """The recorded history of `snapshot-loses-unacked-record`, as it should have gone."""
    case = "snapshot-loses-unacked-record"
    with QueueStore(tmp_path, edition="shipped") as store:
        for delta in (entry["delta"] for entry in recorded(case)["entries"][:2]):
            store.queue().add(bytes.fromhex(delta["payload"]), delta["priority"])
        taken = store.queue().take()
        assert store.snapshot() == 1
        taken.ack()
    ours, theirs = snapshot_of(tmp_path / "data"), golden(case)
    assert ours[FIRST] == theirs[FIRST]
    assert ours["tflux.snapshot"] != theirs["tflux.snapshot"]
    assert taken.payload in ours["tflux.snapshot"] and taken.payload not in theirs["tflux.snapshot"]
    with QueueStore(tmp_path) as store:
        assert [tuple(row) for row in store.queue().records()] == [(2, 2, b"stays")]


@pytest.mark.parametrize("case", ["cluster-node0", "cluster-node2"])
def test_the_preallocated_segments_of_a_cluster_are_written_as_recorded(case, tmp_path):
    """Which entries came in one batch is not recorded; one batch for each segment ends at the same places."""
    entries = recorded_entries(case)
    firsts = [int(name[:19]) for name in recorded(case)["segments"]]
    theirs = golden(case)
    # The oldest segment of node 0 was written as a leader, over the hard limit; so is each here.
    with new_log(tmp_path, case, soft_limit=1024, hard_limit=4096) as log:
        if firsts[0]:
            log.receive_snapshot([moved_to(theirs["tflux.snapshot"], firsts[0] - 1)])
        for at, first in enumerate(firsts):
            upto = firsts[at + 1] if at + 1 < len(firsts) else entries[-1].lsn + 1
            log.append_entries(first, batch([entry for entry in entries if first <= entry.lsn < upto]))
            log.commit(upto - 1)
        vote_as_recorded(log, case)
    ours = snapshot_of(tmp_path / "data")
    del ours["tflux.snapshot"], theirs["tflux.snapshot"]
    assert ours == theirs


def moved_to(snapshot: bytes, index: int) -> bytes:
    """A snapshot at another index; the checksum does not cover it."""
    return snapshot[:4] + struct.pack(">q", index) + snapshot[12:]


@pytest.mark.parametrize("case", ["fresh-init", "single-segment", "leader-append-never-rolls"])
def test_term_and_vote_are_written_as_recorded(case, tmp_path):
    with new_log(tmp_path, case) as log:
        vote_as_recorded(log, case)
    assert (tmp_path / "data" / "tflux.metadata").read_bytes() == golden(case)["tflux.metadata"]


def test_a_converted_golden_directory_converts_back_to_its_own_bytes(tmp_path):
    from flintlog.dialects.taskflux.upkeep.migrate import plan_migrate
    from flintlog.disk import Disk

    path = materialise("single-segment", tmp_path)
    plan_migrate(Disk(), str(path), "designed", str(tmp_path / "designed")).apply()
    plan_migrate(Disk(), str(tmp_path / "designed" / "data"), "shipped", str(tmp_path / "back")).apply()
    assert snapshot_of(tmp_path / "back" / "data") == golden("single-segment")
