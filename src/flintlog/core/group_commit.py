"""Group commit: many threads hand in work, one of them writes and syncs for all.

There is no writer thread. The first thread that waits becomes the leader and flushes everything handed in so
far; threads that come while the device is busy wait, and the next leader flushes them together. A single thread
therefore pays no hand-over, and sixteen threads share one fsync.

A thread that waits is not interrupted: a signal handler that raises does so when the work is durable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from flintlog.core import threads
from flintlog.disk import DEFERRED
from flintlog.errors import StoppedError

T = TypeVar("T")


class Ticket(Generic[T]):
    """One piece of work handed in; `wait` on it returns when it is durable. One thread waits for one ticket."""

    __slots__ = ("done", "error", "gate", "items", "leads")

    def __init__(self, *items: T) -> None:
        self.items = items  # one, or none for a ticket that only waits for those before it
        self.gate: Any = None  # a lock, made only when a thread has to sleep
        self.done = False
        self.leads = False
        self.error: BaseException | None = None


class GroupCommit(Generic[T]):
    """Hands batches to `flush`, one batch at a time, in the order of `submit`.

    `flush` writes the batch and syncs it. When it raises, the leader gets that error and everybody else in the
    batch a `StoppedError` that names it.
    """

    def __init__(self, flush: Callable[[list[T]], None]) -> None:
        self._flush = flush
        self._mutex = threads.lock()
        self._pending: list[Ticket[T]] = []
        self._busy = False

    def submit(self, item: T) -> Ticket[T]:
        """Hand in work. The order of these calls is the order on disk."""
        ticket = Ticket(item)
        with DEFERRED, self._mutex:
            self._pending.append(ticket)
        return ticket

    def wait(self, ticket: Ticket[T]) -> None:
        """Return when the work is durable, or raise what the flush raised."""
        with DEFERRED:
            self._wait(ticket)

    def _wait(self, ticket: Ticket[T]) -> None:
        gate: Any = None
        with self._mutex:
            if not ticket.done and not self._busy:
                self._busy = ticket.leads = True
            if not ticket.done and not ticket.leads:
                gate = ticket.gate = threads.lock()
                gate.acquire()
        if gate is not None:
            self._sleep(ticket, gate)
        if ticket.leads:
            self._lead()  # raises its own error; the others learn that the store stopped
        elif ticket.error is not None:
            raise StoppedError(
                f"the write that held this call failed: {ticket.error}",
                advice="Close the store and open it again; what was acknowledged is there",
            ) from ticket.error

    def drain(self) -> None:
        """Return when everything that was handed in before is durable, also what is being flushed now."""
        with DEFERRED:
            with self._mutex:
                if not self._pending and not self._busy:
                    return
                ticket: Ticket[T] = Ticket()
                self._pending.append(ticket)
            self._wait(ticket)

    def _sleep(self, ticket: Ticket[T], gate: Any) -> None:
        """Until the batch is flushed, or this thread leads the next one."""
        try:
            gate.acquire()
        except BaseException:
            with self._mutex:  # interrupted: no thread may wait for this one to lead
                if ticket.leads:
                    ticket.leads = False
                    self._hand_over()
                ticket.gate = None
            raise

    def _lead(self) -> None:
        with self._mutex:
            batch, self._pending = self._pending, []
        error: BaseException | None = None
        try:
            items = [item for ticket in batch for item in ticket.items]
            if items:
                self._flush(items)
        except BaseException as raised:
            error = raised
        with self._mutex:
            for ticket in batch:
                ticket.done = True
                ticket.leads = False
                ticket.error = error
                if ticket.gate is not None:
                    ticket.gate.release()
                    ticket.gate = None
            self._hand_over()
        if error is not None:
            raise error

    def _hand_over(self) -> None:
        """Wake the next leader. The mutex is held."""
        for ticket in self._pending:
            if ticket.gate is not None:
                ticket.leads = True
                ticket.gate.release()
                ticket.gate = None
                return
        self._busy = False  # the next one to wait leads
