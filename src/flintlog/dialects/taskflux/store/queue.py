"""One queue of a store: put in, take out, acknowledge.

A call that changes something returns when the change is on disk. Memory follows the log: no thread sees a change before
it is durable, and what was taken and not acknowledged comes back when the store is opened again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from operator import index

import numpy as np

from flintlog.core import threads
from flintlog.dialects.taskflux import batch
from flintlog.dialects.taskflux import layout as lay
from flintlog.dialects.taskflux.batch import Blob, Payloads
from flintlog.dialects.taskflux.layout import QueueSpec
from flintlog.dialects.taskflux.store.errors import (
    KeyRangeError,
    PayloadSizeError,
    QueueFullError,
    QueueMissingError,
    RecordMissingError,
)
from flintlog.dialects.taskflux.store.journal import Journal
from flintlog.dialects.taskflux.store.waiting import Ids, Ints, Record, Waiting
from flintlog.disk import DEFERRED
from flintlog.errors import RefusedError, UsageError


class Taken:
    """A record handed out. `ack` removes it for good; `nack` puts it behind all others of its key.

    As a context manager it acknowledges when the block ends well and gives the record back when it raises, unless the
    block has done either itself.
    """

    __slots__ = ("_leaves", "_queue", "id", "key", "payload")

    def __init__(self, queue: Queue, record: Record) -> None:
        self._queue = queue
        self._leaves = False  # its removal is on its way to disk
        self.id, self.key, self.payload = record

    def ack(self) -> None:
        """The work is done: remove the record; durable on return."""
        self._queue.ack_many([self])

    def nack(self) -> None:
        """The work is not done: another `take` may get the record."""
        self._queue._give_back(self)

    def __enter__(self) -> Taken:
        return self

    def __exit__(self, kind: object, *exc: object) -> None:
        if self._queue._has(self):  # the block may have ended it
            if kind is None:
                self.ack()
            else:
                self.nack()

    def __repr__(self) -> str:
        return f"Taken(id={self.id}, key={self.key}, payload={self.payload!r})"


class Queue:
    """One queue of a store. All calls are thread-safe."""

    def __init__(self, journal: Journal, spec: QueueSpec, last_id: int = 0) -> None:
        self.spec = spec
        self._journal = journal
        self._waiting = Waiting()
        self._taken: dict[int, Taken] = {}
        self._last_id = last_id  # the highest id given out, durable or not yet
        self._coming = 0  # records on their way to disk
        self._leaves = False  # the queue's own deletion is on its way
        self._deleted = False
        self._arrival = journal.lock.condition()
        self._add_prefix = lay.add_prefix(spec.name)
        self._remove_prefix = lay.remove_prefix(spec.name)

    @property
    def name(self) -> str:
        """Its name; empty for the default queue."""
        return self.spec.name

    def __len__(self) -> int:
        """How many records wait; those handed out do not count."""
        with self._journal.lock:
            self._check_alive()
            return len(self._waiting)

    @property
    def in_flight(self) -> int:
        """How many records are handed out and not yet acknowledged."""
        with self._journal.lock:
            self._check_alive()
            return len(self._taken)

    @property
    def last_id(self) -> int:
        """The highest id given out so far; ids are never used twice while the queue lives."""
        with self._journal.lock:
            self._check_alive()
            return self._last_id

    def __repr__(self) -> str:
        return f"Queue({self.name!r}, {len(self._waiting)} waiting, {len(self._taken)} in flight)"

    def _load(self, ids: Ids, keys: Ints, arena: bytes | bytearray, offsets: Ints) -> None:
        """Put in records that opening found on disk."""
        self._waiting.put_run(ids, keys, arena, offsets)

    def _load_few(
        self, rows: Iterable[tuple[int, int, int, int, int]], buffers: Sequence[memoryview]
    ) -> None:
        """The same for few records, as rows that point into the buffers."""
        for id_, key, source, begin, length in rows:
            self._waiting.put(id_, key, bytes(buffers[source][begin : begin + length]))

    def _leave(self) -> None:
        """Note that the queue's deletion is handed in: no change may follow it. The lock is held."""
        self._leaves = True

    def _retire(self) -> None:
        """Note that the queue is deleted, and wake the threads that wait for records. The lock is held."""
        self._deleted = True
        self._arrival.notify_all()

    def _wake(self) -> None:
        """Let threads that wait look again. The lock is held."""
        self._arrival.notify_all()

    # Putting in

    def add(self, payload: bytes, key: int = 0) -> int:
        """Add a record; returns its id when it is on disk. The lowest key is taken first."""
        if not isinstance(payload, bytes | bytearray | memoryview):
            raise UsageError("a payload is not bytes", advice="Encode it first")
        payload = bytes(payload)
        key = _whole(key)
        # The size is checked when the record is admitted; until then it only has to fit its field.
        delta = (
            self._add_prefix + lay.KEY_AND_LENGTH.pack(key, min(len(payload), lay.DATA_SIZE_MAX)) + payload
        )
        blob = self._journal.encode(delta)

        def apply() -> None:
            self._coming -= 1
            self._waiting.put(id_, key, payload)
            self._arrival.notify()

        with DEFERRED:
            with self._journal.lock:
                self._admit(1, key, key, len(payload))
                self._last_id += 1
                self._coming += 1
                id_ = self._last_id
                ticket = self._journal.submit(blob, apply)
            self._journal.wait(ticket)
        return id_

    def add_many(self, payloads: Payloads, keys: int | Sequence[int] | np.ndarray = 0) -> range:
        """Add many records in one write; returns their ids when all are on disk.

        `payloads` is a sequence of bytes or an Arrow column of binaries; `keys` is one key for all, or one for each. It
        checks the limits for all records before it writes the first. A crash before the call returns may keep some of
        them, always the first ones.
        """
        arena, offsets = batch.payload_column(payloads)
        count = len(offsets) - 1
        if not count:
            return range(0)
        wide = _key_column(keys, count)
        blob = batch.adds(self._journal.layout, self._journal.term, self._add_prefix, wide, arena, offsets)

        def apply() -> None:
            self._coming -= count
            ids = np.arange(count, dtype=np.uint64) + np.uint64(first)
            self._waiting.put_run(ids, wide, arena, offsets)
            self._arrival.notify(count)

        with DEFERRED:
            with self._journal.lock:
                self._admit(count, int(wide.min()), int(wide.max()), int(np.diff(offsets).max()))
                first = self._last_id + 1
                self._last_id += count
                self._coming += count
                ticket = self._journal.submit(blob, apply)
            self._journal.wait(ticket)
        return range(first, first + count)

    def _admit(self, count: int, key_low: int, key_high: int, payload_size: int) -> None:
        """Check the queue's limits, in the order of the notes."""
        self._check_writable()
        waiting = len(self._waiting) + self._coming + len(self._taken)  # what is handed out may come back
        admit(self.spec, waiting, self._last_id, count, key_low, key_high, payload_size)

    def _check_alive(self) -> None:
        self._journal.check()
        if self._deleted:
            raise missing(self.name)

    def _check_writable(self) -> None:
        """Raise unless the queue takes changes; wait where its deletion is on its way."""
        self._check_alive()
        while self._leaves:
            self._journal.applied.wait()
            self._check_alive()

    # Taking out

    def take(self, timeout: float | None = 0) -> Taken | None:
        """The first record, handed out until it is acknowledged.

        Waits while the queue is empty: `timeout` seconds, or for ever with None. Returns None when no record came.
        """
        taken = self.take_many(1, timeout)
        return taken[0] if taken else None

    def take_many(self, limit: int, timeout: float | None = 0) -> list[Taken]:
        """Up to `limit` records in order; waits only while there is none."""
        deadline = threads.deadline(timeout)
        with self._journal.lock:
            self._check_alive()
            while not self._waiting.ready:
                left = None if deadline is None else deadline - threads.monotonic()
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
            for id_ in ids:
                del self._taken[id_]

        with DEFERRED:
            with self._journal.lock:
                self._check_writable()
                for one in taken:
                    self._check_taken(one)
                if len(set(ids)) < len(ids):
                    raise UsageError("the same record is acknowledged twice in one call")
                ticket = self._journal.submit(self._removal(ids), apply)
                for one in taken:
                    one._leaves = True
            self._journal.wait(ticket)

    def _has(self, taken: Taken) -> bool:
        """Is this record handed out, and not being removed?"""
        with self._journal.lock:
            self._check_alive()
            return not taken._leaves and self._taken.get(taken.id) is taken

    def _check_taken(self, taken: Taken) -> None:
        if taken._leaves or self._taken.get(taken.id) is not taken:
            raise _not_taken(taken.id, self.name)

    def _removal(self, ids: Sequence[int]) -> Blob:
        return batch.removes(self._journal.layout, self._journal.term, self._remove_prefix, ids)

    def _give_back(self, taken: Taken) -> None:
        with self._journal.lock:
            self._check_alive()
            self._check_taken(taken)
            del self._taken[taken.id]
            self._waiting.put(taken.id, taken.key, taken.payload)
            self._arrival.notify()

    def peek(self) -> Record | None:
        """The record that the next `take` would hand out."""
        with self._journal.lock:
            self._check_alive()
            return self._waiting.peek()

    def remove(self, id_: int) -> Record:
        """Remove a waiting record by its id, wherever it stands; durable on return."""
        with DEFERRED:
            with self._journal.lock:
                self._check_writable()
                if id_ in self._taken:
                    raise RefusedError(
                        f"record {id_} of queue {self.name!r} is handed out",
                        advice="Acknowledge it, or give it back first",
                    )
                record = self._waiting.leave(id_)
                if record is None:
                    raise RecordMissingError(f"queue {self.name!r} has no waiting record {id_}")
                ticket = self._journal.submit(self._removal([id_]), partial(self._waiting.remove, id_))
            self._journal.wait(ticket)
        return record

    def records(self) -> list[Record]:
        """All waiting records in the order in which they would be taken."""
        with self._journal.lock:
            self._check_alive()
            return list(self._waiting)


def _whole(key: int) -> int:
    try:
        value = index(key)
    except TypeError:
        raise KeyRangeError(f"key {key!r} is not a whole number of 64 bits") from None
    if not -(2**63) <= value < 2**63:
        raise KeyRangeError(f"key {key} is not a whole number of 64 bits")
    return value


def _key_column(keys: int | Sequence[int] | np.ndarray, count: int) -> Ints:
    try:
        column = np.asarray(keys)
    except (OverflowError, ValueError, TypeError):
        raise KeyRangeError("a key is not a whole number of 64 bits") from None
    # A cast would cut fractions off and make large unsigned numbers negative.
    if column.size and (column.dtype.kind not in "iu" or int(column.max()) >= 2**63):
        raise KeyRangeError("a key is not a whole number of 64 bits")
    if column.ndim == 0:
        return np.full(count, column, np.int64)
    if column.shape != (count,):
        raise UsageError(
            f"{count} payloads and {column.size} keys", advice="Give one key for each payload, or one for all"
        )
    return np.ascontiguousarray(column, np.int64)


def admit(
    spec: QueueSpec, waiting: int, last_id: int, count: int, key_low: int, key_high: int, payload_size: int
) -> None:
    """Raise where so many more records would break a limit of a queue, in the order in which the notes check them."""
    if spec.max_size is not None and waiting + count > spec.max_size:
        raise QueueFullError(
            f"queue {spec.name!r} holds {waiting} records and at most {spec.max_size}; {count} more do not fit",
            advice="Take records out first, or add fewer",
        )
    if count > lay.ID_MAX - last_id:
        raise QueueFullError(
            f"queue {spec.name!r} has given out {last_id} ids of {lay.ID_MAX}; {count} more do not fit",
            advice="Use another queue",
        )
    if spec.key_range is not None and not spec.key_range[0] <= key_low <= key_high <= spec.key_range[1]:
        wrong = key_low if key_low < spec.key_range[0] else key_high
        raise KeyRangeError(
            f"key {wrong} is outside {spec.key_range[0]}..{spec.key_range[1]}, the range of queue {spec.name!r}",
            advice="Give a key inside the range",
        )
    limit = (
        lay.DATA_SIZE_MAX - len(lay.add_prefix(spec.name)) - 12
        if spec.max_payload is None
        else spec.max_payload
    )
    if payload_size > limit:
        raise PayloadSizeError(
            f"a payload of {payload_size} bytes is over the limit of {limit} of queue {spec.name!r}",
            advice="Make the payload smaller, or make a queue with a higher max_payload",
        )


def missing(name: str) -> QueueMissingError:
    """The error for a queue that is not there."""
    return QueueMissingError(f"there is no queue {name!r}", advice="Make it with `create`")


def _not_taken(id_: int, name: str) -> RefusedError:
    return RefusedError(
        f"record {id_} of queue {name!r} is not handed out, or was acknowledged already",
        advice="A record is acknowledged or given back once, by the call that took it",
    )
