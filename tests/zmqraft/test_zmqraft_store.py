"""What a peer's store promises besides durability: ranges, roll-backs, snapshots, state, one writer."""

from __future__ import annotations

import struct

import pytest

from flintlog import RaftStore
from flintlog.core.dialect import dialect
from flintlog.core.log import Log
from flintlog.dialects.zmqraft.layout import Entry, index_path
from flintlog.dialects.zmqraft.store import APPLIED_PROPERTIES, RAFT_PROPERTIES, FileLog, Stamps, StateFile
from flintlog.disk import Disk
from flintlog.errors import LockedError, RefusedError, UsageError

ZMQRAFT = dialect("zmqraft")


def entries(count, term=1):
    return [Entry(term, b"entry %d" % number) for number in range(count)]


def datas(store, first=None):
    return [entry.data for entry in store.entries(first or store.first_index)]


def test_an_entry_comes_back_with_all_its_parts(tmp_path):
    made = Entry(7, b"data", 1, b"request id 1")
    with RaftStore(tmp_path) as store:
        store.append([made])
        assert list(store.entries(1)) == [made]
        assert (store.first_index, store.last_index, store.last_term) == (1, 1, 7)
        assert store.find_request(b"request id 1") == 1
        assert store.find_request(bytes(12)) is None


def test_entries_go_over_files_and_are_read_in_ranges(tmp_path):
    with RaftStore(tmp_path, capacity=4) as store:
        store.append(entries(11))
        assert datas(store) == [b"entry %d" % number for number in range(11)]
        assert [entry.data for entry in store.entries(3, 5)] == [b"entry 2", b"entry 3", b"entry 4"]
        with pytest.raises(RefusedError):
            list(store.entries(5, 12))
    assert (tmp_path / index_path(1)).is_file()
    assert (tmp_path / index_path(8)).is_file()


def test_what_a_leader_sends_again_changes_nothing(tmp_path):
    with RaftStore(tmp_path, capacity=4) as store:
        sent = entries(9)
        store.append_at(1, sent)
        store.set_hard_state(applied=9)
        for first, last in ((1, 9), (1, 3), (4, 6), (9, 9), (3, 2)):
            store.append_at(first, sent[first - 1 : last])
            assert (store.last_index, store.hard_state.applied) == (9, 9)
        store.append_at(8, [*sent[7:], *entries(2)])
        assert store.last_index == 11
        store.snapshot(6, b"state")
        store.append_at(2, sent[1:])
        assert (store.last_index, datas(store)[-1]) == (11, b"entry 1")
        store.append_at(7, [sent[6], Entry(2, b"other")])
        assert (store.last_index, datas(store)[-1], store.hard_state.applied) == (8, b"other", 7)


def test_a_follower_replaces_what_is_in_conflict(tmp_path):
    with RaftStore(tmp_path, capacity=4) as store:
        store.append(entries(9))
        store.append_at(4, [Entry(2, b"other")])
        assert (store.last_index, store.last_term) == (4, 2)
        assert datas(store)[-1] == b"other"
        with pytest.raises(RefusedError):
            store.append_at(6, entries(1))
        store.truncate(1)
        assert (store.last_index, store.last_term, datas(store)) == (0, 0, [])


@pytest.mark.parametrize("left", range(1, 7))
def test_a_file_whose_bytes_run_out_is_closed_so_that_readers_find_the_next(left, tmp_path):
    small, limit = 30, 30 * (7 - left) + 45
    with RaftStore(tmp_path, capacity=8, data_size_max=limit) as store:
        store.append([Entry(1, bytes(10)) for _ in range(7 - left)])
        store.append([Entry(2, b"x" * (limit - small)), Entry(2, b"y")])
        expected = datas(store)
    raw = (tmp_path / index_path(1)).read_bytes()
    size, _, capacity = struct.unpack_from("<III", raw, 4)
    assert (size, capacity) == (16 + 4 * (7 - left), 7 - left)
    assert (tmp_path / index_path(8 - left)).is_file()
    assert Log(ZMQRAFT, Disk(), str(tmp_path)).verify().verdict == "clean"
    with RaftStore(tmp_path) as store:
        assert datas(store) == expected


def test_an_entry_that_no_file_can_hold_is_refused_and_stops_nothing(tmp_path):
    with RaftStore(tmp_path, data_size_max=100) as store:
        with pytest.raises(UsageError):
            store.append([Entry(1, bytes(100))])
        store.append([Entry(1, b"small")])
        assert datas(store) == [b"small"]


def test_a_snapshot_keeps_what_is_behind_it_and_prunes_what_is_not(tmp_path):
    with RaftStore(tmp_path, capacity=4) as store:
        store.append(entries(11))
        store.snapshot(6, iter([b"in ", b"pieces"]))
        assert (store.first_index, store.snapshot_index, store.snapshot_term) == (7, 6, 1)
        assert b"".join(store.read_snapshot()) == b"in pieces"
        assert store.term_of(6) == 1
    assert not (tmp_path / index_path(1)).exists()
    with RaftStore(tmp_path) as store:
        assert datas(store) == [b"entry %d" % number for number in range(6, 11)]


@pytest.mark.parametrize(
    ("index", "term", "left"),
    [(5, 1, 4), (9, 1, 0), (5, 2, 0), (40, 3, 0)],
    ids=["partly", "wholly", "in conflict", "beyond"],
)
def test_a_received_snapshot_leaves_of_the_log_what_agrees_with_it(index, term, left, tmp_path):
    with RaftStore(tmp_path, capacity=4) as store:
        store.append(entries(9))
        received = store.receive_snapshot(index, term, 8)
        received.write(b"5678", 4)
        received.write(b"1234", 0)
        store.install_received(received)
        assert (store.first_index, store.last_index) == (index + 1, index + left)
        assert b"".join(store.read_snapshot()) == b"12345678"
        store.append([Entry(5, b"next")])
        assert store.last_index == index + left + 1
    assert bool(list(tmp_path.glob("log-*"))) == (left == 0 and (index, term) != (9, 1))


def test_a_snapshot_that_is_not_whole_is_not_installed(tmp_path):
    with RaftStore(tmp_path) as store:
        received = store.receive_snapshot(5, 1, 8)
        received.write(b"1234")
        with pytest.raises(RefusedError):
            store.install_received(received)
        with pytest.raises(UsageError):
            received.write(b"too much", 4)
        assert store.snapshot_index == 0
        store.append(entries(1))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"currentTerm": 2}, "below the current term 3"),
        ({"currentTerm": 2, "votedFor": "a"}, "below the current term 3"),
        ({"votedFor": "b"}, "voted for a in term 3"),
        ({"votedFor": None}, "voted for a in term 3"),
        ({"currentTerm": 3, "votedFor": "b", "peers": [1]}, "voted for a in term 3"),
    ],
)
def test_no_property_lowers_the_term_or_takes_a_vote_back(changes, message, tmp_path):
    with RaftStore(tmp_path) as store:
        store.set_hard_state(term=3, vote="a")
        before = (tmp_path / "raft.pers").read_bytes()
        with pytest.raises(RefusedError, match=message):
            store.update_raft_state(changes)
        assert (tmp_path / "raft.pers").read_bytes() == before
        assert (store.hard_state.term, store.hard_state.vote, store.raft["peers"]) == (3, "a", [])


def test_properties_that_obey_the_rules_of_term_and_vote_are_set(tmp_path):
    with RaftStore(tmp_path) as store:
        store.update_raft_state({"currentTerm": 3})
        store.update_raft_state({"votedFor": "a", "peers": [1]})
        store.update_raft_state({"currentTerm": 3, "votedFor": "a"})
        assert (store.hard_state.term, store.hard_state.vote, store.raft["peers"]) == (3, "a", [1])
        store.update_raft_state({"currentTerm": 4})
        assert (store.hard_state.term, store.hard_state.vote) == (4, None)
        with pytest.raises(UsageError, match="currentTerm cannot be"):
            store.update_raft_state({"currentTerm": "5"})


def test_a_vote_is_given_once_in_a_term(tmp_path):
    with RaftStore(tmp_path) as store:
        store.set_hard_state(term=3, vote="a")
        store.set_hard_state(vote="a")
        with pytest.raises(RefusedError):
            store.set_hard_state(vote="b")
        with pytest.raises(RefusedError):
            store.set_hard_state(term=2)
        store.set_hard_state(term=4)
    with RaftStore(tmp_path) as store:
        assert (store.hard_state.term, store.hard_state.vote) == (4, None)


def test_what_is_applied_is_never_beyond_the_log(tmp_path):
    with RaftStore(tmp_path, capacity=4) as store:
        store.append([Entry(1, b"entry")] * 9)
        with pytest.raises(RefusedError, match="index 10 cannot be applied: the log ends at 9"):
            store.set_hard_state(term=1, applied=10)
        assert (store.hard_state.term, store.hard_state.applied) == (0, 0)
        store.set_hard_state(applied=9)
        store.truncate(8)
        assert store.hard_state.applied == 7
        with pytest.raises(RefusedError):
            store.truncate(9)
        store.append_at(6, [Entry(2, b"another")])
        assert store.hard_state.applied == 5
        store.install_snapshot(3, 9, b"of another history")
        assert (store.last_index, store.hard_state.applied) == (3, 3)
    with RaftStore(tmp_path) as store:
        assert store.hard_state.applied == 3


def test_a_second_writer_is_refused(tmp_path):
    with RaftStore(tmp_path), pytest.raises(LockedError):
        RaftStore(tmp_path)


def test_a_state_file_rolls_under_a_stamped_name_and_keeps_its_values(tmp_path):
    path = tmp_path / "raft.pers"
    stamps = Stamps(clock=lambda: 1_714_979_715.357)
    state = StateFile(str(path), RAFT_PROPERTIES, stamps=stamps)
    state.update(currentTerm=2**40, votedFor="n1")
    state.roll()
    state.roll()
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "raft.pers",
        "raft.pers-2024-05-06-071515-3570",
        "raft.pers-2024-05-06-071515-3571",
    ]
    with pytest.raises(UsageError):
        state.update(currentTerm="x")
    with pytest.raises(UsageError):
        state.update(nothing=1)
    state.close()
    again = StateFile(str(path), RAFT_PROPERTIES)
    assert (again["currentTerm"], again["votedFor"]) == (2**40, "n1")
    again.close()


def test_only_so_many_predecessors_are_kept(tmp_path):
    state = StateFile(str(tmp_path / "state.pers"), APPLIED_PROPERTIES)
    for index in range(65):
        state.update(lastApplied=index)
        state.roll()
    state.close()
    assert len(list(tmp_path.glob("state.pers-*"))) == 60


def test_the_log_works_alone(tmp_path):
    log = FileLog(str(tmp_path), capacity=2)
    assert log.append([entry.encode() for entry in entries(3)]) == 3
    assert [entry.data for entry in log.entries(2)] == [b"entry 1", b"entry 2"]
    log.close()
    with pytest.raises(UsageError):
        FileLog(str(tmp_path), capacity=3)
