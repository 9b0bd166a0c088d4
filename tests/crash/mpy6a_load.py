"""The load of the kill lane: threads that store sessions, replay them and end them, until the process is killed.

A session is told before and after it is stored (`s<data>`) and before and after it is deleted (`d<data>`).
"""

from __future__ import annotations

import sys

from tests.crash.load import named, told, until_killed

from flintlog.dialects.mpy6a.store import SessionStore, Topic

THREADS = 5
T0 = 1_700_000_000


def main(root: str) -> None:
    topics = [Topic(number, 10 + number) for number in range(THREADS)]
    store = SessionStore(root, topics=topics, file_bytes=4_000, log_bytes=30_000)

    def work(thread: int) -> None:
        for number, name in named(thread):
            with told(f"s{name}"):
                if number % 2:
                    store.put(thread, name.encode(), now=T0)
                else:
                    session = store.new(thread, name[:3].encode())
                    session.append(name[3:].encode())
                    session.store(now=T0)
            for session in store.due(T0 + 100, limit=1) if number % 2 else ():
                with told(f"d{session.data.decode()}"):
                    session.delete()

    until_killed(work, THREADS)


if __name__ == "__main__":
    main(sys.argv[1])
