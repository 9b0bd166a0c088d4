"""The note's tables pinned by hand: what a new peer writes, byte by byte, and in which order."""

from __future__ import annotations

import struct

import msgpack
import pytest

from flintlog import RaftStore
from flintlog.core.dialect import dialect
from flintlog.core.log import Log
from flintlog.dialects.zmqraft.layout import Entry, index_path
from flintlog.dialects.zmqraft.store import APPLIED_PROPERTIES, RAFT_PROPERTIES, Stamps, StateFile
from flintlog.disk import Disk
from flintlog.testing import MemoryKernel
from flintlog.testing.calls import Sync, Write

META = msgpack.packb({"created": "2023-11-14T22:13:20.000Z", "hostname": "peer1", "software": "flintlog"})
META_SEGMENT = b"META" + struct.pack("<I", 67) + META + bytes(1)


def stamps() -> Stamps:
    return Stamps(clock=lambda: 1_700_000_000, hostname="peer1")


def test_an_index_file_is_written_as_the_note_says(tmp_path):
    one, two = Entry(1, b"set x 1"), Entry(2, b"set x 22")
    with RaftStore(tmp_path, capacity=4, stamps=stamps()) as store:
        store.append([one, two])
    head = b"RLOG" + struct.pack("<IIIQ", 16 + 3 * 4, 1, 3, 1)
    slots = struct.pack("<III", 27, 27 + 28, 0)
    assert (tmp_path / "log/00000/00/00/00000000000001.rlog").read_bytes() == (
        head + slots + META_SEGMENT + b"ITMZ" + bytes(4) + one.encode() + two.encode()
    )


def test_a_snapshot_is_written_as_the_note_says(tmp_path):
    with RaftStore(tmp_path, stamps=stamps()) as store:
        store.install_snapshot(12, 3, b"the state")
    assert (tmp_path / "snap").read_bytes() == (
        b"SNAP" + struct.pack("<IIQQQ", 28, 1, 12, 3, 9) + META_SEGMENT + b"DATA" + bytes(4) + b"the state"
    )


def test_a_state_file_is_maps_of_what_changed_and_the_last_value_counts(tmp_path):
    path = tmp_path / "raft.pers"
    state = StateFile(str(path), RAFT_PROPERTIES)
    state.update(currentTerm=1, votedFor="n1")
    state.update(currentTerm=2)
    state.update(votedFor=None)
    state.close()
    changes = [{"currentTerm": 1, "votedFor": "n1"}, {"currentTerm": 2}, {"votedFor": None}]
    assert path.read_bytes() == b"".join(map(msgpack.packb, changes))
    again = StateFile(str(path), RAFT_PROPERTIES)
    assert (again["currentTerm"], again["votedFor"], again["peersIndex"]) == (2, None, None)
    again.close()


def test_a_state_file_that_has_grown_large_begins_anew_with_all_it_holds(tmp_path):
    path = tmp_path / "raft.pers"
    with RaftStore(tmp_path) as store:
        store.set_hard_state(term=3, vote="n1")
        store.update_raft_state({"peers": [["n1", "tcp://127.0.0.1:9001"]]})
    filled = path.read_bytes()
    path.write_bytes(filled + b"\x80" * (524288 - len(filled)))
    state = StateFile(str(path), RAFT_PROPERTIES)
    state.update(currentTerm=4)
    values = state.values()
    state.close()
    assert msgpack.unpackb(path.read_bytes()) == values
    assert (values["currentTerm"], values["votedFor"]) == (4, "n1")
    [old] = tmp_path.glob("raft.pers-*")
    assert old.read_bytes()[: len(filled)] == filled


def test_predecessors_of_a_state_file_may_be_deleted(tmp_path):
    with RaftStore(tmp_path) as store:
        store.append([Entry(1, b"x")])
        store.set_hard_state(term=3)
    for name, properties in (("raft.pers", RAFT_PROPERTIES), ("state.pers", APPLIED_PROPERTIES)):
        state = StateFile(str(tmp_path / name), properties)
        state.roll()
        state.close()
        [old] = tmp_path.glob(f"{name}-*")
        old.unlink()
    assert Log(dialect("zmqraft"), Disk(), str(tmp_path)).verify().verdict == "clean"
    with RaftStore(tmp_path) as store:
        assert (store.hard_state.term, store.last_index) == (3, 1)


@pytest.mark.parametrize("before", [0, 3])
def test_the_data_of_an_entry_is_synced_before_its_slot_is_written(before):
    kernel = MemoryKernel()
    with RaftStore("/peer", capacity=16, disk=Disk(kernel)) as store:
        store.append([Entry(1, b"before")] * before)
        begin = len(kernel.log)
        store.append([Entry(1, b"new")])
        data, data_sync, slot, slot_sync = kernel.log[begin:]
    assert (type(data), type(data_sync), type(slot), type(slot_sync)) == (Write, Sync, Write, Sync)
    assert data.data.endswith(b"new")
    assert (slot.offset, len(slot.data)) == (
        24 + 4 * before,
        4,
    )  # four bytes that no border of a sector divides


def test_a_rollback_zeroes_slots_and_no_other_byte(tmp_path):
    path = tmp_path / index_path(1)
    with RaftStore(tmp_path, capacity=8) as store:
        store.append([Entry(1, b"entry")] * 5)
        before = path.read_bytes()
        store.truncate(3)
        assert path.read_bytes() == before[:32] + bytes(12) + before[44:]
        assert store.last_index == 2


def test_the_entries_of_a_file_stay_below_its_most_bytes(tmp_path):
    with RaftStore(tmp_path, capacity=8, data_size_max=60) as store:
        store.append([Entry(1, bytes(10))])
        store.append([Entry(1, bytes(9))])  # 59 bytes
    assert not (tmp_path / index_path(2)).exists()
    with RaftStore(tmp_path / "full", capacity=8, data_size_max=60) as store:
        store.append([Entry(1, bytes(10))] * 2)  # 60 bytes
    assert (tmp_path / "full" / index_path(2)).is_file()
