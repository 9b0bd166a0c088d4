"""What the loads of the kill lane share: names that no other thread or process gives, and words around each change."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

from flintlog.testing import Reporter

_REPORTER = Reporter()
_RUN = f"{time.time_ns():x}"


def named(thread: int) -> Iterator[tuple[int, str]]:
    """Numbers from 1 on without end, each with a name."""
    return ((number, f"{_RUN}.{thread}.{number}") for number in count(1))


@contextmanager
def told(*items: str) -> Iterator[None]:
    """Around a change: tell the parent that it is asked for, and then that it was acknowledged."""
    for item in items:
        _REPORTER.issue(item)
    yield
    for item in items:
        _REPORTER.acknowledge(item)


def until_killed(work: Callable[[int], None], threads: int, *others: Callable[[], None]) -> None:
    """Let threads work, each with its number, and others beside them, until the process is killed."""
    for thread in range(threads):
        threading.Thread(target=work, args=(thread,), daemon=True).start()
    for other in others:
        threading.Thread(target=other, daemon=True).start()
    threading.Event().wait()
