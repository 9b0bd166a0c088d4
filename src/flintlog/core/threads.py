"""Locks, sleepers and threads of the stores, made in one place.

It is a seam: `flintlog.testing` puts a scheduler here that runs one thread at a time and switches by a seed, so that a
race can be found and repeated.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from flintlog.disk import DEFERRED, FailStop
from flintlog.errors import UsageError


class Makers(Protocol):
    """The functions that make them: Python's, or those of a scheduler."""

    def lock(self) -> Any: ...
    def rlock(self) -> Any: ...
    def event(self) -> Any: ...
    def thread(self, *, target: Callable[[], None], name: str, daemon: bool = False) -> Any: ...
    def monotonic(self) -> float: ...


class _Python:
    lock = staticmethod(threading.Lock)
    rlock = staticmethod(threading.RLock)
    event = staticmethod(threading.Event)
    thread = staticmethod(threading.Thread)
    monotonic = staticmethod(time.monotonic)


_makers: Makers = _Python()


@contextmanager
def made_by(makers: Makers) -> Iterator[None]:
    """Inside of this, `makers` make all locks, events and threads."""
    global _makers
    before, _makers = _makers, makers
    try:
        yield
    finally:
        _makers = before


def lock() -> Any:
    """A lock of `threading`."""
    return _makers.lock()


def rlock() -> Any:
    """A lock of `threading` that its holder may take again."""
    return _makers.rlock()


def event() -> Any:
    """An event of `threading`."""
    return _makers.event()


def thread(target: Callable[[], None], name: str, *, daemon: bool = False) -> Any:
    """A thread of `threading`, not yet started."""
    return _makers.thread(target=target, name=name, daemon=daemon)


def monotonic() -> float:
    """Seconds of a clock that only goes forward."""
    return _makers.monotonic()


def deadline(timeout: float | None) -> float | None:
    """When a wait of so many seconds is over; None: never."""
    if timeout is None:
        return None
    if not isinstance(timeout, int | float) or timeout != timeout:
        raise UsageError(f"{timeout!r} is not a number of seconds")
    return monotonic() + min(timeout, threading.TIMEOUT_MAX / 2)


class StoreLock:
    """The lock that guards a store's memory.

    A forked child is refused before it can wait for a lock that its parent held. Signal handlers wait until the lock is
    free again, so that none finds a change half done.
    """

    def __init__(self, failstop: FailStop, *, reentrant: bool = False) -> None:
        self._failstop = failstop
        self._lock = _makers.rlock() if reentrant else _makers.lock()
        self._depth = 0
        self._closed = _makers.event()

    def __enter__(self) -> None:
        self._failstop.check_process()
        DEFERRED.__enter__()
        self._lock.acquire()
        self._depth += 1

    def __exit__(self, *exc: object) -> None:
        self._depth -= 1
        self._lock.release()
        DEFERRED.__exit__()

    @contextmanager
    def closing(self) -> Iterator[bool]:
        """Around the work of `close`: True for the one thread that does it, when no new call can begin any more.

        False for another thread, which waits here until that one is done, and for a forked child. Interrupts wait until
        the store is closed.
        """
        if self._failstop.forked:
            yield False
            return
        with DEFERRED:
            with self:
                first = self._failstop.close()
            if not first:
                self._closed.wait()
                yield False
                return
            try:
                yield True
            finally:
                self._closed.set()

    def condition(self) -> StoreCondition:
        """A condition of this lock."""
        return StoreCondition(self)

    def let_go(self) -> int:
        """Give the lock back, however often this thread holds it; returns how often that is."""
        depth, self._depth = self._depth, 0
        for _ in range(depth):
            self._lock.release()
        return depth

    def take_back(self, depth: int) -> None:
        """Take the lock as often as `let_go` gave it back."""
        for _ in range(depth):
            self._lock.acquire()
        self._depth = depth


class StoreCondition:
    """Threads that sleep until a store changes. The lock is held in every call.

    A sleeper can be interrupted, but only while it sleeps: a handler that raised between giving the lock back and
    sleeping, as it may in `threading.Condition`, would leave the lock taken for ever.
    """

    def __init__(self, lock: StoreLock) -> None:
        self._lock = lock
        self._bells: list[Any] = []  # one for each sleeper, the longest asleep first; a rung bell is free

    def wait(self, timeout: float | None = None) -> None:
        """Sleep until notified; at most `timeout` seconds."""
        bell = _makers.lock()
        bell.acquire()
        self._bells.append(bell)
        depth = self._lock.let_go()
        woken = False
        try:
            with DEFERRED.lifted():
                bell.acquire(True, -1 if timeout is None else timeout)
            woken = True
        finally:
            self._lock.take_back(depth)
            if bell in self._bells:
                self._bells.remove(bell)
            elif not woken:
                self.notify()  # this sleeper was notified: pass it on

    def wait_for(self, is_so: Callable[[], bool], timeout: float | None = None) -> bool:
        """Sleep until `is_so()`; False when the time is over."""
        end = deadline(timeout)
        while not is_so():
            left = None if end is None else end - monotonic()
            if left is not None and left <= 0:
                return False
            self.wait(left)
        return True

    def notify(self, count: int = 1) -> None:
        """Wake the threads that sleep the longest."""
        rung, self._bells = self._bells[:count], self._bells[count:]
        for bell in rung:
            bell.release()

    def notify_all(self) -> None:
        """Wake every thread that sleeps."""
        self.notify(len(self._bells))
