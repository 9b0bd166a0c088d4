"""The load of the kill lane: threads that append, and one that votes, until the process is killed.

Each entry is told before and after it is appended (`a<data>`), each term likewise (`t<term>`).
"""

from __future__ import annotations

import sys
import threading
import time

from flintlog import RaftStore
from flintlog.dialects.zmqraft.layout import Entry
from flintlog.testing import Reporter

THREADS = 5
CAPACITY = 256


def main(root: str) -> None:
    store = RaftStore(root, capacity=CAPACITY)
    reporter = Reporter()
    run = f"{time.time_ns():x}"

    def append(thread: int) -> None:
        number = 0
        while True:
            number += 1
            names = [f"{run}.{thread}.{number}.{part}" for part in range(1 + number % 3)]
            for name in names:
                reporter.issue(f"a{name}")
            store.append([Entry(1, name.encode()) for name in names])
            for name in names:
                reporter.acknowledge(f"a{name}")

    def vote() -> None:
        while True:
            term = store.hard_state.term + 1
            reporter.issue(f"t{term}")
            store.set_hard_state(term=term, vote=f"peer {term}")
            reporter.acknowledge(f"t{term}")

    for thread in range(THREADS):
        threading.Thread(target=append, args=(thread,), daemon=True).start()
    threading.Thread(target=vote, daemon=True).start()
    threading.Event().wait()


if __name__ == "__main__":
    main(sys.argv[1])
