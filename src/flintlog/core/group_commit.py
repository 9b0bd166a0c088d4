"""Group commit: many threads hand in work, one of them writes and syncs for all.

There is no writer thread. What is handed in while the device is busy makes one batch, and a batch has one gate. The
first thread through the gate finds the batch unwritten, and leads: it writes for all. Then each thread that waits lets
the next one through, and the last opens the gate of the next batch. So one notification goes from thread to thread, and
threads that come back with new work meanwhile are written together. A single thread finds every gate open and pays no
hand-over.

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
    """The work of one batch: what `submit` returns, and `wait` takes."""

    __slots__ = ("done", "error", "following", "gate", "items", "waiting")
    following: Ticket[T]  # the next batch, from when this one is on its way

    def __init__(self) -> None:
        self.items: list[T] = []
        self.gate: Any = threads.lock()
        self.waiting = 0  # threads that have to go through the gate
        self.done = False
        self.error: BaseException | None = None


class GroupCommit(Generic[T]):
    """Hands batches to `flush`, one batch at a time, in the order of `submit`.

    `flush` writes the batch and syncs it. When it raises, the leader gets that error, and the other threads of the
    batch get a `StoppedError` that names it.
    """

    def __init__(self, flush: Callable[[list[T]], None]) -> None:
        self._flush = flush
        self._mutex = threads.lock()
        self._coming: Ticket[T] = Ticket()  # its gate is shut while the batch before it is on its way

    def submit(self, item: T) -> Ticket[T]:
        """Hand in work. The order of these calls is the order on disk."""
        with DEFERRED, self._mutex:
            self._coming.items.append(item)
            return self._coming

    def wait(self, ticket: Ticket[T]) -> None:
        """Return when the work is durable, or raise what the flush raised."""
        with DEFERRED:
            self._wait(ticket)

    def drain(self) -> None:
        """Return when everything handed in so far is durable, also the batch on its way."""
        with DEFERRED:
            with self._mutex:
                ticket = self._coming
                if not ticket.items and not ticket.gate.locked():
                    return
            self._wait(ticket)

    def _wait(self, ticket: Ticket[T]) -> None:
        with self._mutex:
            passes = not ticket.done
            ticket.waiting += passes
        if passes:
            try:
                ticket.gate.acquire()
            except BaseException:
                self._leave(ticket, through=False)
                raise
            if not ticket.done:
                self._lead(ticket)  # raises its own error; the others learn that the store stopped
                return
            self._leave(ticket)
        if ticket.error is not None:
            raise StoppedError(
                f"the write that held this call failed: {ticket.error}",
                advice="Close the store and open it again; what was acknowledged is there",
            ) from ticket.error

    def _lead(self, ticket: Ticket[T]) -> None:
        following: Ticket[T] = Ticket()
        following.gate.acquire()
        with self._mutex:
            ticket.following = self._coming = following
        try:
            if ticket.items:
                self._flush(ticket.items)
        except BaseException as error:
            ticket.error = error
            raise
        finally:
            ticket.done = True
            self._leave(ticket)

    def _leave(self, ticket: Ticket[T], *, through: bool = True) -> None:
        """Let the next thread of the batch through the gate; behind the last one the next batch may go.

        An interrupted thread does not go through the gate, but another may have opened the gate for it.
        """
        with self._mutex:
            ticket.waiting -= 1
            if through or (ticket.done and not ticket.waiting):
                (ticket if ticket.waiting else ticket.following).gate.release()
