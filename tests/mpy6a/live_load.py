"""A process that writes sessions as fast as it can, until it is killed: `python -m tests.mpy6a.live_load DIR strict`.

Session `n` of the short topic is put before session `n` of the long one, and each topic's are ended in their order. So
at every moment a topic's sessions are neighbours, and the newest of both are the same number or one apart.
"""

from __future__ import annotations

import itertools
import sys

from tests.mpy6a.stores import LONG, SHORT, T0, TOPICS

from flintlog.dialects.mpy6a.store import SessionStore

AHEAD = 6  # so many of each topic are put before as many are ended


def main(path: str, mode: str) -> None:
    options = {"file_bytes": 600, "log_bytes": 3000, "reserve_bytes": 256}
    with SessionStore(path, topics=TOPICS, strict=mode == "strict", on_exhausted=print, **options) as store:
        for number in itertools.count():
            now = T0 + number
            for topic in (SHORT, LONG):
                store.put(topic, b"%d" % number, delay=30 + topic, now=now)
            if number % AHEAD == 0 < number:
                for session in store.due(now + 1000, 2 * AHEAD):
                    session.delete()
            if number == AHEAD:
                print("ready", flush=True)
            if number % 50 == 0:
                store.rotate(30 + SHORT, now=now)
            if number % 70 == 0:
                store.compact()


if __name__ == "__main__":
    main(*sys.argv[1:])
