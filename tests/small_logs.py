"""A log of each dialect with little in it."""

from __future__ import annotations

from pathlib import Path

from flintlog import Datastore, QueueStore, RaftStore, SessionStore
from flintlog.dialects.mpy6a.store import Topic


def queues(root: Path) -> None:
    with QueueStore(root) as store:
        store.queue().add_many([b"a", b"b"])


def peer(root: Path) -> None:
    with RaftStore(root) as store:
        store.append_columns(1, [b"a", b"b"])


def sessions(root: Path) -> None:
    with SessionStore(root, topics=[Topic(1, 60)]) as store:
        store.put_many(1, [b"a", b"b"], now=1)


def keys(root: Path) -> None:
    with Datastore(root) as store:
        with store.channel().session() as session:
            session.put(1, b"k", b"v")
        store.switch_epoch()
