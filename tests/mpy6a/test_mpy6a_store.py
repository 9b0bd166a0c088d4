"""`SessionStore`: the life of a session, time, topics, refusals."""

from __future__ import annotations

import pytest
from tests.mpy6a.stores import (
    FAR,
    LONG,
    ONCE,
    ROOT,
    SHORT,
    T0,
    TOPICS,
    crashed,
    files_of,
    opened,
    reopened,
    waiting,
)

from flintlog.core.log import Log
from flintlog.dialects.mpy6a.dialect import DIALECT
from flintlog.dialects.mpy6a.layout import Record
from flintlog.dialects.mpy6a.store import SessionStore, StateID, Topic
from flintlog.dialects.mpy6a.store.errors import SessionFinishedError
from flintlog.dialects.mpy6a.store.session import SESSION_BYTES_MAX
from flintlog.disk import Disk
from flintlog.errors import ClosedError, FlintlogError, LockedError, RefusedError, StoppedError, UsageError
from flintlog.testing import Fault, FaultyKernel, MemoryKernel

# A session from its beginning to its end


def test_a_session_is_begun_changed_and_stored_and_comes_back_in_its_time():
    store = opened()
    session = store.new(SHORT, b"one")
    assert (session.id, session.topic, session.attempts, session.replay_time) == (
        StateID(1, 1),
        SHORT,
        0,
        None,
    )
    session.append(b" two")
    assert session.data == b"one two"
    session.replace(b"three")
    session.append(b" four")
    assert session.store(now=T0) == T0 + 30
    assert store.due(T0 + 29.9) == []
    assert store.next_due() == T0 + 30
    (again,) = store.due(T0 + 30)
    assert (again.id, again.topic, again.attempts) == (StateID(1, 1), SHORT, 0)
    assert (again.replay_time, again.data) == (T0 + 30, b"three four")
    assert again.store(now=T0 + 31) == T0 + 61
    (third,) = store.due(T0 + 61)
    assert (third.id, third.attempts, third.data) == (StateID(1, 1), 1, b"three four")
    third.delete()
    assert store.next_due() is None
    assert waiting(reopened(store)) == []


def test_what_is_handed_out_comes_once_and_again_after_a_restart():
    store = opened()
    store.put(SHORT, b"a", now=T0)
    assert waiting(store) == [b"a"]
    assert waiting(store) == []
    store = reopened(store)
    assert waiting(store) == [b"a"]
    assert waiting(crashed(store)) == [b"a"]


def test_a_replayed_session_can_be_changed_and_keeps_that_through_a_crash():
    store = opened()
    store.put(SHORT, b"a", now=T0)
    (session,) = store.due(T0 + 30)
    session.append(b" changed")
    assert session.data == b"a changed"
    store = crashed(store)
    assert [one.replay_time for one in store.sessions()] == [
        T0 + 30
    ]  # it waits, and is not one that never did
    (session,) = store.due(T0 + 30)
    assert (session.data, session.attempts) == (b"a changed", 0)
    session.replace(b"b")
    session.store(now=T0 + 40)
    (session,) = crashed(store).due(T0 + 70)
    assert (session.data, session.attempts) == (b"b", 1)


def test_every_open_session_is_listed_and_found_by_its_id():
    store = opened()
    new = store.new(SHORT, b"new")
    store.put_many(SHORT, [b"a", b"b", b"c"], now=T0)
    handed = store.due(T0 + 30)
    assert [one.last_change for one in (new, *handed)] == [new.id, None, None, None]
    handed[1].append(b" changed")
    changed = store.last
    assert [one.last_change for one in (new, *handed)] == [new.id, None, changed, None]
    store = crashed(store)
    assert [(one.id, one.data, one.last_change, one.replay_time) for one in store.sessions()] == [
        (new.id, b"new", new.id, None),
        (handed[1].id, b"b changed", changed, T0 + 30),
    ]
    found = store.session(handed[1].id)
    assert found is not None
    assert (found.id, found.data, found.stored_data, found.attempts) == (handed[1].id, b"b changed", b"b", 0)
    assert store.session(handed[0].id) is None
    assert store.session(StateID(7, 7)) is None


@pytest.mark.parametrize("looked", [False, True])
@pytest.mark.parametrize("end", ["delete", "store"])
@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_listed_session_that_is_ended_is_not_handed_out(looked, end, at):
    store = opened()
    store.put_many(SHORT, [b"a", b"b", b"c"], now=T0)
    store.due(T0 + 30)[at].append(b" changed")
    store = crashed(store)
    if looked:
        assert store.next_due() == T0 + 30
    (listed,) = store.sessions()
    listed.delete() if end == "delete" else listed.store(now=T0 + 1)
    rest = [data for data in (b"a", b"b", b"c") if data != b"abc"[at : at + 1]]
    again = [] if end == "delete" else [b"abc"[at : at + 1] + b" changed"]
    assert waiting(store) == rest + again
    assert waiting(crashed(store)) == rest + again
    assert store.sessions() == []


@pytest.mark.parametrize("listed_first", [False, True])
def test_a_session_with_two_handles_is_ended_once(listed_first):
    store = opened()
    store.put_many(SHORT, [b"a", b"b"], now=T0)
    store.due(T0 + 30)[0].append(b"!")
    store = crashed(store)
    handles = [store.due(T0 + 30)[0], store.sessions()[0]]
    first, second = reversed(handles) if listed_first else handles
    first.append(b"?")
    assert second.data == b"a!?"
    first.store(now=T0 + 1)
    for call in (second.delete, second.store, lambda: second.append(b"no")):
        with pytest.raises(RefusedError) as caught:
            call()
        assert caught.value.code == "session-finished"
    assert [one.data for one in store.due(T0 + 31)] == [b"a!?"]
    assert waiting(crashed(store)) == [b"b", b"a!?"]


def test_a_batch_with_a_session_that_was_ended_is_refused_and_nothing_is_done_twice():
    store = opened()
    store.put_many(SHORT, [b"a", b"b"], now=T0)
    store.due(T0 + 30)[0].append(b"!")
    store = crashed(store)
    batch = store.due_batch(T0 + 30)
    store.sessions()[0].delete()
    with pytest.raises(RefusedError) as caught:
        batch.store(now=T0 + 40)
    assert caught.value.code == "session-finished"
    assert waiting(crashed(store)) == [b"b"]


def test_open_sessions_are_taken_up_again():
    store = opened()
    store.new(SHORT, b"first")
    second = store.new(LONG, b"second")
    second.append(b"!")
    store = crashed(store)
    first, second = store.sessions()
    assert [(one.id, one.topic, one.data) for one in (first, second)] == [
        (StateID(1, 1), SHORT, b"first"),
        (StateID(1, 2), LONG, b"second!"),
    ]
    first.delete()
    second.store(now=T0)
    assert store.sessions() == []
    assert waiting(crashed(store)) == [b"second!"]


def test_put_and_put_many_take_ids_like_any_operation():
    store = opened()
    created = store.put(SHORT, b"a", now=T0)
    (ids,) = store.put_many(SHORT, [b"b", b"c", b"d"], now=T0)
    assert list(ids) == [created.following(1), created.following(2), created.following(3)]
    assert (ids[-1], ids[1:]) == (created.following(3), [created.following(2), created.following(3)])
    assert store.put_many(SHORT, [], now=T0) == []
    assert [session.id for session in store.due(FAR)] == [created, *ids]
    assert store.last > ids[-1]


def test_a_batch_larger_than_one_operation_comes_back_whole():
    store = opened()
    items = [b"%07d" % number + bytes(1 << 20) for number in range(9)]
    ranges = store.put_many(SHORT, items, now=T0)
    assert len(ranges) > 1 and sum(map(len, ranges)) == len(items)
    assert len({one for ids in ranges for one in ids}) == len(items)
    assert waiting(crashed(store)) == items


def test_a_delay_of_the_call_counts_more_than_that_of_the_topic():
    store = opened()
    store.put(SHORT, b"a", delay=5, now=T0)
    store.put_many(SHORT, [b"b"], delay=7, now=T0)
    assert store.new(SHORT, b"c").store(6, now=T0) == T0 + 6
    assert [(one.replay_time, one.data) for one in store.due(FAR)] == [
        (T0 + 5, b"a"),
        (T0 + 6, b"c"),
        (T0 + 7, b"b"),
    ]


# Order


def test_sessions_come_by_time_and_of_equal_times_the_longer_delay_first_then_in_file_order():
    store = opened(file_bytes=100)
    for number in range(3):
        store.put(SHORT, b"short %d" % number, delay=10, now=T0 + 50)
        store.put(SHORT, b"long %d" % number, delay=60, now=T0)
        store.put(SHORT, b"middle %d" % number, delay=20, now=T0 + 40)
    store.put(SHORT, b"first", delay=5, now=T0)
    store.put(SHORT, b"last", delay=5, now=T0 + 56)
    expected = [
        b"first",
        *(b"%s %d" % (what, number) for what in (b"long", b"middle", b"short") for number in range(3)),
        b"last",
    ]
    one_by_one = []
    while sessions := store.due(FAR, 1):
        one_by_one += [session.data for session in sessions]
    assert one_by_one == expected
    for limit in (2, 3, 5, 100):
        store = reopened(store)
        found = []
        while sessions := store.due(FAR, limit):
            assert len(sessions) <= limit
            found += [session.data for session in sessions]
        assert found == expected


def test_a_clock_that_goes_back_keeps_the_order_and_lets_nobody_wait_for_less():
    store = opened(file_bytes=100)
    store.put(SHORT, b"a", now=T0 + 100)
    store.put(SHORT, b"b", now=T0)
    assert store.new(SHORT, b"c").store(now=T0 + 50) == T0 + 130
    store.rotate(30, now=T0)
    store.put(SHORT, b"d", now=T0 + 1)
    assert waiting(store, T0 + 129) == []
    assert waiting(store, T0 + 130) == [b"a", b"b", b"c", b"d"]
    assert waiting(crashed(store), T0 + 130) == [b"a", b"b", b"c", b"d"]


def test_parts_of_seconds_never_let_a_session_come_early():
    store = opened()
    store.put(SHORT, b"a", now=T0 + 0.2)
    assert store.next_due() == T0 + 31
    assert waiting(store, T0 + 30.9) == []
    assert waiting(store, T0 + 31.0) == [b"a"]


# Time and topics


def test_time_comes_from_the_clock_or_from_what_was_told():
    now = [float(T0)]
    store = opened(clock=lambda: now[0])
    store.put(SHORT, b"a")
    assert store.due() == []
    now[0] += 30
    assert waiting(store, store._times.now()) == [b"a"]
    store = opened()
    store.tick(T0)
    store.put(SHORT, b"a")
    store.tick(T0 + 30)
    (session,) = store.due()
    assert session.store() == T0 + 60


def test_a_store_that_was_not_told_the_time_says_so_and_goes_on():
    store = opened()
    session = store.new(SHORT, b"open")
    calls = [
        lambda: store.put(SHORT, b"a"),
        lambda: store.put_many(SHORT, [b"a"]),
        session.store,
        store.due,
        lambda: next(store.replays()),
        lambda: store.rotate(30) if store.put(SHORT, b"x") else None,
    ]
    for call in calls:
        with pytest.raises(UsageError) as caught:
            call()
        assert caught.value.code == "time-unknown"
    store.put(SHORT, b"b", now=T0)
    assert waiting(crashed(store)) == [b"b"]


@pytest.mark.parametrize("now", [0, -1, float("nan"), float("inf"), 1 << 60, "now", b"1", [1]])
def test_what_is_no_time_is_refused_and_changes_nothing(now):
    store = opened()
    store.put_many(SHORT, [b"a", b"b"], now=T0)
    found = store.due_batch(T0 + 30)
    for call in (
        lambda: store.put(SHORT, b"x", delay=77, now=now),
        lambda: store.put_many(SHORT, [b"x"], delay=78, now=now),
        lambda: store.due(now),
        lambda: store.tick(now),
        lambda: found.finish([True, False], delay=79, now=now),
    ):
        with pytest.raises(UsageError):
            call()
    found.finish([True, False], now=T0 + 31)
    assert waiting(crashed(store)) == [b"b"]


@pytest.mark.parametrize("delay", [0, -5, 1 << 32, 1.5, 30.0, "30", None])
def test_delays_that_no_file_can_have_are_refused(delay):
    with pytest.raises(UsageError):
        Topic(9, delay)
    if delay is not None:
        store = opened()
        for call in (
            lambda: store.put(SHORT, b"x", delay=delay, now=T0),
            lambda: store.put_many(SHORT, [b"x"], delay=delay, now=T0),
            lambda: store.new(SHORT).store(delay, now=T0),
        ):
            with pytest.raises(UsageError):
                call()
        assert waiting(crashed(store)) == []


@pytest.mark.parametrize("number", [1 << 31, -(1 << 31) - 1, 1.0, "1", None])
def test_topics_that_no_record_can_have_are_refused(number):
    with pytest.raises(UsageError):
        Topic(number, 30)


@pytest.mark.parametrize("most", [0, -1, 1.5, "2"])
def test_a_topic_is_replayed_at_least_once(most):
    with pytest.raises(UsageError):
        Topic(1, 30, most)


def test_a_topic_that_nobody_named_is_refused_by_name():
    store = opened()
    for call in (
        lambda: store.new(7),
        lambda: store.put(7, b"", now=T0),
        lambda: store.put_many(7, [b""], now=T0),
        lambda: store.put("mail", b"", now=T0),
    ):
        with pytest.raises(
            UsageError, match=r"there is no topic .*Known: 1, 2, 3\. Name it in `topics`"
        ) as caught:
            call()
        assert caught.value.code == "topic-unknown"


def test_sessions_of_a_topic_that_is_gone_can_still_be_ended():
    store = opened()
    store.put_many(SHORT, [b"a", b"b", b"c"], now=T0)
    store = reopened(store, topics=())
    first, second, third = store.due(T0 + 30)
    with pytest.raises(UsageError, match="there is no topic 1"):
        first.store(now=T0 + 31)
    first.store(99, now=T0 + 31)
    second.delete()
    with pytest.raises(UsageError, match="there is no topic 1"):
        third.store(now=T0 + 31)
    assert waiting(crashed(store)) == [b"c", b"a"]


# Exhausted sessions


def test_what_was_replayed_too_often_is_told_set_aside_and_kept():
    told = []
    store = opened(on_exhausted=told.append)
    store.put(ONCE, b"tried", now=T0)
    store.put(SHORT, b"other", now=T0 + 40)
    (session,) = store.due(T0 + 30)
    session.append(b" hard")
    session.store(now=T0 + 40)
    (other,) = store.due(T0 + 70)
    assert other.data == b"other"
    assert [(record.id, record.attempts, record.data) for record in told] == [(session.id, 1, b"tried hard")]
    assert list(store.exhausted()) == told
    other.delete()
    store = crashed(store)
    assert [record.data for record in store.exhausted()] == [b"tried hard"]
    assert waiting(store) == []


def test_when_all_that_is_due_is_exhausted_the_next_ones_are_looked_for():
    told = []
    store = opened(on_exhausted=told.append)
    store.put_many(ONCE, [b"%d" % number for number in range(5)], now=T0)
    store.due_batch(T0 + 30).store(now=T0 + 30)
    store.put(SHORT, b"good", now=T0 + 40)
    assert [session.data for session in store.due(T0 + 100, limit=2)] == [b"good"]
    assert len(told) == 5


def test_without_a_callback_a_warning_is_logged(caplog):
    store = opened()
    store.put(ONCE, b"a", now=T0)
    store.due(T0 + 30)[0].store(now=T0 + 30)
    assert store.due(FAR) == []
    assert "was replayed 1 times and is set aside" in caplog.text


def test_a_callback_that_fails_costs_nobody_a_session(caplog):
    def fail(record):
        raise KeyError(record.data)

    store = opened(on_exhausted=fail)
    store.put_many(ONCE, [b"a", b"b"], now=T0)
    store.due_batch(T0 + 30).store(now=T0 + 30)
    store.put(SHORT, b"good", now=T0 + 30)
    assert [session.data for session in store.due(FAR)] == [b"good"]
    assert [record.data for record in store.exhausted()] == [b"a", b"b"]
    assert "KeyError" in caplog.text


# Refusals


def test_a_session_is_ended_once():
    store = opened()
    new = store.new(SHORT)
    new.store(now=T0)
    (due,) = store.due(FAR)
    due.delete()
    for session in (new, due):
        for call in (
            session.delete,
            lambda one=session: one.store(now=T0),
            lambda one=session: one.append(b"x"),
        ):
            with pytest.raises(RefusedError) as caught:
                call()
            assert caught.value.code == "session-finished"
    assert waiting(crashed(store)) == []


def test_many_sessions_are_ended_once():
    store = opened()
    store.put_many(SHORT, [b"a", b"b"], now=T0)
    found = store.due_batch(T0 + 30)
    with pytest.raises(UsageError, match="give one answer for each of 2 sessions, not 1"):
        found.finish([True])
    found.delete()
    with pytest.raises(RefusedError) as caught:
        found.store(now=T0)
    assert caught.value.code == "session-finished"


def test_leading_on_hands_nothing_out_twice():
    store = opened()
    store.put(SHORT, b"a", now=T0)
    (session,) = store.due(T0 + 30)
    store.lead(store.last.term + 1)
    assert store.due(T0 + 30) == []
    session.store(delay=99, now=T0 + 31)
    assert waiting(crashed(store)) == [b"a"]
    assert store.last.term == 2
    for term in (1, 0, -1, 1 << 64):
        with pytest.raises(RefusedError):
            store.lead(term)


@pytest.mark.parametrize(
    "data", ["text", 5, None, [1], memoryview(b"abcd").cast("I")], ids=lambda data: type(data).__name__
)
def test_what_is_not_bytes_is_refused_and_changes_nothing(data):
    store = opened()
    session = store.new(SHORT, b"a")
    for call in (
        lambda: store.new(SHORT, data),
        lambda: store.put(SHORT, data, delay=77, now=T0),
        lambda: session.append(data),
        lambda: session.replace(data),
    ):
        with pytest.raises(UsageError, match="byte"):
            call()
    store.put(SHORT, b"b", delay=77, now=T0)
    store = crashed(store)
    assert [one.data for one in store.sessions()] == [b"a"]
    assert waiting(store) == [b"b"]


def test_bytes_like_data_is_copied():
    store = opened()
    data = bytearray(b"abc")
    store.put(SHORT, data, now=T0)
    session = store.new(SHORT, memoryview(data))
    session.append(data)
    data[:] = b"xyz"
    assert session.data == b"abcabc"
    assert waiting(store) == [b"abc"]


def test_a_session_that_is_too_long_is_refused():
    store = opened()
    huge = bytes(SESSION_BYTES_MAX + 1)
    session = store.new(SHORT, huge[:-1])
    for call in (
        lambda: store.new(SHORT, huge),
        lambda: store.put(SHORT, huge, now=T0),
        lambda: store.put_many(SHORT, [b"", huge], now=T0),
        lambda: session.append(b"x"),
        lambda: session.replace(huge),
    ):
        with pytest.raises(RefusedError) as caught:
            call()
        assert caught.value.code == "session-too-long"
    session.store(now=T0)
    assert [len(data) for data in waiting(crashed(store))] == [SESSION_BYTES_MAX]


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_that_gives_nothing_is_refused(limit):
    with pytest.raises(UsageError, match="must be at least 1"):
        opened().due(T0, limit)


def test_a_second_writer_is_refused():
    store = opened()
    with pytest.raises(LockedError):
        opened(store._engine.disk)
    store.close()
    opened(store._engine.disk).close()


def test_a_closed_store_says_so():
    store = opened()
    session = store.new(SHORT)
    store.put(SHORT, b"a", now=T0)
    store.close()
    store.close()
    for call in (
        lambda: store.new(SHORT),
        lambda: store.put(SHORT, b"", now=T0),
        lambda: store.due(T0),
        store.next_due,
        store.snapshot,
        store.compact,
        session.delete,
        lambda: list(store.catch_up(store.progress())),
    ):
        with pytest.raises(ClosedError):
            call()


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("kind", ["EIO", "ENOSPC", "full"])
def test_after_a_failed_write_nothing_more_is_taken(strict, kind):
    kernel = FaultyKernel(MemoryKernel())
    store = opened(Disk(kernel), strict=strict)
    store.put(SHORT, b"a", now=T0)
    kernel._fault = Fault(next(at for at in range(len(kernel.calls) + 1, len(kernel.calls) + 2)), kind)
    with pytest.raises(FlintlogError):
        store.put(SHORT, b"b", now=T0)
        store.put(SHORT, b"c", now=T0)
    kernel.heal()
    for call in (lambda: store.put(SHORT, b"d", now=T0), lambda: store.new(SHORT), lambda: store.due(FAR)):
        with pytest.raises(StoppedError):
            call()
    store.close()
    assert waiting(opened(Disk(kernel), strict=strict))[:1] == [b"a"]


def test_a_directory_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "here").write_bytes(b"")
    with pytest.raises(FlintlogError):
        SessionStore(tmp_path / "here", topics=TOPICS)


def test_sessions_say_who_they_are():
    store = opened()
    assert repr(store.new(SHORT)) == "<Session (1, 1) topic=1 attempts=0>"
    assert store.path == ROOT


# Calls that come twice


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("first", ["delete", "store"])
@pytest.mark.parametrize("second", ["delete", "store", "append", "replace"])
def test_a_session_that_is_ended_refuses_every_further_call_and_nothing_changes(strict, first, second):
    store = opened(strict=strict)
    store.put_many(SHORT, [b"one", b"two"], now=T0)
    opened_session = store.new(SHORT, b"open")
    for session in (*store.due(T0 + 30), opened_session):
        getattr(session, first)(**({"now": T0 + 31} if first == "store" else {}))
        before, last = files_of(store), store.last
        arguments = (b"more",) if second in ("append", "replace") else ()
        with pytest.raises(SessionFinishedError):
            getattr(session, second)(*arguments, **({"now": T0 + 32} if second == "store" else {}))
        assert (files_of(store), store.last) == (before, last)
    expected = [] if first == "delete" else [b"one", b"two", b"open"]
    assert sorted(waiting(reopened(store, strict=strict))) == sorted(expected)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("again", ["finish", "delete", "store"])
def test_sessions_that_were_ended_together_are_not_ended_again(strict, again):
    store = opened(strict=strict)
    store.put_many(SHORT, [b"one", b"two"], now=T0)
    batch = store.due_batch(T0 + 30)
    batch.finish([True, False], now=T0 + 31)
    before, last = files_of(store), store.last
    with pytest.raises(SessionFinishedError):
        if again == "finish":
            batch.finish([False, True], now=T0 + 32)
        else:
            getattr(batch, again)()
    assert (files_of(store), store.last) == (before, last)
    assert waiting(reopened(store, strict=strict)) == [b"two"]


# Replayed too often, with the note's files alone


def test_a_strict_store_hands_what_was_replayed_too_often_to_its_callback_and_writes_no_file():
    told: list[bytes] = []
    store = opened(strict=True, on_exhausted=lambda record: told.append(record.data))
    store.put_many(ONCE, [b"a", b"b"], now=T0)
    store.put(SHORT, b"c", now=T0)
    for session in store.due(T0 + 30):
        session.store(now=T0 + 31)
    assert waiting(store) == [b"c"]
    assert told == [b"a", b"b"]
    store = crashed(store, strict=True)
    assert waiting(store) == [b"c"]
    assert list(store.exhausted()) == []
    assert "exhausted.sessions" not in files_of(store)


def test_what_a_callback_of_a_strict_store_fails_for_comes_again():
    def fails(record: Record) -> None:
        if record.data == b"a":
            raise ValueError("nobody is there")

    store = opened(strict=True, on_exhausted=fails)
    store.put_many(ONCE, [b"a", b"b"], now=T0)
    store.due_batch(T0 + 30).store(now=T0 + 31)
    assert waiting(store) == []
    told: list[bytes] = []
    store = crashed(store, strict=True, on_exhausted=lambda record: told.append(record.data))
    assert waiting(store) == []
    assert told[0] == b"a"
    assert waiting(crashed(store, strict=True)) == []


def test_a_strict_store_that_nobody_takes_the_exhausted_from_is_refused():
    disk = Disk(MemoryKernel())
    with pytest.raises(UsageError, match="no file for sessions") as caught:
        SessionStore(ROOT, topics=[Topic(ONCE, 30, 1)], strict=True, disk=disk)
    assert "on_exhausted" in (caught.value.advice or "")
    assert disk.stat(ROOT) is None


def test_a_session_of_another_store_is_refused(tmp_path):
    with (
        SessionStore(tmp_path / "a", topics=TOPICS) as one,
        SessionStore(tmp_path / "b", topics=TOPICS) as other,
    ):
        for store in (one, other):
            store.put_many(SHORT, [b"first", b"second"], now=T0)
        [session] = one.due(now=T0 + 10**6, limit=1)
        for act in (other.delete, other.store):
            with pytest.raises(UsageError, match="another store"):
                act(session)
        assert len(other.due(now=T0 + 10**6)) == 2
        session.delete()


def test_a_clock_that_begins_at_a_small_number_is_as_good_as_any(tmp_path):
    topics = [Topic(3, 5, attempts_max=1)]
    with SessionStore(tmp_path, topics=topics) as store:
        store.put(3, b"x", now=1000)
        [session] = store.due(now=1010)
        session.store(now=1010)
        assert store.due(now=1020) == []
    assert Log(DIALECT, Disk(), str(tmp_path)).verify().verdict == "clean"
    with SessionStore(tmp_path, topics=topics) as store:
        assert [record.data for record in store.exhausted()] == [b"x"]


@pytest.mark.parametrize("delay", [True, 0, 1.5, "30"])
def test_what_is_no_delay_is_refused(delay):
    with pytest.raises(UsageError, match="a delay cannot have"):
        opened().put(SHORT, b"x", delay=delay, now=T0)
