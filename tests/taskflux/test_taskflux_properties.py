"""Random histories of the queues and of the Raft side against plain models, with crashes and reopenings.

A history is a list of steps; the store runs on a kernel in memory, so a crash is a new kernel with what the
old one had on its device. Whatever returned is durable: after a crash the state is exactly that of the model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.crash.queue_model import Model, shown_by
from tests.independent.views import files_on, queues_in, queues_of, replica_in, replica_of

from flintlog.core.log import Log
from flintlog.dialects.taskflux.dialect import DIALECT
from flintlog.dialects.taskflux.layout import (
    AddRecord,
    CreateQueue,
    DeleteQueue,
    QueueSpec,
    RemoveRecord,
    encode_delta,
)
from flintlog.dialects.taskflux.store import QueueStore, ReplicaLog, Taken
from flintlog.disk import Disk
from flintlog.errors import RefusedError
from flintlog.testing import MemoryKernel

ROOT = "/srv/queues"
EDITIONS = ("designed", "shipped")
HISTORIES = 1200  # for each edition
NAMES = ("", "", "a", "../b")
SPECS: tuple[dict[str, Any], ...] = (
    {},
    {"max_size": 2},
    {"max_payload": 3},
    {"code": 2, "key_range": (-1, 1)},
    {"max_size": 3, "max_payload": 8, "key_range": (0, 2)},
)
ACTIONS = (
    *("add",) * 5,
    *("take",) * 4,
    *("ack",) * 3,
    *("nack",) * 2,
    *("create",) * 2,
    *("crash",) * 2,
    "add_many",
    "take_many",
    "ack_many",
    "delete",
    "remove",
    "snapshot",
    "reopen",
)

WORDS = {
    *("created", "deleted", "added", "taken", "acknowledged", "given back", "removed", "snapshots"),
    *("crashed with records in flight", "queue-exists", "queue-missing", "record-missing", "refused"),
    *("queue-full", "key-range", "payload-size"),
}

SETTINGS = settings(
    max_examples=HISTORIES,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)


def crashed(kernel: MemoryKernel, how: int) -> MemoryKernel:
    """The machine after a crash: everything pending lost, nothing lost, or only the processes gone."""
    if how == 0:
        return MemoryKernel(kernel.device().durable())
    if how == 1:
        return MemoryKernel(kernel.visible())
    kernel.kill_processes()
    return kernel


@dataclass
class LiveQueue:
    """What a running store shows beyond the model: who is handed out, and who came back behind the others."""

    arrived: list[tuple[int, int, bytes]] = field(default_factory=list)
    taken: dict[int, Taken] = field(default_factory=dict)

    def in_order(self) -> list[tuple[int, int, bytes]]:
        return sorted(self.arrived, key=lambda row: row[1])


class QueueHistory:
    """One store beside its model. Each step asserts; every restart compares everything."""

    def __init__(self, edition: str, options: dict[str, Any]) -> None:
        self.kernel = MemoryKernel()
        self.options = {"edition": edition, "snapshot_in_background": False, **options}
        self.model = Model()
        self.seen: Counter[str] = Counter()
        self.open()

    def open(self) -> None:
        self.store = QueueStore(ROOT, disk=Disk(self.kernel), **self.options)
        assert self.store.findings == ()
        assert shown_by(self.store) == self.model.shown()
        assert queues_of(self.store) == queues_in(files_on(Disk(self.kernel), ROOT))
        self.live = {
            name: LiveQueue([(id_, key, payload) for id_, (key, payload) in queue.records.items()])
            for name, queue in self.model.queues.items()
        }

    def step(self, action: str, name: str, a: int, b: int) -> None:
        if action in ("create", "crash", "snapshot", "reopen"):
            getattr(self, action)(name, a, b)
        elif name not in self.model.queues:
            self.refused("queue-missing", lambda: self.store.queue(name))
        else:
            getattr(self, action)(name, a, b)
        if name in self.model.queues:
            self.compare(name)

    def compare(self, name: str) -> None:
        queue, live = self.store.queue(name), self.live[name]
        waiting = live.in_order()
        assert queue.peek() == (waiting[0] if waiting else None)
        assert (len(queue), queue.in_flight) == (len(waiting), len(live.taken))
        assert queue.last_id == self.model.queues[name].last_id
        assert queue.records() == waiting

    def refused(self, code: str, act: Callable[[], Any]) -> None:
        refused(code, act)
        self.seen[code] += 1

    # Steps

    def create(self, name: str, a: int, b: int) -> None:
        limits = SPECS[a % len(SPECS)]
        if name in self.model.queues:
            self.refused("queue-exists", lambda: self.store.create(name, **limits))
            return
        self.store.create(name, **limits)
        self.model.apply(CreateQueue(QueueSpec(name, **limits)))
        self.live[name] = LiveQueue()
        self.seen["created"] += 1

    def delete(self, name: str, a: int, b: int) -> None:
        if name == "":
            self.refused("refused", lambda: self.store.delete(name))
            return
        gone = self.store.queue(name)
        self.store.delete(name)
        self.model.apply(DeleteQueue(name))
        del self.live[name]
        self.seen["deleted"] += 1
        self.refused("queue-missing", lambda: gone.add(b""))

    def add(self, name: str, a: int, b: int) -> None:
        self.put(name, [(a % 4 - 1, bytes([65 + b]) * (b * b))])

    def add_many(self, name: str, a: int, b: int) -> None:
        self.put(name, [((a * at) % 4 - 1, b"%d" % at * b) for at in range(a + 1)])

    def put(self, name: str, rows: list[tuple[int, bytes]]) -> None:
        queue, live, spec = self.store.queue(name), self.live[name], self.model.queues[name].spec

        def act() -> Any:
            if len(rows) == 1:
                return [queue.add(rows[0][1], rows[0][0])]
            return queue.add_many([payload for _, payload in rows], [key for key, _ in rows])

        low, high = spec.key_range or (-(2**63), 2**63 - 1)
        before = self.store.last_lsn
        if spec.max_size is not None and len(live.arrived) + len(rows) > spec.max_size:
            self.refused("queue-full", act)
        elif not all(low <= key <= high for key, _ in rows):
            self.refused("key-range", act)
        elif spec.max_payload is not None and max(len(payload) for _, payload in rows) > spec.max_payload:
            self.refused("payload-size", act)
        else:
            first = self.model.queues[name].last_id + 1
            ids = act()
            assert list(ids) == list(range(first, first + len(rows)))
            for id_, (key, payload) in zip(ids, rows, strict=True):
                self.model.apply(AddRecord(name, key, payload))
                live.arrived.append((id_, key, payload))
            self.seen["added"] += len(rows)
            return
        assert self.store.last_lsn == before  # a refused call writes nothing

    def take(self, name: str, a: int, b: int) -> None:
        self.take_up_to(name, 1)

    def take_many(self, name: str, a: int, b: int) -> None:
        self.take_up_to(name, a + 1)

    def take_up_to(self, name: str, limit: int) -> None:
        live = self.live[name]
        expected = live.in_order()[:limit]
        taken = self.store.queue(name).take_many(limit)
        assert [(one.id, one.key, one.payload) for one in taken] == expected
        for one, row in zip(taken, expected, strict=True):
            live.arrived.remove(row)
            live.taken[one.id] = one
        self.seen["taken"] += len(taken)

    def ack(self, name: str, a: int, b: int) -> None:
        taken = self.pick(name, a)
        if taken is not None:
            taken.ack()
            self.model.apply(RemoveRecord(name, taken.id))
            self.seen["acknowledged"] += 1
            self.refused("refused", taken.ack)
            self.refused("refused", taken.nack)

    def ack_many(self, name: str, a: int, b: int) -> None:
        taken = list(self.live[name].taken.values())
        self.store.queue(name).ack_many(taken)
        for one in taken:
            self.model.apply(RemoveRecord(name, one.id))
        self.live[name].taken.clear()

    def nack(self, name: str, a: int, b: int) -> None:
        taken = self.pick(name, a)
        if taken is not None:
            taken.nack()
            self.live[name].arrived.append((taken.id, taken.key, taken.payload))
            self.seen["given back"] += 1
            self.refused("refused", taken.ack)

    def pick(self, name: str, a: int) -> Taken | None:
        taken = self.live[name].taken
        return taken.pop(sorted(taken)[a % len(taken)]) if taken else None

    def remove(self, name: str, a: int, b: int) -> None:
        queue, live = self.store.queue(name), self.live[name]
        id_ = a * 3 + b
        row = next((row for row in live.arrived if row[0] == id_), None)
        if id_ in live.taken:
            self.refused("refused", lambda: queue.remove(id_))
        elif row is None:
            self.refused("record-missing", lambda: queue.remove(id_))
        else:
            assert queue.remove(id_) == row
            live.arrived.remove(row)
            self.model.apply(RemoveRecord(name, id_))
            self.seen["removed"] += 1

    def snapshot(self, name: str, a: int, b: int) -> None:
        assert self.store.snapshot() == self.store.snapshot_lsn == self.store.last_lsn

    def reopen(self, name: str, a: int, b: int) -> None:
        self.store.close()
        self.open()

    def crash(self, name: str, a: int, b: int) -> None:
        self.seen["crashed with records in flight"] += any(live.taken for live in self.live.values())
        self.kernel = crashed(self.kernel, a % 3)
        self.open()

    def finish(self) -> None:
        self.seen["snapshots"] += self.store.snapshot_lsn >= 0
        self.reopen("", 0, 0)
        shown = queues_of(self.store)
        self.store.close()
        assert shown == queues_in(files_on(Disk(self.kernel), ROOT))
        assert Log(DIALECT, Disk(self.kernel), ROOT).verify().verdict == "clean"


def refused(code: str, act: Callable[[], Any]) -> None:
    with pytest.raises(RefusedError) as caught:
        act()
    assert caught.value.code == code


numbers = st.integers(0, 7)
queue_steps = st.lists(
    st.tuples(st.sampled_from(ACTIONS), st.sampled_from(NAMES), numbers, numbers), min_size=16, max_size=40
)
options = st.fixed_dictionaries(
    {
        "soft_limit": st.sampled_from([60, 160]),
        "hard_limit": st.sampled_from([160, 320]),
        "snapshot_threshold": st.sampled_from([0, 1, 3]),
        "preallocate": st.booleans(),
        "reserve_bytes": st.sampled_from([0, 700]),
    }
)


@pytest.mark.long
@pytest.mark.parametrize("edition", EDITIONS)
def test_thousands_of_histories_of_the_queues_agree_with_the_model(edition, record_property):
    histories = steps = 0
    seen: Counter[str] = Counter()

    @SETTINGS
    @given(queue_steps, options)
    def run(history: list[tuple[str, str, int, int]], chosen: dict[str, Any]) -> None:
        nonlocal histories, steps
        live = QueueHistory(edition, chosen)
        for step in history:
            live.step(*step)
        live.finish()
        histories += 1
        steps += len(history)
        seen.update(live.seen)

    run()
    record_property("histories", [histories, steps])
    assert histories >= HISTORIES
    # The histories do what they are for, not one refusal after the other.
    assert {word: count for word, count in seen.items() if count < 30} == {}
    assert set(seen) == WORDS


# The Raft side


class ReplicaHistory:
    """A `ReplicaLog` beside a list of entries, a term, a vote and a commit index."""

    def __init__(self, edition: str, options: dict[str, Any]) -> None:
        self.kernel = MemoryKernel()
        self.options = {"edition": edition, **options}
        self.entries: list[tuple[int, bytes]] = []
        self.term, self.vote, self.commit_index = 1, None, -1
        self.open()

    def open(self) -> None:
        self.log = ReplicaLog(ROOT, disk=Disk(self.kernel), snapshot_in_background=False, **self.options)
        assert self.log.findings == ()
        self.commit_index = self.log.snapshot_lsn  # it is not stored; what a snapshot covers is committed
        self.compare()
        assert replica_of(self.log) == replica_in(files_on(Disk(self.kernel), ROOT))

    def compare(self) -> None:
        log = self.log
        assert (log.term, log.vote, log.commit_index) == (self.term, self.vote, self.commit_index)
        assert log.last_lsn == len(self.entries) - 1
        assert log.snapshot_lsn <= self.commit_index
        first = log.first_lsn
        assert first <= log.snapshot_lsn + 1
        ours = [(entry.term, entry.data) for entry in log.entries(first)]
        assert ours == self.entries[first:]
        if self.entries:
            assert log.last_term == self.entries[-1][0]

    def step(self, action: str, a: int, b: int) -> None:
        getattr(self, action)(a, b)
        self.compare()

    def new(self, a: int, b: int) -> list[tuple[int, bytes]]:
        last_term = self.entries[-1][0] if self.entries else 1
        return [
            (last_term + b % 2, encode_delta(AddRecord("", at, b"%d" % b * (b + 1)))) for at in range(a + 1)
        ]

    def append(self, a: int, b: int) -> None:
        new = self.new(a, b)
        assert self.log.append(new[0][0], [data for _, data in new]) == len(self.entries) + a
        self.entries += new

    def overwrite(self, a: int, b: int) -> None:
        first = max(len(self.entries) - b, 0)
        known = self.entries[first : first + a // 2]
        sent = [*known, *self.new(a // 3, b)]
        at = next(at for at in range(len(sent) + 1) if not self.holds(first + at, sent[at : at + 1]))
        conflicts = at < len(sent) and first + at < len(self.entries)
        if conflicts and first + at <= self.commit_index:
            refused("refused", lambda: self.log.append_entries(first, sent))
            return
        self.log.append_entries(first, sent)
        if at < len(sent):
            self.entries[first + at :] = sent[at:]

    def holds(self, lsn: int, sent: list[tuple[int, bytes]]) -> bool:
        """Is this entry here already? What a snapshot covers is committed, so it is the same everywhere."""
        here = bool(sent) and lsn < len(self.entries)
        return here and (lsn <= self.log.snapshot_lsn or self.entries[lsn][0] == sent[0][0])

    def gap(self, a: int, b: int) -> None:
        refused("refused", lambda: self.log.append_entries(len(self.entries) + 1 + a, self.new(0, b)))

    def roll_back(self, a: int, b: int) -> None:
        first = max(len(self.entries) - a, 0)
        if first <= self.commit_index:
            refused("refused", lambda: self.log.roll_back(first))
        else:
            self.log.roll_back(first)
            del self.entries[first:]

    def commit(self, a: int, b: int) -> None:
        index = len(self.entries) - 1 - b
        if index >= 0:
            self.log.commit(index)
            self.commit_index = max(self.commit_index, index)

    def snapshot(self, a: int, b: int) -> None:
        assert self.log.snapshot() == self.commit_index

    def enter(self, a: int, b: int) -> None:
        term, vote = self.term + a % 3 - 1, b % 4 - 1
        node = None if vote < 0 else vote
        if term == self.term and node is None:  # it is entered already, and a vote in it stays
            self.log.set_term(term)
        elif term < self.term or (term == self.term and self.vote not in (None, node)):
            refused("refused", lambda: self.log.set_term(max(term, 1), node) if term else refuse())
        else:
            self.log.set_term(term, node)
            self.term, self.vote = term, node

    def reopen(self, a: int, b: int) -> None:
        self.log.close()
        self.open()

    def crash(self, a: int, b: int) -> None:
        self.kernel = crashed(self.kernel, a % 3)
        self.open()


def refuse() -> None:
    raise RefusedError("term 0 is below every term")


REPLICA_ACTIONS = (
    *("append",) * 4,
    *("overwrite",) * 3,
    *("commit",) * 3,
    *("crash",) * 2,
    "gap",
    "roll_back",
    "snapshot",
    "enter",
    "reopen",
)
replica_steps = st.lists(
    st.tuples(st.sampled_from(REPLICA_ACTIONS), numbers, numbers), min_size=16, max_size=40
)


@pytest.mark.parametrize("edition", EDITIONS)
def test_histories_of_the_raft_side_agree_with_the_model(edition, record_property, part):
    histories = steps = 0
    count = 300 // part(4)[1]

    @settings(SETTINGS, max_examples=count)
    @given(replica_steps, options)
    def run(history: list[tuple[str, int, int]], chosen: dict[str, Any]) -> None:
        nonlocal histories, steps
        live = ReplicaHistory(edition, chosen)
        for step in history:
            live.step(*step)
        shown = replica_of(live.log)
        live.log.close()
        assert shown == replica_in(files_on(Disk(live.kernel), ROOT))
        histories += 1
        steps += len(history)

    run()
    record_property("histories", [histories, steps])
    assert histories >= count
