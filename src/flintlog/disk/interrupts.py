"""Signal handlers wait until a write is finished.

Python runs signal handlers between any two steps of the main thread, and a handler may raise: Ctrl-C does. Inside a
write that would leave memory and disk in a state that no rule describes. So what writes does it inside `DEFERRED`:
handlers that come meanwhile are called when the outermost block ends, and raise there.

Other threads run no handlers, and pay nothing. What sleeps for long does it inside `lifted`.
"""

from __future__ import annotations

import _signal  # the same calls as `signal` without its enums, which cost more than the rest of a small write
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")

Handler = Callable[[int, FrameType | None], Any]
# Not those that the system does not let a process catch, and not those that a fault raises in the midst of a step.
_SIGNALS = tuple(
    sorted(
        int(number)
        for number in signal.valid_signals()
        if number
        not in (signal.SIGKILL, signal.SIGSTOP, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)
    )
)


def _is_main() -> bool:
    return threading.get_ident() == threading.main_thread().ident


class _Deferral:
    """One for the process, because it has one set of handlers. Blocks may be nested."""

    def __init__(self) -> None:
        self._depth = 0
        self._patient = 0  # of the blocks, how many are the application's own
        self._handlers: dict[int, Handler] = {}  # as the application set them
        self._came: list[tuple[int, FrameType | None]] = []

    def __enter__(self) -> None:
        if _is_main():
            if not self._depth:
                self._take_over()
            self._depth += 1

    def __exit__(self, *exc: object) -> None:
        if _is_main():
            self._depth -= 1
            if not self._depth:
                self._let_through()

    @contextmanager
    def lifted(self) -> Iterator[None]:
        """Let handlers run, and raise, inside of this: for a thread that sleeps."""
        if not (_is_main() and self._depth):
            yield
            return
        depth, self._depth = self._depth, 0
        try:
            self._let_through()
            yield
        finally:
            self._depth = depth  # first: a handler that raises here must find the blocks around it counted
            self._take_over()

    @contextmanager
    def patiently(self) -> Iterator[None]:
        """Around a block of the application that must be left by its end.

        A handler runs, and raises, at the next `poll`; when its signal comes a second time, at once.
        """
        with self:
            self._patient += 1
            try:
                yield
            finally:
                self._patient -= 1

    def poll(self) -> None:
        """Call the handlers that wait, unless a write is on its way."""
        if self._came and self._depth == self._patient and _is_main():
            self._call()

    def _take_over(self) -> None:
        """A handler may still run, and raise, until the depth is counted up: then ours only passes it on."""
        for number in _SIGNALS:
            handler = _signal.getsignal(number)
            if callable(handler) and handler != self._handle:
                self._handlers[number] = handler
                _signal.signal(number, self._handle)

    def _let_through(self) -> None:
        """Give the application its handlers back, and call those that waited."""
        for number, handler in self._handlers.items():
            if _signal.getsignal(number) == self._handle:
                _signal.signal(number, handler)
        self._call()

    def _call(self) -> None:
        if self._came:
            number, frame = self._came.pop(0)
            try:
                self._handlers[number](number, frame)
            finally:
                self._call()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        again = self._depth == self._patient and any(number == other for other, _ in self._came)
        if self._depth and not again:
            self._came.append((number, frame))
        else:
            self._handlers[number](number, frame)


DEFERRED = _Deferral()


def interruptible(items: Iterable[T]) -> Iterator[T]:
    """The same items; handlers run, and raise, while the next one is waited for."""
    iterator = iter(items)
    while True:
        with DEFERRED.lifted():
            try:
                item = next(iterator)
            except StopIteration:
                return
        yield item
