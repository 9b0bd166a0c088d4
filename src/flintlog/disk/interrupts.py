"""Signal handlers wait until a write is finished.

Python runs signal handlers between any two steps of the main thread, and a handler may raise: Ctrl-C does. Inside a
write that would leave memory and disk in a state that no rule describes. So writes happen inside `DEFERRED`: handlers
for signals that come meanwhile are called when the outermost block ends, and raise there.

Other threads run no handlers, and pay nothing. Long sleeps happen inside `lifted`.
"""

from __future__ import annotations

import _signal  # the same calls as `signal` without its enums, which cost more than the rest of a small write
import os
import signal
import threading
from _thread import get_ident
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")

Handler = Callable[[int, FrameType | None], Any]
# Without those that no process can catch, and those that a fault raises in the middle of a step.
_SIGNALS = tuple(
    sorted(
        int(number)
        for number in signal.valid_signals()
        if number
        not in (signal.SIGKILL, signal.SIGSTOP, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)
    )
)


class _StandIn:
    """Stands in for a handler of the application. One may stay behind: outside of a block it only calls the handler."""

    def __init__(self, deferral: _Deferral, handler: Handler) -> None:
        self._deferral = deferral
        self.handler = handler

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if not self._deferral.holds_back(self, number, frame):
            self._deferral.run(self, number, frame)


class _Lifted:
    """Handlers run, and raise, inside of this, until an inner block begins.

    An interrupt before the first step of `__exit__` does no harm: `run` has ended the lifting by then.
    """

    __slots__ = ("_before", "_deferral")

    def __init__(self, deferral: _Deferral) -> None:
        self._deferral = deferral
        self._before = -1  # not lifted

    def __enter__(self) -> None:
        if self._deferral.is_main() and self._deferral.depth:
            self._before, self._deferral.open_depth = self._deferral.open_depth, self._deferral.depth
            self._deferral.call_waiting()

    def __exit__(self, *exc: object) -> None:
        if self._before >= 0:
            self._deferral.open_depth = self._before
            self._deferral.take_over()  # a handler may have set another one


class _Deferral:
    """One for the process, because it has one set of handlers. Blocks may be nested."""

    def __init__(self) -> None:
        self.depth = 0
        self.open_depth = 0  # handlers run at this depth: outside of all blocks, or where one is lifted
        self._patient = 0  # how many of the blocks are the application's own
        self._main = threading.main_thread().ident
        self._stand_ins: dict[int, _StandIn] = {}
        self._seen: list[Any] = []  # the handlers of `_SIGNALS` when stand-ins were last chosen
        self._replaced: list[tuple[int, _StandIn]] = []
        self._came: list[tuple[_StandIn, int, FrameType | None]] = []
        self._main_forks = True
        os.register_at_fork(before=self._before_fork, after_in_child=self._after_fork)

    def is_main(self) -> bool:
        """Is this the thread that runs handlers?"""
        return get_ident() == self._main

    def __enter__(self) -> None:
        if get_ident() == self._main:
            if not self.depth:
                self.take_over()
            self.depth += 1

    def __exit__(self, *exc: object) -> None:
        if get_ident() == self._main:
            self.depth -= 1
            if self.depth < self.open_depth:  # an interrupt came before `lifted` was left
                self.open_depth = 0
            if not self.depth:
                self._let_through()
            elif self.depth == self.open_depth:
                self.call_waiting()

    def lifted(self) -> _Lifted:
        """Let handlers run, and raise, inside of this block: for a thread that sleeps."""
        return _Lifted(self)

    @contextmanager
    def patiently(self) -> Iterator[None]:
        """Put it around a block of the application that must reach its end.

        A handler runs, and raises, at the next `poll`; when its signal comes a second time, at once. A block of the
        main thread may be left by another one, as the garbage collector does it.
        """
        if not self.is_main():
            yield
            return
        self.__enter__()
        self._patient += 1
        try:
            yield
        finally:
            self._patient -= 1
            if self.is_main():
                self.__exit__()
            else:
                self._leave_elsewhere()

    def _leave_elsewhere(self) -> None:
        """Only the main thread may set handlers, so the stand-ins stay. The signals that wait come again."""
        self.depth -= 1
        if not self.depth:
            came, self._came = self._came, []
            for _, number, _ in came:
                signal.pthread_kill(threading.main_thread().ident or 0, number)

    def poll(self) -> None:
        """Call the handlers that wait, unless a write is on its way."""
        if self._came and self.depth == self._patient and self.is_main():
            self.call_waiting()

    def holds_back(self, stand_in: _StandIn, number: int, frame: FrameType | None) -> bool:
        """Keep a signal for the end of the block, if there is one."""
        again = self.depth == self._patient and any(number == other for _, other, _ in self._came)
        if self.depth <= self.open_depth or again:
            return False
        self._came.append((stand_in, number, frame))
        return True

    def run(self, stand_in: _StandIn, number: int, frame: FrameType | None) -> None:
        """Call a handler. When it raises, the blocks around it end, so they hold signals back again at once."""
        try:
            stand_in.handler(number, frame)
        except BaseException:
            self.open_depth = 0
            raise

    def take_over(self) -> None:
        """Put stand-ins in the place of handlers. Until the depth is counted up, a stand-in only calls its handler."""
        handlers = [*map(_signal.getsignal, _SIGNALS)]
        if handlers != self._seen:
            self._look_at(handlers)
        for number, stand_in in self._replaced:
            _signal.signal(number, stand_in)

    def _look_at(self, handlers: list[Any]) -> None:
        self._seen, replaced = [], []  # set at the end: a handler may raise before
        for number, handler in zip(_SIGNALS, handlers, strict=True):
            if callable(handler) and not isinstance(handler, _StandIn):
                stand_in = self._stand_ins.get(number)
                if stand_in is None or stand_in.handler != handler:
                    stand_in = self._stand_ins[number] = _StandIn(self, handler)
                replaced.append((number, stand_in))
        self._replaced = replaced
        self._seen = handlers

    def _let_through(self) -> None:
        """Give the application its handlers back, and call those that waited.

        Handlers that the application set inside the block stay.
        """
        for number in self._stand_ins:
            now = _signal.getsignal(number)
            if isinstance(now, _StandIn):
                _signal.signal(number, now.handler)
        self.call_waiting()

    def call_waiting(self) -> None:
        if self._came:
            stand_in, number, frame = self._came.pop(0)
            try:
                self.run(stand_in, number, frame)
            finally:
                self.call_waiting()

    def _before_fork(self) -> None:
        self._main_forks = self.is_main()

    def _after_fork(self) -> None:
        """A child forked by another thread has none of the main thread's blocks, and none of its signals."""
        self._main = get_ident()
        if not self._main_forks:
            self.depth = self.open_depth = self._patient = 0
        self._came = []


DEFERRED = _Deferral()


def interruptible(items: Iterable[T]) -> Iterator[T]:
    """The same items; handlers run, and raise, while this waits for the next one."""
    iterator = iter(items)
    while True:
        with DEFERRED.lifted():
            try:
                item = next(iterator)
            except StopIteration:
                return
        yield item
