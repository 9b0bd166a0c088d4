"""zmqraft: appending, reading, opening, looking up a request, rolling back, and a large snapshot.

Each topic gives its rows. Entries have 120 bytes: a head of 20 with a fresh request id, and 100 of data. The peer
is the journal of PySyncObj; the floor is what the disk itself gives to the same writes and syncs.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass

from pysyncobj.journal import FileJournal

from benchmarks.clock import in_threads, rate, repeated
from benchmarks.queue_sides import check_full
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
from flintlog.dialects.zmqraft.store import Entry, RaftStore

TERM = 3
DATA = b"x" * 100
ENTRY_BYTES = 120
THREADS = 16
FILL_BATCH = 10_000
SLOTS_BYTES = 4 << 14
SNAPSHOT_CHUNK = 8 << 20

# What the original reaches: entries per second in batches of 1,000, and seconds to read 1,000,000. The aims are
# twice the one, a quarter of the other, and half a second to open, for which the original needs 30.
ORIGINAL_BATCH_RATE = 290_000
ORIGINAL_READ_SECONDS = 0.4
OPEN_SECONDS_MAX = 0.5

FLOOR = "floor: data, sync, offsets, sync"
FLOOR_ONE_SYNC = "floor with one sync"
PEER = "PySyncObj FileJournal"
PEER_FLUSHED = "PySyncObj FileJournal, flushed"
SQLITE = "SQLite table"

NOTES = [
    "zmqraft: an append is two writes and two syncs, because an entry must be on disk before the offset that"
    " commits it; the floor does the same calls and nothing else. A floor with one sync is shown beside it.",
    "zmqraft: PySyncObj's journal is a mapped file and leaves writing to the kernel: what it added last may be"
    " lost with the machine. 'flushed' calls its flush() after each add or batch, which syncs the mapping, but"
    " a record and the offset behind the last record have no order in it.",
    f"zmqraft: aims come from the original, which appends {ORIGINAL_BATCH_RATE:,} entries/s in batches of 1,000,"
    f" reads 1,000,000 in {ORIGINAL_READ_SECONDS:g} s and opens 1,000,000 fresh request ids in 30 s.",
]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything."""

    rounds: int = 11
    calls: int = 300
    calls_per_thread: int = 60
    batches: tuple[tuple[int, int], ...] = ((100, 40), (1000, 12))  # entries, and how often per round
    entries: int = 1_000_000
    heavy_rounds: int = 5
    truncated: int = 100_000
    snapshot_bytes: int = 256 << 20


# Shows that the benchmark runs, and nothing else.
QUICK = Sizes(
    rounds=2,
    calls=3,
    calls_per_thread=1,
    batches=((10, 1), (40, 1)),
    entries=20_000,
    heavy_rounds=2,
    truncated=5_000,
    snapshot_bytes=1 << 20,
)


def run(table: Table, directory: str, sizes: Sizes, wanted: Callable[[str], bool]) -> None:
    """Fill the table with every topic that is wanted."""
    warm_up(os.path.join(directory, "warm-up"))
    for name, topic in TOPICS.items():
        if wanted(f"zmqraft/{name}"):
            place = os.path.join(directory, name)
            os.makedirs(place)
            table.rows += topic(place, sizes)
            shutil.rmtree(place)
    table.notes += NOTES


def warm_up(directory: str) -> None:
    """Load or compile the one kernel that the topics use: the copy into Arrow columns."""
    with opened_store(directory) as store:
        fill_store(store, FILL_BATCH)
        for _ in store.record_batches(1):
            pass
    shutil.rmtree(directory)


# Sides


@contextmanager
def opened_store(directory: str) -> Iterator[RaftStore]:
    with RaftStore(os.path.join(directory, "store")) as store:
        yield store


@contextmanager
def opened_journal(directory: str) -> Iterator[FileJournal]:
    journal = FileJournal(os.path.join(directory, "journal"))
    try:
        yield journal
    finally:
        journal._destroy()


def request_ids(count: int) -> list[bytes]:
    fresh = os.urandom(12 * count)
    return [fresh[at : at + 12] for at in range(0, len(fresh), 12)]


def fill_store(store: RaftStore, count: int) -> None:
    for begin in range(0, count, FILL_BATCH):
        some = min(FILL_BATCH, count - begin)
        store.append_columns(TERM, [DATA] * some, request_ids=request_ids(some))


def fill_journal(journal: FileJournal, count: int) -> None:
    for index in range(len(journal) + 1, len(journal) + 1 + count):
        journal.add(DATA, index, TERM)


# Appending


class Floor:
    """The writes and syncs of an append on a file of the same shape, without the rest."""

    def __init__(self, directory: str) -> None:
        self._handle = os.open(os.path.join(directory, "floor"), os.O_RDWR | os.O_CREAT)
        os.pwrite(self._handle, bytes(SLOTS_BYTES), 0)
        os.fsync(self._handle)
        self._count = 0

    def append(self, count: int, *, syncs: int = 2) -> None:
        if 4 * (self._count + count) > SLOTS_BYTES:
            self._count = 0
            os.ftruncate(self._handle, SLOTS_BYTES)  # so that the file grows with every append, as a log does
        os.pwrite(self._handle, bytes(ENTRY_BYTES * count), SLOTS_BYTES + ENTRY_BYTES * self._count)
        if syncs == 2:
            os.fdatasync(self._handle)
        os.pwrite(self._handle, bytes(4 * count), 4 * self._count)
        os.fdatasync(self._handle)
        self._count += count

    def close(self) -> None:
        os.close(self._handle)


def appending(directory: str, sizes: Sizes) -> list[Row]:
    rows = []
    floor = Floor(directory)
    with opened_store(directory) as store, opened_journal(directory) as journal:
        for count, calls in ((1, sizes.calls), *sizes.batches):
            figures = append_contest(store, journal, floor, count, calls, sizes.rounds)
            rows += append_rows(figures, count, calls)
    floor.close()
    return rows


def append_contest(
    store: RaftStore, journal: FileJournal, floor: Floor, count: int, calls: int, rounds: int
) -> Figures:
    ids = request_ids(count)
    entries = [Entry(TERM, DATA, request_id=request_id) for request_id in ids]

    def columns() -> None:
        store.append_columns(TERM, [DATA] * count, request_ids=ids)

    def flushed() -> None:
        fill_journal(journal, count)
        journal.flush()

    def contender(name: str, call: Callable[[], None]) -> Contender:
        call()
        return Contender(name, lambda: rate(calls * count, repeated(calls, call)))

    figures = contest(
        contender("flintlog", lambda: store.append(entries)),
        [
            contender("flintlog, columns", columns),
            contender(FLOOR, lambda: floor.append(count)),
            contender(FLOOR_ONE_SYNC, lambda: floor.append(count, syncs=1)),
            contender(PEER, lambda: fill_journal(journal, count)),
            contender(PEER_FLUSHED, flushed),
        ],
        rounds,
    )
    journal.clear()  # a mapping that only grows would make the peer slower with each contest
    return figures


def append_rows(figures: Figures, count: int, calls: int) -> list[Row]:
    what = "append, one by one" if count == 1 else f"append, batches of {count:,}"
    compared = f"{calls} appends of {count:,} per round, each on disk when it returns"
    from_columns = {"flintlog, columns": figures["flintlog, columns"]} | figures
    peer = row(
        what,
        RECORDS_PER_SECOND,
        figures,
        [PEER_FLUSHED],
        compared=f"{compared}; as Entry objects, against add and flush of the peer",
        ours_min=2 * ORIGINAL_BATCH_RATE if count == 1000 else None,
    )
    bare = row(
        f"{what}, against the floor",
        RECORDS_PER_SECOND,
        figures if count == 1 else from_columns,
        [FLOOR],
        compared=f"the same rounds{'' if count == 1 else '; from columns'}, against the bare calls",
        ratio_min=0.85 if count == 1 else None,
    )
    return [peer, bare]


class SqliteLog:
    """A log as a table of SQLite with `synchronous=FULL`: one connection behind a lock, a commit for each append."""

    def __init__(self, directory: str) -> None:
        self._lock = threading.Lock()
        file = os.path.join(directory, "log.db")
        self._connection = sqlite3.connect(file, check_same_thread=False, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        check_full(self._connection)
        self._connection.execute(
            "CREATE TABLE log (i INTEGER PRIMARY KEY, term INT, request BLOB, data BLOB)"
        )

    def append(self, entry: Entry) -> None:
        with self._lock:
            row = (entry.term, entry.request_id, entry.data)
            self._connection.execute("INSERT INTO log (term, request, data) VALUES (?, ?, ?)", row)

    def close(self) -> None:
        self._connection.close()


def append_in_threads(directory: str, sizes: Sizes) -> list[Row]:
    entry = Entry(TERM, DATA, request_id=os.urandom(12))
    calls = sizes.calls_per_thread
    floor, table = Floor(directory), SqliteLog(directory)

    def together(call: Callable[..., object], *arguments: object) -> Callable[[], float]:
        work = in_threads(THREADS, repeated(calls, call, *arguments))
        return lambda: rate(THREADS * calls, work)

    bare = f"{FLOOR}, 1 thread"
    with opened_store(directory) as store, closing(floor), closing(table):
        figures = contest(
            Contender("flintlog", together(store.append, [entry])),
            [
                Contender(SQLITE, together(table.append, entry)),
                Contender(bare, lambda: rate(calls, repeated(calls, floor.append, 1))),
            ],
            sizes.rounds,
        )
    compared = f"{calls} appends of one entry in each thread per round; the floor in one thread"
    name = f"append, {THREADS} threads"
    return [
        row(name, RECORDS_PER_SECOND, figures, [SQLITE], compared=compared, ratio_min=5),
        row(f"{name}, against the floor", RECORDS_PER_SECOND, figures, [bare], compared=compared),
    ]


# Reading, opening, looking up


def reading(directory: str, sizes: Sizes) -> list[Row]:
    with opened_store(directory) as store:
        fill_store(store, sizes.entries)
    with opened_journal(directory) as journal:
        fill_journal(journal, sizes.entries)
    return [*read_rows(directory, sizes), *open_rows(directory, sizes), *find_rows(directory, sizes)]


def read_rows(directory: str, sizes: Sizes) -> list[Row]:
    def from_store(read: Callable[[RaftStore], int]) -> Callable[[], float]:
        def measure() -> float:
            with opened_store(directory) as store:  # again each time: nothing is kept from the round before
                return seconds_per_million(lambda: read(store), sizes.entries)

        return measure

    ways: dict[str, Callable[[RaftStore], int]] = {
        "columns": lambda store: sum(len(entries) for _, entries in store.columns(1)),
        "Arrow": lambda store: sum(len(batch) for batch in store.record_batches(1)),
        "raw bytes": lambda store: sum(1 for _ in store.log.raw_entries(1)),
        "Entry objects": lambda store: sum(1 for _ in store.entries(1)),
    }
    first, *others = [Contender(f"flintlog, {way}", from_store(read)) for way, read in ways.items()]
    peer = f"{PEER}, open and read"
    figures = contest(
        first, [*others, Contender(peer, lambda: open_journal(directory, sizes))], sizes.heavy_rounds
    )
    compared = (
        f"{sizes.entries:,} entries, warm cache; the peer holds its journal in memory, so it opens and walks"
    )
    return [
        row(
            f"read, {way}",
            SECONDS_PER_MILLION,
            {name: figures[name], peer: figures[peer]},
            [peer],
            compared=compared,
            ours_max=ORIGINAL_READ_SECONDS / 4,
        )
        for way, name in ((way, f"flintlog, {way}") for way in ways)
    ]


def open_rows(directory: str, sizes: Sizes) -> list[Row]:
    def open_store() -> float:
        begin = time.perf_counter()
        with opened_store(directory) as store:
            elapsed = time.perf_counter() - begin
            assert store.last_index == sizes.entries
        return elapsed * 1_000_000 / sizes.entries

    figures = contest(
        Contender("flintlog", open_store),
        [Contender(PEER, lambda: open_journal(directory, sizes))],
        sizes.heavy_rounds,
    )
    compared = f"a log of {sizes.entries:,} entries with fresh request ids, warm cache"
    return [row("open", SECONDS_PER_MILLION, figures, [PEER], compared=compared, ours_max=OPEN_SECONDS_MAX)]


def open_journal(directory: str, sizes: Sizes) -> float:
    def read() -> int:
        with opened_journal(directory) as journal:
            return sum(1 for _ in journal[:])

    return seconds_per_million(read, sizes.entries)


def seconds_per_million(read: Callable[[], int], count: int) -> float:
    begin = time.perf_counter()
    found = read()
    elapsed = time.perf_counter() - begin
    if found != count:
        raise RuntimeError(f"{found} entries instead of {count}")
    return elapsed * 1_000_000 / count


def find_rows(directory: str, sizes: Sizes) -> list[Row]:
    figures: Figures = {"flintlog": [], "the second time": []}
    with opened_store(directory) as store:
        oldest = next(store.entries(1)).request_id
    for _ in range(sizes.heavy_rounds):
        with opened_store(directory) as store:
            for name in figures:
                begin = time.perf_counter()
                assert store.find_request(oldest) == 1
                figures[name].append((time.perf_counter() - begin) * 1e3)
    compared = (
        f"the request id of the oldest of {sizes.entries:,} entries, right after opening; and once more"
    )
    return [row("find_request, first", MILLISECONDS, figures, ["the second time"], compared=compared)]


# Rolling back


def truncating(directory: str, sizes: Sizes) -> list[Row]:
    count = sizes.truncated
    with opened_store(directory) as store, opened_journal(directory) as journal:
        fill_store(store, 1000)
        fill_journal(journal, 1000)

        def ours() -> float:
            fill_store(store, count)
            begin = time.perf_counter()
            store.truncate(1001)
            return (time.perf_counter() - begin) * 1e3

        def theirs() -> float:
            fill_journal(journal, count)
            journal.flush()
            begin = time.perf_counter()
            journal.deleteEntriesFrom(1000)
            journal.flush()
            return (time.perf_counter() - begin) * 1e3

        figures = contest(Contender("flintlog", ours), [Contender(PEER_FLUSHED, theirs)], sizes.heavy_rounds)
    compared = f"the last {count:,} entries forgotten, on disk; against deleteEntriesFrom and flush"
    return [row(f"truncate {count:,}", MILLISECONDS, figures, [PEER_FLUSHED], compared=compared)]


# A large snapshot


def snapshots(directory: str, sizes: Sizes) -> list[Row]:
    size = sizes.snapshot_bytes
    chunk = os.urandom(min(SNAPSHOT_CHUNK, size))
    chunks = [chunk] * (size // len(chunk))

    with opened_store(directory) as store:
        fill_store(store, 1000)

        def ours() -> float:
            measured = rate(size, lambda: store.install_snapshot(500, TERM, iter(chunks))) / 1e6
            remove_predecessors(os.path.join(directory, "store"))
            return measured

        def read() -> float:
            def walk() -> None:
                assert sum(map(len, store.read_snapshot())) == size

            return rate(size, walk) / 1e6

        ours()
        written = contest(
            Contender("flintlog", ours),
            [Contender("write, fdatasync, rename, fsync", lambda: plain_file(directory, chunks) / 1e6)],
            sizes.heavy_rounds,
        )
        walked = contest(
            Contender("flintlog", read),
            [Contender("read", lambda: plain_read(directory, size) / 1e6)],
            sizes.heavy_rounds,
        )
    shown = f"{size / (1 << 20):,.0f} MiB from a stream of unknown length"
    return [
        row(
            "snapshot, written and installed",
            MEGABYTES_PER_SECOND,
            written,
            ["write, fdatasync, rename, fsync"],
            compared=f"{shown}, over a log that it covers partly; against the bare calls on a plain file",
        ),
        row(
            "snapshot, read",
            MEGABYTES_PER_SECOND,
            walked,
            ["read"],
            compared=f"the same {size / (1 << 20):,.0f} MiB as a stream, warm cache; against a plain file",
        ),
    ]


def remove_predecessors(directory: str) -> None:
    for name in os.listdir(directory):
        if name.startswith("snap-"):
            os.unlink(os.path.join(directory, name))


def plain_file(directory: str, chunks: list[bytes]) -> float:
    target = os.path.join(directory, "plain")
    with suppress(FileNotFoundError):
        os.unlink(target)  # what the one before takes is freed off the clock, as for ours

    def work() -> None:
        handle = os.open(f"{target}.tmp", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        at = 0
        for chunk in chunks:
            at += os.pwrite(handle, chunk, at)
        os.fdatasync(handle)
        os.close(handle)
        os.rename(f"{target}.tmp", target)
        names = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        os.fsync(names)
        os.close(names)

    return rate(sum(map(len, chunks)), work)


def plain_read(directory: str, size: int) -> float:
    def work() -> None:
        with open(os.path.join(directory, "plain"), "rb", buffering=0) as file:
            assert sum(map(len, iter(lambda: file.read(SNAPSHOT_CHUNK), b""))) == size

    return rate(size, work)


TOPICS: dict[str, Callable[[str, Sizes], list[Row]]] = {
    "append": appending,
    "append-threads": append_in_threads,
    "read": reading,
    "truncate": truncating,
    "snapshot": snapshots,
}
