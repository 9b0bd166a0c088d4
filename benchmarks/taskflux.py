"""taskflux: adding, taking, opening, scanning, and adding while a snapshot is written.

Each topic gives its rows. Payloads have 100 bytes, so a record of the log has 132 in the designed edition.
What has to be compiled is compiled before the clock starts.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import litequeue
import persistqueue

from benchmarks.clock import Work, before, in_threads, latencies, rate, repeated
from benchmarks.queue_sides import (
    NO_SNAPSHOTS,
    FileQueue,
    FileQueueSynced,
    Flintlog,
    LiteQueue,
    LocalQueue,
    Side,
    SqliteAckQueue,
    SqliteQueue,
)
from benchmarks.table import (
    MEGABYTES_PER_SECOND,
    MILLISECONDS,
    RECORDS_PER_SECOND,
    SECONDS_PER_MILLION,
    Contender,
    Figures,
    Row,
    Table,
    contest,
    row,
)
from flintlog.dialects.taskflux.files import list_files
from flintlog.dialects.taskflux.layout import DESIGNED, add_prefix
from flintlog.dialects.taskflux.scan import scan_segment
from flintlog.dialects.taskflux.store import QueueStore
from flintlog.disk import Disk

PAYLOAD = b"x" * 100
THREADS = 16
FILL_BATCH = 10_000
FLOOR_BYTES = 140

NOTES = [
    "A ratio above 1 says that ours is better. It is the median of the rounds' own ratios, so it need not be"
    " the quotient of the two medians beside it.",
    "Every acknowledged call is on disk: ours by fdatasync, SQLite's by synchronous=FULL with WAL, which is"
    " checked at the start.",
    "The file queue of persist-queue syncs only full chunks. 'not synced' shows it as it is and does not"
    " count; 'synced' adds the three syncs that its files need.",
    "persist-queue has no batch put: its batch is an executemany by hand on its own connection.",
    "task_done of SQLiteQueue and of the file queue acknowledges what all threads have taken, so they are no"
    " peers for take + ack in threads.",
    "localqueue runs in its durable mode, as does every other peer that counts.",
    "Acknowledged rows of SQLiteAckQueue, litequeue and localqueue are cleared between the rounds, not on the clock.",
    "Compiled code is warm before the clock starts; the first use is a fact of its own.",
]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything."""

    rounds: int = 11
    calls: int = 400
    calls_per_thread: int = 60
    batch: int = 1000
    batches: int = 4
    live_records: int = 1_000_000
    heavy_rounds: int = 5
    scan_bytes: int = 500_000_000


# Shows that the benchmark runs, and nothing else.
QUICK = Sizes(
    rounds=2,
    calls=3,
    calls_per_thread=1,
    batch=40,
    batches=1,
    live_records=2000,
    heavy_rounds=2,
    scan_bytes=2_000_000,
)


def run(table: Table, directory: str, sizes: Sizes, wanted: Callable[[str], bool]) -> None:
    """Fill the table with every topic that is wanted."""
    warm_up(os.path.join(directory, "warm-up"))
    for name, topic in TOPICS.items():
        if wanted(f"taskflux/{name}"):
            place = os.path.join(directory, name)
            os.makedirs(place)
            table.rows += topic(place, sizes)
            shutil.rmtree(place)
    if wanted("taskflux/compile"):
        table.facts["first use"] = compile_time(os.path.join(directory, "compile"))
    table.notes += NOTES


def warm_up(directory: str) -> None:
    """Load or compile every kernel that the topics use."""
    with QueueStore(directory, snapshot_threshold=NO_SNAPSHOTS) as store:
        queue = store.queue()
        queue.add_many([PAYLOAD] * 600_000)  # so many that they are compiled for
    with QueueStore(directory, snapshot_threshold=NO_SNAPSHOTS) as store:
        store.snapshot()
    with QueueStore(directory, snapshot_threshold=NO_SNAPSHOTS):
        pass
    shutil.rmtree(directory)


# Adding and taking

ADDERS = (SqliteQueue, SqliteAckQueue, FileQueueSynced, FileQueue, LiteQueue, LocalQueue)
THREAD_TAKERS = (SqliteAckQueue, LiteQueue, LocalQueue)


@contextmanager
def opened(directory: str, kinds: tuple[Callable[[str], Side], ...]) -> Iterator[list[Side]]:
    """Ours and the peers, each on a directory of its own; closed at the end."""
    sides = [kind(os.path.join(directory, str(number))) for number, kind in enumerate((Flintlog, *kinds))]
    try:
        yield sides
    finally:
        for side in sides:
            side.close()


def play(sides: list[Side], measure: Callable[[Side], float], rounds: int, *shown: Contender) -> Figures:
    """Measure every side once for nothing, so that files and caches are as they will stay; then for good."""
    for side in sides:
        measure(side)
    ours, *peers = [Contender(side.name, lambda side=side: measure(side)) for side in sides]
    return contest(ours, [*peers, *shown], rounds)


def queues_row(name: str, figures: Figures, sides: list[Side], compared: str, ratio_min: float) -> Row:
    against = [side.name for side in sides[1:] if side.durable]
    return row(name, RECORDS_PER_SECOND, figures, against, compared=compared, ratio_min=ratio_min)


def add_one(directory: str, sizes: Sizes) -> list[Row]:
    def measure(side: Side) -> float:
        return rate(sizes.calls, repeated(sizes.calls, side.add, PAYLOAD))

    with opened(directory, ADDERS) as sides, floor(directory, sizes.calls) as shown:
        figures = play(sides, measure, sizes.rounds, *shown)
    compared = f"{sizes.calls} calls of add or put per round, each on disk when it returns"
    floors = {key: figures[key] for key in (sides[0].name, *(one.name for one in shown))}
    return [
        queues_row("add, 1 thread", figures, sides, compared, 1.2),
        row(
            "add, against the floor",
            RECORDS_PER_SECOND,
            floors,
            [shown[0].name],
            compared=f"the same rounds, against os.pwrite of {FLOOR_BYTES} bytes and os.fdatasync",
        ),
    ]


@contextmanager
def floor(directory: str, calls: int) -> Iterator[tuple[Contender, ...]]:
    """The least that a durable add can cost: one pwrite and one fdatasync, or both in one call."""
    handle = os.open(os.path.join(directory, "floor"), os.O_RDWR | os.O_CREAT)
    data = bytes(FLOOR_BYTES)

    def measure(at: int, write: Callable[[int], None]) -> float:
        def work() -> None:
            for number in range(calls):
                write(at + number * FLOOR_BYTES)

        return rate(calls, work)

    def in_two(at: int) -> None:
        os.pwrite(handle, data, at)
        os.fdatasync(handle)

    def in_one(at: int) -> None:
        os.pwritev(handle, [data], at, os.RWF_DSYNC)

    try:
        measure(0, in_two)
        yield (
            Contender("pwrite + fdatasync, file grows", lambda: measure(os.fstat(handle).st_size, in_two)),
            Contender("pwrite + fdatasync, inside the file", lambda: measure(0, in_two)),
            Contender("pwritev2 with RWF_DSYNC, inside the file", lambda: measure(0, in_one)),
        )
    finally:
        os.close(handle)


def add_in_threads(directory: str, sizes: Sizes) -> list[Row]:
    def measure(side: Side) -> float:
        work = in_threads(THREADS, repeated(sizes.calls_per_thread, side.add, PAYLOAD))
        return rate(THREADS * sizes.calls_per_thread, work)

    with opened(directory, ADDERS) as sides:
        figures = play(sides, measure, sizes.rounds)
    compared = f"{sizes.calls_per_thread} calls of add or put in each thread per round"
    return [queues_row(f"add, {THREADS} threads", figures, sides, compared, 8)]


def add_batches(directory: str, sizes: Sizes) -> list[Row]:
    payloads = [PAYLOAD] * sizes.batch

    def measure(side: Side) -> float:
        batches = sizes.batches if side.batches_adds else 1
        return rate(batches * sizes.batch, repeated(batches, side.add_many, payloads))

    with opened(directory, ADDERS) as sides:
        figures = play(sides, measure, sizes.rounds)
    compared = "add_many, against one transaction per batch; the file queue has no batch and puts one by one"
    return [queues_row(f"add_many of {sizes.batch:,}", figures, sides, compared, 6)]


def take_filled(side: Side, count: int, work: Work) -> float:
    """Fill the queue, then take all of it on the clock."""
    side.tidy()
    side.add_many([PAYLOAD] * count)
    return rate(count, work)


def take_one(directory: str, sizes: Sizes) -> list[Row]:
    def measure(side: Side) -> float:
        return take_filled(side, sizes.calls, repeated(sizes.calls, side.take))

    with opened(directory, ADDERS) as sides:
        figures = play(sides, measure, sizes.rounds)
    compared = f"{sizes.calls} records per round, one by one, each acknowledgement on disk when it returns"
    return [queues_row("take + ack, 1 thread", figures, sides, compared, 1.2)]


def take_in_threads(directory: str, sizes: Sizes) -> list[Row]:
    def measure(side: Side) -> float:
        work = in_threads(THREADS, repeated(sizes.calls_per_thread, side.take))
        return take_filled(side, THREADS * sizes.calls_per_thread, work)

    with opened(directory, THREAD_TAKERS) as sides:
        figures = play(sides, measure, sizes.rounds)
    compared = f"{sizes.calls_per_thread} records in each thread per round"
    return [queues_row(f"take + ack, {THREADS} threads", figures, sides, compared, 5)]


def take_batches(directory: str, sizes: Sizes) -> list[Row]:
    def measure(side: Side) -> float:
        batches = sizes.batches if side.batches_takes else 1
        return take_filled(side, batches * sizes.batch, repeated(batches, side.take_many, sizes.batch))

    with opened(directory, ADDERS) as sides:
        figures = play(sides, measure, sizes.rounds)
    compared = "take_many + ack_many, against get for each and one task_done, or what comes nearest"
    return [queues_row(f"take + ack, batches of {sizes.batch:,}", figures, sides, compared, 5)]


# Opening


def opening(directory: str, sizes: Sizes) -> list[Row]:
    count = sizes.live_records
    log, snapshot, sqlite, lite = (
        os.path.join(directory, name) for name in ("log", "snapshot", "sqlite", "lite")
    )
    for kind, path in ((Flintlog, log), (SqliteQueue, sqlite), (LiteQueue, lite)):
        side = kind(path)
        fill(side, count)
        side.close()
    shutil.copytree(log, snapshot)
    with QueueStore(snapshot, snapshot_threshold=NO_SNAPSHOTS) as store:
        store.snapshot()

    def contender(name: str, open_and_count: Callable[[str], int], path: str) -> Contender:
        return Contender(name, lambda: seconds_per_million(open_and_count, path, count))

    ours = contender("flintlog", open_ours, log)
    others = [
        contender("flintlog, snapshot", open_ours, snapshot),
        contender(SqliteQueue.name, open_sqlite, sqlite),
        contender(LiteQueue.name, open_lite, lite),
    ]
    figures = contest(ours, others, sizes.heavy_rounds)
    from_log = {key: value for key, value in figures.items() if key != "flintlog, snapshot"}
    from_snapshot = from_log | {"flintlog": figures["flintlog, snapshot"]}
    return [
        row(
            f"open, {what}",
            SECONDS_PER_MILLION,
            found,
            [SqliteQueue.name, LiteQueue.name],
            compared=f"open and count {count:,} live records {where}, warm cache; the peers only count rows",
            ours_max=2,
        )
        for what, where, found in (
            ("log", "of a log", from_log),
            ("snapshot", "of a snapshot", from_snapshot),
        )
    ]


def fill(side: Side, count: int) -> None:
    for begin in range(0, count, FILL_BATCH):
        side.add_many([PAYLOAD] * min(FILL_BATCH, count - begin))


def seconds_per_million(open_and_count: Callable[[str], int], path: str, count: int) -> float:
    begin = time.perf_counter()
    found = open_and_count(path)
    elapsed = time.perf_counter() - begin
    if found != count:
        raise RuntimeError(f"{found} records instead of {count}")
    return elapsed * 1_000_000 / count


def open_ours(path: str) -> int:
    with QueueStore(path, snapshot_threshold=NO_SNAPSHOTS) as store:
        return len(store.queue())


def open_sqlite(path: str) -> int:
    queue = persistqueue.SQLiteQueue(path, multithreading=True)
    found = queue.qsize()
    queue.close()
    return found


def open_lite(path: str) -> int:
    queue = litequeue.LiteQueue(LiteQueue.file_in(path))
    found = queue.qsize()
    queue.close()
    return found


# Scanning


def scanning(directory: str, sizes: Sizes) -> list[Row]:
    record = DESIGNED.record_size(len(add_prefix("")) + 12 + len(PAYLOAD))
    side = Flintlog(directory)
    count = sizes.scan_bytes // record
    fill(side, count)
    side.close()
    views = mapped(os.path.join(directory, "data"))
    size = sum(map(len, views))

    def scan() -> None:
        found = sum(len(scan_segment(view, DESIGNED)[0]) for view in views)
        if found != count:  # a scan that stops early would look fast
            raise RuntimeError(f"{found} records instead of {count}")

    def checksum() -> None:
        for view in views:
            zlib.crc32(view)

    checksum()  # the cache is warm
    figures = contest(
        Contender("flintlog", lambda: rate(size, scan) / 1e6),
        [Contender("zlib.crc32", lambda: rate(size, checksum) / 1e6)],
        sizes.heavy_rounds,
    )
    compared = (
        f"{size / 1e6:,.0f} MB of log, mapped, warm cache, one thread, every checksum compared and every"
        " delta decoded into columns; against zlib.crc32 over the same bytes"
    )
    return [row("scan", MEGABYTES_PER_SECOND, figures, ["zlib.crc32"], compared=compared, ratio_min=0.6)]


def mapped(data: str) -> list[memoryview]:
    disk = Disk()
    views = []
    for segment in list_files(disk, data).segments:
        with disk.open(os.path.join(data, segment.name)) as file:
            views.append(file.view())
    return views


# A snapshot beside the writer


def beside_a_snapshot(directory: str, sizes: Sizes) -> list[Row]:
    rates: Figures = {"flintlog": [], "without a snapshot": []}
    middle: Figures = {"flintlog": [], "without a snapshot": []}
    high: Figures = {"flintlog": [], "without a snapshot": []}
    longest: Figures = {
        "flintlog": [],
        "without a snapshot": [],
    }  # one stop of the world hides behind any p99

    def note(name: str, found: list[float]) -> None:
        rates[name].append(len(found) / sum(found))
        middle[name].append(found[len(found) // 2] * 1e3)
        high[name].append(found[len(found) * 99 // 100] * 1e3)
        longest[name].append(found[-1] * 1e3)

    side = Flintlog(directory)
    add = repeated(1, side.add, PAYLOAD)
    try:
        fill(side, sizes.live_records)
        for _ in range(sizes.heavy_rounds):
            side.add(PAYLOAD)  # a snapshot of nothing new would not be written
            writer = threading.Thread(target=side.store.snapshot)
            writer.start()
            found = latencies(add, writer.is_alive)
            writer.join()
            note("flintlog", found)
            note("without a snapshot", latencies(add, before(time.perf_counter() + sum(found))))
    finally:
        side.close()
    compared = (
        f"add from one thread while a snapshot of {sizes.live_records:,} records is written; as long without"
    )
    return [
        row(
            f"add beside a snapshot, {what}",
            unit,
            figures,
            ["without a snapshot"],
            compared=compared,
            ours_max=most,
        )
        for what, unit, figures, most in (
            ("rate", RECORDS_PER_SECOND, rates, None),
            ("p50", MILLISECONDS, middle, None),
            ("p99", MILLISECONDS, high, None),
            ("longest", MILLISECONDS, longest, 10),
        )
    ]


# Compiling

_FIRST_USE = """
import sys, time
from flintlog.dialects.taskflux.store import QueueStore
begin = time.perf_counter()
with QueueStore(sys.argv[1], snapshot_threshold=1 << 30) as store:
    store.queue().add_many([bytes(100)] * 20_000)
added = time.perf_counter()
with QueueStore(sys.argv[1], snapshot_threshold=1 << 30) as store:
    assert len(store.queue()) == 20_000
opened = time.perf_counter()
print(f"{added - begin:.1f} s for add_many of 20,000, {opened - added:.1f} s to open them")
"""


def compile_time(directory: str) -> str:
    """The first large batch and the first large opening in a process, with and without a compiler cache."""
    found = []
    for turn in ("empty compiler cache", "next process"):
        done = subprocess.run(
            [sys.executable, "-c", _FIRST_USE, os.path.join(directory, turn)],
            env={**os.environ, "NUMBA_CACHE_DIR": os.path.join(directory, "cache")},
            capture_output=True,
            text=True,
            check=True,
        )
        found.append(f"{turn}: {done.stdout.strip()}")
    shutil.rmtree(directory)
    return "; ".join(found)


TOPICS: dict[str, Callable[[str, Sizes], list[Row]]] = {
    "add": add_one,
    "add-threads": add_in_threads,
    "add-many": add_batches,
    "take": take_one,
    "take-threads": take_in_threads,
    "take-many": take_batches,
    "open": opening,
    "scan": scanning,
    "snapshot": beside_a_snapshot,
}
