"""One heavy job in a process of its own, with its time and its peak of memory.

    python -m benchmarks.limestone_job JOB DIRECTORY

Memory is what is resident (VmRSS), pages of mapped files included.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable

from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone import scan
from flintlog.dialects.limestone.store import Datastore
from flintlog.dialects.limestone.survey import survey
from flintlog.disk import Disk

BATCH = 20_000


def resident_bytes() -> int:
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith("VmRSS"):
                return int(line.split()[1]) << 10
    return 0


class Peak:
    """Looks at some memory every few milliseconds."""

    def __init__(self, look: Callable[[], int] = resident_bytes, pause: float = 0.01) -> None:
        self.bytes = 0
        self._look = look
        self._pause = pause
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)  # a job that fails ends the process
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(self._pause):
            self.bytes = max(self.bytes, self._look())

    def stop(self) -> int:
        self._stop.set()
        self._thread.join()
        return max(self.bytes, self._look())


def open_(directory: str) -> int:
    with Datastore(directory) as store:
        assert store.snapshot is not None
        return len(store.snapshot)


def compact(directory: str) -> int:
    with Datastore(directory, snapshot=False) as store:
        done = store.compact()
        assert done is not None
        return len(done.files)


def rocksdb(directory: str) -> int:
    """The original's route: every entry into RocksDB under key and version, then the newest of each key in order."""
    from rocksdict import DBCompressionType, Options, Rdict, WriteBatch, WriteOptions

    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_compression_type(DBCompressionType.none())
    options.set_write_buffer_size(64 << 20)
    options.increase_parallelism(os.cpu_count() or 1)
    place = directory + "-rocksdb"
    database = Rdict(place, options)
    unlogged = WriteOptions()
    unlogged.disable_wal = True
    database.set_write_options(unlogged)
    found = survey(Disk(), directory)
    for read in found.logs:
        view = found.view(read.file.name)
        for entries in scan.read_entries(view, read.snippets, chunk=BATCH):
            batch = WriteBatch(raw_mode=True)
            rows = zip(
                entries.key.tolist(),
                entries.key_length.tolist(),
                entries.value.tolist(),
                entries.value_length.tolist(),
                entries.major.tolist(),
                entries.minor.tolist(),
                strict=True,
            )
            for key, key_length, value, value_length, major, minor in rows:
                newest_first = (lay.NUMBER_MAX - major).to_bytes(8, "big") + (
                    lay.NUMBER_MAX - minor
                ).to_bytes(8, "big")
                batch.put(
                    bytes(view[key : key + key_length]) + newest_first,
                    bytes(view[value : value + value_length]),
                )
            database.write(batch)
    count = 0
    last = None
    with open(place + ".sorted", "wb") as out:
        for key, value in database.items():
            if key[:-16] != last:
                last = key[:-16]
                count += 1
                out.write(lay.PUT_HEADER.pack(lay.PUT, len(last), len(value), 1) + last + bytes(16) + value)
    database.close()
    os.unlink(place + ".sorted")
    Rdict.destroy(place, options)
    return count


JOBS = {"open": open_, "compact": compact, "rocksdb": rocksdb}


def main(job: str, directory: str) -> None:
    peak = Peak()
    begin = time.perf_counter()
    count = JOBS[job](directory)
    seconds = time.perf_counter() - begin
    print(json.dumps({"seconds": seconds, "peak": peak.stop(), "count": count}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
