"""Snapshots of a `ReplicaLog` are made beside its work."""

from __future__ import annotations

import logging
import signal
import struct
import threading
import time
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintlog import QueueStore, ReplicaLog
from flintlog.dialects.taskflux import layout as lay
from flintlog.dialects.taskflux.layout import (
    AddRecord,
    CreateQueue,
    DeleteQueue,
    QueueSpec,
    RemoveRecord,
    encode_delta,
)
from flintlog.dialects.taskflux.scan import scan_segment
from flintlog.disk import Disk
from flintlog.disk.kernel import LocalKernel
from flintlog.errors import DamageError, UsageError

PATIENCE = 60
ADD = encode_delta(AddRecord("", 0, b"record"))
OTHER = encode_delta(AddRecord("", 0, b"another"))


class HeldKernel(LocalKernel):
    """Writes of a snapshot wait while somebody asks for it."""

    def __init__(self) -> None:
        super().__init__()
        self.reached, self.go_on = threading.Event(), threading.Event()
        self.holds = False
        self._snapshots: set[int] = set()

    def open(self, path: str, flags: int) -> int:
        handle = super().open(path, flags)
        (self._snapshots.add if "snapshot.new" in path else self._snapshots.discard)(handle)
        return handle

    def pwrite(self, handle: int, data: memoryview, offset: int) -> int:
        if self.holds and handle in self._snapshots:
            self.reached.set()
            assert self.go_on.wait(PATIENCE)
        return super().pwrite(handle, data, offset)


@contextmanager
def held(kernel: HeldKernel, log: ReplicaLog):
    """A block that runs while a snapshot is being written in another thread."""
    kernel.holds = True
    worker = threading.Thread(target=log.snapshot)
    worker.start()
    try:
        assert kernel.reached.wait(PATIENCE)
        yield
    finally:
        kernel.holds = False
        kernel.go_on.set()
        worker.join(PATIENCE)
    assert not worker.is_alive()


def test_a_snapshot_holds_no_append_up(tmp_path):
    kernel = HeldKernel()
    with ReplicaLog(tmp_path, disk=Disk(kernel)) as log:
        log.append(1, [ADD] * 5)
        log.commit(3)
        with held(kernel, log):
            assert log.append(1, [ADD]) == 5
            log.commit(5)
            assert [entry.lsn for entry in log.entries(0)] == list(range(6))
            assert log.snapshot_lsn == -1
        assert log.snapshot_lsn == 3
        assert log.snapshot() == 5
    with QueueStore(tmp_path) as store:
        assert len(store.queue()) == 6


def test_a_roll_back_waits_for_the_snapshot_that_reads_the_log(tmp_path):
    kernel = HeldKernel()
    done = []

    def lead_anew(log: ReplicaLog) -> None:
        log.append_entries(4, [(2, OTHER), (2, OTHER)])
        done.append("entries")

    with ReplicaLog(tmp_path, disk=Disk(kernel)) as log:
        log.append(1, [ADD] * 5)
        log.commit(3)
        follower = threading.Thread(target=lead_anew, args=(log,))
        with held(kernel, log):
            follower.start()
            follower.join(0.05)
            assert done == []
            assert log.append(1, [ADD]) == 5
        follower.join(PATIENCE)
        assert done == ["entries"]
        assert [entry.term for entry in log.entries(0)] == [1, 1, 1, 1, 2, 2]
        assert log.snapshot_lsn == 3


def test_close_waits_for_a_snapshot_that_was_begun(tmp_path):
    kernel = HeldKernel()
    log = ReplicaLog(tmp_path, disk=Disk(kernel))
    log.append(1, [ADD] * 5)
    log.commit(3)
    closing = threading.Thread(target=log.close)
    with held(kernel, log):
        closing.start()
        closing.join(0.05)
        assert closing.is_alive()
    closing.join(PATIENCE)
    with ReplicaLog(tmp_path) as again:
        assert (again.snapshot_lsn, again.last_lsn) == (3, 4)


def test_an_interrupted_snapshot_leaves_the_log_as_it_was(tmp_path):
    class InterruptingKernel(HeldKernel):
        def pwrite(self, handle: int, data: memoryview, offset: int) -> int:
            if self.holds and handle in self._snapshots:
                signal.raise_signal(signal.SIGINT)
            return super().pwrite(handle, data, offset)

    kernel = InterruptingKernel()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with ReplicaLog(tmp_path, disk=Disk(kernel)) as log:
            log.append(1, [ADD] * 5)
            log.commit(3)
            kernel.holds = True
            with pytest.raises(KeyboardInterrupt):
                log.snapshot()
            kernel.holds = False
            log.roll_back(4)
            assert log.snapshot() == 3
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_snapshot_that_is_due_is_written_beside_the_commit(tmp_path):
    kernel = HeldKernel()
    kernel.holds = True
    with ReplicaLog(
        tmp_path, disk=Disk(kernel), soft_limit=100, hard_limit=100, snapshot_threshold=1, reserve_bytes=0
    ) as log:
        for lsn in range(20):
            log.append(1, [ADD])
            log.commit(lsn)
        assert kernel.reached.wait(PATIENCE)
        assert log.snapshot_lsn == -1
        kernel.go_on.set()
    with ReplicaLog(tmp_path) as log:
        assert log.snapshot_lsn > 0


TOLD = "does not fit a snapshot of the designed edition"


@pytest.mark.parametrize("in_background", [True, False])
def test_commits_go_on_behind_the_last_lsn_that_a_designed_snapshot_can_hold(tmp_path, caplog, in_background):
    first = 2**31 - 3
    (tmp_path / "data" / "log").mkdir(parents=True)
    state = struct.pack(">i", 1) + lay.encode_queue_header(QueueSpec(""), 0, 0)
    checksum = lay.crc32_mpeg2(state, 0, len(state)).to_bytes(4, "big")
    head = lay.DESIGNED.snapshot_header.encode(first - 1, 1, len(state))
    (tmp_path / "data" / "tflux.snapshot").write_bytes(head + state + checksum)
    (tmp_path / "data" / "tflux.metadata").write_bytes(lay.DESIGNED.encode_metadata(1, None))
    segment = lay.DESIGNED.segment_header() + lay.END_MARKER
    (tmp_path / "data" / "log" / lay.segment_name(first)).write_bytes(segment)
    options = {"soft_limit": 60, "hard_limit": 60, "snapshot_threshold": 0}
    with (
        caplog.at_level(logging.ERROR),
        ReplicaLog(tmp_path, snapshot_in_background=in_background, **options) as log,
    ):
        end = time.monotonic() + PATIENCE
        while log.last_lsn < first + 7 or (TOLD not in caplog.text and time.monotonic() < end):
            log.commit(log.append(1, [ADD]))  # a snapshot begins when the one before it is made
            time.sleep(0.001)
        last = log.last_lsn
        assert log.commit_index == last
    assert TOLD in caplog.text
    with ReplicaLog(tmp_path, **options) as log:
        assert log.last_lsn == last


# Junk

JUNK = {
    "nothing": b"",
    "an unknown kind": b"X\x00",
    "no name": b"A",
    "a name that ends early": b"D\x05ab",
    "a name with a blank": b"D\x03a b",
    "an add without a key": b"A\x00\x00",
    "an add whose payload ends early": b"A\x00" + struct.pack(">qi", 0, 9) + b"abc",
    "an add with a length of four gigabytes": b"A\x00" + struct.pack(">qI", 0, 2**32 - 1) + b"abc",
    "a removal without an id": b"R\x00\x00",
    "a creation that ends early": b"C\x01a\x00",
    "a queue that cannot be": encode_delta(CreateQueue(QueueSpec("a", code=7))),
}


@pytest.mark.parametrize("edition", ["designed", "shipped"])
@pytest.mark.parametrize("what", JUNK)
def test_junk_is_refused_before_anything_is_written(tmp_path, what, edition):
    with ReplicaLog(tmp_path, edition=edition) as log:
        log.append(1, [ADD])
        for write in (
            lambda: log.append(1, [ADD, JUNK[what]]),
            lambda: log.append_entries(0, [(2, OTHER), (2, JUNK[what])]),
        ):
            with pytest.raises(UsageError, match="no delta"):
                write()
        assert [(entry.term, entry.data) for entry in log.entries(0)] == [(1, ADD)]


def test_a_shipped_log_takes_no_queue_that_the_original_cannot_restore(tmp_path):
    wide = encode_delta(CreateQueue(QueueSpec("a", code=2, key_range=(0, 2**40))))
    with (
        ReplicaLog(tmp_path / "shipped", edition="shipped") as log,
        pytest.raises(UsageError, match="too wide"),
    ):
        log.append(1, [wide])
    with ReplicaLog(tmp_path / "designed") as log:
        assert log.append(1, [wide]) == 0


GOOD = [
    CreateQueue(QueueSpec("mail", 2, 5, 6, (-1, 7))),
    DeleteQueue("mail"),
    AddRecord("mail", -5, b"payload"),
    RemoveRecord("mail", 2**64 - 1),
]


def found_by_the_scan(data: bytes) -> bool:
    raw = lay.DESIGNED.segment_header() + lay.DESIGNED.encode_record(1, data) + lay.END_MARKER
    records, _ = scan_segment(memoryview(raw), lay.DESIGNED)
    if records.problem[0]:
        return True
    try:
        if records.operation[0] == ord("C"):
            lay.decode_create(data)
    except DamageError:
        return True
    return False


@given(
    st.one_of(
        st.binary(max_size=40),
        st.builds(
            lambda head, rest: head + rest,
            st.sampled_from([b"C\x01a", b"A\x00", b"R\x01b", b"D\x02cc"]),
            st.binary(max_size=40),
        ),
        st.sampled_from(GOOD)
        .map(encode_delta)
        .flatmap(lambda good: st.integers(0, len(good)).map(lambda size: good[:size])),
    )
)
def test_junk_is_what_opening_would_refuse(data):
    assert (lay.delta_problem(data, lay.DESIGNED) is not None) == found_by_the_scan(data)
