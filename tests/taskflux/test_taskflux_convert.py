"""Conversion between the editions, and snapshots of a directory that no store has open."""

from __future__ import annotations

import struct

import pytest
from tests.crash.queue_model import shown_by
from tests.golden_cases import materialise, snapshot_of
from tests.taskflux.test_taskflux_golden import EXPECTED

from flintlog import QueueStore, ReplicaLog
from flintlog.core.log import Log
from flintlog.dialects.taskflux.dialect import DIALECT
from flintlog.dialects.taskflux.layout import AddRecord, encode_delta
from flintlog.disk import Disk
from flintlog.errors import FlintlogError, RefusedError, UsageError
from flintlog.testing import MemoryKernel

OTHER = {"designed": "shipped", "shipped": "designed"}
SMALL = {"soft_limit": 150, "hard_limit": 300, "snapshot_threshold": 99}


def files(kernel: MemoryKernel, root: str) -> dict[str, bytes | None]:
    return {
        path.removeprefix(root): content
        for path, content in kernel.visible().tree()
        if path.startswith(f"{root}/")
    }


def filled(kernel: MemoryKernel, root: str, edition: str) -> None:
    """Several segments, a snapshot in the middle, all four deltas, every length of padding."""
    with QueueStore(root, disk=Disk(kernel), edition=edition, **SMALL) as store:
        store.create("orders", code=2, max_size=50, max_payload=40, key_range=(-3, 3))
        for number in range(12):
            store.queue("orders").add(b"x" * number, number % 7 - 3)
            store.queue().add(b"y" * number, -number)
        store.queue("orders").take().ack()
        store.snapshot()
        store.create("gone")
        store.delete("gone")
        store.queue().add_many([b"z" * size for size in range(9)], 5)
        store.queue().remove(3)
    with ReplicaLog(root, disk=Disk(kernel)) as log:
        log.set_term(4, 2)
        log.append(4, [encode_delta(AddRecord("orders", 0, b"at term 4"))])


@pytest.mark.parametrize("edition", ["designed", "shipped"])
def test_there_and_back_gives_the_same_bytes_and_on_the_way_the_same_state(edition):
    kernel = MemoryKernel()
    disk = Disk(kernel)
    filled(kernel, "/a", edition)
    before = files(kernel, "/a")
    Log(DIALECT, disk, "/a").plan_migrate(OTHER[edition], "/b").apply()
    assert files(kernel, "/a") == before
    assert Log(DIALECT, disk, "/b").verify().edition == OTHER[edition]
    assert Log(DIALECT, disk, "/b").verify().verdict == "clean"
    with ReplicaLog("/a", disk=disk) as a, ReplicaLog("/b", disk=disk) as b:
        assert list(a.entries(a.first_lsn)) == list(b.entries(b.first_lsn))
        for name in ("term", "vote", "first_lsn", "last_lsn", "snapshot_lsn", "snapshot_term", "last_term"):
            assert getattr(a, name) == getattr(b, name), name
    with QueueStore("/a", disk=disk) as a, QueueStore("/b", disk=disk) as b:
        assert (a.edition, b.edition) == (edition, OTHER[edition])
        assert shown_by(a) == shown_by(b)
    Log(DIALECT, disk, "/b").plan_migrate(edition, "/c").apply()
    assert files(kernel, "/c") == before


@pytest.mark.parametrize("case", [case for case, row in EXPECTED.items() if row.verdict == "clean"])
def test_every_clean_golden_directory_converts_to_designed_with_the_same_state(case, tmp_path):
    path = materialise(case, tmp_path)
    before = snapshot_of(path)
    target = tmp_path / "designed"
    Log(DIALECT, Disk(), str(path)).plan_migrate("designed", str(target)).apply()
    assert snapshot_of(path) == before
    with QueueStore(path) as a, QueueStore(target) as b:
        assert b.edition == "designed"
        assert shown_by(a) == shown_by(b)


@pytest.mark.parametrize("case", [case for case, row in EXPECTED.items() if row.refused is not None])
def test_a_directory_that_does_not_open_is_not_converted(case, tmp_path):
    path = materialise(case, tmp_path)
    with pytest.raises(FlintlogError) as caught:
        Log(DIALECT, Disk(), str(path)).plan_migrate("designed", str(tmp_path / "new")).apply()
    assert caught.value.code == EXPECTED[case].refused
    assert not (tmp_path / "new").exists()


def test_a_torn_tail_is_left_behind(tmp_path):
    path = materialise("damaged-torn-last-record-eof", tmp_path)
    Log(DIALECT, Disk(), str(path)).plan_migrate("designed", str(tmp_path / "new")).apply()
    with QueueStore(tmp_path / "new") as store:
        assert store.findings == () and store.last_lsn == 4


def test_a_term_that_does_not_fit_designed_is_refused_before_anything_is_written():
    for entry_term, term in ((2**31, 1), (1, 2**31)):
        kernel = MemoryKernel()
        with ReplicaLog("/a", disk=Disk(kernel), edition="shipped") as log:
            log.append(entry_term, [encode_delta(AddRecord("", 0, b""))])
            log.set_term(term)
        with pytest.raises(RefusedError, match="does not fit the designed edition"):
            Log(DIALECT, Disk(kernel), "/a").plan_migrate("designed", "/b")
        assert files(kernel, "/b") == {}


def test_a_snapshot_index_that_does_not_fit_designed_is_refused():
    kernel = MemoryKernel()
    disk = Disk(kernel)
    with ReplicaLog("/a", disk=disk, edition="shipped") as log:
        log.append(1, [encode_delta(AddRecord("", 0, b"x"))])
        log.commit(0)
        log.snapshot()
        sent = b"".join(log.read_snapshot())
        log.receive_snapshot([sent[:4] + struct.pack(">q", 2**31) + sent[12:]])
        log.append(1, [encode_delta(AddRecord("", 1, b"y"))])
    with pytest.raises(RefusedError, match=f"snapshot LSN {2**31}"):
        Log(DIALECT, disk, "/a").plan_migrate("designed", "/b")
    with QueueStore("/a", disk=disk) as store:  # and the directory itself is as good as before
        assert [row.payload for row in store.queue().records()] == [b"x", b"y"]


def test_what_is_no_conversion_is_refused():
    kernel = MemoryKernel()
    disk = Disk(kernel)
    filled(kernel, "/a", "designed")
    with pytest.raises(RefusedError, match="already"):
        Log(DIALECT, disk, "/a").plan_migrate("designed", "/b")
    with pytest.raises(UsageError):
        Log(DIALECT, disk, "/a").plan_migrate("modern", "/b")
    disk.make_passing_directory("/there/something")
    with pytest.raises(RefusedError, match="is not an empty directory"):
        Log(DIALECT, disk, "/a").plan_migrate("shipped", "/there")


def test_a_plan_writes_nothing_until_it_is_applied():
    kernel = MemoryKernel()
    filled(kernel, "/a", "designed")
    calls = len(kernel.log)
    plan = Log(DIALECT, Disk(kernel), "/a").plan_migrate("shipped", "/b")
    assert [step.action for step in plan.steps][-1] == "publish"
    assert len(kernel.log) == calls


# Snapshots from outside


def test_a_snapshot_at_a_position_keeps_what_follows():
    kernel = MemoryKernel()
    disk = Disk(kernel)
    with QueueStore("/a", disk=disk, **SMALL) as store:
        store.queue().add_many([b"%d" % number * 20 for number in range(20)], list(range(20)))
        before = shown_by(store)
    plan = Log(DIALECT, disk, "/a").plan_snapshot((12,))
    removed = [step.file for step in plan.steps if step.action == "remove"]
    listed = {f"log/{name}" for name in disk.list("/a/data/log")}
    plan.apply()
    assert listed - {f"log/{name}" for name in disk.list("/a/data/log")} == set(removed) != set()
    with ReplicaLog("/a", disk=disk) as log:
        assert (log.snapshot_lsn, log.last_lsn) == (12, 19)
    with QueueStore("/a", disk=disk) as store:
        assert shown_by(store) == before
    assert Log(DIALECT, disk, "/a").plan_snapshot((12,)).empty


@pytest.mark.parametrize("lsn", [20, 10**9])
def test_a_snapshot_at_a_position_that_is_not_there_is_refused(lsn):
    kernel = MemoryKernel()
    disk = Disk(kernel)
    with QueueStore("/a", disk=disk) as store:
        store.queue().add_many([b"x"] * 20)
    before = files(kernel, "/a")
    with pytest.raises(RefusedError):
        Log(DIALECT, disk, "/a").plan_snapshot((lsn,)).apply()
    assert files(kernel, "/a") == before


def test_the_state_at_every_position_is_that_of_the_first_entries():
    kernel = MemoryKernel()
    disk = Disk(kernel)
    with QueueStore("/a", disk=disk, **SMALL) as store:
        store.queue().add_many([b"x" * 30] * 10, list(range(10)))
        for id_ in range(1, 11):
            store.queue().remove(id_)
    for lsn in range(20):
        rows = [row for batch in Log(DIALECT, disk, "/a").state((lsn,)) for row in batch.to_pylist()]
        first = max(lsn - 9, 0)
        assert [row["id"] for row in rows] == list(range(first + 1, min(lsn + 1, 10) + 1))
    with pytest.raises(RefusedError, match="beyond the log, which ends at 19"):
        list(Log(DIALECT, disk, "/a").state((20,)))
