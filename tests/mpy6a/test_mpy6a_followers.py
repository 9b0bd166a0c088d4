"""Two stores that are fed the same operations hold the same bytes, however the operations came."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from tests.mpy6a.stores import (
    FAR,
    LONG,
    ONCE,
    SHORT,
    T0,
    TOPICS,
    crashed,
    files_of,
    names_of,
    opened,
    reopened,
    waiting,
)

from flintlog.dialects.mpy6a import layout as lay
from flintlog.dialects.mpy6a import operations as ops
from flintlog.dialects.mpy6a.operations import Place
from flintlog.dialects.mpy6a.store import Operations, Session, SessionStore, StateID
from flintlog.dialects.mpy6a.store.errors import GapError
from flintlog.dialects.mpy6a.store.following import Ahead, Shipped
from flintlog.disk import Disk
from flintlog.errors import FlintlogError, RefusedError
from flintlog.testing import MemoryKernel

LOGS = ("operations.log", "state.log", "state.snapshot")


class Application:
    """Does anything that a leader can be asked for, at random."""

    def __init__(self, store: SessionStore, seed: int) -> None:
        self.store = store
        self.random = random.Random(seed)
        self.now = T0
        self.held: list[Session] = []

    def step(self) -> None:
        self.now += self.random.choice((0, 0, 1, 5, 40, 3000))
        topic = self.random.choice((SHORT, LONG, ONCE))
        delay = self.random.choice((None, None, 30, 45))
        match self.random.randrange(12):
            case 0:
                self.held.append(self.store.new(topic, self.data()))
            case 1:
                self.store.put(topic, self.data(), delay=delay, now=self.now)
            case 2:
                items = [self.data() for _ in range(self.random.randrange(6))]
                self.store.put_many(topic, items, delay=delay, now=self.now)
            case 3 | 4:
                self.held += self.store.due(self.now, self.random.choice((1, 3, 50)))
            case 5:
                found = self.store.due_batch(self.now, self.random.choice((1, 3, 50)))
                done = [self.random.random() < 0.6 for _ in range(len(found))]
                found.finish(done, delay=delay, now=self.now)
            case 6 | 7 | 8 if self.held:
                self.end(self.held.pop(self.random.randrange(len(self.held))), delay)
            case 9 if self.held:
                session = self.random.choice(self.held)
                (session.append if self.random.random() < 0.6 else session.replace)(self.data())
            case 10 if self.random.random() < 0.3:
                self.store.rotate(30, now=self.now)
            case 11 if self.random.random() < 0.2:
                self.store.lead(self.store.last.term + 1)

    def end(self, session: Session, delay: int | None) -> None:
        if self.random.random() < 0.5:
            session.delete()
        else:
            session.store(delay, now=self.now)

    def data(self) -> bytes:
        return self.random.randbytes(self.random.randrange(40))


def led(seed: int, **options) -> Application:
    return Application(opened(on_exhausted=lambda record: None, file_bytes=300, **options), seed)


def fed(follower: SessionStore, leader: SessionStore) -> None:
    follower.receive(leader.catch_up(follower.progress()))


def assert_equal(first: SessionStore, second: SessionStore) -> None:
    """All files, byte for byte; the logs when both have begun them anew, which each may at any time."""
    assert first.last == second.last
    for store in (first, second):
        store._engine.drain()
    mine, theirs = files_of(first), files_of(second)
    data = {name: content for name, content in mine.items() if name not in LOGS}
    assert data == {name: content for name, content in theirs.items() if name not in LOGS}
    first.snapshot()
    second.snapshot()
    assert files_of(first) == files_of(second)


# Operation by operation


@pytest.mark.parametrize("seed", range(12))
def test_a_follower_fed_with_every_operation_holds_the_same_bytes(seed):
    application = led(seed)
    leader = application.store
    follower = opened(follower=True)
    fed(follower, leader)
    for number in range(150):
        application.step()
        for item in leader.catch_up(follower.progress()):
            assert isinstance(item, Operations)
            follower.apply(item)
        if number % 50 == 30:
            follower = reopened(follower, follower=True) if seed % 2 else crashed(follower, follower=True)
    assert_equal(leader, follower)


@pytest.mark.parametrize("seed", range(6))
def test_logs_without_a_restart_are_equal_too(seed):
    application = led(seed, reserve_bytes=0)
    follower = opened(follower=True, reserve_bytes=0)
    for _ in range(100):
        application.step()
        application.store._engine.drain()
        fed(follower, application.store)
    assert files_of(application.store) == files_of(follower)


@pytest.mark.parametrize("seed", range(6))
def test_a_strict_follower_holds_the_same_notes_files(seed):
    application = led(seed)
    follower = opened(follower=True, strict=True)
    for _ in range(100):
        application.step()
        application.store._engine.drain()
        fed(follower, application.store)
    mine, theirs = files_of(application.store), files_of(follower)
    assert {name: data for name, data in mine.items() if name.endswith(".data")} == {
        name: data for name, data in theirs.items() if name.endswith(".data")
    }
    header = lay.LOG_HEADER_SIZE  # it says whether an operation log stands beside
    assert mine["state.log"][header:] == theirs["state.log"][header:]


# Catching up


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("compacts", [False, True])
def test_a_store_catches_up_from_every_earlier_state(seed, compacts):
    """Copies of a follower are left behind at every step, across checkpoints, merges and restarts of the leader."""
    application = led(100 + seed)
    leader = application.store
    follower = opened(follower=True)
    left_behind = [opened(follower=True)]
    for number in range(90):
        application.step()
        leader._engine.drain()
        fed(follower, leader)
        left_behind.append(copied(follower))
        if number % 20 == 13:
            leader.snapshot()
        if number % 30 == 25:
            application.store = leader = reopened(leader, file_bytes=300, on_exhausted=lambda record: None)
            application.held.clear()
            if compacts:
                leader._file_bytes = 2000
                leader.compact()
                leader._file_bytes = 300
    leader._engine.drain()
    for behind in left_behind:
        fed(behind, leader)
        assert behind.last == leader.last
        assert_same_sessions(behind, leader)
        assert_equal(behind, leader)


def copied(store: SessionStore) -> SessionStore:
    kernel = store._engine.disk.kernel
    assert isinstance(kernel, MemoryKernel)
    return opened(Disk(MemoryKernel(kernel.visible())), follower=True)


def assert_same_sessions(first: SessionStore, second: SessionStore) -> None:
    shown = []
    for store in (first, second):
        leading = copied(store)
        leading.topics = {}
        leading.lead(leading.last.term + 1)
        shown.append(
            (
                [(one.id, one.topic, one.data) for one in leading.sessions()],
                [(one.id, one.replay_time, one.attempts, one.data) for one in leading.due(FAR, 100_000)],
                list(leading.exhausted()),
            )
        )
    assert shown[0] == shown[1]


@pytest.mark.parametrize("empty", [False, True])
def test_a_name_that_two_stores_gave_out_is_another_file_for_the_one_that_follows(empty):
    alone = opened(file_bytes=10)
    alone.put(SHORT, b"of another history", now=T0)
    alone.put(SHORT, b"of another history too", now=T0)
    follower = reopened(alone, follower=True)
    leader = opened(file_bytes=10, term=2)
    leader.put(SHORT, b"first", now=T0)
    second = [] if empty else [b"second, in a file with a name that the follower has"]
    if empty:
        leader.rotate(30, now=T0)
    else:
        leader.put_many(SHORT, second, now=T0)
    assert names_of(follower) == names_of(leader)
    leader.snapshot()
    fed(follower, leader)
    assert_equal(follower, leader)
    assert waiting_of(follower) == [b"first", *second]
    assert waiting_of(crashed(follower, follower=True)) == waiting_of(follower)


def waiting_of(follower: SessionStore) -> list[bytes]:
    other = copied(follower)
    other.lead(other.last.term)
    return waiting(other)


def test_a_file_that_was_merged_twice_is_told_from_the_one_that_it_was():
    """Two merges can give a file the name that its first part had."""
    leader = opened(file_bytes=70)
    follower = opened(follower=True)
    for number in range(9):
        leader.put(SHORT, b"%02d some data" % number, now=T0 + number)
    leader.snapshot()
    fed(follower, leader)
    for count in (3, 2):
        for session in leader.due(FAR, count):
            session.delete()
        leader = reopened(leader, file_bytes=1000)
        leader.compact()
    fed(follower, leader)
    assert_equal(follower, leader)
    assert waiting_of(follower) == [b"%02d some data" % number for number in range(5, 9)]


def test_a_catch_up_that_is_interrupted_leaves_the_store_as_it_was_and_is_begun_again():
    leader = opened(file_bytes=100)
    follower = opened(follower=True)
    for number in range(5):
        leader.put(SHORT, b"%d" % number * 30, now=T0)
    leader.snapshot()
    fed(follower, leader)
    for number in range(5, 12):
        leader.put(SHORT, b"%d" % number * 30, now=T0)
        leader.put(LONG, b"%d" % number * 30, now=T0)
    leader.new(SHORT, b"open")
    leader.snapshot()
    items = list(leader.catch_up(follower.progress()))
    assert len(items) > 5
    before, last = files_of(follower), follower.last
    for count in range(len(items)):

        def some(count: int = count):
            yield from items[:count]
            raise ConnectionError("the leader is gone")

        with pytest.raises(ConnectionError):
            follower.receive(some())
        assert follower.last == last
        assert files_of(follower) == before
        assert waiting_of(follower) == waiting_of(crashed(follower, follower=True))
    follower.receive(items)
    assert_equal(follower, leader)


def test_a_strict_follower_takes_the_same_items_after_it_was_interrupted():
    """A file that is gone on with is copied under its name, and the follower's own makes way until the end."""

    def data(store: SessionStore) -> dict[str, bytes]:
        return {name: content for name, content in files_of(store).items() if name.endswith(".data")}

    leader, follower = opened(file_bytes=100), opened(follower=True, strict=True)
    leader.put(SHORT, b"first", now=T0)
    leader.snapshot()
    fed(follower, leader)
    for number in range(5):
        leader.put(SHORT, b"%d" % number * 30, now=T0)
    leader.snapshot()
    items = list(leader.catch_up(follower.progress()))
    before = data(follower)
    for count in range(len(items)):
        follower.receive(items[:count])
        assert data(follower) == before
        assert data(crashed(follower, follower=True, strict=True)) == before
    for _ in range(2):
        follower.receive(items)
        assert (follower.last, data(follower)) == (leader.last, data(leader))


def test_a_catch_up_holds_its_moment_while_the_leader_goes_on():
    leader = opened(file_bytes=100)
    for number in range(6):
        leader.put(SHORT, b"%d" % number * 30, now=T0)
    leader.snapshot()
    follower = opened(follower=True)
    items = leader.catch_up(follower.progress())
    received = [next(items)]
    for session in leader.due(FAR):
        session.delete()
    leader.put(SHORT, b"later", now=FAR)
    follower.receive([*received, *items])
    assert len(waiting_of(follower)) == 6
    fed(follower, leader)
    assert_equal(follower, leader)


# Operations that do not fit


def three_operations() -> tuple[SessionStore, list[Operations]]:
    leader = opened()
    found = []
    after = leader.last
    for data in (b"a", b"b", b"c"):
        leader.put(SHORT, data, now=T0)
        (item,) = leader.catch_up(leader.progress()._replace(last=after))
        found.append(item)
        after = leader.last
    return leader, found


def test_operations_that_are_there_already_are_left_out():
    leader, operations = three_operations()
    follower = opened(follower=True)
    for item in (operations[0], operations[0], operations[1], operations[0], operations[2], operations[1]):
        follower.apply(item)
    assert_equal(follower, leader)


def test_operations_that_are_missing_are_noticed():
    leader, operations = three_operations()
    follower = opened(follower=True)
    with pytest.raises(RefusedError) as caught:
        follower.apply(operations[1])
    assert caught.value.code == "gap"
    follower.apply(operations[0])
    with pytest.raises(RefusedError) as caught:
        follower.apply(operations[2])
    assert caught.value.code == "gap"
    hole = Operations(operations[0].after, (*operations[0].events, *operations[2].events))
    with pytest.raises(RefusedError) as caught:
        follower.apply(hole)
    assert caught.value.code == "gap"
    follower.apply(operations[1])
    follower.apply(operations[2])
    assert_equal(follower, leader)


def test_operations_in_the_wrong_order_are_noticed_and_none_is_lost():
    leader, operations = three_operations()
    follower = opened(follower=True)
    events = [event for item in operations for event in item.events]
    with pytest.raises(RefusedError) as caught:
        follower.apply(Operations(operations[0].after, tuple(reversed(events))))
    assert caught.value.code == "gap"
    follower.apply(Operations(operations[0].after, tuple(events)))
    assert_equal(follower, leader)
    assert waiting_of(crashed(follower, follower=True)) == [b"a", b"b", b"c"]


def test_a_damaged_operation_is_refused_with_all_that_came_beside_it():
    leader, operations = three_operations()
    follower = opened(follower=True)
    events = [event for item in operations for event in item.events]
    for bit in range(0, len(events[-1]) * 8, 5):
        changed = bytearray(events[-1])
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(RefusedError, match="damaged"):
            follower.apply(Operations(operations[0].after, (*events[:-1], bytes(changed))))
        assert follower.last == operations[0].after
    for end in range(len(events[0])):
        with pytest.raises(RefusedError, match="damaged"):
            follower.apply(Operations(operations[0].after, (events[0][:end],)))
    follower.apply(Operations(operations[0].after, tuple(events)))
    assert_equal(follower, leader)
    assert waiting_of(crashed(follower, follower=True)) == [b"a", b"b", b"c"]


def test_another_history_is_refused():
    leader, _ = three_operations()
    other = opened()
    for data in (b"x", b"y", b"z"):
        other.new(SHORT, data)
    other = reopened(other, follower=True)
    before = files_of(other)
    (item,) = leader.catch_up(leader.progress()._replace(last=other.last))
    with pytest.raises(RefusedError, match="different histories"):
        other.apply(item)
    assert files_of(other) == before
    assert [session.data for session in other.sessions()] == [b"x", b"y", b"z"]


@pytest.mark.parametrize(
    "call",
    [
        lambda store: store.new(SHORT),
        lambda store: store.put(SHORT, b"", now=T0),
        lambda store: store.put_many(SHORT, [b""], now=T0),
        lambda store: store.due(T0),
        lambda store: store.rotate(30, now=T0),
        lambda store: store.compact(),
    ],
)
def test_a_follower_takes_nothing_from_the_application(call: Callable[[SessionStore], object]):
    follower = opened(follower=True)
    with pytest.raises(RefusedError) as caught:
        call(follower)
    assert caught.value.code == "not-leading"
    leader = opened()
    with pytest.raises(RefusedError) as caught:
        leader.apply(Operations(leader.last, ()))
    assert caught.value.code == "not-leading"
    with pytest.raises(RefusedError):
        leader.receive([])


def test_a_follower_leads_when_it_is_told_to():
    leader, operations = three_operations()
    follower = opened(follower=True)
    for item in operations:
        follower.apply(item)
    leader.new(SHORT, b"lost with the leader")
    follower.lead(2)
    assert waiting(follower) == [b"a", b"b", b"c"]
    assert follower.put(SHORT, b"d", now=FAR) == StateID(2, 2)
    with pytest.raises(FlintlogError):
        follower.lead(1)


def test_a_follower_whose_clock_is_behind_keeps_the_order_of_time_when_it_leads():
    leader = opened()
    leader.put(SHORT, b"a", now=T0)
    leader.put(SHORT, b"b", now=T0 + 1000)
    leader.snapshot()
    follower = opened(follower=True)
    fed(follower, leader)  # by its files
    follower.lead(2)
    follower.put(SHORT, b"c", now=T0 + 5)
    assert follower.next_due() == T0 + 30
    store = crashed(follower)
    assert [(one.replay_time, one.data) for one in store.due(FAR)] == [
        (T0 + 30, b"a"),
        (T0 + 1030, b"b"),
        (T0 + 1030, b"c"),
    ]


@pytest.mark.parametrize("name", ["../outside.data", "/etc/30@2023111422.data", "state.log", "notes.txt"])
def test_names_that_arrive_are_looked_at(name):
    follower = opened(follower=True)
    before = files_of(follower)
    with pytest.raises(RefusedError, match="is not the name of a data file"):
        follower.receive([Ahead(StateID(9, 9)), Shipped(name, 0, b"x")])
    assert files_of(follower) == before


# All or nothing


def _written_by(*operations: tuple[StateID, ops.Operation]) -> tuple[bytes, ...]:
    return tuple(bytes(ops.encode(state_id, operation)) for state_id, operation in operations)


def _record(number: int, due: int = T0 + 30) -> bytes:
    return lay.encode_record(lay.Record(due, StateID(1, number), SHORT, 0, b"some data"))


CREATED = (StateID(1, 1), lay.Create(30, T0))
PUT = (StateID(1, 2), ops.Put(30, 1, _record(2)))


@pytest.mark.parametrize(
    "last",
    [
        (StateID(1, 3), ops.Put(60, 1, _record(3, T0 + 60))),
        (StateID(1, 3), ops.Drop(StateID(1, 9))),
        (StateID(1, 3), lay.Shift("30@2023111422.data", 1000)),
        (StateID(1, 3), lay.Create(30, T0)),
        (StateID(1, 3), ops.Put(30, 1, _record(3, T0 + 29))),
        (StateID(1, 4), ops.Put(30, 1, _record(4))),
        (StateID(1, 3), ops.Put(30, 0, b"")),
        (StateID(1, 3), ops.Put(30, 0, _record(3))),
        (StateID(1, 3), ops.Put(30, 2, _record(3) + _record(4)[:-1])),
        (StateID(1, 3), ops.Put(30, 1, _record(3) + _record(4))),
        (StateID(1, 3), ops.Put(30, 2, _record(3) + _record(4, T0 + 31))),
        (StateID(1, 3), ops.Put(30, 1, bytes(40))),
        (StateID(1, 3), ops.Again(Place("30@2023111422.data", 0, 39), 30, b"")),
        (StateID(1, 3), ops.Take(Place("30@2023111422.data", 0, 39), b"short")),
        (StateID(1, 3), ops.Exhaust(Place("30@2023111422.data", 0, 39), b"")),
        (StateID(1, 3), ops.Finish(Place("30@2023111422.data", 0, 40))),
    ],
    ids=lambda last: type(last[1]).__name__,
)
def test_operations_of_which_one_does_not_fit_change_neither_memory_nor_disk(last):
    follower = opened(follower=True)
    before, reached = files_of(follower), follower.last
    with pytest.raises(RefusedError):
        follower.apply(Operations(StateID(1, 0), _written_by(CREATED, PUT, last)))
    assert (follower.last, follower.progress().files) == (reached, ())
    follower._engine.drain()
    assert files_of(follower) == before
    follower.apply(Operations(StateID(1, 0), _written_by(CREATED, PUT)))
    assert waiting_of(crashed(follower, follower=True)) == [b"some data"]


def test_a_put_whose_ids_would_not_fit_is_refused():
    follower = opened(follower=True)
    with pytest.raises(RefusedError):
        last = lay.UINT64_MAX
        follower.apply(
            Operations(StateID(1, 0), _written_by((StateID(last, 1), ops.Put(30, last, _record(1)))))
        )
    assert follower.last == StateID(1, 0)


def test_operations_that_come_twice_are_done_once():
    leader, follower = opened(), opened(follower=True)
    leader.put_many(SHORT, [b"one", b"two"], now=T0)
    leader.new(SHORT, b"open").append(b" more")
    (item,) = leader.catch_up(follower.progress())
    assert isinstance(item, Operations)
    follower.apply(item)
    files, state = files_of(follower), follower.progress()
    follower.apply(item)
    follower.receive([item, item])
    assert (files_of(follower), follower.progress()) == (files, state)
    assert_equal(follower, leader)


@pytest.mark.parametrize("strict", [False, True])
def test_a_shipment_that_comes_twice_or_late_changes_nothing_more(strict):
    leader, follower = opened(file_bytes=60, strict=strict), opened(follower=True)
    shipments = []
    for number in range(3):
        leader.put_many(SHORT, [b"%d some data" % number, b"%d more" % number], now=T0 + number)
        if not strict:
            leader.new(LONG, b"open %d" % number)
        leader.snapshot()
        shipments.append(list(leader.catch_up(follower.progress())))
        follower.receive(shipments[-1])
        files, state = files_of(follower), follower.progress()
        for old in shipments:
            assert follower.receive(old) == leader.last
        assert (files_of(follower), follower.progress()) == (files, state)
    assert_same_sessions(follower, leader)


# Followers that hold the note's files only


@pytest.mark.parametrize("restart", [crashed, reopened])
def test_a_strict_follower_of_any_leader_is_right_after_a_restart(restart):
    leader, follower = opened(), opened(follower=True, strict=True)
    leader.put_many(SHORT, [b"%d" % number for number in range(5)], now=T0)
    fed(follower, leader)
    assert follower.last == StateID(1, 6)
    follower = restart(follower, follower=True, strict=True)
    assert follower.last == StateID(1, 6)
    fed(follower, leader)
    leader.put(SHORT, b"5", now=T0)
    fed(follower, leader)
    assert follower.last == leader.last
    follower = restart(follower, follower=True, strict=True)
    fed(follower, leader)
    assert follower.last == leader.last
    follower.lead(2)
    assert waiting(follower) == [b"0", b"1", b"2", b"3", b"4", b"5"]


@pytest.mark.parametrize("restart", [crashed, reopened])
@pytest.mark.parametrize("strict", [False, True])
def test_sessions_that_are_open_come_to_a_strict_follower_again(restart, strict):
    leader, follower = opened(), opened(follower=True, strict=True)
    session = leader.new(SHORT, b"open")
    leader.put(SHORT, b"waits", now=T0)
    other = leader.due(T0 + 30)[0]
    other.append(b", changed")
    leader.put(SHORT, b"behind", now=T0)
    fed(follower, leader)
    follower = restart(follower, follower=True, strict=strict)
    with pytest.raises(RefusedError, match="open sessions") as caught:
        follower.apply(Operations(follower.last, _written_by((leader.last.following(), lay.Create(7, T0)))))
    assert caught.value.code == "gap"
    fed(follower, leader)
    session.store(now=T0 + 1)
    other.store(now=T0 + 2)
    fed(follower, leader)
    assert follower.last == leader.last
    follower.lead(2)
    assert waiting(follower) == [b"behind", b"open", b"waits, changed"]


@pytest.mark.parametrize("seed", range(6))
def test_a_strict_follower_that_restarts_all_the_time_holds_the_same_notes_files(seed):
    application = led(200 + seed)
    follower = opened(follower=True, strict=True)
    for number in range(120):
        application.step()
        application.store._engine.drain()
        fed(follower, application.store)
        assert follower.last == application.store.last or not application.store.last.index
        if number % 7 == 3:
            follower = (crashed if number % 2 else reopened)(follower, follower=True, strict=True)
    mine, theirs = files_of(application.store), files_of(follower)
    assert {name: data for name, data in mine.items() if name.endswith(".data")} == {
        name: data for name, data in theirs.items() if name.endswith(".data")
    }
    fed(follower, application.store)
    assert_same_machines(follower, application.store)


def assert_same_machines(first: SessionStore, second: SessionStore) -> None:
    (mine, opened_here), (theirs, opened_there) = (store._engine.machine.base() for store in (first, second))
    assert (mine, list(opened_here)) == (theirs, list(opened_there))


def test_a_follower_of_the_notes_files_gets_its_log_when_it_knows_where_it_is():
    leader, follower = opened(), opened(follower=True, strict=True)
    leader.new(SHORT, b"open")
    leader.put(SHORT, b"waits", now=T0)
    fed(follower, leader)
    for _ in range(3):
        follower = reopened(follower, follower=True)
        follower.snapshot()
        assert "operations.log" not in files_of(follower)
        assert follower.progress().last == lay.ZERO
    fed(follower, leader)
    follower = crashed(follower, follower=True)
    assert follower.progress().last == leader.last
    assert_same_machines(follower, leader)


def test_a_restarted_strict_store_gives_no_state_id_out_again():
    store = opened(strict=True)
    store.put(SHORT, b"a", now=T0)
    store.new(SHORT, b"of memory only")
    follower = reopened(store, follower=True, strict=True)
    with pytest.raises(RefusedError, match="cannot follow"):
        follower.lead(follower.last.term)
    follower.lead(2)
    assert follower.put(SHORT, b"b", now=T0) == StateID(2, 1)


@pytest.mark.parametrize("kept", [slice(-1, None), slice(1, None), slice(2, 3)])
def test_a_part_of_a_catch_up_changes_nothing(tmp_path, kept):
    with SessionStore(tmp_path / "leader", topics=TOPICS) as leader:
        leader.put_many(SHORT, [b"a", b"b"], now=T0)
        leader.snapshot()
        session = leader.new(SHORT, b"open")
        leader.snapshot()
        with SessionStore(tmp_path / "follower", follower=True) as follower:
            items = list(leader.catch_up(follower.progress()))
            with pytest.raises(GapError, match="beginning did not come"):
                follower.receive(items[kept])
            follower.receive(items)
            assert follower.last == leader.last
            session.append(b" more")
            follower.receive(leader.catch_up(follower.progress()))
            follower.receive(items[-1:])  # an old message that comes late
            assert follower.last == leader.last
    with SessionStore(tmp_path / "follower", topics=TOPICS) as store:
        assert [one.data for one in store.sessions()] == [b"open more"]
