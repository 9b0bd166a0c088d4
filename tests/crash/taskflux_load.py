"""The load of the kill lane: threads that add, take and acknowledge until the process is killed.

Each record is told before and after it is added (`a<payload>`) and acknowledged (`r<payload>`).
"""

from __future__ import annotations

import sys

from tests.crash.load import named, told, until_killed

from flintlog import QueueStore

THREADS = 6


def main(root: str) -> None:
    store = QueueStore(root, soft_limit=20_000, hard_limit=40_000, snapshot_threshold=2)
    queue = store.queue()

    def work(thread: int) -> None:
        for number, name in named(thread):
            with told(f"a{name}"):
                queue.add(name.encode(), key=number % 5)
            if number % 3 == 0 and (taken := queue.take()) is not None:
                with told(f"r{taken.payload.decode()}"):
                    taken.ack()

    until_killed(work, THREADS)


if __name__ == "__main__":
    main(sys.argv[1])
