"""Whole histories against a plain model: anything an application does, time, checkpoints, restarts, crashes.

No session is lost, none comes before its time, the order is right, and attempts are counted.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from tests.independent import mpy6a
from tests.independent.views import files_on, sessions_in, sessions_of
from tests.mpy6a.stores import FAR, ROOT, T0

from flintlog.dialects.mpy6a.store import Session, SessionStore, StateID, Topic
from flintlog.disk import Disk
from flintlog.testing import Device, MemoryKernel, State

HISTORIES = 1200
GROUPS = 8
STEPS = 30
TOPICS = (Topic(1, 30), Topic(2, 600), Topic(3, 45, 2))
ENDLESS = (*TOPICS[:2], Topic(3, 45))
DELAYS = {topic.number: topic.delay for topic in TOPICS}


@dataclass
class Waiting:
    """A session that waits, as the model knows it. `turn` says in which order sessions were stored."""

    id: StateID
    due: int
    delay: int
    turn: int
    topic: int
    attempts: int
    data: bytes
    handed_out: bool = False

    @property
    def place(self) -> tuple[int, int, int]:
        return self.due, -self.delay, self.turn


@dataclass
class Model:
    opened: dict[StateID, bytes] = field(default_factory=dict)
    waiting: dict[StateID, Waiting] = field(default_factory=dict)
    aside: list[tuple[StateID, int, bytes]] = field(default_factory=list)
    latest: dict[int, int] = field(default_factory=dict)
    most: dict[int, int] = field(default_factory=dict)
    turns: int = 0

    def store(self, session: StateID, now: int, delay: int, topic: int, attempts: int, data: bytes) -> int:
        self.turns += 1
        due = max(now + delay, self.latest.get(delay, 0))
        self.latest[delay] = due
        self.waiting[session] = Waiting(session, due, delay, self.turns, topic, attempts, data)
        return due

    def due(self, now: int, limit: int) -> list[Waiting]:
        """What is handed out next; what was tried too often is set aside on the way."""
        while True:
            rows = [item for item in self.waiting.values() if item.due <= now and not item.handed_out]
            rows = sorted(rows, key=lambda item: item.place)[:limit]
            spent = [item for item in rows if item.attempts >= self.most.get(item.topic, 99)]
            # They are set aside file by file, and those of the longer delay come first.
            for item in sorted(spent, key=lambda item: (-item.delay, item.turn)):
                del self.waiting[item.id]
                self.aside.append((item.id, item.attempts, item.data))
            rows = [item for item in rows if item not in spent]
            if rows or not spent:
                for item in rows:
                    item.handed_out = True
                return rows


class History:
    """One store and its model."""

    def __init__(self, seed: int, *, strict: bool) -> None:
        self.random = random.Random(seed)
        self.strict = strict
        self.kernel = MemoryKernel()
        self.options = {
            "file_bytes": self.random.choice((60, 300, 5000)),
            "log_bytes": self.random.choice((200, 2000, 1 << 20)),
            "reserve_bytes": self.random.choice((0, 64)),
            "strict": strict,
        }
        # Without an operation log a session that is set aside out of turn would come again.
        self.topics = ENDLESS if strict else TOPICS
        self.model = Model(most={one.number: one.attempts_max for one in self.topics if one.attempts_max})
        self.now = T0
        self.fresh: dict[StateID, Session] = {}
        self.replayed: dict[StateID, Session] = {}
        self.steps = 0
        self.open()

    def open(self) -> None:
        self.store = SessionStore(
            ROOT, topics=self.topics, disk=Disk(self.kernel), on_exhausted=lambda record: None, **self.options
        )

    def again(self) -> None:
        """What a new process knows: open sessions if they are kept, and nothing is handed out."""
        if self.strict:
            self.model.opened.clear()
        self.fresh = {one.id: one for one in self.store.sessions() if one.place is None}
        assert {key: session.data for key, session in self.fresh.items()} == self.model.opened
        self.decode()
        self.replayed = {}
        for item in self.model.waiting.values():
            item.handed_out = False

    def decode(self) -> None:
        """An independent decoder finds the same in the files."""
        found = sessions_in(files_on(Disk(self.kernel), ROOT))
        assert {key: data for key, (_, data) in found["open"].items()} == self.model.opened
        waiting = sorted(self.model.waiting.values(), key=lambda item: item.place)
        rows = [(item.id, item.due, item.topic, item.attempts, item.data) for item in waiting]
        assert found["waiting"] == rows
        assert [(id_, attempts, data) for id_, _, _, attempts, data in found["exhausted"]] == self.model.aside

    def compare_note(self) -> None:
        """After a clean close the note's files hold every session that waits, also without the operation log."""
        files = files_on(Disk(self.kernel), ROOT)
        note, whole = mpy6a.read_note(files), mpy6a.read(files)
        assert note.files == whole.files
        places = {(one.file, one.offset) for one in note.waiting()}
        assert {(one.file, one.offset) for one in whole.waiting()} <= places

    # Steps

    def step(self) -> None:
        self.steps += 1
        names = [
            "begin",
            "put",
            "put_many",
            "due",
            "due",
            "batch",
            "pass_time",
            "pass_time",
            "end",
            "end",
            "end",
        ]
        names += ["change", "change", "rotate", "checkpoint", "compact", "reopen", "crash", "early"]
        getattr(self, self.random.choice(names))()

    def data(self) -> bytes:
        return self.random.randbytes(self.random.randrange(30))

    def pass_time(self) -> None:
        self.now += self.random.choice((1, 10, 40, 700, -20))

    def begin(self) -> None:
        topic, data = self.random.choice(TOPICS).number, self.data()
        session = self.store.new(topic, data)
        self.fresh[session.id] = session
        self.model.opened[session.id] = data

    def put(self) -> None:
        topic, data = self.random.choice(TOPICS).number, self.data()
        delay = self.random.choice((None, 30, 45))
        session = self.store.put(topic, data, delay=delay, now=self.now)
        self.model.store(session, self.now, delay or DELAYS[topic], topic, 0, data)

    def put_many(self) -> None:
        topic = self.random.choice(TOPICS).number
        items = [self.data() for _ in range(self.random.randrange(5))]
        ranges = self.store.put_many(topic, items, now=self.now)
        ids = [one for found in ranges for one in found]
        assert len(ids) == len(items)
        due = None
        for session, data in zip(ids, items, strict=True):
            due = self.model.store(session, self.now, DELAYS[topic], topic, 0, data)
        assert due is None or due >= self.now + DELAYS[topic]

    def check(self, expected: list[Waiting], found: list[tuple]) -> None:
        assert found == [(item.id, item.due, item.topic, item.attempts, item.data) for item in expected]
        assert all(due <= self.now for _, due, *_ in found)

    def due(self) -> None:
        limit = self.random.choice((1, 2, 100))
        sessions = self.store.due(self.now, limit)
        self.check(
            self.model.due(self.now, limit),
            [(one.id, one.replay_time, one.topic, one.attempts, one.data) for one in sessions],
        )
        self.replayed |= {session.id: session for session in sessions}

    def early(self) -> None:
        """Nothing comes before its time."""
        head = self.store.next_due()
        heads = [item.due for item in self.model.waiting.values() if not item.handed_out]
        assert head == min(heads, default=None)
        if head is not None:
            assert self.store.due(head - 0.001) == []

    def batch(self) -> None:
        if self.strict and self.replayed:
            return  # they stand before these
        limit = self.random.choice((1, 3, 100))
        found = self.store.due_batch(self.now, limit)
        expected = self.model.due(self.now, limit)
        rows = [(row.id, row.replay_time, row.topic, row.attempts, row.data) for row, _ in found.rows()]
        self.check(expected, rows)
        delay = self.random.choice((None, 30))
        done = [self.random.random() < 0.5 for _ in rows]
        found.finish(done, delay=delay, now=self.now)
        for item in expected:
            del self.model.waiting[item.id]
        # They are stored file by file, and those of the longer delay come first.
        left = [item for item, gone in zip(expected, done, strict=True) if not gone]
        for item in sorted(left, key=lambda item: (-item.delay, item.turn)):
            self.model.store(
                item.id, self.now, delay or DELAYS[item.topic], item.topic, item.attempts + 1, item.data
            )

    def end(self) -> None:
        ways = [self.fresh] * bool(self.fresh) + [self.replayed] * bool(self.replayed)
        if not ways:
            return
        held = self.random.choice(ways)
        key = self.random.choice(sorted(held))
        if self.strict and held is self.replayed:
            key = self.first_of_its_file(key)
        session = held.pop(key)
        item = self.model.waiting.pop(key, None)
        data = item.data if item is not None else self.model.opened.pop(key)
        assert session.data == data
        if self.random.random() < 0.5:
            session.delete()
            return
        topic, attempts = session.topic, 0 if item is None else item.attempts + 1
        delay = self.random.choice((None, 30, 45))
        due = session.store(delay, now=self.now)
        assert due == self.model.store(key, self.now, delay or DELAYS[topic], topic, attempts, data)

    def first_of_its_file(self, key: StateID) -> StateID:
        """Without an operation log sessions are ended in turn, or they may come again."""
        delay = self.model.waiting[key].delay
        mine = [
            item for item in self.model.waiting.values() if item.delay == delay and item.id in self.replayed
        ]
        return min(mine, key=lambda item: item.turn).id

    def change(self) -> None:
        ways = [self.fresh] * bool(self.fresh) + [self.replayed] * (bool(self.replayed) and not self.strict)
        if not ways:
            return
        held = self.random.choice(ways)
        key = self.random.choice(sorted(held))
        before = self.model.waiting[key].data if key in self.model.waiting else self.model.opened[key]
        more = self.data()
        if self.random.random() < 0.5:
            held[key].append(more)
            data = before + more
        else:
            held[key].replace(more)
            data = more
        assert held[key].data == data
        if key in self.model.waiting:
            self.model.waiting[key].data = data
        else:
            self.model.opened[key] = data

    def rotate(self) -> None:
        delay = self.random.choice((30, 600))
        tail = self.store._engine.machine.tail(delay)
        self.store.rotate(delay, now=self.now)
        if tail is not None and tail.length:  # a file that begins now holds nothing that is due before
            self.model.latest[delay] = max(self.now + delay, self.model.latest.get(delay, 0))

    def checkpoint(self) -> None:
        self.store.snapshot()

    def compact(self) -> None:
        self.store.compact()

    def reopen(self) -> None:
        self.store.close()
        self.open()
        self.again()

    def crash(self) -> None:
        """The power fails; everything that was not synced is lost, or some of it, or nothing."""
        device = self.kernel.device()
        survivors = [device.durable(), device.visible(), self.torn(device)]
        self.kernel = MemoryKernel(self.random.choice(survivors))
        self.open()
        self.again()

    def torn(self, device: Device) -> State:
        """Each file has either all that was written to it or only what was synced; names are all there."""
        durable, visible = device.durable(), device.visible()
        files = {
            inode: content if self.random.random() < 0.5 else durable.files.get(inode, b"")
            for inode, content in visible.files.items()
        }
        return State(files, visible.names)

    def compare(self) -> None:
        """The whole state, as the next process sees it."""
        self.reopen()
        assert [(one.id, one.attempts, one.data) for one in self.store.exhausted()] == self.model.aside
        self.store.topics = {}
        expected = sorted(self.model.waiting.values(), key=lambda item: item.place)
        sessions = self.store.due(FAR, 10_000)
        assert [(one.id, one.replay_time, one.attempts, one.data) for one in sessions] == [
            (item.id, item.due, item.attempts, item.data) for item in expected
        ]
        self.store.close()
        self.decode()
        self.compare_note()
        self.open()
        shown = sessions_of(self.store)
        self.store.close()
        assert shown == sessions_in(files_on(Disk(self.kernel), ROOT))


@pytest.mark.sampled(8)
@pytest.mark.parametrize("strict", [False, True], ids=["operations", "strict"])
@pytest.mark.parametrize("group", range(GROUPS))
def test_a_store_holds_what_a_plain_model_holds(group, strict, record_property):
    steps = 0
    count = HISTORIES // GROUPS // 2
    for number in range(count):
        history = History(number * GROUPS + group, strict=strict)
        for _ in range(STEPS):
            history.step()
        history.compare()
        steps += history.steps
    record_property("histories", [count, steps])
