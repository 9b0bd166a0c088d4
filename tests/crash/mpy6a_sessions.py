"""Crash scenarios of `SessionStore`. An item of the history is one thing that an application does to a session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from flintlog.dialects.mpy6a import layout as lay
from flintlog.dialects.mpy6a.layout import read_record
from flintlog.dialects.mpy6a.scan import scan_records
from flintlog.dialects.mpy6a.store import Operations, Progress, Session, SessionStore, Topic
from flintlog.disk import Disk
from flintlog.testing import History, MemoryKernel, Scenario, Suite

ROOT = "/srv/sessions"
T0 = 1_700_000_000
FAR = T0 + 10_000_000
SHORT, LONG, THRICE = 1, 2, 3
TOPICS = (Topic(SHORT, 30), Topic(LONG, 600), Topic(THRICE, 30, 1))
DELAYS = {topic.number: topic.delay for topic in TOPICS}
SLOT = 8  # events have checksums: where a write is cut matters less than that it is; one scenario cuts every byte
LABEL_SIZE = 2  # every session begins with two bytes of its own


@dataclass(frozen=True)
class Waiting:
    due: int
    attempts: int
    data: bytes


@dataclass(frozen=True)
class Shown:
    """What a store holds: the data of open sessions, those that wait, those that were set aside."""

    opened: frozenset[bytes] = frozenset()
    waiting: frozenset[Waiting] = frozenset()
    aside: tuple[bytes, ...] = ()


@dataclass(frozen=True)
class New:
    data: bytes


@dataclass(frozen=True)
class Append:
    label: bytes
    more: bytes


@dataclass(frozen=True)
class Replace:
    label: bytes
    data: bytes


@dataclass(frozen=True)
class Delete:
    label: bytes


@dataclass(frozen=True)
class Store:
    label: bytes
    delay: int
    now: int


@dataclass(frozen=True)
class Put:
    items: tuple[bytes, ...]
    delay: int
    now: int


@dataclass(frozen=True)
class Exhaust:
    label: bytes


@dataclass(frozen=True)
class Finish:
    """Replayed sessions ended together: those that are done, and those that wait again."""

    done: frozenset[bytes]
    again: frozenset[bytes]
    delay: int
    now: int


@dataclass(frozen=True)
class Become:
    """A follower becomes as its leader is."""

    shown: Shown


Step = New | Append | Replace | Delete | Store | Put | Exhaust | Finish | Become


def after(shown: Shown, step: Step) -> Shown:
    match step:
        case New(data):
            return replace(shown, opened=shown.opened | {data})
        case Append(label, more):
            return _changed(shown, label, lambda data: data + more)
        case Replace(label, data):
            return _changed(shown, label, lambda _: data)
        case Delete(label):
            opened = frozenset(data for data in shown.opened if not data.startswith(label))
            return replace(shown, opened=opened, waiting=_without(shown, {label}))
        case Store(label, delay, now):
            found = [(data, 0) for data in shown.opened if data.startswith(label)] or [
                (item.data, item.attempts + 1) for item in shown.waiting if item.data.startswith(label)
            ]
            ((data, attempts),) = found
            waiting = _without(shown, {label}) | {Waiting(now + delay, attempts, data)}
            return replace(shown, opened=shown.opened - {data}, waiting=waiting)
        case Put(items, delay, now):
            return replace(shown, waiting=shown.waiting | {Waiting(now + delay, 0, data) for data in items})
        case Exhaust(label):
            ((data),) = [item.data for item in shown.waiting if item.data.startswith(label)]
            return replace(shown, waiting=_without(shown, {label}), aside=(*shown.aside, data))
        case Finish(done, again, delay, now):
            once_more = frozenset(
                Waiting(now + delay, item.attempts + 1, item.data)
                for item in shown.waiting
                if item.data[:LABEL_SIZE] in again
            )
            return replace(shown, waiting=_without(shown, done | again) | once_more)

        case Become(other):
            return other


def within(shown: Shown, step: Step) -> list[Shown]:
    """What a crash inside a step may leave besides before and after: of many sessions, some ended."""
    if not isinstance(step, Finish):
        return []
    labels = sorted(step.done | step.again)
    chosen = [
        frozenset(label for at, label in enumerate(labels) if bits >> at & 1)
        for bits in range(1 << len(labels))
    ]
    return [after(shown, replace(step, done=step.done & some, again=step.again & some)) for some in chosen]


def _changed(shown: Shown, label: bytes, change: Callable[[bytes], bytes]) -> Shown:
    return replace(
        shown,
        opened=frozenset(change(data) if data.startswith(label) else data for data in shown.opened),
        waiting=frozenset(
            replace(item, data=change(item.data)) if item.data.startswith(label) else item
            for item in shown.waiting
        ),
    )


def _without(shown: Shown, labels: Any) -> frozenset[Waiting]:
    return frozenset(item for item in shown.waiting if item.data[:LABEL_SIZE] not in labels)


class Driver:
    """An application that notes what it does."""

    def __init__(self, disk: Disk, history: History[Step], **options: Any) -> None:
        self.store = opened(disk, **options)
        self._history = history
        self.sessions: dict[bytes, Session] = {}
        history.opened(lambda: self.store.put(SHORT, b"refused", now=T0), lambda: self.store.new(SHORT))

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *exc: object) -> None:
        self.store.close()

    def _do(self, step: Step, call: Callable[[], Any]) -> Any:
        self._history.issue(step)
        result = call()
        self._history.acknowledge(step)
        return result

    def new(self, data: bytes, topic: int = SHORT) -> None:
        self.sessions[data[:LABEL_SIZE]] = self._do(New(data), lambda: self.store.new(topic, data))

    def append(self, label: bytes, more: bytes) -> None:
        self._do(Append(label, more), lambda: self.sessions[label].append(more))

    def replace(self, label: bytes, data: bytes) -> None:
        self._do(Replace(label, data), lambda: self.sessions[label].replace(data))

    def delete(self, label: bytes) -> None:
        self._do(Delete(label), self.sessions[label].delete)

    def keep(self, label: bytes, now: int, delay: int = 30) -> None:
        self._do(Store(label, delay, now), lambda: self.sessions[label].store(delay, now=now))

    def put(self, data: bytes, now: int, topic: int = SHORT) -> None:
        self._do(Put((data,), DELAYS[topic], now), lambda: self.store.put(topic, data, now=now))

    def put_many(self, items: Sequence[bytes], now: int, topic: int = SHORT) -> None:
        self._do(
            Put(tuple(items), DELAYS[topic], now), lambda: self.store.put_many(topic, list(items), now=now)
        )

    def due(self, now: int, limit: int = 100) -> list[bytes]:
        found = self.store.due(now, limit)
        self.sessions |= {session.data[:LABEL_SIZE]: session for session in found}
        return [session.data[:LABEL_SIZE] for session in found]

    def exhaust(self, label: bytes, now: int) -> None:
        assert self._do(Exhaust(label), lambda: self.store.due(now)) == []

    def pass_over(self, label: bytes, now: int) -> None:
        """With the note's files alone what was replayed too often is the callback's."""
        assert self._do(Delete(label), lambda: self.store.due(now)) == []

    def finish(self, now: int, done: set[bytes], again: set[bytes], *, at: int) -> None:
        found = self.store.due_batch(at)
        labels = [record.data[:LABEL_SIZE] for record, _ in found.rows()]
        assert set(labels) == done | again
        step = Finish(frozenset(done), frozenset(again), 30, now)
        self._do(step, lambda: found.finish([label in done for label in labels], delay=30, now=now))


def opened(disk: Disk, **options: Any) -> SessionStore:
    defaults = {"reserve_bytes": 64, "on_exhausted": lambda record: None}
    return SessionStore(ROOT, topics=TOPICS, disk=disk, **(defaults | options))


def shown(store: SessionStore) -> Shown:
    waiting = frozenset(
        Waiting(session.replay_time or 0, session.attempts, session.data) for session in _all_due(store)
    )
    aside = tuple(record.data for record in store.exhausted())
    return Shown(
        frozenset(session.data for session in store.sessions() if session.place is None), waiting, aside
    )


def _all_due(store: SessionStore) -> list[Session]:
    store.topics = {}  # nothing is set aside by looking
    found = store.due(FAR, 10_000)
    assert [session.replay_time for session in found] == sorted(session.replay_time or 0 for session in found)
    return found


class SessionOracle:
    def __init__(self, *, strict: bool = False) -> None:
        self._strict = strict

    def recover(self, disk: Disk) -> Shown:
        with opened(disk, strict=self._strict) as store:
            return shown(store)

    def check(self, observed: Shown, issued: Sequence[Step], acknowledged: Sequence[Step]) -> str | None:
        state = Shown()
        allowed = []
        for at, step in enumerate(issued):
            if at >= len(acknowledged):
                allowed += [state, *within(state, step)]
            state = after(state, step)
        allowed.append(state)
        if self._strict:
            allowed = [replace(item, opened=frozenset()) for item in allowed] + self._between(
                issued, acknowledged
            )
        return None if observed in allowed else f"{observed} is none of {allowed}"

    def _between(self, issued: Sequence[Step], acknowledged: Sequence[Step]) -> list[Shown]:
        """Without an operation log a session that waits again can be there twice, until its old place is passed."""
        state = Shown()
        found = []
        for at, step in enumerate(issued):
            following = after(state, step)
            if at >= len(acknowledged):
                both = replace(following, waiting=following.waiting | state.waiting, opened=frozenset())
                found += [both, replace(both, aside=state.aside)]
            state = following
        return found

    def extend(self, disk: Disk, observed: Shown) -> Shown:
        with opened(disk, strict=self._strict) as store:
            store.put(SHORT, b"zz one more", now=FAR - 1000)
        more = Waiting(FAR - 970, 0, b"zz one more")
        return replace(observed, waiting=observed.waiting | {more})


def life(disk: Disk, history: History[Step]) -> None:
    """A session from its beginning to its end, and others beside it."""
    with Driver(disk, history) as app:
        app.new(b"a:one")
        app.append(b"a:", b" two")
        app.new(b"b:open")
        app.keep(b"a:", T0)
        app.put(b"c:put", T0 + 1, LONG)
        assert app.due(T0 + 40) == [b"a:"]
        app.append(b"a:", b" three")
        app.keep(b"a:", T0 + 41)
        app.delete(b"b:")


def out_of_turn(disk: Disk, history: History[Step]) -> None:
    """Replayed sessions ended in another order than they were handed out."""
    with Driver(disk, history) as app:
        app.put_many([b"a:1", b"b:2", b"c:3"], T0)
        assert app.due(T0 + 30) == [b"a:", b"b:", b"c:"]
        app.delete(b"b:")
        app.replace(b"c:", b"c:changed")
        app.keep(b"c:", T0 + 31)
        app.delete(b"a:")


def batches(disk: Disk, history: History[Step]) -> None:
    """Many at once, ended together."""
    with Driver(disk, history) as app:
        app.put_many([b"%c:%d" % (97 + number, number) for number in range(5)], T0)
        app.put_many([b"l:later"], T0, LONG)
        app.finish(T0 + 50, {b"a:", b"c:", b"d:"}, {b"b:", b"e:"}, at=T0 + 40)


def switches(disk: Disk, history: History[Step]) -> None:
    """Files that fill up, are read to their end and deleted."""
    with Driver(disk, history, file_bytes=60) as app:
        for number in range(3):
            app.put(b"%c:12345678901" % (97 + number), T0 + number)
        for label in app.due(T0 + 100):
            app.delete(label)
        app.put(b"x:", T0 + 101)


def checkpoints(disk: Disk, history: History[Step]) -> None:
    """Logs that begin anew while sessions are open, handed out and done with."""
    with Driver(disk, history, log_bytes=10) as app:
        app.new(b"a:open")
        app.put(b"b:put", T0)
        app.put(b"c:put", T0)
        assert app.due(T0 + 40) == [b"b:", b"c:"]
        app.delete(b"c:")
        app.append(b"b:", b" more")


def exhausts(disk: Disk, history: History[Step]) -> None:
    """A session that was replayed too often."""
    with Driver(disk, history) as app:
        app.put(b"a:tried", T0, THRICE)
        app.put(b"b:other", T0)
        assert app.due(T0 + 30) == [b"a:", b"b:"]
        app.keep(b"a:", T0 + 31)
        app.delete(b"b:")
        app.exhaust(b"a:", T0 + 70)


def opened_again(disk: Disk, history: History[Step]) -> None:
    """Closed and opened between the steps."""
    with Driver(disk, history) as app:
        app.new(b"a:open")
        app.put(b"b:put", T0)
    with Driver(disk, history) as app:
        assert app.due(T0 + 40) == [b"b:"]
        app.append(b"b:", b" more")
    with Driver(disk, history) as app:
        app.put(b"c:put", T0 + 50)


def prepared(disk: Disk, history: History[Step]) -> None:
    with Driver(disk, history, strict=True, file_bytes=60) as app:
        for number in range(3):
            app.put(b"%c:some data" % (97 + number), T0 + number)
        app.put(b"l:long", T0, LONG)


def from_note(disk: Disk, history: History[Step]) -> None:
    """A directory of the note gets an operation log."""
    with Driver(disk, history) as app:
        app.new(b"o:open")
        assert app.due(T0 + 31, 1) == [b"a:"]
        app.delete(b"a:")


def prepared_whole(disk: Disk, history: History[Step]) -> None:
    with Driver(disk, history, file_bytes=60) as app:
        for number in range(3):
            app.put(b"%c:some data" % (97 + number), T0 + number)


def to_note(disk: Disk, history: History[Step]) -> None:
    """A directory with an operation log goes back to the note's files."""
    with Driver(disk, history, strict=True) as app:
        app.put(b"d:more", T0 + 5)


def remains(disk: Disk, history: History[Step], *, strict: bool) -> None:
    """Closed files that are read in part, one with a session that is done out of turn, one that is changed."""
    with Driver(disk, history, file_bytes=70, strict=strict) as app:
        for number in range(6):
            app.put(b"%c:some data" % (97 + number), T0 + number)
        assert app.due(T0 + 34, 4) == [b"a:", b"b:", b"c:", b"d:"]
        app.delete(b"a:")
        if not strict:
            app.delete(b"c:")
            app.append(b"d:", b" changed")


def compacts(disk: Disk, history: History[Step], **options: Any) -> None:
    """The remains are merged."""
    with Driver(disk, history, file_bytes=1000, **options) as app:
        assert app.store.compact() > 0
        app.put(b"z:after", T0 + 50)


def follows(disk: Disk, history: History[Step]) -> None:
    """A follower does what its leader did, one operation after the other."""
    leader = opened(Disk(MemoryKernel()), file_bytes=60)
    with opened(disk, follower=True) as follower:
        history.opened(lambda: follower.apply(Operations(follower.last, ())))

        def step(call: Callable[[], Any]) -> Any:
            result = call()
            became = Become(looked_at(leader))
            history.issue(became)
            for item in leader.catch_up(follower.progress()):
                assert isinstance(item, Operations)
                follower.apply(item)
            history.acknowledge(became)
            return result

        session = step(lambda: leader.new(SHORT, b"a:open"))
        step(lambda: leader.put(SHORT, b"b:some data", now=T0))
        step(lambda: session.append(b" more"))
        step(lambda: session.store(now=T0 + 1))
    leader.close()


def follows_again(disk: Disk, history: History[Step]) -> None:
    """A leader that hears nothing sends again: the same operations, a part of them, and more in one piece."""
    leader = opened(Disk(MemoryKernel()), file_bytes=60)
    with opened(disk, follower=True) as follower:
        history.opened(lambda: follower.apply(Operations(follower.last, ())))
        sent = [follower.last, follower.last]

        def step(call: Callable[[], Any]) -> Any:
            result = call()
            became = Become(looked_at(leader))
            history.issue(became)
            [item] = leader.catch_up(Progress(sent[-2], (), 0))
            assert isinstance(item, Operations)
            follower.apply(item)
            history.acknowledge(became)
            follower.apply(item)
            follower.apply(Operations(item.after, item.events[:1]))
            sent.append(follower.last)
            return result

        session = step(lambda: leader.new(SHORT, b"a:open"))
        step(lambda: leader.put_many(SHORT, [b"b:some data", b"c:others"], now=T0))
        step(lambda: session.append(b" more"))
        step(lambda: session.store(now=T0 + 1))
    leader.close()


def catches_up(
    history: History[Step], leader: SessionStore, follower: SessionStore, items: Sequence[Any] | None = None
) -> None:
    """The follower gets what it lacks, or what is given, and is what its leader is then."""
    became = Become(looked_at(leader))
    history.issue(became)
    follower.receive(leader.catch_up(follower.progress()) if items is None else items)
    history.acknowledge(became)


def goes_on(leader: SessionStore, number: int) -> None:
    leader.new(LONG, b"%c:open" % (65 + number))
    for data in (b"%c:some data" % (97 + 2 * number), b"%c:some data" % (98 + 2 * number)):
        leader.put(SHORT, data, now=T0 + number)
    leader.snapshot()


def is_shipped_again(disk: Disk, history: History[Step]) -> None:
    """A shipment that breaks off, comes again, and then once more."""
    leader = opened(Disk(MemoryKernel()), file_bytes=60)
    with opened(disk, follower=True) as follower:
        history.opened(lambda: follower.apply(Operations(follower.last, ())))
        for number in range(2):
            goes_on(leader, number)
            items = list(leader.catch_up(follower.progress()))
            follower.receive(items[: len(items) // 2])
            follower.receive(items[:-1])
            catches_up(history, leader, follower, items)
            follower.receive(items)
            follower.receive(items[:2])
    leader.close()


def strict_shipped_again(disk: Disk, history: History[Step]) -> None:
    """The same to a follower with the note's files alone: a file that is gone on with makes way, and comes back."""
    leader = opened(Disk(MemoryKernel()), file_bytes=120)
    with opened(disk, follower=True, strict=True) as follower:
        history.opened(lambda: follower.receive(leader.catch_up(follower.progress())))
        for number in range(2):
            leader.put(SHORT, b"%d some data" % number, now=T0 + number)
            leader.snapshot()
            items = list(leader.catch_up(follower.progress()))
            follower.receive(items[:-1])
            catches_up(history, leader, follower, items)
            follower.receive(items)
    leader.close()


def is_shipped(disk: Disk, history: History[Step]) -> None:
    """A follower that is too far behind for operations gets the files."""
    leader = opened(Disk(MemoryKernel()), file_bytes=60)
    with opened(disk, follower=True) as follower:
        history.opened(lambda: follower.apply(Operations(follower.last, ())))
        for number in range(2):
            goes_on(leader, number)
            catches_up(history, leader, follower)
    leader.close()


def strict_follows(disk: Disk, history: History[Step]) -> None:
    """A follower with the note's files alone, opened again: it gets the records that it lacks, then operations."""
    leader = opened(Disk(MemoryKernel()), file_bytes=120)
    for number in range(3):
        with opened(disk, follower=True, strict=True) as follower:
            history.opened(lambda: follower.receive(leader.catch_up(follower.progress())))
            for count in (2 if number else 1, 1):  # what is shipped comes as a whole
                for more in range(count):
                    leader.put(SHORT, b"%d%d%d some data" % (number, count, more), now=T0 + number + more)
                catches_up(history, leader, follower)
    leader.close()


def strict_follows_exhausts(disk: Disk, history: History[Step]) -> None:
    """A follower with the note's files alone holds what its leader set aside."""
    leader = opened(Disk(MemoryKernel()))
    with opened(disk, follower=True, strict=True) as follower:
        history.opened(lambda: follower.receive(leader.catch_up(follower.progress())))
        for call in (
            lambda: leader.put(THRICE, b"a:tried", now=T0),
            lambda: leader.due(T0 + 30)[0].store(now=T0 + 31),
            lambda: leader.due(T0 + 70),
            lambda: leader.put(SHORT, b"b:other", now=T0 + 71),
        ):
            call()
            catches_up(history, leader, follower)
    leader.close()


def another_history(disk: Disk, history: History[Step]) -> None:
    """A store that led alone, before it follows."""
    with Driver(disk, history, file_bytes=10) as app:
        app.put(b"y:some data", T0)
        app.put(b"z:some data", T0)


def is_shipped_over_a_name(disk: Disk, history: History[Step]) -> None:
    """The leader has other files of names that the follower has too; one of them has no records."""
    leader = opened(Disk(MemoryKernel()), file_bytes=10, term=2)
    with opened(disk, follower=True) as follower:
        history.opened(lambda: follower.apply(Operations(follower.last, ())))
        leader.put(SHORT, b"a:some data", now=T0)
        leader.rotate(30, now=T0)
        leader.snapshot()
        catches_up(history, leader, follower)
    leader.close()


def looked_at(leader: SessionStore) -> Shown:
    """What a store shows, without asking it for sessions that it would then take for handed out."""
    machine = leader._engine.machine
    waiting = set()
    for file in machine.files.values():
        with leader._engine.disk.open(f"{leader.path}/{file.name}") as opened_file:
            records = scan_records(opened_file.view(copy=True)[: file.length], file.offset)[0]
            view = opened_file.view(copy=True)
        for at in records.offset.tolist():
            record = read_record(view, at)[0]
            waiting.add(Waiting(record.replay_time, record.attempts, record.data))
    aside = tuple(record.data for record in leader.exhausted())
    return Shown(frozenset(session.data for session in machine.sessions.values()), frozenset(waiting), aside)


def strict_life(disk: Disk, history: History[Step]) -> None:
    """The note's files alone: sessions that wait are durable, open ones are not."""
    with Driver(disk, history, strict=True) as app:
        app.put(b"a:one", T0)
        app.put_many([b"b:two", b"c:three"], T0, LONG)
        assert app.due(T0 + 40) == [b"a:"]
        app.keep(b"a:", T0 + 41)
        app.put(b"d:four", T0 + 42)
        for label in app.due(T0 + 80):
            app.delete(label)


def strict_switches(disk: Disk, history: History[Step]) -> None:
    """The note's files alone: files fill up and go, the log is emptied into the snapshot."""
    with Driver(disk, history, strict=True, file_bytes=60, log_bytes=200) as app:
        for number in range(3):
            app.put(b"%c:some data" % (97 + number), T0 + number)
        for label in app.due(T0 + 100):
            app.delete(label)
        app.put(b"x:after", T0 + 101)


def strict_names(disk: Disk, history: History[Step]) -> None:
    """The note's files alone, all in one hour: a file that the snapshot describes goes, and others follow."""
    with Driver(disk, history, strict=True) as app:
        app.put(b"a:some data", T0)
        app.store.snapshot()
        for number in range(2):
            now = T0 + 40 * (number + 1)
            for label in app.due(now):
                app.delete(label)
            app.store.rotate(30, now=now)
            app.put(b"%c:other data" % (98 + number), now)


def near_a_sector(disk: Disk, history: History[Step]) -> None:
    """Records up to a few bytes before a sector ends."""
    with Driver(disk, history, strict=True) as app:
        for number in range(5):
            app.put(b"%c:" % (97 + number) + bytes(70 - (number == 4)), T0 + number)
    with disk.open(f"{ROOT}/30@2023111422.data") as file:
        assert file.size() == 509


def strict_crosses_a_sector(disk: Disk, history: History[Step]) -> None:
    """The first bytes of a record stand in one sector, the others in the next."""
    with Driver(disk, history, strict=True) as app:
        app.put(b"x:some data", T0 + 10)
        app.put_many([b"y:some data", b"z:some data"], T0 + 11)


def long_log(disk: Disk, history: History[Step]) -> None:
    """A change log whose next event crosses a page."""
    with Driver(disk, history, strict=True) as app:
        app.put(b"a:some data", T0)
        last = app.store.last
    shift, read = lay.Shift("30@2023111422.data", 0), lay.OpenToRead("30@2023111422.data")
    changes = enumerate([shift] * 10 + [read] * 91, 1)
    events = [lay.EVENT.encode(last.following(number), lay.encode_change(item)) for number, item in changes]
    with disk.open(f"{ROOT}/state.log", "write") as log:
        log.pwrite(lay.framed(log.size(), lay.CHANGES_FRAME[0], events), log.size())
        log.sync()
        assert log.size() == 4066


def strict_crosses_a_page(disk: Disk, history: History[Step]) -> None:
    with Driver(disk, history, strict=True) as app:
        app.due(T0 + 30)
        app.delete(b"a:")


def strict_exhausts(disk: Disk, history: History[Step]) -> None:
    with Driver(disk, history, strict=True) as app:
        app.put(b"a:tried", T0, THRICE)
        assert app.due(T0 + 30) == [b"a:"]
        app.keep(b"a:", T0 + 31)
        app.pass_over(b"a:", T0 + 70)


SUITE = Suite(
    "tests.crash.mpy6a_sessions:SUITE",
    SessionOracle(),
    (
        Scenario("life", life, atomic_bytes=2),
        Scenario("out-of-turn", out_of_turn, atomic_bytes=SLOT),
        Scenario("batches", batches, atomic_bytes=SLOT),
        Scenario("switches", switches, atomic_bytes=SLOT),
        Scenario("checkpoints", checkpoints, atomic_bytes=SLOT),
        Scenario("exhausts", exhausts, atomic_bytes=SLOT),
        Scenario("opened-again", opened_again, atomic_bytes=SLOT),
        Scenario("from-the-note", from_note, prepare=prepared, atomic_bytes=SLOT),
        Scenario("compacts", compacts, prepare=partial(remains, strict=False)),
        Scenario("follows", follows),
        Scenario("follows-again", follows_again),
        Scenario("is-shipped-again", is_shipped_again),
        Scenario("is-shipped", is_shipped),
        Scenario("is-shipped-over-a-name", is_shipped_over_a_name, prepare=another_history),
    ),
)
STRICT_SUITE = Suite(
    "tests.crash.mpy6a_sessions:STRICT_SUITE",
    SessionOracle(strict=True),
    (
        Scenario("strict-life", strict_life),
        Scenario("strict-switches", strict_switches),
        Scenario("strict-exhausts", strict_exhausts),
        Scenario("strict-names", strict_names, atomic_bytes=SLOT),
        Scenario("strict-crosses-a-sector", strict_crosses_a_sector, prepare=near_a_sector),
        Scenario("strict-crosses-a-page", strict_crosses_a_page, prepare=long_log),
        Scenario("strict-compacts", partial(compacts, strict=True), prepare=partial(remains, strict=True)),
        Scenario("to-the-note", to_note, prepare=prepared_whole),
        Scenario("strict-follows", strict_follows),
        Scenario("strict-shipped-again", strict_shipped_again),
        Scenario("strict-follows-exhausts", strict_follows_exhausts),
    ),
)
