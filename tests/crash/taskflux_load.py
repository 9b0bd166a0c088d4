"""The load of the kill lane: threads that add, take and acknowledge until the process is killed.

Each record is told before and after it is added (`a<payload>`) and acknowledged (`r<payload>`).
"""

from __future__ import annotations

import sys
import threading
import time

from flintlog import QueueStore
from flintlog.testing import Reporter

THREADS = 6


def main(root: str) -> None:
    store = QueueStore(root, soft_limit=20_000, hard_limit=40_000, snapshot_threshold=2)
    queue = store.queue()
    reporter = Reporter()
    run = f"{time.time_ns():x}"

    def work(thread: int) -> None:
        number = 0
        while True:
            number += 1
            name = f"{run}.{thread}.{number}"
            reporter.issue(f"a{name}")
            queue.add(name.encode(), key=number % 5)
            reporter.acknowledge(f"a{name}")
            if number % 3 == 0 and (taken := queue.take()) is not None:
                reporter.issue(f"r{taken.payload.decode()}")
                taken.ack()
                reporter.acknowledge(f"r{taken.payload.decode()}")

    for thread in range(THREADS):
        threading.Thread(target=work, args=(thread,), daemon=True).start()
    threading.Event().wait()


if __name__ == "__main__":
    main(sys.argv[1])
