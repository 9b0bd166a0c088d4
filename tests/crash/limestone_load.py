"""The load of the kill lane: threads with channels of their own, and one that switches epochs, until the kill.

Each put is told before its session and after its epoch is durable.
"""

from __future__ import annotations

import sys
import time

from tests.crash.load import named, told, until_killed

from flintlog.dialects.limestone.store import Datastore

THREADS = 4
COMPACT_EVERY = 40  # epochs


def main(root: str, edition: str) -> None:
    store = Datastore(root, edition=edition, flush_bytes=256)  # type: ignore[arg-type]

    def work(thread: int) -> None:
        channel = store.channel()
        for number, name in named(thread):
            names = [f"{name}.{part}" for part in range(1 + number % 5)]
            with told(*names):
                with channel.session() as session:
                    session.put_many(thread, [each.encode() for each in names], [b"x" * 50] * len(names))
                    epoch = session.epoch
                store.wait_durable(epoch)

    def switch() -> None:
        for turn in range(10**9):
            store.switch_epoch()
            if turn % COMPACT_EVERY == COMPACT_EVERY - 1:
                store.compact()
            time.sleep(0.001)

    until_killed(work, THREADS, switch)


if __name__ == "__main__":
    main(*sys.argv[1:])
