"""What `ReplicaLog` promises the Raft above it."""

from __future__ import annotations

import struct
from itertools import pairwise

import pytest

from flintlog import QueueStore, ReplicaLog
from flintlog.columns.checksum import crc32_mpeg2
from flintlog.core.dialect import dialect
from flintlog.core.log import Log
from flintlog.dialects.taskflux.layout import AddRecord, encode_delta
from flintlog.disk import Disk
from flintlog.errors import ClosedError, DamageError, RefusedError, UsageError
from flintlog.testing import MemoryKernel

ROOT = "/srv/raft"
SMALL = {"soft_limit": 150, "hard_limit": 150}
ADD = encode_delta(AddRecord("", 0, b"record"))
EDITIONS = pytest.mark.parametrize("edition", ["designed", "shipped"])


def data(number: int) -> bytes:
    return encode_delta(AddRecord("", number, b"record %d" % number))


def entries(count: int, term: int = 1, first: int = 0) -> list[tuple[int, bytes]]:
    return [(term, data(number)) for number in range(first, first + count)]


def opened(kernel: MemoryKernel, **options) -> ReplicaLog:
    return ReplicaLog(ROOT, disk=Disk(kernel), snapshot_in_background=False, **options)


def shown(log: ReplicaLog) -> list[tuple[int, bytes]]:
    return [(entry.term, entry.data) for entry in log.entries(log.first_lsn)]


def segments(kernel: MemoryKernel) -> list[int]:
    return sorted(int(name[:19]) for name in kernel.list(f"{ROOT}/data/log"))


def files(kernel: MemoryKernel) -> dict[str, bytes | None]:
    return dict(kernel.visible().tree())


# Entries


def test_a_new_log_is_empty_in_term_one():
    with opened(MemoryKernel()) as log:
        assert (log.first_lsn, log.last_lsn, log.commit_index, log.snapshot_lsn) == (0, -1, -1, -1)
        assert (log.term, log.vote, log.last_term) == (1, None, 1)
        assert list(log.entries(0)) == []


@EDITIONS
def test_appended_entries_are_there_after_a_crash_that_loses_everything_pending(edition):
    kernel = MemoryKernel()
    log = opened(kernel, edition=edition)
    assert log.append(1, [data(0), data(1)]) == 1
    assert log.append(4, [data(2)]) == 2
    with opened(MemoryKernel(kernel.device().durable())) as log:
        assert shown(log) == [(1, data(0)), (1, data(1)), (4, data(2))]
        assert (log.last_lsn, log.last_term) == (2, 4)


def test_entries_that_are_here_with_the_same_term_stay():
    kernel = MemoryKernel()
    with opened(kernel) as log:
        log.append_entries(0, entries(5))
        before = files(kernel)
        assert log.append_entries(1, entries(3, first=1)) == 4  # an old message: nothing is cut behind it
        assert log.append_entries(2, []) == 4
        assert files(kernel) == before
        assert log.append_entries(3, entries(4, first=3)) == 6
        assert shown(log) == entries(7)


def test_from_the_first_entry_of_another_term_on_the_old_ones_go():
    with opened(MemoryKernel()) as log:
        log.append_entries(0, entries(6))
        new = [*entries(1, first=2), *entries(1, term=2, first=30)]
        assert log.append_entries(2, new) == 3
        assert shown(log) == [*entries(3), (2, data(30))]
        assert log.last_term == 2


def test_a_gap_is_refused_and_changes_nothing():
    kernel = MemoryKernel()
    with opened(kernel) as log:
        log.append_entries(0, entries(2))
        before = files(kernel)
        with pytest.raises(RefusedError, match="gap: the log ends at 1"):
            log.append_entries(3, entries(1, first=3))
        assert files(kernel) == before


def test_overwriting_a_committed_entry_is_refused_and_changes_nothing():
    kernel = MemoryKernel()
    with opened(kernel) as log:
        log.append_entries(0, entries(5))
        log.commit(2)
        before = files(kernel)
        with pytest.raises(RefusedError, match="LSN 2 is committed"):
            log.append_entries(2, entries(1, term=2))
        assert files(kernel) == before
        log.append_entries(3, entries(1, term=2))
        assert log.last_lsn == 3


@pytest.mark.parametrize("term", [0, -1, 2**31])
def test_a_term_that_is_none_is_refused(term):
    with opened(MemoryKernel()) as log:
        with pytest.raises(UsageError):
            log.append(term, [data(0)])
        assert log.last_lsn == -1


def test_a_term_of_64_bits_fits_the_shipped_edition():
    kernel = MemoryKernel()
    with opened(kernel, edition="shipped") as log:
        log.append(2**63 - 1, [data(0)])
        log.set_term(2**63 - 1)
    with opened(kernel) as log:
        assert (log.term, log.last_term) == (2**63 - 1, 2**63 - 1)


@EDITIONS
def test_entries_are_read_from_any_lsn_over_several_segments(edition):
    kernel = MemoryKernel()
    with opened(kernel, edition=edition, snapshot_threshold=99, **SMALL) as log:
        log.append_entries(0, entries(25))
        assert len(segments(kernel)) > 5
        for first in range(26):
            for limit in (None, 0, 1, 4, 100):
                found = [(entry.lsn, entry.data) for entry in log.entries(first, limit)]
                upto = 25 if limit is None else min(first + limit, 25)
                assert found == [(lsn, data(lsn)) for lsn in range(first, upto)]
        assert [log.term_of(lsn) for lsn in (0, 24)] == [1, 1]


def test_entries_below_the_first_one_are_refused():
    kernel = MemoryKernel()
    with opened(kernel, snapshot_threshold=99, **SMALL) as log:
        log.append_entries(0, entries(25))
        log.commit(20)
        log.snapshot()
        assert 0 < log.first_lsn <= 20
        with pytest.raises(RefusedError, match="below"):
            list(log.entries(log.first_lsn - 1))
        assert [entry.lsn for entry in log.entries(log.first_lsn)] == list(range(log.first_lsn, 25))


@EDITIONS
def test_a_segment_ends_at_the_soft_limit_when_all_is_committed_and_at_the_hard_limit_always(edition):
    kernel = MemoryKernel()
    with opened(kernel, edition=edition, soft_limit=100, hard_limit=300) as log:
        while log.last_lsn < 4:
            log.append(1, [ADD])
        assert segments(kernel) == [0]  # over the soft limit, and nothing is committed
        log.commit(3)
        log.append(1, [ADD])
        assert segments(kernel) == [0]  # LSN 4 is not committed
        log.commit(5)
        log.append(1, [ADD])
        assert segments(kernel) == [0, 6]
        for _ in range(20):
            log.append(1, [ADD])
        assert segments(kernel)[:2] == [0, 6]
        third = segments(kernel)[2]
        size = len(files(kernel)[f"{ROOT}/data/log/{6:019d}.log"])
        assert (
            300 < size < 300 + 100
        )  # uncommitted: over the hard limit by less than a record and the end marker
    with opened(kernel) as log:
        assert [entry.lsn for entry in log.entries(third)] == list(range(third, 27))


# Rolling back


@EDITIONS
@pytest.mark.parametrize("first_gone", range(1, 25))
def test_rolling_back_across_segments_leaves_what_stood_before(edition, first_gone):
    kernel = MemoryKernel()
    with opened(kernel, edition=edition, snapshot_threshold=99, **SMALL) as log:
        log.append_entries(0, [(1 + number // 5, data(number)) for number in range(25)])
        log.commit(0)
        log.roll_back(first_gone)
        assert log.last_lsn == first_gone - 1
        assert log.last_term == 1 + (first_gone - 1) // 5
        log.append(9, [data(99)])
    with opened(kernel) as log:
        expected = [(1 + number // 5, data(number)) for number in range(first_gone)]
        assert shown(log) == [*expected, (9, data(99))]
        assert log.findings == ()


def test_committed_entries_are_never_rolled_back():
    kernel = MemoryKernel()
    with opened(kernel) as log:
        log.append_entries(0, entries(5))
        log.commit(3)
        before = files(kernel)
        for first in (0, 3):
            with pytest.raises(RefusedError, match="committed"):
                log.roll_back(first)
        assert files(kernel) == before
        log.roll_back(5)  # nothing is there
        log.roll_back(4)
        assert log.last_lsn == 3


def test_what_a_snapshot_covers_is_committed_after_opening():
    kernel = MemoryKernel()
    with opened(kernel) as log:
        log.append_entries(0, entries(5))
        log.commit(2)
        log.snapshot()
        log.commit(4)
    with opened(kernel) as log:
        assert log.commit_index == 2  # the commit index itself is not stored
        with pytest.raises(RefusedError):
            log.roll_back(2)
        log.roll_back(3)
        assert (log.last_lsn, log.last_term) == (2, 1)


# Term and vote


@EDITIONS
def test_term_and_vote_are_durable_on_return(edition):
    kernel = MemoryKernel()
    log = opened(kernel, edition=edition)
    log.set_term(3, 2)
    with opened(MemoryKernel(kernel.device().durable())) as log:
        assert (log.term, log.vote) == (3, 2)


def test_a_node_votes_once_in_a_term_and_never_goes_back():
    with opened(MemoryKernel()) as log:
        log.set_term(2)
        log.set_term(2, 7)
        log.set_term(2, 7)
        with pytest.raises(RefusedError, match="voted for 7"):
            log.set_term(2, 8)
        log.set_term(2)
        assert (log.term, log.vote) == (2, 7)
        with pytest.raises(RefusedError, match="below"):
            log.set_term(1, 7)
        log.set_term(3)
        assert (log.term, log.vote) == (3, None)


@pytest.mark.parametrize("vote", [-1, -2, 2**31])
def test_a_vote_that_is_no_node_is_refused(vote):
    with opened(MemoryKernel()) as log, pytest.raises(UsageError):
        log.set_term(2, vote)


def test_a_term_that_does_not_fit_is_refused():
    with opened(MemoryKernel(), edition="designed") as log:
        with pytest.raises(RefusedError, match="does not fit"):
            log.set_term(2**31)
        log.set_term(2**31 - 1, 0)
        assert log.term == 2**31 - 1


def test_a_node_that_lost_its_term_and_vote_is_refused_until_it_is_repaired(tmp_path):
    with ReplicaLog(tmp_path) as log:
        log.set_term(7, 2)
        log.append(5, [data(0)])
    (tmp_path / "data" / "tflux.metadata").unlink()
    with pytest.raises(DamageError, match="the term and the vote of this node are gone"):
        ReplicaLog(tmp_path)
    plan = Log(dialect("taskflux"), Disk(), str(tmp_path)).plan_repair()
    assert plan.lost == ("the vote of this node, and its term if that was above the log's",)
    plan.apply()
    with ReplicaLog(tmp_path) as log:
        assert (log.term, log.vote) == (6, None)  # in term 5 it may have voted


# Committing and snapshots


def test_committing_what_is_not_here_is_refused():
    with opened(MemoryKernel()) as log:
        log.append_entries(0, entries(2))
        with pytest.raises(RefusedError, match="ends at 1"):
            log.commit(2)
        log.commit(1)
        log.commit(0)  # an old message
        assert log.commit_index == 1


@pytest.mark.parametrize(("edition", "threshold", "due_at"), [("designed", 2, 3), ("shipped", 3, 3)])
def test_committing_writes_a_snapshot_when_the_rules_ask_for_one(edition, threshold, due_at):
    """Designed: more than N closed segments up to the one of the commit index. Shipped: N sealed ones below it."""
    kernel = MemoryKernel()
    with opened(kernel, edition=edition, snapshot_threshold=threshold, **SMALL) as log:
        log.append_entries(0, entries(25))
        firsts = segments(kernel)
        last_before = firsts[due_at - 1] - 1 if edition == "designed" else firsts[due_at] - 2
        log.commit(last_before)
        assert log.snapshot_lsn == -1
        log.commit(last_before + 1)
        assert log.snapshot_lsn == last_before + 1
        gone = [first for first, following in pairwise(firsts) if following - 1 < log.snapshot_lsn]
        assert segments(kernel) == firsts[len(gone) :]
    with QueueStore(ROOT, disk=Disk(kernel)) as store:
        assert [row.key for row in store.queue().records()] == list(range(25))


def test_uncommitted_entries_are_not_in_a_snapshot():
    kernel = MemoryKernel()
    with opened(kernel) as log:
        log.append_entries(0, entries(5))
        log.commit(1)
        assert log.snapshot() == 1
        log.roll_back(2)
        log.append_entries(2, entries(1, term=2, first=50))
    with QueueStore(ROOT, disk=Disk(kernel)) as store:
        assert [row.key for row in store.queue().records()] == [0, 1, 50]


def sender(edition: str = "designed", count: int = 10, term: int = 3) -> bytes:
    """The snapshot of another node, after `count` entries."""
    kernel = MemoryKernel()
    with opened(kernel, edition=edition) as log:
        log.append_entries(0, entries(count, term=term, first=100))
        log.commit(count - 1)
        log.snapshot()
        sent = b"".join(log.read_snapshot(chunk_size=7))
    assert sent == files(kernel)[f"{ROOT}/data/tflux.snapshot"]
    return sent


def chunked(content: bytes, size: int = 11) -> list[bytes]:
    return [content[at : at + size] for at in range(0, len(content), size)]


@EDITIONS
def test_a_received_snapshot_ahead_of_the_log_replaces_it(edition):
    kernel = MemoryKernel()
    with opened(kernel, edition=edition) as log:
        log.append_entries(0, entries(3))
        assert log.receive_snapshot(chunked(sender(edition))) == 9
        assert (log.first_lsn, log.last_lsn, log.last_term, log.commit_index) == (10, 9, 3, 9)
        assert segments(kernel) == [10]  # one behind the snapshot, not at it as the original has it
        log.append(3, [data(7)])
    with opened(kernel) as log:
        assert (log.snapshot_lsn, log.snapshot_term, log.last_lsn) == (9, 3, 10)
    with QueueStore(ROOT, disk=Disk(kernel)) as store:
        assert [row.key for row in store.queue().records()] == [7, *range(100, 110)]


def test_a_received_snapshot_that_the_log_agrees_with_keeps_what_follows():
    kernel = MemoryKernel()
    with opened(kernel) as log:
        log.append_entries(0, entries(12, term=3, first=100))
        log.receive_snapshot(chunked(sender()))
        assert (log.snapshot_lsn, log.last_lsn, log.commit_index) == (9, 11, 9)
    with QueueStore(ROOT, disk=Disk(kernel)) as store:
        assert len(store.queue()) == 12


def test_what_a_leader_sends_again_changes_nothing():
    sent = entries(20, term=3, first=100)
    with opened(MemoryKernel()) as log:
        log.append_entries(0, sent)
        log.receive_snapshot(chunked(sender()))
        log.commit(15)
        assert log.receive_snapshot(chunked(sender())) == 9
        for first, last in ((5, 20), (12, 15), (20, 20)):
            assert log.append_entries(first, sent[first:last]) == 19
        assert (log.snapshot_lsn, log.commit_index, log.last_lsn) == (9, 15, 19)
        with pytest.raises(UsageError):
            log.append_entries(-1, sent[:2])


def test_a_received_snapshot_that_the_log_contradicts_drops_the_log():
    kernel = MemoryKernel()
    with opened(kernel) as log:
        log.append_entries(0, entries(12, term=2))
        log.commit(4)
        log.receive_snapshot(chunked(sender()))
        assert (log.first_lsn, log.last_lsn, log.last_term) == (10, 9, 3)
    with QueueStore(ROOT, disk=Disk(kernel)) as store:
        assert [row.key for row in store.queue().records()] == list(range(100, 110))


def test_a_snapshot_behind_the_commit_index_is_refused():
    with opened(MemoryKernel()) as log:
        log.append_entries(0, entries(12))
        log.commit(11)
        with pytest.raises(RefusedError, match="behind the commit index 11"):
            log.receive_snapshot(chunked(sender()))
        assert log.snapshot_lsn == -1


def broken(sent: bytes) -> dict[str, bytes]:
    return {
        "nothing": b"",
        "cut in the header": sent[:9],
        "cut in the state": sent[:-10],
        "cut in the checksum": sent[:-1],
        "wrong marker": b"\x00" + sent[1:],
        "a flipped bit in the state": sent[:30] + bytes([sent[30] ^ 1]) + sent[31:],
        "term 0": sent[:8] + struct.pack(">i", 0) + sent[12:],
        "index below -1": sent[:4] + struct.pack(">i", -2) + sent[8:],
        "a length of 2 GiB": sent[:12] + struct.pack(">i", 2**31 - 1) + sent[16:],
        "no default queue": resealed(sent[:12], struct.pack(">i", 0)),
        "four billion queues": resealed(sent[:12], struct.pack(">i", 2**31 - 1)),
        "no state": resealed(sent[:12], b""),
        "of the other edition": sender("shipped"),
    }


def resealed(header: bytes, state: bytes) -> bytes:
    crc = crc32_mpeg2(state, 0, len(state))
    return header + struct.pack(">i", len(state)) + state + struct.pack(">I", crc)


@pytest.mark.parametrize("what", broken(sender()))
def test_a_damaged_snapshot_is_refused_and_nothing_is_changed(what):
    kernel = MemoryKernel()
    with opened(kernel) as log:
        log.append_entries(0, entries(3))
        log.commit(1)
        log.snapshot()
        before = files(kernel)
        with pytest.raises(DamageError) as caught:
            log.receive_snapshot(chunked(broken(sender())[what]))
        assert caught.value.file == f"{ROOT}/data/temp/snapshot.received"
        after = files(kernel)
        after.pop(f"{ROOT}/data/temp/snapshot.received", None)
        assert after == before
        assert (log.snapshot_lsn, log.commit_index, log.last_lsn) == (1, 1, 2)
        log.append(1, [data(3)])  # and the log goes on
    with opened(kernel) as log:
        assert log.last_lsn == 3
        assert not any("received" in path for path in files(kernel))


def test_a_sender_that_breaks_off_changes_nothing():
    kernel = MemoryKernel()

    def breaking_off():
        yield sender()[:20]
        raise ConnectionResetError

    with opened(kernel) as log:
        log.append_entries(0, entries(3))
        with pytest.raises(ConnectionResetError):
            log.receive_snapshot(breaking_off())
        assert (log.snapshot_lsn, log.last_lsn) == (-1, 2)
        assert log.append(1, [data(3)]) == 3
        assert log.receive_snapshot([sender()]) == 9


def test_an_index_that_does_not_fit_a_designed_snapshot_is_refused_and_nothing_is_lost():
    """A log that begins near 2^31: the snapshot cannot name its last LSN, the log keeps everything."""
    kernel = MemoryKernel()
    sent = sender()
    with opened(kernel) as log:
        log.receive_snapshot([sent[:4] + struct.pack(">i", 2**31 - 2) + sent[8:]])
        log.append_entries(2**31 - 1, entries(3, term=3))
        log.commit(2**31 - 1)
        assert log.snapshot() == 2**31 - 1
        log.commit(2**31 + 1)
        before = files(kernel)
        with pytest.raises(RefusedError, match="does not fit a snapshot of the designed edition"):
            log.snapshot()
        assert files(kernel) == before
        log.append(3, [data(3)])
    with opened(kernel) as log:
        assert (log.snapshot_lsn, log.last_lsn) == (2**31 - 1, 2**31 + 2)
    with QueueStore(ROOT, disk=Disk(kernel)) as store:
        assert len(store.queue()) == 14
        with pytest.raises(RefusedError, match="does not fit"):
            store.snapshot()
        store.queue().add(b"on and on")


def test_a_closed_log_refuses():
    log = opened(MemoryKernel())
    log.append(1, [data(0)])
    log.close()
    for act in (
        lambda: log.append(1, [data(1)]),
        lambda: log.set_term(2),
        lambda: log.commit(0),
        lambda: log.roll_back(0),
    ):
        with pytest.raises(ClosedError):
            act()


# The same message again, readers beside a writer


def test_a_snapshot_that_is_sent_again_changes_nothing_and_keeps_what_was_appended_since():
    kernel = MemoryKernel()
    sender = opened(MemoryKernel())
    sender.append(1, [ADD] * 5)
    sender.commit(4)
    sender.snapshot()
    sent = list(sender.read_snapshot())
    log = opened(kernel)
    assert log.receive_snapshot(sent) == 4
    log.append(1, [ADD, ADD])
    assert log.receive_snapshot(sent) == 4  # the leader did not get the answer
    assert (log.snapshot_lsn, log.last_lsn) == (4, 6)
    log.append(1, [ADD])
    log.close()
    again = opened(kernel)
    assert [entry.lsn for entry in again.entries(5)] == [5, 6, 7]
    assert (again.snapshot_lsn, again.last_lsn) == (4, 7)


def test_another_snapshot_of_the_same_index_is_refused_and_changes_nothing():
    def sent(term: int) -> list[bytes]:
        sender = opened(MemoryKernel())
        sender.append(term, [ADD] * 3)
        sender.commit(2)
        sender.snapshot()
        return list(sender.read_snapshot())

    kernel = MemoryKernel()
    log = opened(kernel)
    log.receive_snapshot(sent(2))
    log.append(3, [ADD])
    with pytest.raises(RefusedError, match="of term 2 and not 3"):
        log.receive_snapshot(sent(3))
    log.close()
    assert [entry.term for entry in opened(kernel).entries(3)] == [3]


@pytest.mark.parametrize("lsn", [-2, 3, 2**63, 2**70])
def test_the_term_of_an_entry_that_is_not_here_is_refused(lsn):
    log = opened(MemoryKernel())
    log.append(1, [ADD] * 3)
    with pytest.raises(RefusedError, match=str(lsn)):
        log.term_of(lsn)


def test_reading_goes_on_beside_a_roll_back_and_ends_where_the_log_ends():
    log = opened(MemoryKernel(), soft_limit=50, hard_limit=100)
    log.append(1, [ADD] * 30)
    reading = log.entries(0)
    first = [next(reading).lsn for _ in range(3)]
    log.roll_back(10)
    rest = [entry.lsn for entry in reading]
    assert first + rest == list(range(10))


def test_reading_beside_a_snapshot_that_removes_what_comes_next_is_refused_and_not_a_missing_file():
    log = opened(MemoryKernel(), soft_limit=50, hard_limit=100)
    for _ in range(30):
        log.append(1, [ADD])
    reading = log.entries(0)
    next(reading)
    log.commit(29)
    log.snapshot()
    with pytest.raises(RefusedError, match="the first one that is still here"):
        list(reading)


def test_a_segment_below_the_snapshot_that_came_back_alone_is_removed_and_hangs_nothing():
    kernel = MemoryKernel()
    log = opened(kernel, soft_limit=50, hard_limit=100, snapshot_threshold=1000)
    log.append(1, [ADD] * 30)
    log.commit(29)
    disk = Disk(kernel)
    names = disk.list(f"{ROOT}/data/log")
    oldest = disk.read(f"{ROOT}/data/log/{names[0]}", 1 << 20)
    log.snapshot()
    log.append(1, [ADD] * 3)
    log.close()
    with disk.open(f"{ROOT}/data/log/{names[0]}", "create") as file:  # its removal was not synced
        file.pwrite(oldest, 0)
    again = opened(kernel, soft_limit=50, hard_limit=100)
    assert names[0] not in disk.list(f"{ROOT}/data/log")
    assert [entry.lsn for entry in again.entries(again.first_lsn)] == list(range(again.first_lsn, 33))
    with pytest.raises(RefusedError):
        next(again.entries(0))


@pytest.mark.parametrize(
    "call",
    [
        lambda log: log.append(1, [ADD, "x"]),
        lambda log: log.append(1.5, [ADD]),
        lambda log: log.append_entries(1, [(1.5, ADD)]),
        lambda log: log.append_entries(0.0, [(1, ADD)]),
        lambda log: log.set_term(1.5),
        lambda log: log.set_term(3, 1.5),
        lambda log: log.set_term(None),
        lambda log: log.roll_back(float("nan")),
        lambda log: log.roll_back(0.5),
        lambda log: log.commit("x"),
        lambda log: log.receive_snapshot("x"),
        lambda log: list(log.read_snapshot(0)),
        lambda log: list(log.entries(0.5)),
        lambda log: log.term_of(None),
    ],
)
def test_what_is_no_number_and_no_bytes_is_refused_and_stops_nothing(call, tmp_path):
    with ReplicaLog(tmp_path) as log:
        log.append(1, [ADD])
        with pytest.raises(UsageError):
            call(log)
        log.append(1, [data(2)])
        assert [entry.data for entry in log.entries(0)] == [ADD, data(2)]
