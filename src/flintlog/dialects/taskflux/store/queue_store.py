"""`QueueStore`: durable priority queues in one directory, for the application that embeds them.

A call that changes something returns when the change is on disk; threads that come together share one fsync.
A record that was taken and not acknowledged comes back when the store is opened again.
"""

from __future__ import annotations

import logging
import os
import posixpath
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from flintlog.columns.gather import gather, offsets_of
from flintlog.core.finding import Finding
from flintlog.core.group_commit import GroupCommit, Ticket
from flintlog.dialects.taskflux import batch, files
from flintlog.dialects.taskflux import layout as lay
from flintlog.dialects.taskflux.batch import Blob
from flintlog.dialects.taskflux.layout import QueueSpec
from flintlog.dialects.taskflux.settings import load_settings
from flintlog.dialects.taskflux.state import State
from flintlog.dialects.taskflux.store.engine import Engine, Opening
from flintlog.dialects.taskflux.store.errors import (
    KeyRangeError,
    PayloadSizeError,
    QueueExistsError,
    QueueFullError,
    QueueMissingError,
    RecordMissingError,
)
from flintlog.dialects.taskflux.store.waiting import Record, Waiting
from flintlog.disk import Disk
from flintlog.errors import FlintlogError, RefusedError, UsageError

_log = logging.getLogger("flintlog.taskflux")
_KEY_AND_LENGTH = struct.Struct(">qi")
T = TypeVar("T")


class _Operation(NamedTuple):
    """What goes to the log, and what it does to memory once it is there."""

    blob: Blob
    apply: Callable[[], None]


class Taken:
    """A record handed out. `ack` removes it for good; `nack` puts it behind all others of its key.

    As a context manager it acknowledges when the block ends well and gives back when it raises.
    """

    __slots__ = ("_queue", "id", "key", "payload")

    def __init__(self, queue: Queue, record: Record) -> None:
        self._queue = queue
        self.id, self.key, self.payload = record

    def ack(self) -> None:
        """The work is done: remove the record; durable on return."""
        self._queue.ack_many([self])

    def nack(self) -> None:
        """The work is not done: let somebody else take the record."""
        self._queue._give_back(self)

    def __enter__(self) -> Taken:
        return self

    def __exit__(self, kind: object, *exc: object) -> None:
        if kind is None:
            self.ack()
        else:
            self.nack()

    def __repr__(self) -> str:
        return f"Taken(id={self.id}, key={self.key}, payload={self.payload!r})"


class Queue:
    """One queue of a store. All calls are thread-safe."""

    def __init__(self, store: QueueStore, spec: QueueSpec, last_id: int = 0) -> None:
        self.spec = spec
        self._store = store
        self._waiting = Waiting()
        self._taken: dict[int, Taken] = {}
        self._last_id = last_id  # the highest id given out, durable or not yet
        self._coming = 0  # records on their way to disk
        self._deleted = False
        self._arrival = threading.Condition(store._lock)
        self._add_prefix = lay.add_prefix(spec.name)
        self._remove_prefix = lay.remove_prefix(spec.name)

    @property
    def name(self) -> str:
        return self.spec.name

    def __len__(self) -> int:
        """How many records wait; those handed out do not count."""
        with self._store._lock:
            return len(self._waiting)

    @property
    def in_flight(self) -> int:
        """How many records are handed out and not yet acknowledged."""
        with self._store._lock:
            return len(self._taken)

    @property
    def last_id(self) -> int:
        """The highest id given out so far; ids are never used twice while the queue lives."""
        with self._store._lock:
            return self._last_id

    def __repr__(self) -> str:
        return f"Queue({self.name!r}, {len(self)} waiting, {self.in_flight} in flight)"

    # Putting in

    def add(self, payload: bytes, key: int = 0) -> int:
        """Add a record; returns its id when it is on disk. The lowest key is taken first."""
        payload = bytes(payload)
        delta = self._add_prefix + _pack_key(key, len(payload)) + payload
        blob = self._store._encode(delta)

        def apply() -> None:
            self._coming -= 1
            self._waiting.put(id_, key, payload)
            self._arrival.notify()

        with self._store._lock:
            self._admit(1, key, key, len(payload))
            self._last_id += 1
            self._coming += 1
            id_ = self._last_id
            ticket = self._store._submit(_Operation(blob, apply))
        self._store._group.wait(ticket)
        return id_

    def add_many(self, payloads: Sequence[bytes], keys: int | Sequence[int] | np.ndarray = 0) -> range:
        """Add many records in one write; returns their ids when all are on disk.

        `keys` is one for all, or one for each. Limits are checked for all before the first is written. A crash
        before the call returns may keep some of them, always the first ones.
        """
        count = len(payloads)
        wide = np.broadcast_to(_int64(keys), count) if isinstance(keys, int) else _int64(keys)
        if len(wide) != count:
            raise UsageError(
                f"{count} payloads and {len(wide)} keys",
                advice="Give one key for each payload, or one for all",
            )
        if not count:
            return range(0)
        wide = np.ascontiguousarray(wide)
        blob = batch.adds(self._store._engine.layout, self._store._term, self._add_prefix, wide, payloads)
        arena = b"".join(payloads)
        lengths = np.fromiter(map(len, payloads), np.int64, count=count)

        def apply() -> None:
            self._coming -= count
            ids = np.arange(first, first + count, dtype=np.int64)
            self._waiting.put_run(ids, wide, arena, offsets_of(lengths))
            self._arrival.notify(count)

        with self._store._lock:
            self._admit(count, int(wide.min()), int(wide.max()), int(lengths.max()))
            first = self._last_id + 1
            self._last_id += count
            self._coming += count
            ticket = self._store._submit(_Operation(blob, apply))
        self._store._group.wait(ticket)
        return range(first, first + count)

    def _admit(self, count: int, key_low: int, key_high: int, payload_size: int) -> None:
        """The queue's limits, in the order in which the notes check them."""
        self._check_alive()
        spec = self.spec
        waiting = len(self._waiting) + self._coming
        if spec.max_size is not None and waiting + count > spec.max_size:
            raise QueueFullError(
                f"queue {spec.name!r} holds {waiting} records and at most {spec.max_size}; {count} more do not fit"
            )
        if spec.key_range is not None and not spec.key_range[0] <= key_low <= key_high <= spec.key_range[1]:
            wrong = key_low if key_low < spec.key_range[0] else key_high
            raise KeyRangeError(
                f"key {wrong} is outside {spec.key_range[0]}..{spec.key_range[1]}, the range of queue {spec.name!r}"
            )
        limit = (
            lay.DATA_SIZE_MAX - len(self._add_prefix) - 12 if spec.max_payload is None else spec.max_payload
        )
        if payload_size > limit:
            raise PayloadSizeError(
                f"a payload of {payload_size} bytes is over the limit of {limit} of queue {spec.name!r}"
            )

    def _check_alive(self) -> None:
        self._store._engine.failstop.check()
        if self._deleted:
            raise _missing(self.name)

    # Taking out

    def take(self, timeout: float | None = 0) -> Taken | None:
        """The first record, handed out until it is acknowledged.

        An empty queue is waited for: `timeout` seconds, for ever with None. Returns None when nothing came.
        """
        taken = self.take_many(1, timeout)
        return taken[0] if taken else None

    def take_many(self, limit: int, timeout: float | None = 0) -> list[Taken]:
        """Up to `limit` records in order; waits only while there is none."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._store._lock:
            self._check_alive()
            while not len(self._waiting):
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    return []
                self._arrival.wait(left)
                self._check_alive()
            result = [Taken(self, record) for record in self._waiting.pop_many(limit)]
            self._taken.update((taken.id, taken) for taken in result)
            return result

    def ack_many(self, taken: Sequence[Taken]) -> None:
        """Remove records that were taken, in one write; durable on return."""
        if not taken:
            return
        ids = [one.id for one in taken]

        def apply() -> None:
            pass  # they left memory when they were acknowledged; the log has followed

        with self._store._lock:
            self._check_alive()
            for one in taken:
                if self._taken.get(one.id) is not one:
                    raise _not_taken(one.id, self.name)
            if len(set(ids)) < len(ids):
                raise UsageError("the same record is acknowledged twice in one call")
            for id_ in ids:
                del self._taken[id_]
            ticket = self._store._submit(_Operation(self._removal(ids), apply))
        self._store._group.wait(ticket)

    def _removal(self, ids: Sequence[int]) -> Blob:
        return batch.removes(self._store._engine.layout, self._store._term, self._remove_prefix, ids)

    def _give_back(self, taken: Taken) -> None:
        with self._store._lock:
            self._check_alive()
            if self._taken.get(taken.id) is not taken:
                raise _not_taken(taken.id, self.name)
            del self._taken[taken.id]
            self._waiting.put(taken.id, taken.key, taken.payload)
            self._arrival.notify()

    def peek(self) -> Record | None:
        """The record that the next `take` would hand out."""
        with self._store._lock:
            self._check_alive()
            return self._waiting.peek()

    def remove(self, id_: int) -> Record:
        """Remove a waiting record by its id, wherever it stands; durable on return."""
        with self._store._lock:
            self._check_alive()
            if id_ in self._taken:
                raise RefusedError(
                    f"record {id_} of queue {self.name!r} is handed out",
                    advice="Acknowledge it, or give it back first",
                )
            record = self._waiting.remove(id_)
            if record is None:
                raise RecordMissingError(f"queue {self.name!r} has no waiting record {id_}")
            ticket = self._store._submit(_Operation(self._removal([id_]), _nothing))
        self._store._group.wait(ticket)
        return record

    def records(self) -> list[Record]:
        """All waiting records in the order in which they would be taken."""
        with self._store._lock:
            self._check_alive()
            return list(self._waiting)


class QueueStore:
    """Durable priority queues in a directory that one process owns.

    `path` is the root (state goes to `data` inside it), or an existing data directory itself. A new directory is
    made in the designed edition unless `edition` says otherwise; an existing one keeps its own.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        edition: str | None = None,
        soft_limit: int | None = None,
        hard_limit: int | None = None,
        snapshot_threshold: int | None = None,
        data_directory: str | None = None,
        preallocate: bool = False,
        snapshot_in_background: bool = True,
        disk: Disk | None = None,
    ) -> None:
        disk = disk or Disk()
        opening = opening_of(
            disk,
            path,
            edition=edition,
            preallocate=preallocate,
            soft_limit=soft_limit,
            hard_limit=hard_limit,
            snapshot_threshold=snapshot_threshold,
            data_directory=data_directory,
        )
        self._lock = threading.Lock()
        self._group: GroupCommit[_Operation] = GroupCommit(self._flush)
        self._snapshot_lock = threading.Lock()
        self._snapshot_thread: threading.Thread | None = None
        self._in_background = snapshot_in_background
        self._engine = Engine(disk, opening)
        try:
            survey = self._engine.take_survey()
            self._queues = self._load(survey.state())
        except BaseException:
            self._engine.close()
            raise
        self._term = max(self._engine.metadata.term, survey.last_term)

    def _load(self, state: State) -> dict[str, Queue]:
        queues = {}
        buffers = [*(source.buffer for source in state.sources), state.snapshot]
        for found in state.queues:
            queue = Queue(self, found.spec, found.last_id)
            records = found.records
            arena, offsets = gather(buffers, records.source, records.payload, records.payload_length)
            queue._waiting.put_run(records.id, records.key, arena, offsets)
            queues[found.spec.name] = queue
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
        problem = spec.problem()
        if problem is not None:
            raise UsageError(problem)
        blob = self._encode(lay.encode_delta(lay.CreateQueue(spec)))
        with self._lock:
            if name in self._queues:
                raise QueueExistsError(f"queue {name!r} is there already", advice="Get it with `queue`")
            queue = self._queues[name] = Queue(self, spec)
            ticket = self._submit(_Operation(blob, _nothing))
        self._group.wait(ticket)
        return queue

    def queue(self, name: str = lay.DEFAULT_QUEUE) -> Queue:
        """A queue by its name; without a name the default queue, which is always there."""
        with self._lock:
            self._engine.failstop.check()
            found = self._queues.get(name)
        if found is None:
            raise _missing(name)
        return found

    def delete(self, name: str) -> None:
        """Delete a queue with all its records; durable on return."""
        if name == lay.DEFAULT_QUEUE:
            raise RefusedError("the default queue is always there", advice="Take its records out instead")
        blob = self._encode(lay.encode_delta(lay.DeleteQueue(name)))
        with self._lock:
            queue = self._queues.pop(name, None)
            if queue is None:
                raise _missing(name)
            queue._deleted = True
            queue._arrival.notify_all()  # who waits learns that nothing will come
            ticket = self._submit(_Operation(blob, _nothing))
        self._group.wait(ticket)

    def list(self) -> list[QueueSpec]:
        """The queues by name, with their limits."""
        with self._lock:
            return [queue.spec for _, queue in sorted(self._queues.items())]

    # The log

    def _encode(self, delta: bytes) -> Blob:
        return batch.one(self._engine.layout, self._term, delta)

    def _submit(self, operation: _Operation) -> Ticket[_Operation]:
        """Hand to the log, in the order in which ids were given. The lock is held."""
        self._engine.failstop.check()
        return self._group.submit(operation)

    def _flush(self, operations: Sequence[_Operation]) -> None:
        engine = self._engine
        with engine.failstop.guard():
            engine.log.append([operation.blob for operation in operations], committed=engine.log.last)
        with self._lock:
            for operation in operations:
                operation.apply()
        if engine.snapshot_due(engine.log.last):
            self._begin_snapshot()

    # Snapshots

    def snapshot(self) -> int:
        """Write a snapshot of everything on disk now and remove the segments it covers; returns its LSN.

        Writers go on meanwhile: the state is built from the files, not from the queues.
        """
        with self._snapshot_lock:
            engine = self._engine
            engine.failstop.check()
            index = engine.log.last
            if index <= engine.snapshot_index:
                return engine.snapshot_index
            engine.publish_snapshot(engine.state_at(index))
            with self._lock, engine.failstop.guard():
                engine.log.remove_covered(index)
            return index

    def _begin_snapshot(self) -> None:
        if not self._in_background:
            self.snapshot()
        elif self._snapshot_thread is None or not self._snapshot_thread.is_alive():
            self._snapshot_thread = threading.Thread(
                target=self._background_snapshot, name="flintlog-snapshot"
            )
            self._snapshot_thread.start()

    def _background_snapshot(self) -> None:
        try:
            self.snapshot()
        except FlintlogError as error:
            # The log keeps everything; a failed write has stopped the store, which the next call will say.
            _log.error("no snapshot: %s", error)

    # The store itself

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What opening found and healed, such as a torn tail that was cut."""
        return self._engine.findings

    @property
    def edition(self) -> str:
        return self._engine.layout.edition

    @property
    def last_lsn(self) -> int:
        return self._engine.last

    @property
    def snapshot_lsn(self) -> int:
        """The LSN of the newest snapshot; -1 when there is none."""
        return self._engine.snapshot_index

    def close(self) -> None:
        """Finish what was begun and give the directory free."""
        try:
            if not self._engine.failstop.failed:
                self._group.drain()
        finally:
            thread = self._snapshot_thread
            if thread is not None:
                thread.join()
            with self._lock:
                self._engine.close()
                for queue in self._queues.values():
                    queue._arrival.notify_all()

    def __enter__(self) -> QueueStore:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Queue]:
        with self._lock:
            queues = [queue for _, queue in sorted(self._queues.items())]
        return iter(queues)


def opening_of(
    disk: Disk,
    path: str | os.PathLike[str],
    *,
    edition: str | None,
    preallocate: bool,
    soft_limit: int | None,
    hard_limit: int | None,
    snapshot_threshold: int | None,
    data_directory: str | None,
) -> Opening:
    """Where the data stands and which settings hold, for whoever opens the directory for writing."""
    named = disk.resolve(path)
    found = files.locate(disk, named)
    root = posixpath.dirname(named) if found == named else named
    settings = load_settings(
        disk,
        root,
        soft_limit=soft_limit,
        hard_limit=hard_limit,
        snapshot_threshold=snapshot_threshold,
        data_directory=data_directory,
    )
    data = posixpath.join(settings.data_directory or root, "data")
    if found == named:
        data = named
    return Opening(data, settings, edition, preallocate)


def _nothing() -> None:
    """What a change does to memory that has shown it already."""


def _pack_key(key: int, length: int) -> bytes:
    try:
        return _KEY_AND_LENGTH.pack(key, length)
    except struct.error:
        if not -(2**63) <= key < 2**63:
            raise KeyRangeError(f"key {key} does not fit 64 bits") from None
        raise PayloadSizeError(
            f"a payload of {length} bytes is over the limit of {lay.DATA_SIZE_MAX}"
        ) from None


def _int64(keys: int | Iterable[int] | np.ndarray) -> np.ndarray:
    try:
        return np.asarray(keys, np.int64)
    except (OverflowError, ValueError, TypeError):
        raise KeyRangeError("a key is not a whole number of 64 bits") from None


def _missing(name: str) -> QueueMissingError:
    return QueueMissingError(f"there is no queue {name!r}", advice="Make it with `create`")


def _not_taken(id_: int, name: str) -> RefusedError:
    return RefusedError(
        f"record {id_} of queue {name!r} is not handed out, or was acknowledged already",
        advice="A record is acknowledged or given back once, by whoever took it",
    )
