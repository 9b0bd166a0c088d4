"""A store is closed while threads write, its process forks, its main thread is interrupted: all of it real."""

from __future__ import annotations

import gc
import itertools
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from flintlog import Datastore, QueueStore, ReplicaLog, SessionStore, Topic
from flintlog.core.threads import StoreLock
from flintlog.dialects.taskflux.layout import AddRecord, encode_delta
from flintlog.disk import Disk, FailStop
from flintlog.errors import ClosedError, FlintlogError, ForkedError, LockedError, StoppedError
from flintlog.testing import Notes
from flintlog.testing.races import judge
from flintlog.testing.stores import SUBJECTS

PATIENCE = 30.0

each_store = pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)


def in_child(act) -> int:
    """Run `act` in a forked child; 0 when it returned."""
    child = os.fork()
    if not child:
        status = 1
        try:
            act()
            status = 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.fixture
def hasty():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


# Closing


@each_store
def test_closing_beside_working_threads_loses_nothing_and_raises_only_that_it_is_closed(
    subject, tmp_path, hasty
):
    for attempt in range(6):
        path = str(tmp_path / str(attempt))
        store = subject.open(Disk(), path)
        notes, wrong = Notes(), []
        begun = threading.Barrier(4)

        def work(seed: int, store=store, notes=notes, wrong=wrong, begun=begun) -> None:
            chance = random.Random(seed)
            begun.wait()
            try:
                while True:
                    for name in sorted(subject.operations):
                        subject.operations[name](store, notes, chance)
            except ClosedError:
                pass
            except BaseException as error:
                wrong.append(error)

        workers = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
        for worker in workers:
            worker.start()
        begun.wait()
        time.sleep(0.02 * attempt)
        store.close()
        for worker in workers:
            worker.join(PATIENCE)
            assert not worker.is_alive()
        assert wrong == []
        assert judge(subject, Disk(), path, notes) is None


@each_store
def test_closing_twice_is_closing_once(subject, tmp_path):
    store = subject.open(Disk(), str(tmp_path))
    store.close()
    store.close()
    subject.open(Disk(), str(tmp_path)).close()


# Forks


@each_store
def test_a_forked_child_is_refused_in_every_call_and_takes_nothing_from_its_parent(subject, tmp_path):
    store = subject.open(Disk(), str(tmp_path))
    notes = Notes()
    chance = random.Random(1)
    for operation in subject.operations.values():
        operation(store, notes, chance)

    def child() -> None:
        for operation in subject.operations.values():
            with pytest.raises(ForkedError, match="belongs to the process that opened it"):
                operation(store, Notes(), chance)
        store.close()

    assert in_child(child) == 0
    for operation in subject.operations.values():  # the parent goes on
        operation(store, notes, chance)
    with pytest.raises(LockedError):
        subject.open(Disk(), str(tmp_path))
    store.close()
    assert judge(subject, Disk(), str(tmp_path), notes) is None


@each_store
def test_the_lock_goes_with_the_parent_although_a_child_lives(subject, tmp_path):
    store = subject.open(Disk(), str(tmp_path))
    ready, end = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        os.write(ready[1], b".")
        os.close(end[1])
        os.read(end[0], 1)
        os._exit(0)
    os.read(ready[0], 1)
    store.close()
    subject.open(Disk(), str(tmp_path)).close()
    os.close(end[1])
    os.waitpid(child, 0)


@each_store
def test_a_child_that_was_forked_while_a_thread_held_every_lock_does_not_hang(subject, tmp_path, hasty):
    store = subject.open(Disk(), str(tmp_path))
    stop = threading.Event()

    def work(seed: int) -> None:
        chance = random.Random(seed)
        while not stop.is_set():
            for operation in subject.operations.values():
                operation(store, Notes(), chance)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(2)]
    for worker in workers:
        worker.start()

    def child() -> None:
        signal.alarm(int(PATIENCE))  # ends the child when it hangs
        for operation in subject.operations.values():
            with pytest.raises(ForkedError):
                operation(store, Notes(), random.Random(1))
        store.close()

    try:
        assert [in_child(child) for _ in range(5)] == [0] * 5
    finally:
        stop.set()
        for worker in workers:
            worker.join(PATIENCE)
        store.close()


def test_a_child_may_open_stores_of_its_own(tmp_path):
    with QueueStore(tmp_path / "parent") as store:
        store.queue().add(b"parent's")

        def child() -> None:
            with QueueStore(tmp_path / "child") as own:
                own.queue().add(b"child's")

        assert in_child(child) == 0
        store.queue().add(b"parent's again")
    with QueueStore(tmp_path / "child") as own:
        assert [record.payload for record in own.queue().records()] == [b"child's"]


# Signals


class InterruptedByTestError(Exception):
    pass


class Interrupts:
    """Interrupts the main thread once, by a handler that raises, while a block runs."""

    def __init__(self) -> None:
        self.came = 0
        self._armed = False

    def handle(self, *_: object) -> None:
        if self._armed:
            self._armed = False
            raise InterruptedByTestError

    def call(self, seconds: float, act: Callable[[], object]) -> None:
        """Call `act`, and interrupt it after so many seconds."""
        try:
            self._armed = True
            signal.setitimer(signal.ITIMER_REAL, seconds)
            act()
            self._armed = False
        except InterruptedByTestError:
            self.came += 1
        finally:
            self._armed = False


@pytest.fixture
def interrupts():
    made = Interrupts()
    before = signal.signal(signal.SIGALRM, made.handle)
    yield made
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


# The signal may also come in a callback of the garbage collector, which Python then only reports.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@each_store
def test_a_handler_that_raises_inside_a_call_stops_nothing(subject, tmp_path, interrupts):
    store = subject.open(Disk(), str(tmp_path))
    notes, chance = Notes(), random.Random(3)
    for _ in range(300):
        operation = subject.operations[chance.choice(sorted(subject.operations))]
        interrupts.call(chance.uniform(1e-5, 2e-3), partial(operation, store, notes, chance))
    assert interrupts.came > 20
    other = Notes()
    worker = threading.Thread(
        target=lambda: subject.operations[sorted(subject.operations)[0]](store, other, chance)
    )
    worker.start()
    worker.join(PATIENCE)
    assert not worker.is_alive()
    store.close()
    notes.adding |= other.adding
    notes.added |= other.added
    notes.removing |= other.removing
    assert judge(subject, Disk(), str(tmp_path), notes) is None


def test_an_interrupted_add_is_on_disk_when_the_interrupt_is_raised(tmp_path, interrupts):
    class InterruptingKernel(type(Disk().kernel)):
        def sync(self, handle: int) -> None:
            os.kill(os.getpid(), signal.SIGALRM)
            super().sync(handle)

    kernel = InterruptingKernel()
    with QueueStore(tmp_path, disk=Disk(kernel)) as store:
        interrupts.call(0, partial(store.queue().add, b"finished"))
        assert interrupts.came == 1
        assert [record.payload for record in store.queue().records()] == [b"finished"]
        store.queue().add(b"and on it goes")
    with QueueStore(tmp_path) as store:
        assert [record.payload for record in store.queue().records()] == [b"finished", b"and on it goes"]


def snapshot_beside(path: Path) -> tuple[Callable[[], object], ReplicaLog]:
    log = ReplicaLog(path, soft_limit=60, hard_limit=60, snapshot_threshold=0)
    for _ in range(3):
        log.append(1, [encode_delta(AddRecord("", 0, b"x" * 100))])
    return lambda: log.commit(log.last_lsn), log


def epochs_by_themselves(path: Path) -> tuple[Callable[[], object], Datastore]:
    store = Datastore(path)
    return store.automatic, store


@pytest.mark.parametrize("when", ["c_call", "c_return"])
@pytest.mark.parametrize("start", [snapshot_beside, epochs_by_themselves])
def test_an_interrupt_while_a_thread_starts_is_raised_as_itself(start, when, tmp_path, interrupts):
    """Python's own thread falls over a handler that raises while it starts."""
    act, store = start(tmp_path)

    def interrupt(frame, event, argument):
        if event == when and getattr(argument, "__name__", "") == "start_new_thread":
            sys.setprofile(None)
            time.sleep(0.05)  # the new thread runs
            signal.raise_signal(signal.SIGALRM)

    sys.setprofile(interrupt)
    try:
        interrupts.call(0, act)
    finally:
        sys.setprofile(None)
    assert interrupts.came == 1
    store.close()
    for thread in threading.enumerate():
        if thread.name in ("flintlog-snapshot", "flintlog-epochs"):
            thread.join(PATIENCE)
            assert not thread.is_alive()


def at_step(number: int, act: Callable[[], object]) -> bool:
    """Call `act` and send SIGALRM before its Nth byte code where locks and signals are; False: it has fewer."""
    left = number

    def trace(frame, event, argument):
        nonlocal left
        if not frame.f_code.co_filename.endswith(("threads.py", "threading.py", "interrupts.py")):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            left -= 1
            if left == 0:
                signal.raise_signal(signal.SIGALRM)
        return trace

    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(None)
    return left <= 0


@pytest.mark.parametrize("reentrant", [False, True])
def test_an_interrupt_at_any_step_of_a_sleep_leaves_the_lock_and_the_turns(reentrant, interrupts):
    lock = StoreLock(FailStop("sleepers"), reentrant=reentrant)
    condition = lock.condition()

    def sleep() -> None:
        with lock:
            condition.notify()
            condition.wait(0.001)

    def step(number: int) -> bool:
        reached = True

        def act() -> None:
            nonlocal reached
            reached = at_step(number, sleep)

        interrupts.call(PATIENCE, act)
        return reached

    def look() -> None:
        with lock:
            left.append(len(condition._bells))

    left: list[int] = []
    for number in itertools.count(1):
        reached = step(number)
        looker = threading.Thread(target=look, daemon=True)
        looker.start()
        looker.join(PATIENCE)
        assert left == [0], f"step {number}"
        left.clear()
        if not reached:
            break
    assert interrupts.came > 30


def test_a_handler_of_the_application_is_its_own_again_after_a_call(tmp_path):
    came = []
    before = signal.signal(signal.SIGUSR1, lambda *_: came.append(1))
    handler = signal.getsignal(signal.SIGUSR1)
    try:
        with QueueStore(tmp_path) as store:
            store.queue().add(b"x")
            assert signal.getsignal(signal.SIGUSR1) is handler
            os.kill(os.getpid(), signal.SIGUSR1)
            assert came == [1]
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_sleeping_take_can_be_interrupted(tmp_path, interrupts):
    with QueueStore(tmp_path) as store:
        interrupts.call(0.05, partial(store.queue().take, timeout=None))
        assert interrupts.came == 1
        store.queue().add(b"x")
        assert store.queue().take().payload == b"x"


# Sleepers


class FailingKernel(type(Disk().kernel)):
    """Its syncs fail from a given moment on."""

    fails = False

    def sync(self, handle: int) -> None:
        if self.fails:
            raise OSError(5, "injected")
        super().sync(handle)


def failing_beside(sleep, write, kernel: FailingKernel) -> BaseException | None:
    """Fail a write while another thread sleeps; what the sleeper raised."""
    raised: list[BaseException] = []

    def sleeper() -> None:
        try:
            sleep()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=sleeper, daemon=True)
    thread.start()
    time.sleep(0.1)
    kernel.fails = True
    with pytest.raises(FlintlogError):
        write()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    return raised[0] if raised else None


def test_a_taker_that_sleeps_learns_that_the_store_stopped(tmp_path):
    kernel = FailingKernel()
    store = QueueStore(tmp_path, disk=Disk(kernel))
    queue, other = store.queue(), store.create("other")
    error = failing_beside(lambda: queue.take(timeout=None), lambda: other.add(b"x"), kernel)
    assert isinstance(error, StoppedError)


def test_an_iterator_of_replays_that_sleeps_learns_that_the_store_stopped(tmp_path):
    kernel = FailingKernel()
    store = SessionStore(tmp_path, topics=[Topic(1, 3600)], clock=time.time, disk=Disk(kernel))
    store.put(1, b"later")
    error = failing_beside(lambda: list(store.replays()), lambda: store.put(1, b"fails"), kernel)
    assert isinstance(error, StoppedError)


def test_files_of_a_closed_store_leave_no_descriptor_open(tmp_path):
    def is_ours(descriptor: Path) -> bool:
        try:
            return descriptor.readlink().is_relative_to(tmp_path)
        except FileNotFoundError:
            return False

    for subject in SUBJECTS:
        subject.open(Disk(), str(tmp_path / subject.name)).close()
        gc.collect()  # a mapped snapshot goes with its store
        assert not any(map(is_ours, Path("/proc/self/fd").iterdir())), subject.name
