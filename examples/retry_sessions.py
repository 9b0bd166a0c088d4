"""Calls to a service that is away at first: each is kept as a session and tried again until it succeeds or is given up.

    python examples/retry_sessions.py

Time is a number here, so that an hour passes at once.
"""

from __future__ import annotations

import tempfile

from flintlog import SessionStore
from flintlog.dialects.mpy6a.store import Record, Topic

CALLS = 1
MINUTE = 60
NOON = 1_700_049_600


def main(directory: str) -> None:
    topics = [Topic(CALLS, delay=MINUTE, attempts_max=3)]

    def given_up(record: Record) -> None:
        print(f"given up after {record.attempts} tries: {record.data.decode()}")

    with SessionStore(directory, topics=topics, on_exhausted=given_up) as store:
        for name in ("Ada", "Grace", "nobody"):
            store.put(CALLS, f"call {name}".encode(), now=NOON)
        print(f"3 calls wait, the next one until {store.next_due() - NOON} s after noon")  # type: ignore[operator]

    with SessionStore(directory, topics=topics, on_exhausted=given_up) as store:
        for minute in range(1, 6):
            now = NOON + minute * MINUTE
            for session in store.due(now):
                if answered(session.data, minute):
                    print(f"minute {minute}: {session.data.decode()}: answered at try {session.attempts + 1}")
                    session.delete()
                else:
                    session.store(now=now)
        print(f"waiting: {store.next_due()}, set aside: {[record.data for record in store.exhausted()]}")


def answered(data: bytes, minute: int) -> bool:
    """Whether the service answers: it is back in the second minute, but does not know every caller."""
    return minute >= 2 and data != b"call nobody"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        main(f"{place}/sessions")
