"""`QueueStore`: durable priority queues in one directory, for the application that embeds them.

Threads share a store; those that write at the same time share one fsync. A thread beside them writes snapshots.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Unpack

from flintlog.columns.gather import gather
from flintlog.core import threads
from flintlog.core.closes import Closes
from flintlog.core.finding import Finding
from flintlog.dialects.taskflux import layout as lay
from flintlog.dialects.taskflux.layout import QueueSpec
from flintlog.dialects.taskflux.settings import Arguments, refuse_unknown
from flintlog.dialects.taskflux.state import State
from flintlog.dialects.taskflux.store.due import DueSnapshots
from flintlog.dialects.taskflux.store.engine import open_queues
from flintlog.dialects.taskflux.store.errors import QueueExistsError
from flintlog.dialects.taskflux.store.journal import Journal
from flintlog.dialects.taskflux.store.opening import RESERVE_BYTES_DEFAULT, opening_of
from flintlog.dialects.taskflux.store.queue import Queue, missing
from flintlog.disk import DEFERRED, Disk
from flintlog.errors import RefusedError, UsageError

_log = logging.getLogger("flintlog.taskflux")
_RUN_MIN = 8  # fewer records are put in one by one: columns would cost more


class QueueStore(Closes):
    """Durable priority queues in a directory that one process owns.

    `path` is the root (state goes to `data` inside it), or an existing data directory itself; the working directory if
    it is not given. A new directory is made in the designed edition unless `edition` says otherwise; an existing one
    keeps its own.

    `soft_limit`, `hard_limit`, `snapshot_threshold` and `data_directory` win over `taskflux.settings.json` in the
    root. `preallocate` gives new segments the soft limit's size at once; `reserve_bytes` of zeros are written ahead
    of single records, because a file that does not grow is synced sooner. A snapshot that the rules ask for is
    written in a thread of its own; with `snapshot_in_background=False` inside the call that made it due. The store
    waits `wait` seconds for another writer of the directory.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] = ".",
        *,
        edition: str | None = None,
        preallocate: bool = False,
        reserve_bytes: int = RESERVE_BYTES_DEFAULT,
        snapshot_in_background: bool = True,
        wait: float = 0,
        disk: Disk | None = None,
        **arguments: Unpack[Arguments],
    ) -> None:
        refuse_unknown(QueueStore, arguments)
        disk = disk or Disk()
        opening = opening_of(
            disk,
            path,
            edition=edition,
            preallocate=preallocate,
            reserve_bytes=reserve_bytes,
            wait=wait,
            **arguments,
        )
        self._engine, state, term = open_queues(disk, opening, on_stop=self._wake)
        try:
            self._journal = Journal(self._engine, term, self._after_commit)
            self._queues = self._load(state)
            self._changing: set[str] = set()  # names whose creation or deletion is on its way to disk
        except BaseException:
            self._engine.close()
            raise
        self._snapshot_lock = threads.rlock()
        self._due = DueSnapshots(self._engine, self.snapshot, in_background=snapshot_in_background)

    def _load(self, state: State) -> dict[str, Queue]:
        queues = {}
        buffers = [*(source.buffer for source in state.sources), state.snapshot]
        for found in state.queues:
            queue = queues[found.spec.name] = Queue(self._journal, found.spec, found.last_id)
            records = found.records
            if len(records) < _RUN_MIN:
                queue._load_few(zip(*records.lists(), strict=True), buffers)
            else:
                arena, offsets = gather(buffers, records.source, records.payload, records.payload_length)
                queue._load(records.id.copy(), records.key.copy(), arena, offsets)  # not one for all queues
        for note in state.notes:
            _log.warning("%s: %s (%s, byte %d)", self._engine.data, note.message, note.file, note.offset)
        return queues

    # Queues

    def create(
        self,
        name: str,
        *,
        code: int = lay.CODE_HEAP,
        max_size: int | None = None,
        max_payload: int | None = None,
        key_range: tuple[int, int] | None = None,
    ) -> Queue:
        """Make a queue; durable on return. `code` is how the original builds it: 1 heap, 2 buckets."""
        spec = QueueSpec(name, code, max_size, max_payload, key_range)
        problem = spec.problem() or self._engine.layout.problem_of(spec)
        if problem is not None:
            raise UsageError(problem)
        blob = self._journal.encode(lay.encode_delta(lay.CreateQueue(spec)))
        queue = Queue(self._journal, spec)

        def apply() -> None:
            self._changing.remove(name)
            self._queues[name] = queue

        with DEFERRED:
            with self._journal.lock:
                self._settle(name)
                if name in self._queues:
                    raise QueueExistsError(f"queue {name!r} is there already", advice="Get it with `queue`")
                ticket = self._journal.submit(blob, apply)
                self._changing.add(name)
            self._journal.wait(ticket)
        return queue

    def _settle(self, name: str) -> None:
        """Wait while a queue of this name is made or deleted. The lock is held."""
        self._journal.check()
        while name in self._changing:
            self._journal.applied.wait()
            self._journal.check()

    def queue(self, name: str = lay.DEFAULT_QUEUE, *, create: bool = False) -> Queue:
        """A queue by its name; without a name the default queue, which is always there.

        With `create` one that is not there is made, without limits; durable on return.
        """
        while True:
            with self._journal.lock:
                self._journal.check()
                found = self._queues.get(name)
            if found is not None:
                return found
            if not create:
                raise missing(name)
            with suppress(QueueExistsError):  # another thread has created it meanwhile
                return self.create(name)

    def delete(self, name: str) -> None:
        """Delete a queue with all its records; durable on return."""
        if name == lay.DEFAULT_QUEUE:
            raise RefusedError("the default queue is always there", advice="Take its records out instead")
        blob = self._journal.encode(lay.encode_delta(lay.DeleteQueue(name)))

        def apply() -> None:
            self._changing.remove(name)
            self._queues.pop(name)._retire()

        with DEFERRED:
            with self._journal.lock:
                self._journal.check()
                if name in self._queues:  # a queue that is being created is not there yet
                    self._settle(name)
                queue = self._queues.get(name)
                if queue is None:
                    raise missing(name)
                ticket = self._journal.submit(blob, apply)
                self._changing.add(name)
                queue._leave()
            self._journal.wait(ticket)

    def list(self) -> list[QueueSpec]:
        """The queues by name, with their limits."""
        with self._journal.lock:
            self._journal.check()
            return [queue.spec for _, queue in sorted(self._queues.items())]

    # Snapshots

    def snapshot(self) -> int:
        """Write a snapshot of everything on disk now and remove the segments it covers; returns its LSN.

        Writers go on meanwhile: it builds the state from the files, not from the queues.
        """
        engine = self._engine
        engine.failstop.check()
        with self._snapshot_lock:
            engine.failstop.check()
            index = engine.log.last
            if index <= engine.snapshot_index:
                return engine.snapshot_index
            engine.publish_snapshot(engine.state_at(index))
            with engine.failstop.guard():
                engine.log.remove_covered(index)
            return index

    def _after_commit(self) -> None:
        self._due.after_commit(self._engine.log.last)

    # The store itself

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What opening found and healed, such as a torn tail that was cut."""
        return self._engine.findings

    @property
    def edition(self) -> str:
        """`designed` or `shipped`."""
        return self._engine.layout.edition

    @property
    def last_lsn(self) -> int:
        """The LSN of the last entry; -1 when there is none."""
        return self._engine.last

    @property
    def snapshot_lsn(self) -> int:
        """The LSN of the newest snapshot; -1 when there is none."""
        return self._engine.snapshot_index

    def close(self) -> None:
        """Let no new call begin, finish the others, and release the directory.

        In a forked child it does nothing: the store is the parent's.
        """
        with self._journal.lock.closing() as mine:
            if mine:
                self._close()

    def _close(self) -> None:
        try:
            if not self._engine.failstop.failed:
                self._journal.drain()
        finally:
            self._due.join()
            with self._snapshot_lock:  # also one that the application asked for
                self._engine.close()
            self._wake()

    def _wake(self) -> None:
        """Wake threads that sleep: no record will come."""
        with self._journal.lock:
            self._journal.applied.notify_all()
            for queue in self._queues.values():
                queue._wake()

    def __iter__(self) -> Iterator[Queue]:
        with self._journal.lock:
            self._journal.check()
            queues = [queue for _, queue in sorted(self._queues.items())]
        return iter(queues)
