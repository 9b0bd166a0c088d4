"""A log directory of each dialect, small, with something to compact in each."""

from __future__ import annotations

import hashlib
from pathlib import Path

from flintlog import Datastore, QueueStore, RaftStore, SessionStore, Topic


def write_samples(folder: Path) -> dict[str, Path]:
    """Directories by dialect."""
    found = {name: folder / name for name in ("taskflux", "zmqraft", "mpy6a", "limestone")}
    with QueueStore(found["taskflux"], soft_limit=4096, hard_limit=4096, snapshot_threshold=1000) as queues:
        mail = queues.create("mail")
        for number in range(40):
            queues.queue().add_many([b"%05d" % (10 * number + at) + bytes(40) for at in range(10)], number)
            mail.add(b"letter %d" % number)
        for _ in range(100):
            queues.queue().take().ack()
    with RaftStore(found["zmqraft"], capacity=64) as peer:
        peer.append_columns(1, [b"entry %04d" % number for number in range(500)])
        peer.snapshot(200, [b"what the application knows"], prune=False)
    with SessionStore(
        found["mpy6a"], topics=[Topic(1, delay=60)], file_bytes=2000, clock=lambda: 1_700_000_000
    ) as sessions:
        for number in range(200):
            sessions.put(1, b"session %03d" % number + bytes(20), delay=60 + number % 2)
    with Datastore(found["limestone"], snapshot=False) as store:
        channels = [store.channel(), store.channel()]
        for number in range(8):
            with channels[number % 2].session() as session:
                keys = [b"key %05d" % (number * 60 + at) for at in range(100)]
                session.put_many(7, keys, [b"value %d" % number] * 100)
                session.remove(7, b"key %05d" % number)
            store.switch_epoch()
    return found


def contents(folder: Path) -> dict[str, str]:
    """A digest for each file."""
    return {
        str(item.relative_to(folder)): hashlib.sha256(item.read_bytes()).hexdigest()
        for item in sorted(folder.rglob("*"))
        if item.is_file()
    }
