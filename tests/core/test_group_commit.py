"""Many threads, one flush: order, sharing, errors, interrupts."""

from __future__ import annotations

import ctypes
import threading
import time

import pytest

from flintlog.core.group_commit import GroupCommit
from flintlog.errors import StoppedError

PATIENCE_SECONDS = 10


class Device:
    """Takes batches; holds the first one back until it is let go, so that others pile up behind it."""

    def __init__(self, *, held=False):
        self.batches = []
        self.begun = threading.Event()
        self.release = threading.Event()
        if not held:
            self.release.set()
        self.threads = []

    def flush(self, batch):
        self.threads.append(threading.current_thread())
        self.begun.set()
        assert self.release.wait(PATIENCE_SECONDS)
        self.batches.append(list(batch))


def start(work):
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def join(threads):
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()


def sleeping(commit, number):
    """Wait until so many threads sleep behind the leader."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while commit._coming.waiting < number:
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_a_single_thread_flushes_its_own_work_and_starts_no_other():
    device = Device()
    commit = GroupCommit(device.flush)
    before = threading.active_count()
    for number in range(3):
        commit.wait(commit.submit(number))
    assert device.batches == [[0], [1], [2]]
    assert set(device.threads) == {threading.current_thread()}
    assert threading.active_count() == before


def test_work_is_flushed_in_the_order_it_was_handed_in():
    device = Device()
    commit = GroupCommit(device.flush)
    tickets = [commit.submit(number) for number in range(5)]
    assert device.batches == []
    commit.wait(tickets[2])
    assert device.batches == [[0, 1, 2, 3, 4]]
    for ticket in tickets:
        commit.wait(ticket)
    assert len(device.batches) == 1


def test_threads_that_come_while_the_device_is_busy_share_one_flush():
    device = Device(held=True)
    commit = GroupCommit(device.flush)
    leader = start(lambda: commit.wait(commit.submit("first")))
    assert device.begun.wait(PATIENCE_SECONDS)
    others = [start(lambda number=number: commit.wait(commit.submit(number))) for number in range(15)]
    sleeping(commit, 15)
    device.release.set()
    join([leader, *others])
    assert len(device.batches) == 2
    assert device.batches[0] == ["first"]
    assert sorted(device.batches[1]) == list(range(15))


def test_under_load_each_thread_finds_its_own_work_in_order_and_nothing_twice():
    written = []
    busy = threading.Lock()

    def flush(batch):
        assert busy.acquire(blocking=False), "two flushes at once"
        written.extend(batch)
        time.sleep(0.0002)
        busy.release()

    commit = GroupCommit(flush)
    late = []

    def work(name):
        for number in range(200):
            ticket = commit.submit((name, number))
            commit.wait(ticket)
            if (name, number) not in written[-4000:]:
                late.append((name, number))

    join([start(lambda name=name: work(name)) for name in range(8)])
    assert late == []
    assert len(written) == 1600
    for name in range(8):
        assert [number for owner, number in written if owner == name] == list(range(200))


def test_an_error_of_the_flush_reaches_everybody_in_it_and_nobody_before_it():
    failure = OSError("disk gone")
    release = threading.Event()
    begun = threading.Event()
    batches = []

    def flush(batch):
        batches.append(list(batch))
        begun.set()
        assert release.wait(PATIENCE_SECONDS)
        if "first" not in batch:
            raise failure

    commit = GroupCommit(flush)
    raised = {}

    def work(name):
        try:
            commit.wait(commit.submit(name))
        except Exception as error:
            raised[name] = error

    leader = start(lambda: work("first"))
    assert begun.wait(PATIENCE_SECONDS)
    others = [start(lambda number=number: work(number)) for number in range(4)]
    sleeping(commit, 4)
    release.set()
    join([leader, *others])
    assert sorted(raised) == [0, 1, 2, 3]
    own = [error for error in raised.values() if error is failure]
    told = [error for error in raised.values() if isinstance(error, StoppedError)]
    assert (len(own), len(told)) == (1, 3)
    for error in told:
        assert error.__cause__ is failure
        assert "disk gone" in str(error)


def test_work_handed_in_and_waited_for_after_the_error_that_held_it_raises_too():
    def flush(batch):
        raise OSError("disk gone")

    commit = GroupCommit(flush)
    first, second = commit.submit(1), commit.submit(2)
    with pytest.raises(OSError, match="disk gone"):
        commit.wait(first)
    with pytest.raises(StoppedError, match="disk gone"):
        commit.wait(second)


def test_after_an_error_the_next_thread_leads_again():
    calls = []

    def flush(batch):
        calls.append(list(batch))
        if len(calls) == 1:
            raise OSError("once")

    commit = GroupCommit(flush)
    with pytest.raises(OSError, match="once"):
        commit.wait(commit.submit(1))
    commit.wait(commit.submit(2))
    assert calls == [[1], [2]]


def test_drain_flushes_what_nobody_waits_for():
    device = Device()
    commit = GroupCommit(device.flush)
    commit.drain()
    assert device.batches == []
    commit.submit(1)
    commit.submit(2)
    commit.drain()
    assert device.batches == [[1, 2]]


def test_drain_beside_a_thread_that_waits_wakes_both():
    device = Device(held=True)
    commit = GroupCommit(device.flush)
    leader = start(lambda: commit.wait(commit.submit(1)))
    assert device.begun.wait(PATIENCE_SECONDS)
    waiter = start(lambda: commit.wait(commit.submit(2)))
    sleeping(commit, 1)
    drainer = start(commit.drain)
    sleeping(commit, 2)
    device.release.set()
    join([leader, waiter, drainer])
    assert device.batches == [[1], [2]]


def test_drain_waits_for_what_is_being_flushed():
    device = Device(held=True)
    commit = GroupCommit(device.flush)
    leader = start(lambda: commit.wait(commit.submit(1)))
    assert device.begun.wait(PATIENCE_SECONDS)
    drained = threading.Event()
    drainer = start(lambda: (commit.drain(), drained.set()))
    sleeping(commit, 1)
    assert not drained.is_set()
    device.release.set()
    join([leader, drainer])
    assert device.batches == [[1]]


def interrupt(thread):
    """Raise KeyboardInterrupt in another thread."""
    identity = ctypes.c_ulong(thread.ident)
    assert ctypes.pythonapi.PyThreadState_SetAsyncExc(identity, ctypes.py_object(KeyboardInterrupt)) == 1


def test_an_interrupt_in_the_flush_of_the_leader_wakes_the_others():
    started = threading.Event()
    calls = []

    def flush(batch):
        calls.append(list(batch))
        if len(calls) == 1:
            started.set()
            deadline = time.monotonic() + PATIENCE_SECONDS
            while time.monotonic() < deadline:
                time.sleep(0.001)

    commit = GroupCommit(flush)
    seen = []

    def lead():
        try:
            commit.wait(commit.submit("leader"))
        except KeyboardInterrupt:
            seen.append("interrupted")

    leader = start(lead)
    assert started.wait(PATIENCE_SECONDS)
    other = start(lambda: commit.wait(commit.submit("other")))
    sleeping(commit, 1)
    interrupt(leader)
    join([leader, other])
    assert seen == ["interrupted"]
    assert calls == [["leader"], ["other"]]


class InterruptedGate:
    """A gate at which one thread is interrupted, as the main thread is by Ctrl-C; the others go through."""

    def __init__(self, gate, woken):
        self._gate = gate
        self._woken = woken
        self._interrupted = threading.current_thread()
        self.release = gate.release

    def acquire(self):
        if threading.current_thread() is self._interrupted:
            self._woken()
            raise KeyboardInterrupt
        return self._gate.acquire()


@pytest.mark.parametrize("when", ["before its turn", "chosen to lead", "written by another"])
def test_an_interrupted_waiter_leaves_no_one_waiting_for_it(when):
    device = Device(held=True)
    commit = GroupCommit(device.flush)
    leader = start(lambda: commit.wait(commit.submit("leader")))
    assert device.begun.wait(PATIENCE_SECONDS)
    ticket = commit.submit("interrupted")
    others = []

    def woken():
        if when == "written by another":
            others.append(start(lambda: commit.wait(ticket)))
            sleeping(commit, 2)
        if when != "before its turn":
            device.release.set()
            leader.join(PATIENCE_SECONDS)
            join(others)

    ticket.gate = InterruptedGate(ticket.gate, woken)
    with pytest.raises(KeyboardInterrupt):
        commit.wait(ticket)
    device.release.set()
    join([leader])
    last = start(lambda: commit.wait(commit.submit("last")))
    join([last])
    written = [["interrupted"], ["last"]] if others else [["interrupted", "last"]]
    assert device.batches == [["leader"], *written]


def test_the_next_batch_is_written_when_every_thread_of_the_last_one_had_its_turn():
    """So those who come back with new work go into it, and two halves do not take turns."""
    first, second = Device(held=True), Device(held=True)
    left_behind = []

    def flush(batch):
        if "late" in batch:
            left_behind.append(together.waiting)
        (second if 7 in batch else first).flush(batch)

    commit = GroupCommit(flush)
    threads = [start(lambda: commit.wait(commit.submit("first")))]
    assert first.begun.wait(PATIENCE_SECONDS)
    together = commit._coming
    threads += [start(lambda number=number: commit.wait(commit.submit(number))) for number in range(8)]
    sleeping(commit, 8)
    first.release.set()
    assert second.begun.wait(PATIENCE_SECONDS)
    threads.append(start(lambda: commit.wait(commit.submit("late"))))
    sleeping(commit, 1)
    second.release.set()
    join(threads)
    assert first.batches == [["first"], ["late"]]
    assert left_behind == [0]
