"""Many threads on one store: shared syncs, waiting takers, a snapshot that stops nobody."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future

import pytest

from flintlog import QueueStore
from flintlog.dialects.taskflux.store.errors import QueueFullError, QueueMissingError
from flintlog.disk import Disk
from flintlog.errors import ClosedError, StoppedError
from flintlog.testing import MemoryKernel

ROOT = "/srv/queues"
PATIENCE = 10.0  # seconds that nobody should need


class SlowKernel(MemoryKernel):
    """Syncs take as long as on a disk, and are counted."""

    def __init__(self) -> None:
        super().__init__()
        self.syncs = 0

    def sync(self, handle: int) -> None:
        self.syncs += 1
        time.sleep(0.002)
        super().sync(handle)


def opened(kernel: MemoryKernel, **options) -> QueueStore:
    return QueueStore(ROOT, disk=Disk(kernel), **options)


class Threads:
    """Runs calls in threads that do not keep the test run alive when one waits for ever."""

    def submit(self, act: Callable, *arguments: object) -> Future:
        future: Future = Future()

        def run() -> None:
            try:
                future.set_result(act(*arguments))
            except BaseException as error:
                future.set_exception(error)

        threading.Thread(target=run, daemon=True).start()
        return future

    def map(self, act: Callable, each: Iterable) -> list:
        return [future.result(PATIENCE) for future in [self.submit(act, one) for one in each]]


@pytest.fixture
def threads() -> Threads:
    return Threads()


def started(threads: Threads, act: Callable) -> Future:
    """Run in a thread; returns when it had time to get to its wait."""
    running = threading.Event()

    def run():
        running.set()
        return act()

    future = threads.submit(run)
    assert running.wait(PATIENCE)
    time.sleep(0.05)
    return future


def test_sixteen_threads_share_their_syncs(threads):
    kernel = SlowKernel()
    with opened(kernel) as store:
        queue = store.queue()
        before = kernel.syncs
        ready = threading.Barrier(16)

        def add_fifty(number: int) -> list[int]:
            ready.wait(PATIENCE)
            return [queue.add(b"%d-%d" % (number, at), key=number) for at in range(50)]

        ids = [
            future.result(PATIENCE) for future in [threads.submit(add_fifty, number) for number in range(16)]
        ]
        syncs = kernel.syncs - before
    assert sorted(id_ for mine in ids for id_ in mine) == list(range(1, 801))
    assert all(mine == sorted(mine) for mine in ids)
    assert 50 <= syncs < 250  # a thread waits for each of its fifty; one sync for each add would be 800
    with opened(MemoryKernel(kernel.device().durable())) as store:
        rows = store.queue().records()
        assert len(rows) == 800
        for number in range(16):  # each got the id that it was told
            mine = {row.id: row.payload for row in rows if row.key == number}
            assert mine == {id_: b"%d-%d" % (number, at) for at, id_ in enumerate(ids[number])}


def test_one_thread_needs_one_sync_for_each_add():
    kernel = SlowKernel()
    with opened(kernel) as store:
        before = kernel.syncs
        for _ in range(20):
            store.queue().add(b"x")
        assert kernel.syncs - before == 20


def test_threads_take_and_acknowledge_every_record_once(threads):
    kernel = MemoryKernel()
    with opened(kernel) as store:
        queue = store.queue()

        def produce(number: int) -> None:
            for at in range(40):
                queue.add(b"%d" % (number * 40 + at), key=at % 3)

        def consume() -> list[int]:
            mine = []
            while (taken := queue.take(timeout=PATIENCE)).payload != b"stop":
                taken.ack()
                mine.append(taken.id)
            taken.ack()
            return mine

        consumers = [threads.submit(consume) for _ in range(8)]
        producers = [threads.submit(produce, number) for number in range(8)]
        for future in producers:
            future.result(PATIENCE)
        queue.add_many([b"stop"] * 8, keys=10)
        seen = [id_ for future in consumers for id_ in future.result(PATIENCE)]
        assert sorted(seen) == list(range(1, 321))
        assert (len(queue), queue.in_flight) == (0, 0)
    with opened(kernel) as store:
        assert (len(store.queue()), store.queue().last_id) == (0, 328)


def test_the_maximum_size_holds_while_many_threads_add(threads):
    with opened(SlowKernel()) as store:
        queue = store.create("q", max_size=10)

        def add(_: int) -> bool:
            try:
                queue.add(b"")
            except QueueFullError:
                return False
            return True

        assert sum(threads.map(add, range(64))) == 10
        assert (len(queue), queue.last_id) == (10, 10)


# Waiting for a record


def test_take_gives_up_after_its_timeout():
    with opened(MemoryKernel()) as store:
        begin = time.monotonic()
        assert store.queue().take(timeout=0.1) is None
        assert 0.1 <= time.monotonic() - begin < PATIENCE
        assert store.queue().take() is None
        assert store.queue().take_many(5, timeout=0.01) == []


def test_a_waiting_take_gets_what_is_added(threads):
    with opened(MemoryKernel()) as store:
        waiting = started(threads, lambda: store.queue().take(timeout=None))
        assert not waiting.done()
        store.queue().add(b"x", key=5)
        taken = waiting.result(PATIENCE)
        assert (taken.id, taken.key, taken.payload) == (1, 5, b"x")
        taken.ack()


def test_a_waiting_take_gets_what_is_given_back(threads):
    with opened(MemoryKernel()) as store:
        store.queue().add(b"x")
        taken = store.queue().take()
        waiting = started(threads, lambda: store.queue().take(timeout=None))
        assert not waiting.done()
        taken.nack()
        assert waiting.result(PATIENCE).id == 1


def test_a_batch_wakes_as_many_as_it_brings(threads):
    with opened(MemoryKernel()) as store:
        waiting = [started(threads, lambda: store.queue().take(timeout=None)) for _ in range(5)]
        store.queue().add_many([b"x"] * 5)
        assert sorted(future.result(PATIENCE).id for future in waiting) == [1, 2, 3, 4, 5]


def test_a_record_in_one_queue_does_not_go_to_who_waits_at_another(threads):
    with opened(MemoryKernel()) as store:
        other = store.create("other")
        waiting = started(threads, lambda: other.take(timeout=0.3))
        store.queue().add(b"x")
        assert waiting.result(PATIENCE) is None
        assert len(store.queue()) == 1


def test_deleting_a_queue_wakes_who_waits_at_it(threads):
    with opened(MemoryKernel()) as store:
        queue = store.create("q")
        waiting = [started(threads, lambda: queue.take(timeout=None)) for _ in range(3)]
        store.delete("q")
        for future in waiting:
            with pytest.raises(QueueMissingError):
                future.result(PATIENCE)


def test_closing_the_store_wakes_who_waits(threads):
    store = opened(MemoryKernel())
    queue = store.create("q")
    waiting = [started(threads, lambda: queue.take(timeout=None)) for _ in range(3)]
    store.close()
    for future in waiting:
        with pytest.raises(ClosedError):
            future.result(PATIENCE)


def test_a_record_is_not_handed_out_before_it_is_durable(threads):
    kernel = SlowKernel()
    gate = threading.Event()
    with opened(kernel) as store:
        real, kernel.sync = kernel.sync, lambda handle: (gate.wait(PATIENCE), real(handle))[1]
        adding = started(threads, lambda: store.queue().add(b"x"))
        assert store.queue().peek() is None and store.queue().take() is None
        gate.set()
        assert adding.result(PATIENCE) == 1
        assert store.queue().take().id == 1


# Snapshots and failures


class HeldKernel(MemoryKernel):
    """Holds the sync of a snapshot until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.reached, self.go_on = threading.Event(), threading.Event()

    def sync(self, handle: int) -> None:
        if self._handle(handle).path.endswith("snapshot.new"):
            self.reached.set()
            assert self.go_on.wait(PATIENCE)
        super().sync(handle)


@pytest.mark.parametrize("by_rule", [False, True], ids=["asked for", "by the rule"])
def test_writers_and_takers_go_on_while_a_snapshot_is_written(by_rule, threads):
    kernel = HeldKernel()
    limits = {"soft_limit": 100, "hard_limit": 100, "snapshot_threshold": 1 if by_rule else 10**6}
    with opened(kernel, **limits) as store:
        queue = store.queue()
        if by_rule:
            while not kernel.reached.wait(0.01):
                queue.add(b"before" * 10)
        else:
            queue.add(b"before")
            asked = threads.submit(store.snapshot)
        assert kernel.reached.wait(PATIENCE)
        assert store.snapshot_lsn == -1
        before = queue.last_id
        for number in range(20):
            assert queue.add(b"meanwhile", key=number) == before + number + 1
        queue.take().ack()
        store.create("made-meanwhile")
        assert store.snapshot_lsn == -1
        kernel.go_on.set()
        if not by_rule:
            assert asked.result(PATIENCE) == 0
    with opened(kernel) as store:
        assert store.snapshot_lsn >= 0
        assert len(store.queue()) == before + 19
        assert [spec.name for spec in store.list()] == ["", "made-meanwhile"]


class FailingKernel(SlowKernel):
    failing = False

    def sync(self, handle: int) -> None:
        super().sync(handle)
        if self.failing:
            raise OSError(5, "EIO")


def test_after_a_failed_sync_every_thread_is_refused_and_nothing_acknowledged_is_lost(threads):
    kernel = FailingKernel()
    store = opened(kernel)
    acknowledged: list[int] = []

    def work() -> BaseException:
        while True:
            try:
                acknowledged.append(store.queue().add(b"x"))
            except Exception as error:
                return error

    workers = [threads.submit(work) for _ in range(8)]
    waiting = store.create("empty")
    time.sleep(0.05)
    kernel.failing = True
    errors = [future.result(PATIENCE) for future in workers]
    assert sum(isinstance(error, OSError) for error in errors) == 1
    assert sum(isinstance(error, StoppedError) for error in errors) == 7
    with pytest.raises(StoppedError):
        waiting.take()
    kernel.failing = False
    with pytest.raises(StoppedError):
        store.queue().add(b"y")  # also when the device works again
    store.close()
    with opened(MemoryKernel(kernel.device().durable())) as store:
        assert {row.id for row in store.queue().records()} >= set(acknowledged)
        assert acknowledged
