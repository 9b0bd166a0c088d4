"""The one way from a change to the disk: it is encoded, handed in, and written and synced with all others that wait."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from flintlog.core.group_commit import GroupCommit, Ticket
from flintlog.core.threads import StoreLock
from flintlog.dialects.taskflux import batch
from flintlog.dialects.taskflux.batch import Blob
from flintlog.dialects.taskflux.layout import Layout
from flintlog.dialects.taskflux.store.engine import Engine


class Operation(NamedTuple):
    """What goes to the log, and what it does to memory once it is there."""

    blob: Blob
    apply: Callable[[], None]


class Journal:
    """Writes the changes of all queues of a store, in the order of `submit`.

    `lock` guards everything in memory. Ids are given out and changes handed in under it, so the order of the log is the
    order of the ids. Memory shows a change when it is durable; `applied` is notified then. `after` is called when a
    batch is durable and applied.
    """

    def __init__(self, engine: Engine, term: int, after: Callable[[], None]) -> None:
        self.lock = StoreLock(engine.failstop)
        self.applied = self.lock.condition()
        self.layout: Layout = engine.layout
        self.term = term
        self._engine = engine
        self._after = after
        self._group: GroupCommit[Operation] = GroupCommit(self._flush)

    def check(self) -> None:
        """Raise unless the store may go on."""
        self._engine.failstop.check()

    def encode(self, delta: bytes) -> Blob:
        """One record of the log."""
        return batch.one(self.layout, self.term, delta)

    def submit(self, blob: Blob, apply: Callable[[], None]) -> Ticket[Operation]:
        """Hand in a change. The lock is held.

        The caller waits for it inside the same `DEFERRED`, because other threads may wait until it is applied.
        """
        self.check()
        return self._group.submit(Operation(blob, apply))

    def wait(self, ticket: Ticket[Operation]) -> None:
        """Return when the change is durable and applied. The lock is not held."""
        self._group.wait(ticket)

    def drain(self) -> None:
        """Write all changes that were handed in."""
        self._group.drain()

    def _flush(self, operations: Sequence[Operation]) -> None:
        log = self._engine.log
        with self._engine.failstop.guard():
            log.append([operation.blob for operation in operations], committed=log.last)
        with self.lock:
            for operation in operations:
                operation.apply()
            self.applied.notify_all()
        self._after()
