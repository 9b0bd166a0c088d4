"""Queues in a directory: create, add, take, acknowledge, and find everything again after a restart.

python examples/embed_queue.py [DIRECTORY]
"""

from __future__ import annotations

import sys
import tempfile

from flintlog import QueueStore
from flintlog.dialects.taskflux.store.errors import LimitError


def main(directory: str) -> None:
    with QueueStore(directory) as store:
        jobs = store.create("jobs", max_size=100, max_payload=1024, key_range=(0, 9))
        jobs.add(b"send the report", key=5)
        jobs.add_many([b"rotate keys", b"renew certificate"], keys=[1, 1])
        try:
            jobs.add(b"no such priority", key=10)
        except LimitError as error:
            print(f"refused ({error.code}): {error}")

        taken = jobs.take()  # lowest key first, first in first out among equal keys
        assert taken is not None
        print(f"took id {taken.id}: {taken.payload.decode()}")
        print(f"{len(jobs)} waiting, {jobs.in_flight} handed out")
        # The store closes here. The record is not acknowledged.

    with QueueStore(directory) as store:
        jobs = store.queue("jobs")
        print(f"after a restart: {[record.payload.decode() for record in jobs.records()]}")
        for finding in store.findings:  # what opening healed, such as a torn tail
            print(f"healed: {finding.message}")
        while (job := jobs.take()) is not None:
            with job:  # acknowledged when the block ends well, given back when it raises
                print(f"done: {job.payload.decode()}")
        print(f"snapshot at LSN {store.snapshot()}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as directory:
            main(f"{directory}/spool")
