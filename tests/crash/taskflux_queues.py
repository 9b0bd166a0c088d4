"""Crash scenarios of `QueueStore`. An item of the history is one entry of the log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tests.crash.queue_model import Shown, shown_by, states_of

from flintlog.dialects.taskflux.layout import (
    AddRecord,
    CreateQueue,
    DeleteQueue,
    Delta,
    QueueSpec,
    RemoveRecord,
)
from flintlog.dialects.taskflux.store import QueueStore
from flintlog.disk import Disk
from flintlog.testing import History, Scenario, Suite

ROOT = "/srv/app/spool"
SMALL = {"soft_limit": 160, "hard_limit": 320}
SHIPPED = {"edition": "shipped"}
PIECE = 4  # writes of the longest scenarios are torn at these; shorter ones at every byte
Log = History[Delta]


def opened(disk: Disk, **options: Any) -> QueueStore:
    return QueueStore(ROOT, disk=disk, snapshot_in_background=False, **({"reserve_bytes": 0} | options))


class Driver:
    """A store whose every change is noted in the history, before and after."""

    def __init__(self, disk: Disk, history: Log, **options: Any) -> None:
        self.store = opened(disk, **options)
        self.history = history
        history.opened(lambda: self.store.queue().add(b"probe"), lambda: self.store.create("probe"))

    def noted(self, deltas: Sequence[Delta], act: Callable[[], Any]) -> Any:
        for delta in deltas:
            self.history.issue(delta)
        result = act()
        for delta in deltas:
            self.history.acknowledge(delta)
        return result

    def create(self, name: str, **limits: Any) -> None:
        self.noted([CreateQueue(QueueSpec(name, **limits))], lambda: self.store.create(name, **limits))

    def delete(self, name: str) -> None:
        self.noted([DeleteQueue(name)], lambda: self.store.delete(name))

    def add(self, payload: bytes, key: int = 0, queue: str = "") -> None:
        self.noted([AddRecord(queue, key, payload)], lambda: self.store.queue(queue).add(payload, key))

    def add_many(self, payloads: list[bytes], keys: list[int], queue: str = "") -> None:
        deltas = [AddRecord(queue, key, payload) for key, payload in zip(keys, payloads, strict=True)]
        self.noted(deltas, lambda: self.store.queue(queue).add_many(payloads, keys))

    def take(self, count: int, queue: str = "") -> list[Any]:
        return self.store.queue(queue).take_many(count)

    def ack(self, taken: list[Any], queue: str = "") -> None:
        removals = [RemoveRecord(queue, one.id) for one in taken]
        self.noted(removals, lambda: self.store.queue(queue).ack_many(taken))

    def remove(self, id_: int, queue: str = "") -> None:
        self.noted([RemoveRecord(queue, id_)], lambda: self.store.queue(queue).remove(id_))

    def close(self) -> None:
        self.store.close()


class QueueOracle:
    """Whatever is recovered is the state after some prefix of the entries that holds every acknowledged one."""

    def recover(self, disk: Disk) -> Shown:
        with opened(disk) as store:
            return shown_by(store)

    def check(self, observed: Shown, issued: Sequence[Delta], acknowledged: Sequence[Delta]) -> str | None:
        states = states_of(issued)
        if observed in states[len(acknowledged) :]:
            return None
        if observed in states:
            return f"only {states.index(observed)} of {len(acknowledged)} acknowledged entries are there"
        return f"no prefix of the {len(issued)} entries gives {observed}"

    def extend(self, disk: Disk, observed: Shown) -> Shown:
        with opened(disk) as store:
            store.queue().add(b"one more", -5)
        spec, last_id, records = observed[0]
        more = tuple(sorted([*records, (last_id + 1, -5, b"one more")], key=lambda record: record[1]))
        return ((spec, last_id + 1, more), *observed[1:])


def new_directory(disk: Disk, history: Log, **options: Any) -> None:
    driver = Driver(disk, history, **options)
    driver.add(b"first")
    driver.close()


def one_by_one(disk: Disk, history: Log) -> None:
    driver = Driver(disk, history)
    for number in range(8):
        driver.add(b"payload %d " % number * (number + 1), key=-number % 3)
    driver.close()


def take_and_acknowledge(disk: Disk, history: Log) -> None:
    driver = Driver(disk, history)
    driver.add_many([b"a" * 30, b"b" * 30, b"c" * 30, b"d" * 30, b"e"], [2, 1, 1, 0, 3])
    taken = driver.take(3)
    taken[1].nack()
    driver.ack([taken[0]])
    driver.add(b"f", 1)
    driver.remove(5)
    driver.ack([taken[2]])
    driver.ack(driver.take(2))
    driver.close()


def create_and_delete_queues(disk: Disk, history: Log) -> None:
    driver = Driver(disk, history)
    driver.create("orders", max_size=3, max_payload=100)
    driver.create("jobs", code=2, key_range=(0, 9))
    driver.add(b"order", 1, "orders")
    driver.add(b"job", 9, "jobs")
    driver.delete("orders")
    driver.create("orders")
    driver.add(b"order of another life", 1, "orders")
    driver.delete("jobs")
    driver.close()


def large_records(disk: Disk, history: Log) -> None:
    driver = Driver(disk, history)
    for number, size in enumerate((1700, 3900, 2600)):
        driver.add(bytes([65 + number]) * size, key=-number)
    driver.close()


def large_batch(disk: Disk, history: Log, **options: Any) -> None:
    driver = Driver(disk, history, **options)
    driver.add(b"before")
    driver.add_many([b"%02d" % number * 150 for number in range(40)], list(range(40)))
    driver.add(b"after")
    driver.close()


def roll(disk: Disk, history: Log, count: int = 10, **options: Any) -> None:
    driver = Driver(disk, history, **SMALL, **options)
    for number in range(count):
        driver.add(b"x" * 50, key=number)
    driver.close()


def batch_over_segments(disk: Disk, history: Log) -> None:
    driver = Driver(disk, history, **SMALL)
    driver.add_many([b"y" * 60] * 14, [number % 4 for number in range(14)])
    driver.add_many([b"z" * 400] * 3, [0, 0, 0])
    driver.close()


def roll_into_large_batch(disk: Disk, history: Log) -> None:
    """The header of a new segment and more than a page of records are one write."""
    driver = Driver(disk, history, soft_limit=60, hard_limit=1 << 20)
    driver.add(b"fills the first segment" * 2)
    driver.add_many([b"%d" % number * 700 for number in range(9)], [0] * 9)
    driver.close()


def snapshot(disk: Disk, history: Log, **options: Any) -> None:
    driver = Driver(disk, history, **SMALL, **options)
    driver.create("q")
    for number in range(6):
        driver.add(b"record %d" % number * 5, key=number % 2, queue="q")
    driver.ack(driver.take(2, "q"), "q")
    driver.store.snapshot()
    driver.add(b"behind the snapshot", queue="q")
    driver.store.snapshot()
    driver.add(b"at the end")
    driver.close()


def snapshots_by_rule(disk: Disk, history: Log, **options: Any) -> None:
    driver = Driver(disk, history, **SMALL, snapshot_threshold=1, **options)
    for number in range(14):
        driver.add(b"record %d" % number * 6, key=number % 3)
    driver.close()


def open_twice(disk: Disk, history: Log) -> None:
    for number in range(3):
        driver = Driver(disk, history, **SMALL)
        driver.add(b"of run %d" % number * 9)
        driver.close()


def with_stale_bytes(disk: Disk, history: Log) -> None:
    """A segment with records behind its end marker, as the original leaves them when it overwrites."""
    driver = Driver(disk, history, **SHIPPED)
    for number in range(3):
        driver.add(b"record %d" % number)
    driver.close()
    name = f"{ROOT}/data/log/0000000000000000000.log"
    with disk.open(name, "write") as file:
        content = file.pread(file.size(), 0)
        end = len(content) - 4
        stale = content[8:end]
        file.pwrite(
            content + stale[4:] + stale, 0
        )  # the end marker stands over the first stale record's marker
        file.sync()


def append_over_stale_bytes(disk: Disk, history: Log) -> None:
    driver = Driver(disk, history)
    driver.add(b"record 3")
    driver.add(b"record 4")
    driver.close()


SUITE = Suite(
    "tests.crash.taskflux_queues:SUITE",
    QueueOracle(),
    (
        Scenario("new-directory", new_directory),
        Scenario(
            "new-directory-shipped", partial(new_directory, edition="shipped", preallocate=True, **SMALL)
        ),
        Scenario("one-by-one", one_by_one),
        Scenario("take-and-acknowledge", take_and_acknowledge),
        Scenario("create-and-delete-queues", create_and_delete_queues),
        Scenario("large-records", large_records),
        Scenario("large-batch", large_batch),
        Scenario("large-batch-shipped", partial(large_batch, **SHIPPED)),
        Scenario("roll", roll),
        Scenario("roll-with-reserve", partial(roll, count=4, reserve_bytes=700)),
        Scenario("roll-into-large-batch", roll_into_large_batch),
        Scenario("batch-over-segments", batch_over_segments, atomic_bytes=PIECE),
        Scenario("snapshot", snapshot),
        Scenario("snapshot-shipped", partial(snapshot, edition="shipped", preallocate=True)),
        Scenario("snapshots-by-rule", snapshots_by_rule),
        Scenario("snapshots-by-rule-shipped", partial(snapshots_by_rule, **SHIPPED), atomic_bytes=PIECE),
        Scenario("open-twice", open_twice),
        Scenario("append-over-stale-bytes", append_over_stale_bytes, prepare=with_stale_bytes),
    ),
)
