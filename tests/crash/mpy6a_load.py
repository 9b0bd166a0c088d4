"""The load of the kill lane: threads that store sessions, replay them and end them, until the process is killed.

A session is told before and after it is stored (`s<data>`) and before and after it is deleted (`d<data>`).
"""

from __future__ import annotations

import sys
import threading
import time

from flintlog.dialects.mpy6a.store import SessionStore, Topic
from flintlog.testing import Reporter

THREADS = 5
T0 = 1_700_000_000


def main(root: str) -> None:
    topics = [Topic(number, 10 + number) for number in range(THREADS)]
    store = SessionStore(root, topics=topics, file_bytes=4_000, log_bytes=30_000)
    reporter = Reporter()
    run = f"{time.time_ns():x}"

    def work(thread: int) -> None:
        number = 0
        while True:
            number += 1
            name = f"{run}.{thread}.{number}"
            reporter.issue(f"s{name}")
            if number % 2:
                store.put(thread, name.encode(), now=T0)
            else:
                session = store.new(thread, name[:3].encode())
                session.append(name[3:].encode())
                session.store(now=T0)
            reporter.acknowledge(f"s{name}")
            for session in store.due(T0 + 100, limit=1) if number % 2 else ():
                name = session.data.decode()
                reporter.issue(f"d{name}")
                session.delete()
                reporter.acknowledge(f"d{name}")

    for thread in range(THREADS):
        threading.Thread(target=work, args=(thread,), daemon=True).start()
    threading.Event().wait()


if __name__ == "__main__":
    main(sys.argv[1])
