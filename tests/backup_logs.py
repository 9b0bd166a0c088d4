"""A small live log of each dialect for the tests of backups: items come in order, and go in order where they can."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flintlog import Datastore, QueueStore, RaftStore, SessionStore, Topic
from flintlog.core.log import open_log
from flintlog.dialects.zmqraft.layout import Entry
from flintlog.disk import Disk

T0 = 1_700_000_000
TOPICS = [Topic(1, delay=30)]


class Log(ABC):
    """One open store. `add` and `remove` return when what they do is acknowledged."""

    removes = True
    store: Any

    def __init__(self, path: str | Path, disk: Disk | None = None) -> None:
        self.added = self.removed = 0
        self.open(str(path), disk or Disk())

    @abstractmethod
    def open(self, path: str, disk: Disk) -> None:
        """Open the store that `store` is."""

    @abstractmethod
    def add(self) -> None:
        """Put the next item in."""

    def remove(self) -> None:
        """Take the oldest item out, where items go at all."""
        return

    def churn(self) -> None:
        """What makes files come and go, where anything does."""
        return

    def close(self) -> None:
        self.store.close()

    @staticmethod
    @abstractmethod
    def items(disk: Disk, path: str) -> list[int]:
        """The items that the directory holds, as every reader sees them."""

    def data(self) -> bytes:
        return b"%06d" % self.added


def rows_of(disk: Disk, path: str, as_of: tuple[int, ...] | None = None) -> list[dict[str, Any]]:
    return [row for batch in open_log(path, disk=disk).state(as_of) for row in batch.to_pylist()]


class Queues(Log):
    def open(self, path: str, disk: Disk) -> None:
        self.store = QueueStore(
            path, disk=disk, reserve_bytes=512, soft_limit=200, hard_limit=400, snapshot_threshold=10_000
        )

    def add(self) -> None:
        self.store.queue().add(self.data())

    def remove(self) -> None:
        taken = self.store.queue().take()
        taken.ack()

    def churn(self) -> None:
        self.store.snapshot()

    @staticmethod
    def items(disk: Disk, path: str) -> list[int]:
        return [int(row["payload"]) for row in rows_of(disk, path)]


class Peer(Log):
    removes = False

    def open(self, path: str, disk: Disk) -> None:
        self.store = RaftStore(path, disk=disk, capacity=8)

    def add(self) -> None:
        self.store.append([Entry(1 + self.added // 10, self.data())])
        self.store.set_hard_state(term=1 + self.added // 10, applied=self.store.last_index)

    def churn(self) -> None:
        index = self.store.last_index
        if index:
            self.store.snapshot(index, b"%06d" % index)

    @staticmethod
    def items(disk: Disk, path: str) -> list[int]:
        with RaftStore(path, disk=disk) as store:
            covered = int(b"".join(store.read_snapshot()) or b"0")
            assert store.hard_state.applied <= store.last_index
            entries = [int(entry.data) for entry in store.entries(store.first_index)]
        return [*range(covered), *entries] if not entries or entries[0] >= covered else entries


class Sessions(Log):
    def open(self, path: str, disk: Disk) -> None:
        self.store = SessionStore(path, topics=TOPICS, disk=disk, file_bytes=256, reserve_bytes=512)

    def add(self) -> None:
        self.store.put(1, self.data(), now=T0 + self.added)

    def remove(self) -> None:
        (session,) = self.store.due(now=T0 + 10**6, limit=1)
        session.delete()

    def churn(self) -> None:
        self.store.snapshot()

    @staticmethod
    def items(disk: Disk, path: str) -> list[int]:
        return [int(row["data"]) for row in rows_of(disk, path)]


class StrictSessions(Sessions):
    def open(self, path: str, disk: Disk) -> None:
        self.store = SessionStore(path, topics=TOPICS, disk=disk, file_bytes=256, strict=True)


class Keys(Log):
    removes = False
    edition = "designed"

    def open(self, path: str, disk: Disk) -> None:
        self.store = Datastore(path, disk=disk, snapshot=False, edition=self.edition)
        self.channel = self.store.channel()

    def add(self) -> None:
        with self.channel.session() as session:
            session.put(1, self.data(), b"value")
        self.store.switch_epoch()

    def churn(self) -> None:
        self.store.rotate()
        if self.added % 3 == 0:
            self.store.compact()

    @staticmethod
    def items(disk: Disk, path: str) -> list[int]:
        return [int(row["key"]) for row in rows_of(disk, path)]


class ShippedKeys(Keys):
    edition = "shipped"


LOGS: dict[str, Callable[..., Log]] = {
    "taskflux": Queues,
    "zmqraft": Peer,
    "mpy6a": Sessions,
    "mpy6a-strict": StrictSessions,
    "limestone": Keys,
    "limestone-shipped": ShippedKeys,
}
