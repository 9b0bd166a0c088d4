"""Work on the clock: rates, work in many threads, latencies."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

Work = Callable[[], None]


def rate(count: int, work: Work) -> float:
    """How many per second, when `work` does `count`."""
    begin = time.perf_counter()
    work()
    return count / (time.perf_counter() - begin)


def repeated(count: int, call: Callable[..., None], *arguments: object) -> Work:
    """The same call many times."""

    def work() -> None:
        for _ in range(count):
            call(*arguments)

    return work


def in_threads(count: int, work: Work) -> Work:
    """The same work in many threads at once; a failure in one of them is raised."""

    def together() -> None:
        failures: list[BaseException] = []

        def guarded() -> None:
            try:
                work()
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=guarded) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]

    return together


def latencies(call: Work, go_on: Callable[[], bool]) -> list[float]:
    """Seconds of each call, in ascending order; at least ten calls, then while `go_on` says so."""
    found: list[float] = []
    while len(found) < 10 or go_on():
        begin = time.perf_counter()
        call()
        found.append(time.perf_counter() - begin)
    return sorted(found)


def before(end: float) -> Callable[[], bool]:
    """Is it still earlier than `end`?"""
    return lambda: time.perf_counter() < end
