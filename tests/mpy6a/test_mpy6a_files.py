"""The files of a store: when they switch and go, how they are named, merged, converted, opened."""

from __future__ import annotations

import gc
import random
import threading
import tracemalloc

import pytest
from tests.mpy6a.stores import (
    FAR,
    LONG,
    ONCE,
    ROOT,
    SHORT,
    T0,
    crashed,
    files_of,
    names_of,
    opened,
    reopened,
    waiting,
)

from flintlog.dialects.mpy6a import layout as lay
from flintlog.dialects.mpy6a.layout import StateID
from flintlog.dialects.mpy6a.scan import scan_log
from flintlog.dialects.mpy6a.store import SessionStore, Topic, engine
from flintlog.disk import Disk
from flintlog.errors import DamageError, RefusedError, UsageError
from flintlog.testing import FaultyKernel, MemoryKernel

BOTH = pytest.mark.parametrize("strict", [False, True], ids=["operations", "strict"])


# Switching, names, deletion


@BOTH
def test_a_full_file_is_closed_and_a_read_one_deleted(strict):
    store = opened(strict=strict, file_bytes=100)
    for number in range(9):
        store.put(SHORT, b"%d" % number * 20, now=T0 + number)
    stem = "30@2023111422"
    assert names_of(store) == [
        f"{stem}-1.data",
        f"{stem}-2.data",
        f"{stem}-3.data",
        f"{stem}-4.data",
        f"{stem}.data",
    ]
    files = store._engine.machine.chains[30]
    assert [file.name for file in files] == [f"{stem}{end}.data" for end in ("", "-1", "-2", "-3", "-4")]
    assert [file.written for file in files] == [False] * 4 + [True]
    assert all(file.length >= 100 for file in files[:-1])
    sessions = store.due(FAR)
    for session in sessions[:5]:
        session.delete()
    assert names_of(store) == [f"{stem}-2.data", f"{stem}-3.data", f"{stem}-4.data"]
    store.put(SHORT, b"more" * 30, now=T0 + 9)
    store.put(SHORT, b"more" * 30, now=T0 + 10)
    assert names_of(store)[-1] == f"{stem}-5.data"  # a name that was given out is never given out again
    for session in sessions[5:]:
        session.delete()
    assert waiting(crashed(store, strict=strict)) == [b"more" * 30] * 2


@BOTH
def test_sessions_that_wait_equally_long_share_a_file_and_others_never_do(strict):
    store = opened(strict=strict, file_bytes=200)
    stored = {}
    for number in range(60):
        now = T0 + number
        topic, delay = ((SHORT, 30), (LONG, 600), (ONCE, 30), (SHORT, 45))[number % 4]
        stored[store.put(topic, b"data", delay=delay, now=now)] = (delay, now)
    store._engine.drain()
    shared = 0
    for name, raw in files_of(store).items():
        if not name.endswith(".data"):
            continue
        at, topics = 0, set()
        while at < len(raw):
            record, at = lay.read_record(raw, at)
            delay, now = stored.pop(record.id)
            assert (delay, record.replay_time) == (lay.parse_name(name), now + delay)
            topics.add(record.topic)
        shared += topics == {SHORT, ONCE}
    assert stored == {}
    assert shared > 0


@BOTH
def test_the_file_that_is_written_stays_when_all_of_it_is_read(strict):
    store = opened(strict=strict)
    store.put(SHORT, b"a", now=T0)
    store.due(FAR)[0].delete()
    assert len(names_of(store)) == 1
    store.put(SHORT, b"b", now=T0 + 5000)
    assert len(names_of(store)) == 1
    assert waiting(crashed(store, strict=strict)) == [b"b"]


@BOTH
def test_rotation_begins_the_next_file(strict):
    store = opened(strict=strict)
    store.rotate(30, now=T0)  # there is nothing to rotate
    store.put(SHORT, b"a", now=T0)
    store.rotate(30, now=T0 + 7200)
    store.rotate(30, now=T0 + 7300)  # an empty one is left alone
    assert names_of(store) == ["30@2023111422.data", "30@2023111500.data"]
    store.put(SHORT, b"b", now=T0 + 7400)
    store.due(T0 + 31)[0].delete()
    assert names_of(store) == ["30@2023111500.data"]
    assert waiting(crashed(store, strict=strict)) == [b"b"]


def test_of_a_read_file_the_mark_the_shifts_and_the_end_are_in_the_change_log():
    store = opened(strict=True, file_bytes=50)
    store.put(SHORT, b"a" * 20, now=T0)
    store.put(SHORT, b"b", now=T0)
    store.due(FAR)[0].delete()
    raw = files_of(store)["state.log"]
    events = scan_log(memoryview(raw), checked=False).events
    changes = [lay.read_change(raw[int(events.payload[row]) : events.end(row)]) for row in range(len(events))]
    first, second = "30@2023111422.data", "30@2023111422-1.data"
    assert changes == [
        lay.Create(30, T0),
        lay.StopWriting(first),
        lay.Create(30, T0),
        lay.OpenToRead(first),
        lay.OpenToRead(second),
        lay.Shift(first, 50),
        lay.Delete(first),
    ]


def test_a_snapshot_empties_the_logs_and_holds_the_descriptors():
    store = opened(file_bytes=60)
    for number in range(4):
        store.put(SHORT, b"%d" % number * 20, now=T0 + number)
    store.new(SHORT, b"open")
    store.snapshot()
    files = files_of(store)
    assert files["state.log"] == lay.encode_log_header(*lay.BESIDE_FRAME)
    described = [item for _, item in lay.read_snapshot(files["state.snapshot"])]
    assert described == store._engine.machine.descriptors()
    assert [item.length for item in described] == [len(files[item.name]) for item in described]
    assert [session.data for session in crashed(store).sessions()] == [b"open"]


@BOTH
def test_logs_that_grow_too_long_begin_anew(strict):
    store = opened(strict=strict, log_bytes=2000)
    for number in range(200):
        store.put(SHORT, b"x" * 50, now=T0 + number)
        for session in store.due(T0 + number):
            session.delete()
    files = files_of(store)
    log = files["state.log" if strict else "operations.log"]
    assert len(log) < 4000
    assert len(waiting(crashed(store, strict=strict))) == 30


def test_closing_leaves_the_notes_files_complete_and_a_short_operation_log():
    store = opened()
    store.put_many(SHORT, [b"x" * 100] * 1000, now=T0)
    store.close()
    files = files_of(store)
    assert len(files["operations.log"]) < 200
    assert len(files["30@2023111422.data"]) == 130 * 1000
    store = opened(store._engine.disk, strict=True)
    assert len(waiting(store)) == 1000
    assert "operations.log" not in files_of(store)
    assert files_of(store)["state.log"][:16] == lay.encode_log_header(*lay.CHANGES_FRAME)


@pytest.mark.parametrize("strict", [False, True])
def test_a_directory_whose_operation_log_is_gone_is_not_taken_for_one_that_never_had_any(strict):
    store = opened()
    store.new(SHORT, b"open, and in the operation log only")
    store.close()
    disk = store._engine.disk
    disk.unlink(f"{ROOT}/operations.log")
    with pytest.raises(DamageError) as caught:
        opened(disk, strict=strict)
    assert caught.value.code == "log-missing"


# Merging


def remains(strict: bool = False, count: int = 13):
    """Closed files with two sessions each, of which some are done."""
    store = opened(strict=strict, file_bytes=70)
    for number in range(count):
        store.put(SHORT, b"%02d some data" % number, now=T0 + number)
    for session in store.due(T0 + 30 + 6, 7):
        if session.data[:2] in (b"00", b"02", b"03", b"06") or (strict and session.data[:2] < b"06"):
            session.delete()
    return store


def test_the_remains_of_old_files_are_merged_after_a_restart():
    store = remains()
    expected = waiting(crashed(store))
    before = len(names_of(store))
    store = reopened(store, file_bytes=1000)
    assert store.compact() == 3 * 42 - 42  # of what was done, one file with two of them is gone already
    assert len(names_of(store)) == 2 < before
    assert waiting(crashed(store)) == expected
    assert waiting(store) == expected
    assert store.compact() == 0


def test_files_that_sessions_were_handed_out_of_are_left_alone():
    store = remains(count=31)
    expected = waiting(crashed(store))
    sessions = store.due(T0 + 38)
    handed = {session.place.name for session in sessions if session.place is not None}
    before = len(names_of(store))
    store._chains.file_bytes = 1000
    assert store.compact() == 0
    assert handed <= set(names_of(store))
    assert len(names_of(store)) < before  # those behind them became one
    for session in sessions:
        session.delete()
    gone = {session.data for session in sessions}
    assert waiting(crashed(store)) == [data for data in expected if data not in gone]


def test_sessions_that_were_changed_keep_that_when_their_file_is_merged():
    store = remains()
    store = crashed(store)
    sessions = {session.data[:2]: session for session in store.due(FAR)}
    sessions[b"05"].append(b" changed")
    store = reopened(store, file_bytes=1000)
    assert store.compact() > 0
    for after in (store, crashed(store)):
        found = {session.data[:2]: session for session in after.due(FAR)}
        assert found[b"05"].data == b"05 some data changed"
        found[b"05"].append(b" again")
        assert found[b"05"].data == b"05 some data changed again"
    found[b"05"].delete()
    assert b"05" not in {data[:2] for data in waiting(crashed(after))}


def test_merging_in_strict_mode():
    store = reopened(remains(strict=True), strict=True, file_bytes=1000)
    expected = waiting(crashed(store, strict=True))
    assert store.compact() > 0
    assert len(names_of(store)) == 2
    assert waiting(crashed(store, strict=True)) == expected


def test_a_single_file_is_merged_when_most_of_it_is_read():
    store = opened(file_bytes=500)
    store.put_many(SHORT, [b"%d" % number for number in range(40)], now=T0)
    store.put(SHORT, b"next", now=T0)
    for session in store.due(FAR, 39):
        session.delete()
    store = reopened(store)
    assert store.compact() == 10 * 31 + 29 * 32
    assert waiting(crashed(store)) == [b"39", b"next"]


# Strict, and conversion both ways


def test_strict_directories_hold_the_notes_files_and_nothing_else():
    store = opened(strict=True)
    store.put(SHORT, b"a", now=T0)
    store.new(SHORT, b"open")
    store.snapshot()
    assert set(files_of(store)) == {"30@2023111422.data", "state.log", "state.snapshot"}
    store = crashed(store, strict=True)
    assert store.sessions() == []
    assert waiting(store) == [b"a"]


def test_strict_stores_begin_a_new_term_each_time():
    store = opened(strict=True)
    store.put(SHORT, b"a", now=T0)
    first = store.last
    store = reopened(store, strict=True)
    assert store.put(SHORT, b"b", now=T0).term == first.term + 1


def test_ids_are_never_given_out_twice_when_nothing_but_records_tells_of_them():
    store = opened(strict=True)
    ids = []
    for number in range(4):
        ids += [store.put(SHORT, b"%d" % number, now=T0), *store.put_many(SHORT, [b"x"], now=T0)[0]]
        store = crashed(store, strict=True)
    for number in range(3):
        store = crashed(store, strict=number == 1)
        ids.append(store.put(SHORT, b"%d" % number, now=T0))
    assert len(set(ids)) == len(ids)
    assert [session.id for session in store.due(FAR)] == ids


def test_in_strict_mode_what_was_deleted_out_of_turn_comes_again():
    store = opened(strict=True)
    store.put_many(SHORT, [b"a", b"b"], now=T0)
    first, second = store.due(T0 + 30)
    second.delete()
    assert waiting(crashed(store, strict=True)) == [b"a", b"b"]
    first.delete()
    assert waiting(crashed(store, strict=True)) == []


def test_a_directory_goes_from_one_way_to_the_other_and_back():
    store = opened()
    store.put_many(SHORT, [b"a", b"b", b"c"], now=T0)
    store.put(ONCE, b"x", now=T0)
    store.due(T0 + 30, 1)[0].delete()
    store = reopened(store, strict=True)
    assert "operations.log" not in files_of(store)
    store.put(LONG, b"l", now=T0 + 50)
    store = reopened(store)
    assert "operations.log" in files_of(store)
    session = store.new(SHORT, b"open")
    store = crashed(store)
    assert [one.data for one in store.sessions()] == [b"open"]
    assert waiting(store) == [b"b", b"c", b"x", b"l"]
    assert session.id.term == store.last.term


def test_strict_is_refused_while_the_notes_files_alone_would_lose_something():
    store = opened()
    store.new(SHORT, b"open")
    store = reopened(store)
    disk = store._engine.disk
    store.close()
    before = dict(disk.kernel.visible().tree())
    with pytest.raises(RefusedError, match="1 sessions are open and 0 replayed ones are done out of turn"):
        opened(disk, strict=True)
    assert dict(disk.kernel.visible().tree()) == before
    store = opened(disk)
    store.sessions()[0].delete()
    store.put_many(SHORT, [b"a", b"b"], now=T0)
    store.due(FAR)[1].delete()
    store.close()
    with pytest.raises(RefusedError, match="0 sessions are open and 1 replayed ones"):
        opened(disk, strict=True)


# Opening


def test_what_a_crash_left_is_healed_and_told_once():
    store = opened(strict=True)
    store.put(SHORT, b"a", now=T0)
    disk = store._engine.disk
    store.close()
    with disk.open(f"{ROOT}/30@2023111422.data", "write") as file:
        file.pwrite(b"\x01\x02\x03", file.size())
    with disk.open(f"{ROOT}/state.log", "write") as file:
        file.pwrite(b"\x01", file.size())
    store = opened(disk, strict=True)
    assert sorted(finding.code for finding in store.findings) == ["event-cut", "record-cut"]
    store.put(SHORT, b"b", now=T0)
    store = reopened(store, strict=True)
    assert store.findings == ()
    assert waiting(store) == [b"a", b"b"]


@pytest.mark.parametrize("name", ["operations.log", "30@2023111422.data"])
def test_damage_is_refused_and_nothing_is_changed(name):
    store = opened()
    store.put_many(SHORT, [b"some data"] * 100, now=T0)
    disk = store._engine.disk
    store._engine.drain()
    disk = Disk(MemoryKernel(disk.kernel.visible()))
    with disk.open(f"{ROOT}/{name}", "write") as file:
        if name == "operations.log":
            file.pwrite(b"\xff", 200)
            file.pwrite(bytes(crashed(store)._engine.log_view()[16:]), file.size())
        else:
            file.truncate(0)
            file.pwrite(b"\xff" * 8, 0)
    before = dict(disk.kernel.visible().tree())
    if name == "operations.log":
        with pytest.raises(DamageError):
            opened(disk)
        assert dict(disk.kernel.visible().tree()) == before
    else:  # the operation log has it all
        assert len(waiting(opened(disk))) == 100


def test_leftovers_are_removed_and_foreign_files_left_alone():
    store = opened()
    store.put(SHORT, b"a", now=T0)
    disk = store._engine.disk
    store.close()
    for name in ("99@2023111422.data", "operations.log.new", "data.new", "notes.txt"):
        with disk.open(f"{ROOT}/{name}", "create") as file:
            file.pwrite(b"x", 0)
    store = opened(disk)
    assert set(files_of(store)) == {
        "30@2023111422.data",
        "notes.txt",
        "operations.log",
        "state.log",
        "state.snapshot",
    }
    assert disk.read(f"{ROOT}/kept/opened/000001-99@2023111422.data@0", 10) == b"x"


def test_opening_reads_no_more_than_its_budget(monkeypatch):
    store = opened(file_bytes=20_000)
    for number in range(100):
        store.put_many(SHORT, [b"x" * 470] * 40, now=T0 + number)
    assert len(names_of(store)) == 100
    memory = store._engine.disk.kernel
    store.close()

    class Counting(FaultyKernel):
        read = 0

        def pread(self, handle, size, offset):
            data = super().pread(handle, size, offset)
            Counting.read += len(data)
            return data

        def map(self, handle, size):
            Counting.read += size
            return super().map(handle, size)

    def cost() -> int:
        Counting.read = 0
        opened(Disk(Counting(memory))).close()
        return Counting.read

    assert cost() > 2_000_000  # all of it is within the budget
    monkeypatch.setattr(engine, "EXAMINE_BYTES", 100_000)
    few = cost()
    assert few < 100_000 + 20_000 + 50_000
    monkeypatch.setattr(engine, "EXAMINE_BYTES", 0)
    assert cost() < 20_000 + 50_000  # the last file of the chain, the logs, the snapshot


# Memory


def test_memory_grows_with_files_and_not_with_sessions(tmp_path):
    def held(count: int) -> int:
        path = tmp_path / str(count)
        topics = [Topic(1, 30)]
        with SessionStore(path, topics=topics) as store:
            for _ in range(count // 10_000):
                store.put_many(1, [b"x" * 100] * 10_000, now=T0)
        gc.collect()
        tracemalloc.start()
        try:
            with SessionStore(path, topics=topics) as store:
                store.due_batch(FAR, 1000).delete()
                gc.collect()
                return tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()

    held(10_000)  # modules and compiled code are there now
    few, many = held(20_000), held(400_000)
    assert many < few + 300_000


# Handles


@BOTH
def test_hundreds_of_delays_and_files_hold_few_handles(strict):
    """A process may have a thousand; the store is not the only one who needs some."""
    store = opened(strict=strict, file_bytes=10)
    kernel = store._engine.disk.kernel
    assert isinstance(kernel, MemoryKernel)
    most = 0
    for number in range(300):
        store.put(SHORT, b"%d" % number, delay=1000 + number, now=T0)
        store.put(SHORT, b"%d" % number, now=T0)
        most = max(most, len(kernel._handles))
    threads = [
        threading.Thread(target=store.put, args=(SHORT, b"x"), kwargs={"delay": 5000 + number, "now": T0})
        for number in range(200)
    ]
    with store._engine.lock:  # they are written together
        for thread in threads:
            thread.start()
    for thread in threads:
        thread.join()
    store.snapshot()
    assert most < 100
    assert len(kernel._handles) < 100
    assert len(waiting(crashed(store, strict=strict))) == 800


# What the descriptors tell, and how long the change log gets


@BOTH
def test_the_last_id_of_a_file_is_that_of_the_last_session_put_into_it(strict):
    store = opened(strict=strict)
    store.put_many(SHORT, [b"a", b"b", b"c"], now=T0)
    store.snapshot()
    ((_, descriptor),) = lay.read_snapshot(files_of(store)["state.snapshot"])
    assert descriptor.last_id == store.last == StateID(1, 4)


def test_a_strict_restart_counts_what_was_put_since_the_snapshot():
    store = opened(strict=True)
    store.put(SHORT, b"a", now=T0)
    store.put_many(LONG, [b"b", b"c"], now=T0)
    last = store.last
    store = crashed(store, strict=True, follower=True)
    assert store.last == last
    assert [item.last_id for item in store.progress().files] == [StateID(1, 2), last]


def test_a_strict_change_log_is_emptied_long_before_it_takes_long_to_read(monkeypatch):
    monkeypatch.setattr(engine, "CHANGES_BYTES_MAX", 2000)
    store = opened(strict=True)
    longest = 0
    for number in range(200):
        store.put(SHORT, b"some data", now=T0 + number)
        for session in store.due(T0 + number + 30):
            session.delete()
        longest = max(longest, len(files_of(store)["state.log"]))
    assert 1000 < longest < 2200
    assert engine.CHANGES_BYTES_MAX == 2000
    assert waiting(crashed(store, strict=True)) == []


# No name is given out twice


@BOTH
def test_a_name_is_never_given_out_twice_whatever_is_read_and_merged(strict):
    for seed in range(15):
        chance = random.Random(seed)
        store = opened(file_bytes=60, strict=strict)
        ever: dict[str, object] = {}
        now = T0
        for _ in range(60):
            now += chance.choice((0, 0, 1, 30, 2000))
            match chance.randrange(5):
                case 0 | 1:
                    store.put(SHORT, chance.randbytes(chance.randrange(40)), now=now)
                case 2 | 3:
                    for session in store.due(now, 3):
                        if chance.random() < 0.7:
                            session.delete()
                case 4:
                    store = reopened(store, file_bytes=60, strict=strict)
                    store._chains.file_bytes = 500
                    store.compact()
                    store._chains.file_bytes = 60
            for name, file in store._engine.machine.files.items():
                kept = ever.setdefault(name, (file.id, file.replay))
                assert kept == (file.id, file.replay), (seed, name)
            alive = set(store._engine.machine.files)
            for name in [name for name in ever if name not in alive]:
                ever[name] = "gone"


# Switching by time


@BOTH
def test_a_quiet_delay_lets_its_files_go_when_they_are_old(strict):
    store = opened(strict=strict, file_seconds=3600)
    follower = opened(follower=True)
    store.put(SHORT, b"a", now=T0)
    store.put(LONG, b"stays", now=T0)
    before = names_of(store)
    store.due(T0 + 30)[0].delete()
    assert store.due(T0 + 599) == []
    assert names_of(store) == before
    (kept,) = store.due(T0 + 3600)
    follower.receive(store.catch_up(follower.progress()))
    store._engine.drain()
    assert {name: len(data) for name, data in files_of(store).items() if name.endswith(".data")} == {
        "30@2023111423.data": 0,
        "600@2023111422.data": 35,
    }
    assert names_of(follower) == names_of(store)
    assert store.due(T0 + 9000) == []
    assert len(names_of(store)) == 2  # one that is empty is not switched again
    kept.delete()
    assert store.due(T0 + 9000) == []
    store._engine.drain()
    assert "600@2023111422.data" not in names_of(store)
    assert waiting(crashed(store, strict=strict)) == []


@BOTH
def test_what_is_put_goes_to_a_new_file_when_the_old_one_is_old(strict):
    store = opened(strict=strict, file_seconds=3600)
    for seconds in (0, 3599, 3600, 3601, 7200):
        store.put(SHORT, b"%d" % seconds, now=T0 + seconds)
    assert len(names_of(store)) == 3
    assert waiting(crashed(store, strict=strict)) == [b"0", b"3599", b"3600", b"3601", b"7200"]


def test_files_do_not_switch_by_time_unless_it_is_asked_for():
    store = opened()
    store.put(SHORT, b"a", now=T0)
    store.put(SHORT, b"b", now=FAR)
    assert len(names_of(store)) == 1
    with pytest.raises(UsageError):
        opened(file_seconds=0)
