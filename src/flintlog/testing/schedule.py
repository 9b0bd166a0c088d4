"""Threads under a scheduler: one runs at a time, and a seed decides which.

Every call of a `Kernel` and every lock, event and thread of `flintlog.core.threads` is a point where another
thread may go on. The scheduler chooses by the seed, so a seed that shows a race shows it each time. Time is
the scheduler's own: it passes when every thread waits, so a timeout costs nothing.

A run ends when all threads have ended. For threads that wait for each other for ever it raises a `HangError`, which
says where each of them is.
"""

from __future__ import annotations

import random
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from flintlog.core import threads
from flintlog.disk import Disk, Kernel, KernelInFront

_STEPS_MAX = 200_000
_PATIENCE_SECONDS = 60.0


class HangError(AssertionError):
    """No thread can go on, or the run has no end."""


class _AbortError(BaseException):
    """Ends the threads of a run that failed."""


class _Task:
    """One thread. It runs while it holds the baton."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.baton = threading.Semaphore(0)
        self.thread: threading.Thread | None = None
        self.blocked = False
        self.deadline: float | None = None
        self.waits_for = ""
        self.done = False


class Scheduler:
    """Runs threads by a seed. Use it as `with scheduler.running(): ...` in the thread that opens the store."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        # How likely the running thread goes on: some races need long stretches, others a switch at every point.
        self._stays = self._chance.choice((0.0, 0.5, 0.8, 0.95))
        self._tasks: list[_Task] = []
        self._own = threading.local()
        self._clock = 0.0
        self._steps = 0
        self._failure: BaseException | None = None

    # Running

    @contextmanager
    def running(self) -> Iterator[None]:
        """Make this thread the first of the run, and schedule all threads made inside. They end with the block."""
        task = self._enter("main")
        with threads.made_by(self):
            try:
                yield
                self._wait(
                    lambda: all(other.done for other in self._tasks if other is not task), "all threads"
                )
            except BaseException as error:
                self._fail(error)
                raise
            finally:
                task.done = True
                self._join(task)

    def disk(self, kernel: Kernel) -> Disk:
        """A disk on which every call is a point where threads switch."""
        return Disk(_SwitchingKernel(kernel, self))

    def start(self, function: Callable[[], object], name: str = "thread") -> _Thread:
        """Run a function in a thread of its own."""
        made = self.thread(target=function, name=name)
        made.start()
        return made

    def switch(self) -> None:
        """A point where another thread may go on."""
        task = self._task()
        if task is not None:
            self._pass_on(task)

    def _enter(self, name: str) -> _Task:
        task = _Task(name)
        self._own.task = task
        self._tasks.append(task)
        task.thread = threading.current_thread()
        return task

    def _task(self) -> _Task | None:
        """The task of this thread; None for one that the run does not know."""
        return getattr(self._own, "task", None)

    def _pass_on(self, task: _Task) -> None:
        if self._failure is not None:
            raise _AbortError
        self._steps += 1
        if self._steps > _STEPS_MAX:
            self._fail(HangError(f"threads go on without end\n{self._told()}"))
            raise _AbortError
        following = self._choose(task)
        if following is not task:
            following.baton.release()
            if not task.done:
                self._sleep(task)

    def _sleep(self, task: _Task) -> None:
        if not task.baton.acquire(timeout=_PATIENCE_SECONDS):
            self._fail(HangError(f"a thread holds the others up outside of the scheduler\n{self._told()}"))
        if self._failure is not None and not task.done:
            raise _AbortError

    def _choose(self, task: _Task) -> _Task:
        ready = [other for other in self._tasks if not other.done and not other.blocked]
        if task in ready and self._chance.random() < self._stays:
            return task
        if ready:
            return self._chance.choice(ready)
        waiting = [other for other in self._tasks if not other.done and other.deadline is not None]
        if waiting:
            first = min(waiting, key=lambda other: other.deadline or 0.0)
            self._clock = max(self._clock, first.deadline or 0.0)
            first.blocked, first.deadline = False, None
            return first
        if all(other.done for other in self._tasks):
            return task
        self._fail(HangError(f"every thread waits\n{self._told()}"))
        raise _AbortError

    def _fail(self, error: BaseException) -> None:
        """Let every thread end."""
        if self._failure is None:
            self._failure = error
        for task in self._tasks:
            task.baton.release()

    def _join(self, task: _Task) -> None:
        for other in self._tasks:
            if other is not task and other.thread is not None:
                other.thread.join(_PATIENCE_SECONDS)
        self._own.task = None
        if isinstance(self._failure, HangError):
            raise self._failure

    def _told(self) -> str:
        frames = sys._current_frames()
        lines = []
        for task in self._tasks:
            if not task.done and task.thread is not None and task.thread.ident in frames:
                stack = "".join(traceback.format_stack(frames[task.thread.ident])[-8:-1])
                lines.append(f"{task.name} waits for {task.waits_for or 'its turn'}\n{stack}")
        return "\n".join(lines)

    # Waiting

    def _wait(self, ready: Callable[[], bool], what: str, timeout: float | None = None) -> bool:
        """Let others go on until `is_so()`; False when the time is over."""
        task = self._task()
        if task is None:
            return ready()
        deadline = None if timeout is None else self._clock + timeout
        self._pass_on(task)
        while not ready():
            if deadline is not None and self._clock >= deadline:
                return False
            task.blocked, task.deadline, task.waits_for = True, deadline, what
            self._pass_on(task)
            task.blocked, task.deadline, task.waits_for = False, None, ""
        return True

    def wake(self) -> None:
        """Let threads that wait look again."""
        for task in self._tasks:
            task.blocked = False

    # What `flintlog.core.threads` makes

    def lock(self) -> _Lock:
        """A lock whose holders the scheduler orders."""
        return _Lock(self)

    def rlock(self) -> _Lock:
        """The same, for a thread that may take it again."""
        return _Lock(self, reentrant=True)

    def event(self) -> _Event:
        """An event whose waits the scheduler orders."""
        return _Event(self)

    def thread(self, *, target: Callable[[], object], name: str, daemon: bool = False) -> _Thread:
        """A thread, not yet started, that runs when the scheduler says so."""
        return _Thread(self, target, name)

    def monotonic(self) -> float:
        """Seconds of the scheduler's clock, which moves when every thread waits."""
        return self._clock


class _Lock:
    def __init__(self, scheduler: Scheduler, *, reentrant: bool = False) -> None:
        self._scheduler = scheduler
        self._reentrant = reentrant
        self.owner: int | None = None
        self.count = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        mine = threading.get_ident()
        if self._reentrant and self.owner == mine:
            self.count += 1
            return True
        if not blocking:
            self._scheduler.switch()
            free = self.owner is None
        else:
            limit = None if timeout < 0 else timeout
            free = self._scheduler._wait(lambda: self.owner is None, "a lock", limit)
        if free:
            self.owner, self.count = mine, 1
        return free

    def release(self) -> None:
        self.count -= 1
        if not self.count:
            self.owner = None
            self._scheduler.wake()

    def locked(self) -> bool:
        return self.owner is not None

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *exc: object) -> None:
        self.release()


class _Event:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._set = False

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True
        self._scheduler.wake()

    def clear(self) -> None:
        self._set = False

    def wait(self, timeout: float | None = None) -> bool:
        return self._scheduler._wait(lambda: self._set, "an event", timeout)


class _Thread:
    def __init__(self, scheduler: Scheduler, target: Callable[[], object], name: str) -> None:
        self._scheduler = scheduler
        self._target = target
        self.name = name
        self._task: _Task | None = None
        self.error: BaseException | None = None

    def start(self) -> None:
        scheduler = self._scheduler
        scheduler.switch()  # another thread may see this object before it is started
        task = self._task = _Task(self.name)
        scheduler._tasks.append(task)
        task.thread = threading.Thread(target=self._run, args=(task,), name=self.name, daemon=True)
        task.thread.start()
        scheduler.switch()

    def _run(self, task: _Task) -> None:
        scheduler = self._scheduler
        scheduler._own.task = task
        task.baton.acquire()
        try:
            if scheduler._failure is None:
                self._target()
        except _AbortError:
            pass
        except BaseException as error:
            self.error = error
        task.done = True
        scheduler.wake()
        if scheduler._failure is None:
            with suppress(_AbortError):
                scheduler._pass_on(task)

    def is_alive(self) -> bool:
        return self._task is not None and not self._task.done

    def join(self, timeout: float | None = None) -> None:
        if self._task is None:
            raise RuntimeError("cannot join thread before it is started")  # Python's own words
        self._scheduler._wait(lambda: not self.is_alive(), f"the end of {self.name}", timeout)


class _SwitchingKernel(KernelInFront):
    """Hands every call on; before it, another thread may go on."""

    def __init__(self, kernel: Kernel, scheduler: Scheduler) -> None:
        super().__init__(kernel)
        self._scheduler = scheduler

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name.startswith("_") or not callable(found):
            return found

        def call(*arguments: object) -> Any:
            self._scheduler.switch()  # at the call, not before: its arguments may be out of date by then
            return found(*arguments)

        return call
