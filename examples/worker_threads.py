"""Producers and workers in one process share a store, and its fsyncs.

A worker takes a record, works, and acknowledges. Work that fails goes back to the queue, behind all others of
its key, and is tried again.

    python examples/worker_threads.py [DIRECTORY]
"""

from __future__ import annotations

import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from flintlog import QueueStore

PRODUCERS = 4
WORKERS = 4
JOBS_EACH = 25


class Results:
    """What was done, and what failed once on the way."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.done: list[str] = []
        self.failed: set[str] = set()
        self.complete = threading.Event()

    def work(self, name: str) -> None:
        with self._lock:
            if name.endswith("7") and name not in self.failed:
                self.failed.add(name)
                raise RuntimeError(f"{name} fails the first time")
            self.done.append(name)
            if len(self.done) == PRODUCERS * JOBS_EACH:
                self.complete.set()


def main(directory: str) -> None:
    results = Results()
    with QueueStore(directory) as store, ThreadPoolExecutor(PRODUCERS + WORKERS) as pool:
        jobs = store.create("jobs")

        def produce(producer: int) -> None:
            for number in range(JOBS_EACH):
                jobs.add(f"job {producer}.{number}".encode(), key=number % 3)

        def consume() -> None:
            while not results.complete.is_set():
                job = jobs.take(timeout=0.1)
                if job is not None:
                    with suppress(RuntimeError), job:  # what fails is given back, and comes again
                        results.work(job.payload.decode())

        workers = [pool.submit(consume) for _ in range(WORKERS)]
        producers = [pool.submit(produce, number) for number in range(PRODUCERS)]
        for thread in [*producers, *workers]:
            thread.result()
        print(f"{len(results.done)} jobs done, {len(results.failed)} of them at the second try")
        print(f"{len(jobs)} waiting, {jobs.in_flight} handed out, {store.last_lsn + 1} entries in the log")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as directory:
            main(f"{directory}/spool")
