"""The stores of sessions that are compared, behind one face: ours, a table in SQLite, huey's SqliteStorage.

Every call that returns has its change on disk: SQLite runs with WAL and `synchronous=FULL`, which each side makes sure
of. A session waits under one of ten delays, and `end` takes those that are due, in the order of time, and is done with
them.
"""

from __future__ import annotations

import datetime
import os
import sqlite3
import threading
from collections.abc import Sequence
from typing import Protocol

from huey.storage import SqliteStorage

from benchmarks.queue_sides import check_full
from flintlog.dialects.mpy6a.store import SessionStore, Topic

NOW = 1_700_000_000
FAR = NOW + 1_000_000
DELAYS = tuple(30 * (number + 1) for number in range(10))
TOPICS = tuple(Topic(number, delay) for number, delay in enumerate(DELAYS))


class Side(Protocol):
    """One store, opened on a directory of its own. `turn` counts calls and says which delay is next."""

    name: str

    def put(self, turn: int, data: bytes) -> None: ...
    def put_many(self, turn: int, data: Sequence[bytes]) -> None: ...
    def end(self, count: int) -> int: ...
    def close(self) -> None: ...


class Flintlog:
    name = "flintlog"

    def __init__(self, directory: str) -> None:
        self.store = SessionStore(directory, topics=TOPICS)

    def put(self, turn: int, data: bytes) -> None:
        self.store.put(turn % len(DELAYS), data, now=NOW)

    def put_many(self, turn: int, data: Sequence[bytes]) -> None:
        self.store.put_many(turn % len(DELAYS), data, now=NOW)

    def end(self, count: int) -> int:
        if count == 1:
            sessions = self.store.due(FAR, 1)
            for session in sessions:
                assert len(session.data) > 0
                session.delete()
            return len(sessions)
        found = self.store.due_batch(FAR, count)
        data = found.table().column("data")
        found.delete()
        return len(data)

    def close(self) -> None:
        self.store.close()


class SqliteTable:
    """What one would write oneself: a table, an index on the due time, one connection behind a lock."""

    name = "SQLite table"

    def __init__(self, directory: str) -> None:
        os.makedirs(directory, exist_ok=True)
        self._connection = sqlite3.connect(
            os.path.join(directory, "sessions.db"), check_same_thread=False, isolation_level=None
        )
        self._lock = threading.Lock()
        run = self._connection.execute
        run("pragma journal_mode = wal")
        run("pragma synchronous = full")
        run(
            "create table if not exists session (id integer primary key, due integer not null,"
            " delay integer not null, topic integer not null, attempts integer not null, data blob not null)"
        )
        run("create index if not exists session_due on session (due, id)")
        check_full(self._connection)

    def put(self, turn: int, data: bytes) -> None:
        with self._lock:
            self._insert([self._row(turn, data)])

    def put_many(self, turn: int, data: Sequence[bytes]) -> None:
        with self._lock:
            self._connection.execute("begin immediate")
            self._insert([self._row(turn, one) for one in data])
            self._connection.execute("commit")

    def _row(self, turn: int, data: bytes) -> tuple[int, int, int, bytes]:
        delay = DELAYS[turn % len(DELAYS)]
        return NOW + delay, delay, turn % len(DELAYS), data

    def _insert(self, rows: list[tuple[int, int, int, bytes]]) -> None:
        self._connection.executemany(
            "insert into session (due, delay, topic, attempts, data) values (?, ?, ?, 0, ?)", rows
        )

    def end(self, count: int) -> int:
        with self._lock:
            rows = self._connection.execute(
                "select id, due, topic, attempts, data from session where due <= ? order by due, id limit ?",
                (FAR, count),
            ).fetchall()
            self._connection.execute("begin immediate")
            self._connection.executemany("delete from session where id = ?", [row[:1] for row in rows])
            self._connection.execute("commit")
        return len(rows)

    def first_due(self) -> int:
        with self._lock:
            found: int = self._connection.execute("select min(due) from session").fetchone()[0]
        return found

    def close(self) -> None:
        self._connection.close()


class Huey:
    """huey's own storage of scheduled tasks.

    It has no batch to add, so `put_many` is what a user could do by hand on its connection. `read_schedule` takes
    everything up to a time; so that it takes as many as the others, each call of `put` or `put_many` has a time of its
    own here. What it takes is gone at once: a crash behind it loses the tasks.
    """

    name = "huey SqliteStorage"

    def __init__(self, directory: str) -> None:
        os.makedirs(directory, exist_ok=True)
        self._storage = SqliteStorage(filename=os.path.join(directory, "huey.db"), fsync=True)
        check_full(self._storage.conn)
        self._lock = threading.Lock()
        self._stored = 0
        self._taken = 0

    def _next(self) -> datetime.datetime:
        with self._lock:
            self._stored += 1
            return self._time(self._stored)

    @staticmethod
    def _time(number: int) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(NOW + number)

    def put(self, turn: int, data: bytes) -> None:
        self._storage.add_to_schedule(data, self._next())

    def put_many(self, turn: int, data: Sequence[bytes]) -> None:
        time = self._next().timestamp()
        with self._storage.db(commit=True) as cursor:
            cursor.executemany(
                "insert into schedule (queue, data, timestamp) values (?, ?, ?)",
                [(self._storage.name, one, time) for one in data],
            )

    def end(self, count: int) -> int:
        with self._lock:
            self._taken += 1
            time = self._time(self._taken)
        return len(self._storage.read_schedule(time))

    def close(self) -> None:
        self._storage.close()


SIDES = (Flintlog, SqliteTable, Huey)
