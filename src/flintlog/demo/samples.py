"""A small log of each dialect for a first look, how a crash tears it, and the upkeep that fits it."""

from __future__ import annotations

import fnmatch
import posixpath
from collections.abc import Callable
from dataclasses import dataclass

from flintlog.disk import Disk

_NOON = 1_700_000_000


@dataclass(frozen=True, slots=True)
class Tear:
    """Where the next record would stand, and how much of it a crash in mid-write leaves there."""

    folder: str
    files: str  # a pattern; the last of them is being written
    begin: int  # a record of the file begins here
    size: int
    over: int = 0  # bytes at the end of the file that the next record replaces

    def apply(self, disk: Disk, log: str) -> None:
        folder = posixpath.normpath(disk.resolve(posixpath.join(log, self.folder)))
        newest = max(name for name in disk.list(folder) if fnmatch.fnmatch(name, self.files))
        with disk.open(posixpath.join(folder, newest), "write") as file:
            file.pwrite(file.pread(self.size, self.begin), file.size() - self.over)
            file.sync()


@dataclass(frozen=True, slots=True)
class Sample:
    """`upkeep` are commands; {log} is the directory, {state} a file with an application's state."""

    what: str
    write: Callable[[str], None]
    tear: Tear
    upkeep: tuple[str, ...]
    state: bytes | None = None


def _queues(log: str) -> None:
    from flintlog.dialects.taskflux.store import QueueStore  # brings NumPy and Numba along

    with QueueStore(log) as store:
        orders = store.create("orders", max_payload=1024)
        mail = store.create("mail", key_range=(0, 9))
        orders.add_many([b"order %d" % number for number in range(12)], [number % 3 for number in range(12)])
        mail.add(b"welcome", key=5)
        mail.add(b"urgent: disk almost full", key=0)
        for _ in range(4):
            order = orders.take()
            if order is not None:
                order.ack()
        orders.take()  # never acknowledged, so it is still there


def _peer(log: str) -> None:
    from flintlog.dialects.zmqraft.store import RaftStore

    with RaftStore(log, capacity=8) as store:
        for term in (1, 2):
            store.append_columns(term, [b"set x %d" % number for number in range(term * 6)])
        store.set_hard_state(term=2, vote="10.0.0.1:8047", applied=12)


def _sessions(log: str) -> None:
    from flintlog.dialects.mpy6a.store import SessionStore, Topic

    topics = [Topic(1, delay=60), Topic(2, delay=600)]
    with SessionStore(log, topics=topics, file_bytes=120, clock=lambda: float(_NOON)) as store:
        for number in range(16):
            store.put(1 + number % 2, b"call back %d" % number, now=_NOON + number)
        for session in store.due(now=_NOON + 66, limit=2):
            session.delete()


def _accounts(log: str) -> None:
    from flintlog.dialects.limestone.store import Datastore

    with Datastore(log, snapshot=False) as store:
        channel = store.channel()
        for balance in (b"10", b"20", b"30"):
            with channel.session() as session:
                session.put_many(1, [b"ada", b"bob", b"eve"], [balance] * 3)
            store.switch_epoch()
        with channel.session() as session:
            session.remove(1, b"eve")
        store.switch_epoch()


SAMPLES = {
    "taskflux": Sample(
        "Two queues with fourteen records",
        _queues,
        Tear("data/log", "*.log", begin=8, size=10, over=4),
        ("snapshot {log} --dry-run", "snapshot {log}"),
    ),
    "zmqraft": Sample(
        "The log of a Raft peer with eighteen entries",
        _peer,
        Tear("", "raft.pers", begin=0, size=10),
        ("snapshot {log} --as-of 12 --data {state} --dry-run", "snapshot {log} --as-of 12 --data {state}"),
        state=b"x is 5, says the application",
    ),
    "mpy6a": Sample(
        "Sixteen sessions, of which two were replayed",
        _sessions,
        Tear("", "operations.log", begin=16, size=10),
        ("compact {log} --dry-run", "compact {log}"),
    ),
    "limestone": Sample(
        "Three accounts in four epochs",
        _accounts,
        Tear("", "pwal_*", begin=0, size=5),
        ("compact {log} --dry-run", "compact {log}"),
    ),
}
