"""Group commit: many threads hand in work, one of them writes and syncs for all.

There is no writer thread. The first thread that waits becomes the leader and flushes everything handed in so
far; whoever comes while the device is busy waits and is flushed together by the next leader. A single thread
therefore pays no hand-over, and sixteen threads share one fsync.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from flintlog.errors import StoppedError

T = TypeVar("T")


class _Waiter:
    """A thread that sleeps until its ticket is done, or until it is its turn to lead."""

    __slots__ = ("gate", "leads")

    def __init__(self) -> None:
        self.gate = threading.Lock()
        self.gate.acquire()
        self.leads = False


class Ticket(Generic[T]):
    """One piece of work handed in; `wait` on it returns when it is durable. Several threads may wait on one."""

    __slots__ = ("done", "error", "item", "waiters")

    def __init__(self, item: T) -> None:
        self.item = item
        self.waiters: list[_Waiter] = []
        self.done = False
        self.error: BaseException | None = None


class GroupCommit(Generic[T]):
    """Hands batches to `flush`, one batch at a time, in the order of `submit`.

    `flush` writes the batch and syncs it. When it raises, the leader gets that error and everybody else in the
    batch a `StoppedError` that names it.
    """

    def __init__(self, flush: Callable[[list[T]], None]) -> None:
        self._flush = flush
        self._mutex = threading.Lock()
        self._pending: list[Ticket[T]] = []
        self._busy = False

    def submit(self, item: T) -> Ticket[T]:
        """Hand in work. The order of these calls is the order on disk."""
        ticket = Ticket(item)
        with self._mutex:
            self._pending.append(ticket)
        return ticket

    def wait(self, ticket: Ticket[T]) -> None:
        """Return when the work is durable, or raise what the flush raised."""
        waiter: _Waiter | None = None
        leads = False
        with self._mutex:
            if not ticket.done and not self._busy:
                self._busy = leads = True
            elif not ticket.done:
                waiter = _Waiter()
                ticket.waiters.append(waiter)
        if waiter is not None:
            leads = self._sleep(ticket, waiter)
        if leads:
            self._lead()  # raises its own error; the others learn that the store stopped
        elif ticket.error is not None:
            raise StoppedError(
                f"the write that held this call failed: {ticket.error}",
                advice="Close the store and open it again; what was acknowledged is there",
            ) from ticket.error

    def drain(self) -> None:
        """Flush what has been handed in and not yet waited for."""
        with self._mutex:
            last = self._pending[-1] if self._pending else None
        if last is not None:
            self.wait(last)

    def _sleep(self, ticket: Ticket[T], waiter: _Waiter) -> bool:
        """Sleep until the ticket is done or this thread is to lead, which is what it returns."""
        try:
            waiter.gate.acquire()
        except BaseException:
            with self._mutex:  # interrupted: nobody may wait for this thread to lead
                if waiter in ticket.waiters:
                    ticket.waiters.remove(waiter)
                if waiter.leads:
                    self._hand_over()
            raise
        return waiter.leads

    def _lead(self) -> None:
        with self._mutex:
            batch, self._pending = self._pending, []
        error: BaseException | None = None
        try:
            self._flush([ticket.item for ticket in batch])
        except BaseException as raised:
            error = raised
        with self._mutex:
            for ticket in batch:
                ticket.done = True
                ticket.error = error
                for waiter in ticket.waiters:
                    waiter.gate.release()
                ticket.waiters.clear()
            self._hand_over()
        if error is not None:
            raise error

    def _hand_over(self) -> None:
        """Wake the next leader. The mutex is held."""
        for ticket in self._pending:
            if ticket.waiters:
                waiter = ticket.waiters.pop(0)
                waiter.leads = True
                waiter.gate.release()
                return
        self._busy = False  # the next one to wait leads
