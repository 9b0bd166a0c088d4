"""The load of the kill lane: threads that append, and one that votes, until the process is killed.

Each entry is told before and after it is appended (`a<data>`), each term likewise (`t<term>`).
"""

from __future__ import annotations

import sys

from tests.crash.load import named, told, until_killed

from flintlog import RaftStore
from flintlog.dialects.zmqraft.layout import Entry

THREADS = 5
CAPACITY = 256


def main(root: str) -> None:
    store = RaftStore(root, capacity=CAPACITY)

    def append(thread: int) -> None:
        for number, name in named(thread):
            names = [f"{name}.{part}" for part in range(1 + number % 3)]
            with told(*(f"a{each}" for each in names)):
                store.append([Entry(1, each.encode()) for each in names])

    def vote() -> None:
        while True:
            term = store.hard_state.term + 1
            with told(f"t{term}"):
                store.set_hard_state(term=term, vote=f"peer {term}")

    until_killed(append, THREADS, vote)


if __name__ == "__main__":
    main(sys.argv[1])
