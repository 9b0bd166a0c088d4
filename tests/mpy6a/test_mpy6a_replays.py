"""Sessions that are due: in batches, as columns, ended out of turn, and from an iterator that sleeps."""

from __future__ import annotations

import threading
import time

import pytest
from tests.mpy6a.stores import (
    FAR,
    LONG,
    ONCE,
    SHORT,
    T0,
    crashed,
    files_of,
    names_of,
    opened,
    reopened,
    waiting,
)

from flintlog.dialects.mpy6a import operations as ops
from flintlog.dialects.mpy6a.store import SessionStore
from flintlog.dialects.mpy6a.store.engine import Work
from flintlog.errors import DamageError

PATIENCE = 30  # seconds until a thread counts as stuck


# Batches


def test_a_batch_shows_its_sessions_as_columns_in_order():
    store = opened()
    store.put_many(SHORT, [b"a", b"b"], now=T0 + 10)
    store.put_many(LONG, [b"l"], delay=40, now=T0)
    table = store.due_batch(FAR).table()
    assert table.column_names == ["replay_time", "delay", "term", "index", "topic", "attempts", "data"]
    assert table.column("data").to_pylist() == [b"l", b"a", b"b"]
    assert table.column("delay").to_pylist() == [40, 30, 30]
    assert table.column("replay_time").to_pylist() == [T0 + 40] * 3
    assert table.column("topic").to_pylist() == [LONG, SHORT, SHORT]
    empty = store.due_batch(FAR)
    assert len(empty) == 0
    assert empty.table().num_rows == 0
    empty.delete()


def test_some_of_a_batch_are_done_and_the_others_wait_again():
    store = opened(file_bytes=500)
    store.put_many(SHORT, [b"s%d" % number for number in range(40)], now=T0)
    store.put_many(LONG, [b"l%d" % number for number in range(40)], delay=30, now=T0)
    found = store.due_batch(T0 + 30, 60)
    rows = [record.data for record, _ in found.rows()]
    assert len(rows) == 60
    done = [data[-1:] in b"0123456" for data in rows]
    found.finish(done, now=T0 + 31)
    left = {data for data, gone in zip(rows, done, strict=True) if not gone}
    store = crashed(store)
    sessions = store.due(FAR, 1000)
    again = {session.data: session for session in sessions if session.attempts}
    assert set(again) == left
    assert {session.replay_time for session in again.values()} == {T0 + 61, T0 + 631}
    assert len(sessions) == 20 + len(left)


def test_sessions_ended_out_of_turn_stay_ended_whatever_stands_before_them():
    """A long run is done with, and the one before it is not: the reader passes the run in several windows."""
    items = [b"%06d" % number + bytes(100) for number in range(5000)]
    store = opened()
    store.put_many(SHORT, items, now=T0)
    store.due(T0 + 30, 1)
    store.due_batch(T0 + 30, 4998).delete()
    assert waiting(crashed(store)) == [items[0], items[-1]]
    store = opened()
    store.put_many(SHORT, items, now=T0)
    for session in store.due(T0 + 30, 5000)[1:-1]:
        session.delete()
    assert waiting(crashed(store)) == [items[0], items[-1]]


def test_what_was_ended_out_of_turn_is_remembered_in_runs():
    """One session that nobody ends does not make the checkpoint grow with those behind it."""
    store = opened()
    store.put_many(SHORT, [b"x" * 10] * 3000, now=T0)
    first, *others = store.due(T0 + 30, 3000)
    for session in others[::2] + others[1::2]:
        session.delete()
    store.snapshot()
    assert len(files_of(store)["operations.log"]) < 1000
    store = crashed(store)
    (again,) = store.due(T0 + 30)
    assert again.id == first.id
    again.delete()
    assert len(files_of(store)["state.log"]) < 300  # one shift passes them all
    assert waiting(crashed(store)) == []


def test_of_a_handed_out_batch_only_its_own_windows_are_kept():
    store = opened()
    store.put_many(SHORT, [bytes(1000)] * 2000, now=T0)
    for _ in range(20):
        store.due_batch(T0 + 30, 100).delete()
        held = sum(
            len(window.piece.buffer) for reader in store._due._reader._chains() for window in reader.windows
        )
        assert held < 1 << 20
    assert store.next_due() is None


def test_damage_in_a_waiting_file_is_met_with_its_place_and_nothing_changes():
    store = opened(file_bytes=200)
    for number in range(10):
        store.put(SHORT, b"%d" % number * 50, now=T0 + number)
    disk = store._engine.disk
    name = names_of(store)[0]
    store.close()
    store = opened(disk)
    with disk.open(f"{store.path}/{name}", "write") as file:
        file.pwrite(bytes(8), 80 + 8)  # the term of the second record
    assert [session.data for session in store.due(FAR, 1)] == [b"0" * 50]
    with pytest.raises(DamageError) as caught:
        store.due(FAR)
    assert (caught.value.code, caught.value.offset) == ("record-term", 80)
    assert caught.value.file is not None and caught.value.file.endswith(name)


# An iterator that waits


class Clock:
    """Time that passes when somebody waits."""

    def __init__(self) -> None:
        self.now = float(T0)
        self.waits: list[float] = []

    def __call__(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


def test_the_iterator_waits_for_the_next_session_and_no_longer():
    clock = Clock()
    store = opened(clock=clock)
    store.put(SHORT, b"a")
    store.put(LONG, b"b")
    clock.now += 5
    seen = []
    for session in store.replays(wait=clock.wait):
        seen.append((clock.now - T0, session.data, session.attempts))
        if len(seen) == 4:
            session.delete()
            store.close()
        elif session.topic == SHORT:
            session.store(300)
        else:
            session.delete()
    assert seen == [(30, b"a", 0), (330, b"a", 1), (600, b"b", 0), (630, b"a", 2)]
    assert clock.waits == [25, 300, 270, 30]


def test_the_iterator_waits_an_hour_at_most_when_nothing_is_there():
    clock = Clock()
    store = opened(clock=clock)

    def wait(seconds: float) -> None:
        clock.wait(seconds)
        if len(clock.waits) == 2:
            store.close()

    assert list(store.replays(wait=wait)) == []
    assert clock.waits == [3600, 3600]


def test_the_iterator_gives_a_batch_at_a_time():
    clock = Clock()
    store = opened(clock=clock)
    store.put_many(SHORT, [b"%d" % number for number in range(7)])
    clock.now += 30
    seen = []
    for session in store.replays(limit=3, wait=clock.wait):
        seen.append(session.data)
        session.delete()
        if len(seen) == 7:
            break
    assert seen == [b"%d" % number for number in range(7)]


def replaying(store: SessionStore) -> tuple[threading.Thread, list[bytes], threading.Event]:
    """A thread that ends what the iterator gives, and says when it has had three."""
    seen: list[bytes] = []
    enough = threading.Event()

    def work() -> None:
        for session in store.replays():
            seen.append(session.data)
            session.delete()
            if len(seen) == 3:
                enough.set()

    thread = threading.Thread(target=work)
    thread.start()
    return thread, seen, enough


def test_the_sleeping_iterator_wakes_up_when_a_session_is_stored_and_ends_with_the_store():
    store = opened(clock=time.time)
    thread, seen, enough = replaying(store)
    long_ago = time.time() - 100
    store.put(SHORT, b"a", now=long_ago)
    store.put_many(LONG, [b"b"], delay=1, now=long_ago)
    session = store.new(SHORT, b"c")
    session.store(5, now=long_ago)
    assert enough.wait(PATIENCE)
    store.close()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert sorted(seen) == [b"a", b"b", b"c"]


def test_the_sleeping_iterator_ends_with_the_store_when_nothing_ever_came():
    store = opened(clock=time.time)
    thread, seen, _ = replaying(store)
    store.close()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert seen == []


def test_an_iterator_that_goes_to_sleep_holds_up_no_checkpoint():
    """One looks for the next session while another writes for all with the lock in its hand."""
    looking, go_on = threading.Event(), threading.Event()

    class Slow(SessionStore):
        def next_due(self) -> int | None:
            looking.set()
            go_on.wait(PATIENCE)
            return super().next_due()

    store = Slow("/srv/slow", topics=[], clock=lambda: float(T0), disk=opened()._engine.disk)
    store.topics = opened().topics
    sleeper = threading.Thread(target=lambda: next(store.replays(), None), daemon=True)
    sleeper.start()
    assert looking.wait(PATIENCE)
    checkpoint = threading.Thread(target=store.snapshot, daemon=True)
    with store._engine.lock:
        work = Work()
        store._engine.do(work, ops.New(SHORT, b"left to the next one who writes"))
        store._engine.submit(work)
    checkpoint.start()
    go_on.set()
    checkpoint.join(PATIENCE)
    assert not checkpoint.is_alive()
    store.close()
    sleeper.join(PATIENCE)
    assert not sleeper.is_alive()


def test_exhausted_sessions_do_not_come_out_of_the_iterator():
    clock = Clock()
    told = []
    store = opened(clock=clock, on_exhausted=told.append)
    store.put(ONCE, b"a")
    store.put(LONG, b"end")
    seen = []
    for session in store.replays(wait=clock.wait):
        seen.append(session.data)
        if session.data == b"end":
            break
        session.store()
    assert seen == [b"a", b"end"]
    assert [record.data for record in told] == [b"a"]
    assert reopened(store).next_due() == T0 + 600
