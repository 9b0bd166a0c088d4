"""The load of the kill lane: threads with channels of their own, and one that switches epochs, until the kill.

Each put is told before its session and after its epoch is durable.
"""

from __future__ import annotations

import sys
import threading
import time

from flintlog.dialects.limestone.store import Datastore
from flintlog.testing import Reporter

THREADS = 4
COMPACT_EVERY = 40  # epochs


def main(root: str, edition: str) -> None:
    store = Datastore(root, edition=edition, flush_bytes=256)  # type: ignore[arg-type]
    reporter = Reporter()
    run = f"{time.time_ns():x}"

    def work(thread: int) -> None:
        channel = store.channel()
        number = 0
        while True:
            number += 1
            names = [f"{run}.{thread}.{number}.{part}" for part in range(1 + number % 5)]
            for name in names:
                reporter.issue(name)
            with channel.session() as session:
                session.put_many(thread, [name.encode() for name in names], [b"x" * 50] * len(names))
                epoch = session.epoch
            store.wait_durable(epoch)
            for name in names:
                reporter.acknowledge(name)

    def switch() -> None:
        for turn in range(10**9):
            store.switch_epoch()
            if turn % COMPACT_EVERY == COMPACT_EVERY - 1:
                store.compact()
            time.sleep(0.001)

    for thread in range(THREADS):
        threading.Thread(target=work, args=(thread,), daemon=True).start()
    threading.Thread(target=switch, daemon=True).start()
    threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
