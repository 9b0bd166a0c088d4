"""Handlers that wait for the end of a write, and what an application may do with its handlers meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from flintlog.disk import DEFERRED, Disk, FailStop

SIGNAL = signal.SIGUSR1


@pytest.fixture
def calls():
    """Words that handlers leave; the handler of the application is set, and set back at the end."""
    calls = []
    before = signal.signal(SIGNAL, lambda *_: calls.append("first"))
    yield calls
    signal.signal(SIGNAL, before)


def test_a_handler_waits_for_the_end_of_the_outermost_block(calls):
    with DEFERRED:
        with DEFERRED:
            signal.raise_signal(SIGNAL)
        assert not calls
    assert calls == ["first"]


def test_a_handler_that_is_set_inside_a_block_and_set_back_outside_leaves_the_first_one(calls):
    for _ in range(3):  # a stand-in that stayed behind must not change what comes later
        with DEFERRED:
            before = signal.signal(SIGNAL, lambda *_: calls.append("second"))
        with DEFERRED:
            signal.raise_signal(SIGNAL)
        assert calls == ["second"]
        signal.signal(SIGNAL, before)
        signal.raise_signal(SIGNAL)
        with DEFERRED:
            signal.raise_signal(SIGNAL)
        assert calls == ["second", "first", "first"]
        calls.clear()


def test_after_a_block_the_handler_is_the_application_s(calls):
    mine = signal.getsignal(SIGNAL)
    with DEFERRED:
        before = signal.signal(SIGNAL, signal.SIG_IGN)
    assert signal.getsignal(SIGNAL) is signal.SIG_IGN  # it was set inside
    signal.signal(SIGNAL, before)
    with DEFERRED:
        pass
    assert signal.getsignal(SIGNAL) is mine


def test_a_patient_block_that_another_thread_leaves_holds_no_signal_back(calls):
    block = DEFERRED.patiently()
    block.__enter__()
    signal.raise_signal(SIGNAL)
    assert not calls
    leaving = threading.Thread(target=block.__exit__, args=(None, None, None))
    leaving.start()
    leaving.join()
    assert calls == ["first"]
    signal.raise_signal(SIGNAL)
    assert calls == ["first", "first"]


def test_a_child_that_another_thread_forks_inside_a_block_gets_its_signals(calls):
    statuses = []

    def fork():
        child = os.fork()
        if not child:
            signal.raise_signal(SIGNAL)
            os._exit(len(calls))
        statuses.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    with DEFERRED:
        forking = threading.Thread(target=fork)
        forking.start()
        forking.join()
    assert statuses == [1]
    assert not calls


def test_a_child_that_the_main_thread_forks_inside_a_block_leaves_it_as_the_parent_does(calls):
    with DEFERRED:
        child = os.fork()
        signal.raise_signal(SIGNAL)
        early = len(calls)
    if not child:
        os._exit(len(calls) - early)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    assert calls == ["first"]


def test_no_step_of_ours_runs_when_an_object_is_collected(tmp_path):
    """Python swallows what a handler raises there: a Ctrl-C would be lost."""
    file = Disk().open(str(tmp_path / "file"), "create")
    file.close()
    left = Disk().open(str(tmp_path / "left"), "create")
    handle = left._handle
    things = [file, left, FailStop("store")]
    del file, left
    steps = []
    sys.setprofile(lambda frame, event, _: steps.append(frame.f_code.co_name) if event == "call" else None)
    try:
        things.clear()
    finally:
        sys.setprofile(None)
    os.close(handle)
    assert steps == []


@pytest.mark.parametrize("step", ["__enter__", "__exit__", "take_over", "call_waiting"])
def test_an_interrupt_at_any_step_of_a_sleep_leaves_no_block_behind(step, calls):
    """A handler that raises before the first step of `__exit__` is done: the blocks around are left as ever."""
    came = []

    def stop(*_):
        came.append(1)
        raise InterruptedError

    def profile(frame, event, _):
        if (
            event == "call"
            and frame.f_code.co_name == step
            and "interrupts" in frame.f_code.co_filename
            and armed
        ):
            armed.clear()
            signal.raise_signal(SIGNAL)

    armed = []
    signal.signal(SIGNAL, stop)
    try:
        with DEFERRED, DEFERRED:
            armed.append(1)
            sys.setprofile(profile)
            with DEFERRED.lifted():
                pass
    except InterruptedError:
        pass
    finally:
        sys.setprofile(None)
    assert came == [1]
    assert DEFERRED.depth == DEFERRED.open_depth == 0
    assert signal.getsignal(SIGNAL) is stop
    with pytest.raises(InterruptedError), DEFERRED:
        signal.raise_signal(SIGNAL)
        assert came == [1]
    assert came == [1, 1]


def test_a_compiler_is_not_interrupted(tmp_path):
    """Numba that is left half way while it loads fails ever after."""
    program = tmp_path / "program.py"
    program.write_text(
        """
import signal, sys
from flintlog import QueueStore

def stop(*_):
    raise InterruptedError

def interrupt(frame, event, _):
    if event == "call" and frame.f_code.co_name == "stream_list":
        sys.setprofile(None)
        signal.raise_signal(signal.SIGALRM)

signal.signal(signal.SIGALRM, stop)
store = QueueStore(sys.argv[1])
records = [b"x" * 1000] * 70_000
sys.setprofile(interrupt)
try:
    store.queue().add_many(records)
except InterruptedError:
    pass
else:
    raise AssertionError("nothing was compiled")
assert list(store.queue().add_many(records))
store.close()
"""
    )
    done = subprocess.run(
        [sys.executable, str(program), str(tmp_path / "log")], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
