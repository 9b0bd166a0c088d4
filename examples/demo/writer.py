"""`python -m examples.demo.writer DIALECT DIR`: writes a log, then goes on one by one until it is killed.

Each entry of the second part is told before it is handed in and after it is acknowledged (`flintlog.testing.kill`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import count

from flintlog import Datastore, QueueStore, RaftStore, SessionStore, Topic
from flintlog.testing import Reporter

Put = Callable[[bytes], object]

ORDERS, QUEUES, TAKEN = 6_000, ("orders", "mail", "invoices"), 9_000
COMMANDS, APPLIED, CAPACITY = 20_000, 12_000, 4_096
SESSIONS, REPLAYED = 6_000, 4_000
PUTS, KEYS, SESSION_PUTS = 60_000, 15_000, 2_000
NOON = 1_700_000_000


def taskflux(path: str) -> Put:
    store = QueueStore(path, soft_limit=200_000, hard_limit=400_000, snapshot_threshold=1_000)
    for name in QUEUES:
        queue = store.create(name)
        queue.add_many([b"%s %06d" % (name.encode(), number) for number in range(ORDERS)], 1)
    for name in QUEUES:
        queue = store.queue(name)
        queue.ack_many(queue.take_many(TAKEN // len(QUEUES)))
    return lambda data: store.queue("orders").add(data, key=9)


def zmqraft(path: str) -> Put:
    store = RaftStore(path, capacity=CAPACITY)
    for term, begin in enumerate(range(0, COMMANDS, 5_000), 1):
        commands = [b"set key %05d" % number for number in range(begin, begin + 5_000)]
        store.append_columns(term, commands)
    store.snapshot(APPLIED, [b"the application's state after %d commands" % APPLIED], prune=False)
    term = COMMANDS // 5_000
    return lambda data: store.append_columns(term, [data])


def mpy6a(path: str) -> Put:
    topics = [Topic(1, delay=60), Topic(2, delay=600)]
    store = SessionStore(path, topics=topics, file_bytes=60_000, clock=lambda: float(NOON))
    for begin in range(0, SESSIONS, 500):
        calls = [b"call %06d" % number for number in range(begin, begin + 500)]
        store.put_many(1 + begin // 500 % 2, calls, now=NOON + begin // 500)
    store.due_batch(now=NOON + 3_600, limit=REPLAYED).delete()
    return lambda data: store.put(2, data)


def limestone(path: str) -> Put:
    store = Datastore(path, snapshot=False)
    channels = [store.channel(), store.channel()]
    for number, begin in enumerate(range(0, PUTS, SESSION_PUTS)):
        with channels[number % 2].session() as session:
            keys = [b"user %05d" % ((begin + at) * 7 % KEYS) for at in range(SESSION_PUTS)]
            session.put_many(1, keys, [b"balance %08d" % (begin + at) for at in range(SESSION_PUTS)])
        store.switch_epoch()

    def put(data: bytes) -> None:
        with channels[0].session() as session:
            session.put(2, data, b"")
        epoch = store.epoch
        store.switch_epoch()
        store.wait_durable(epoch)

    return put


WRITERS: dict[str, Callable[[str], Put]] = {
    "taskflux": taskflux,
    "zmqraft": zmqraft,
    "mpy6a": mpy6a,
    "limestone": limestone,
}


def main(dialect: str, path: str) -> None:
    put = WRITERS[dialect](path)
    reporter = Reporter()
    for number in count():
        item = f"late {number:06d}"
        reporter.issue(item)
        put(item.encode())
        reporter.acknowledge(item)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
