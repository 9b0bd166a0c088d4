"""The queues that are compared, behind one face: ours, persist-queue (SQLite and file), litequeue and localqueue.

Every call that returns has its change on disk. The SQLite ones run with `synchronous=FULL` and WAL and commit
in every call, which `check_full` makes sure of. The file queue of persist-queue syncs nothing by itself
while a chunk fills: `FileQueueSynced` adds the syncs that its files need; the original is shown beside it.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Sequence
from typing import Protocol

import litequeue
import localqueue
import persistqueue
from persistqueue.serializers import pickle

from flintlog.dialects.taskflux.store import QueueStore

NO_SNAPSHOTS = 1 << 30


class Side(Protocol):
    """One library, opened on a directory of its own. `take` means: take one and acknowledge it."""

    name: str
    durable: bool
    batches_adds: bool  # else `add_many` commits each record
    batches_takes: bool

    def add(self, payload: bytes) -> None: ...
    def add_many(self, payloads: Sequence[bytes]) -> None: ...
    def take(self) -> None: ...
    def take_many(self, count: int) -> None: ...
    def tidy(self) -> None: ...
    def close(self) -> None: ...


class Flintlog:
    name = "flintlog"
    durable = True
    batches_adds = True
    batches_takes = True

    def __init__(self, directory: str) -> None:
        self.store = QueueStore(directory, snapshot_threshold=NO_SNAPSHOTS)
        self._queue = self.store.queue()

    def add(self, payload: bytes) -> None:
        self._queue.add(payload)

    def add_many(self, payloads: Sequence[bytes]) -> None:
        self._queue.add_many(payloads)

    def take(self) -> None:
        taken = self._queue.take()
        assert taken is not None
        taken.ack()

    def take_many(self, count: int) -> None:
        taken = self._queue.take_many(count)
        assert len(taken) == count
        self._queue.ack_many(taken)

    def tidy(self) -> None:
        pass

    def close(self) -> None:
        self.store.close()


class SqliteQueue:
    """persist-queue's SQLiteQueue. `get` reads, `task_done` deletes what was read, in one commit."""

    name = "persist-queue SQLiteQueue"
    durable = True
    batches_adds = True
    batches_takes = True

    def __init__(self, directory: str) -> None:
        self._queue = persistqueue.SQLiteQueue(directory, multithreading=True, auto_commit=False)
        check_full(self._queue._putter)

    def add(self, payload: bytes) -> None:
        self._queue.put(payload)  # commits whatever auto_commit says; that concerns `get` only

    def add_many(self, payloads: Sequence[bytes]) -> None:
        # There is no batch in its interface, so this is what a user could do by hand on its connection.
        with self._queue.tran_lock, self._queue._putter as transaction:
            rows = [(pickle.dumps(payload), time.time()) for payload in payloads]
            transaction.executemany(self._queue._sql_insert, rows)
        self._queue.total += len(payloads)

    def take(self) -> None:
        self._queue.get(block=False)
        self._queue.task_done()

    def take_many(self, count: int) -> None:
        for _ in range(count):
            self._queue.get(block=False)
        self._queue.task_done()

    def tidy(self) -> None:
        pass

    def close(self) -> None:
        self._queue.close()


class SqliteAckQueue:
    """persist-queue's SQLiteAckQueue: one commit to hand out, one to acknowledge."""

    name = "persist-queue SQLiteAckQueue"
    durable = True
    batches_adds = True
    batches_takes = False

    def __init__(self, directory: str) -> None:
        self._queue = persistqueue.SQLiteAckQueue(directory, multithreading=True, auto_commit=True)
        check_full(self._queue._putter)

    def add(self, payload: bytes) -> None:
        self._queue.put(payload)

    def add_many(self, payloads: Sequence[bytes]) -> None:
        with self._queue.tran_lock, self._queue._putter as transaction:
            rows = [(pickle.dumps(payload), time.time()) for payload in payloads]
            transaction.executemany(self._queue._sql_insert, rows)
        self._queue.total += len(payloads)

    def take(self) -> None:
        taken = self._queue.get(block=False, raw=True)
        self._queue.ack(id=taken["pqid"])

    def take_many(self, count: int) -> None:
        taken = [self._queue.get(block=False, raw=True) for _ in range(count)]
        for one in taken:
            self._queue.ack(id=one["pqid"])

    def tidy(self) -> None:
        # Acknowledged rows stay and `get` walks over them; its own call for that, and not on the clock.
        self._queue.clear_acked_data(max_delete=1 << 30, keep_latest=0)

    def close(self) -> None:
        self._queue.close()


class FileQueue:
    """persist-queue's Queue as it is: what it wrote last may be lost with the machine."""

    name = "persist-queue file, not synced"
    durable = False
    batches_adds = False
    batches_takes = True
    _open = persistqueue.Queue

    def __init__(self, directory: str) -> None:
        os.makedirs(directory)
        self._queue = self._open(directory, tempdir=directory)

    def add(self, payload: bytes) -> None:
        self._queue.put(payload)

    def add_many(self, payloads: Sequence[bytes]) -> None:
        for payload in payloads:
            self._queue.put(payload)

    def take(self) -> None:
        self._queue.get(block=False)
        self._queue.task_done()

    def take_many(self, count: int) -> None:
        for _ in range(count):
            self._queue.get(block=False)
        for _ in range(count):
            self._queue.task_done()  # the first one saves, the others find nothing to save

    def tidy(self) -> None:
        pass

    def close(self) -> None:
        self._queue.headf.close()
        self._queue.tailf.close()


class _SyncedQueue(persistqueue.Queue):
    """Its records, then the file that says how far they count, then that file's name."""

    def _saveinfo(self) -> None:
        os.fdatasync(self.headf.fileno())
        handle, scratch = self._gettempfile()
        with os.fdopen(handle, "wb") as file:
            self.serializer.dump(self.info, file)
            file.flush()
            os.fdatasync(file.fileno())
        os.replace(scratch, self._infopath())
        directory = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        os.fsync(directory)
        os.close(directory)
        self._clear_tail_file()


class FileQueueSynced(FileQueue):
    name = "persist-queue file, synced"
    durable = True
    _open = _SyncedQueue


class LiteQueue:
    """litequeue with one connection behind a lock, which is its fastest way for many threads here."""

    name = "litequeue"
    durable = True
    batches_adds = True
    batches_takes = False

    def __init__(self, directory: str) -> None:
        os.makedirs(directory)
        self._queue = litequeue.LiteQueue(self.file_in(directory))
        self._queue.conn.execute("PRAGMA synchronous = FULL")
        check_full(self._queue.conn)
        self._lock = threading.Lock()

    def add(self, payload: bytes) -> None:
        with self._lock:
            self._queue.put(payload.decode())

    def add_many(self, payloads: Sequence[bytes]) -> None:
        with self._queue.transaction():
            for payload in payloads:
                self._queue.put(payload.decode())

    def take(self) -> None:
        with self._lock:
            taken = self._queue.pop()
        with self._lock:
            self._queue.done(taken.message_id)

    def take_many(self, count: int) -> None:
        taken = [self._queue.pop() for _ in range(count)]  # a commit each: `pop` begins its own transaction
        with self._queue.transaction():
            for one in taken:
                self._queue.done(one.message_id)

    def tidy(self) -> None:
        self._queue.prune()

    @staticmethod
    def file_in(directory: str) -> str:
        return os.path.join(directory, "queue.db")

    def close(self) -> None:
        self._queue.close()


class _AsItIs:
    """Payloads are bytes here."""

    def dumps(self, obj: bytes, /) -> bytes:
        return obj

    def loads(self, data: bytes, /) -> bytes:
        return data


class LocalQueue:
    """localqueue, an engine in Rust on SQLite, in its durable mode. A take is a lease; it takes no batch."""

    name = "localqueue"
    durable = True
    batches_adds = True
    batches_takes = False

    def __init__(self, directory: str) -> None:
        self._queue = localqueue.SimpleQueue(
            directory, durability=localqueue.DurabilityMode.DURABLE, serializer=_AsItIs()
        )

    def add(self, payload: bytes) -> None:
        self._queue.put(payload)

    def add_many(self, payloads: Sequence[bytes]) -> None:
        self._queue.put_many(list(payloads))

    def take(self) -> None:
        self._queue.ack(self._queue.get())

    def take_many(self, count: int) -> None:
        taken = [self._queue.get() for _ in range(count)]
        for one in taken:
            self._queue.ack(one)

    def tidy(self) -> None:
        self._queue.purge(0)

    def close(self) -> None:
        self._queue.close()


def check_full(connection: sqlite3.Connection) -> None:
    (synchronous,) = connection.execute("PRAGMA synchronous").fetchone()
    (journal,) = connection.execute("PRAGMA journal_mode").fetchone()
    if (synchronous, journal) != (2, "wal"):
        raise RuntimeError(
            f"synchronous={synchronous}, journal_mode={journal}: not the durability to compare with"
        )
