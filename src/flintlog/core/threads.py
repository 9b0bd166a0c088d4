"""Locks, conditions and threads of the stores, made in one place.

It is a seam: `flintlog.testing` puts a scheduler here that runs one thread at a time and switches by a seed, so that a
race is found and found again. The stores do not know.
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
    """What makes them: Python, or a scheduler whose own do the same."""

    def lock(self) -> Any: ...
    def rlock(self) -> Any: ...
    def condition(self, held: Any = None) -> Any: ...
    def event(self) -> Any: ...
    def thread(self, *, target: Callable[[], None], name: str, daemon: bool = False) -> Any: ...
    def monotonic(self) -> float: ...


class _Python:
    lock = staticmethod(threading.Lock)
    rlock = staticmethod(threading.RLock)
    condition = staticmethod(threading.Condition)
    event = staticmethod(threading.Event)
    thread = staticmethod(threading.Thread)
    monotonic = staticmethod(time.monotonic)


_makers: Makers = _Python()


@contextmanager
def made_by(makers: Makers) -> Iterator[None]:
    """Let what is made inside of this be the makers' own."""
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


def condition(held: Any = None) -> Any:
    """A condition of `threading`, on a lock of this module."""
    return _makers.condition(held)


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
        self._closed = _makers.event()

    def __enter__(self) -> None:
        self._failstop.check_process()
        DEFERRED.__enter__()
        self._lock.acquire()

    def __exit__(self, *exc: object) -> None:
        self._lock.release()
        DEFERRED.__exit__()

    @contextmanager
    def closing(self) -> Iterator[bool]:
        """Around the work of `close`: True for the one thread that does it, when no new call can begin any more.

        Another thread waits here until it is done, and a forked child has nothing to do. An interrupt comes when the
        store is closed.
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
        """A condition to wait for while the lock is held."""
        return StoreCondition(_makers.condition(self._lock))


class StoreCondition:
    """Threads that sleep until a store changes. The lock is held in every call. A sleeper can be interrupted."""

    def __init__(self, condition: Any) -> None:
        self._condition = condition
        self.notify: Callable[..., None] = condition.notify
        self.notify_all: Callable[[], None] = condition.notify_all

    def wait(self, timeout: float | None = None) -> None:
        """Sleep until notified; at most `timeout` seconds."""
        try:
            with DEFERRED.lifted():
                self._condition.wait(timeout)
        except BaseException:
            self._condition.notify()  # it may have been this sleeper's turn
            raise

    def wait_for(self, is_so: Callable[[], bool], timeout: float | None = None) -> bool:
        """Sleep until something is so; False when the time is over."""
        end = deadline(timeout)
        while not is_so():
            left = None if end is None else end - monotonic()
            if left is not None and left <= 0:
                return False
            self.wait(left)
        return True
