"""A snapshot under another name than `snap`: the store takes it as an option, and whoever reads finds it."""

from __future__ import annotations

import pytest
from tests.golden_cases import snapshot_of
from tests.zmqraft.damaged import poke

from flintlog import RaftStore
from flintlog.core.backup.place import take_backup
from flintlog.core.dialect import GivenState, dialect
from flintlog.core.log import Log
from flintlog.dialects.zmqraft.layout import Entry, index_path
from flintlog.dialects.zmqraft.store import FileLog
from flintlog.disk import Disk
from flintlog.errors import RefusedError, UsageError

DISK = Disk()
ZMQRAFT = dialect("zmqraft")
NAME = "machine.state"


@pytest.fixture
def peer(tmp_path):
    """Files of four entries; the snapshot is at index 9, a predecessor at 6."""
    with RaftStore(tmp_path / "peer", capacity=4, snapshot_name=NAME) as store:
        store.append([Entry(1, b"entry %d" % number) for number in range(14)])
        store.set_hard_state(term=1, applied=14)
        store.snapshot(6, b"six")
        store.snapshot(9, b"nine", prune=False)
    return tmp_path / "peer"


def verified(peer):
    found = Log(ZMQRAFT, DISK, str(peer)).verify()
    return found.verdict, [(item.code, item.file) for item in found.findings]


def test_the_store_keeps_its_snapshot_under_the_name_it_was_given(peer):
    assert (peer / NAME).is_file()
    assert not (peer / "snap").exists()
    assert len(list(peer.glob(f"{NAME}-*"))) == 2
    with RaftStore(peer, snapshot_name=NAME) as store:
        assert (store.snapshot_index, b"".join(store.read_snapshot()), store.last_index) == (9, b"nine", 14)
        store.install_snapshot(100, 3, [b"from ", b"afar"])
    assert verified(peer)[0] == "clean"
    with RaftStore(peer, snapshot_name=NAME) as store:
        assert (store.snapshot_index, store.last_index) == (100, 100)


def test_whoever_reads_finds_the_name(peer):
    (peer / f"{NAME}.tmp-7-1").write_bytes(b"SNAP")
    (peer / "notes.txt").write_bytes(b"SNAPSHOTS are elsewhere"[1:])
    assert verified(peer) == ("clean", [("leftover", f"{NAME}.tmp-7-1"), ("foreign", "notes.txt")])
    inventory = Log(ZMQRAFT, DISK, str(peer)).inspect()
    assert [(item.name, item.role) for item in inventory.files if item.role == "snapshot"] == [
        (NAME, "snapshot")
    ]
    assert inventory.facts["snapshot"] == 9
    rows = [row for batch in Log(ZMQRAFT, DISK, str(peer)).state() for row in batch.to_pylist()]
    assert [row["index"] for row in rows] == [10, 11, 12, 13, 14]
    explained = {field.file for field in Log(ZMQRAFT, DISK, str(peer)).fields()}
    assert {NAME, index_path(12), *(path.name for path in peer.glob(f"{NAME}-*"))} <= explained


def test_the_verbs_write_under_that_name(peer):
    Log(ZMQRAFT, DISK, str(peer)).plan_compact().apply()
    given = GivenState("a file", None, lambda: iter([b"twelve"]))
    Log(ZMQRAFT, DISK, str(peer)).plan_snapshot((12,), given).apply()
    assert not (peer / "snap").exists()
    with RaftStore(peer, snapshot_name=NAME) as store:
        assert (store.snapshot_index, b"".join(store.read_snapshot())) == (12, b"twelve")


def test_a_damaged_one_is_known_by_its_predecessor_and_replaced(peer):
    poke(NAME, 0, b"none")(peer)
    assert verified(peer)[1] == [("snapshot-marker", NAME)]
    Log(ZMQRAFT, DISK, str(peer)).plan_repair().apply()
    assert verified(peer)[0] == "clean"
    with RaftStore(peer, snapshot_name=NAME) as store:
        assert (store.snapshot_index, store.last_index) == (6, 14)
    assert not (peer / "snap").exists()


def test_a_backup_is_refused_and_says_what_to_do(peer, tmp_path):
    with pytest.raises(RefusedError, match=f"called {NAME}") as caught:
        take_backup(DISK, str(peer), str(tmp_path / "backups"))
    assert "call the snapshot snap" in caught.value.advice
    (peer / NAME).rename(peer / "snap")
    take_backup(DISK, str(peer), str(tmp_path / "backups"))


@pytest.mark.parametrize(("there", "given"), [(NAME, "snap"), ("snap", NAME), (NAME, "another")])
def test_a_store_that_looks_for_another_name_is_refused_and_makes_no_empty_one(there, given, tmp_path):
    with RaftStore(tmp_path, snapshot_name=there) as store:
        store.append([Entry(1, b"data")])
    before = snapshot_of(tmp_path)
    for call in (RaftStore, FileLog):
        with pytest.raises(RefusedError, match=f"called {there}, not {given}") as caught:
            call(str(tmp_path), snapshot_name=given)
        assert f"snapshot_name={there!r}" in caught.value.advice
    assert snapshot_of(tmp_path) == before


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        ".hidden",
        "a/b",
        "log",
        "log.snap",
        "kept",
        "raft.pers",
        "state.pers",
        "x" * 201,
        "nul\0",
        7,
        "flintlog-backup.json",
        "snap.tmp-1-1",
        "snap-2024-05-06-072315-3571",
    ],
)
def test_what_no_snapshot_can_be_called_is_refused(name, tmp_path):
    for call in (RaftStore, FileLog):
        with pytest.raises(UsageError, match="cannot be called"):
            call(str(tmp_path / "peer"), snapshot_name=name)
    assert not (tmp_path / "peer").exists()
