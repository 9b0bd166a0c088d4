"""limestone: writing with epochs, opening, compaction; against RocksDB doing the same sort.

Entries have keys of 8 bytes and values of 100 bytes, once with all keys distinct and once with 100,000 keys.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from rocksdict import Options, Rdict

from benchmarks.clock import in_threads, rate
from benchmarks.table import RECORDS_PER_SECOND, SECONDS_PER_MILLION, Contender, Row, Table, contest, row
from flintlog.dialects.limestone.store import Datastore

VALUE_BYTES = 100
PIECE = 20_000
EPOCH_SECONDS = 0.04
FEW_KEYS = 100_000

# What the original reaches: entries per second written, and seconds for 10,000,000 (the better of its runs).
ORIGINAL_WRITE_RATE = 2_000_000
ORIGINAL_OPEN_SECONDS, ORIGINAL_COMPACT_SECONDS = 88, 105
AIM_TIMES = 20

OURS = "limestone"
PEER = ROCKSDB = "RocksDB"
SQLITE = "SQLite table"
PUT_MANY = "limestone, put_many"
FLOOR = "floor: the same bytes, write and sync"

NOTES = [
    "limestone: the peer puts every entry into RocksDB through rocksdict and reads it back in order, the route that"
    " the original takes; it writes the sorted file too, which ours does to compact and not to open. Each job runs in a"
    " process of its own; memory is what is resident at its peak, pages of mapped files included.",
    f"limestone: the original writes {ORIGINAL_WRITE_RATE:,} entries/s with epochs of 40 ms, opens 10,000,000"
    f" entries in {ORIGINAL_OPEN_SECONDS} to 113 s and compacts them in {ORIGINAL_COMPACT_SECONDS} to 139 s. The aims"
    f" are the first figure, and {AIM_TIMES} times the better of the others.",
]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything."""

    written: int = 5_000_000
    singles: int = 200_000
    looked_up: int = 100_000
    rounds: int = 3
    sorted_: tuple[int, ...] = (5_000_000, 10_000_000)
    heavy_rounds: int = 1


QUICK = Sizes(written=40_000, singles=2_000, looked_up=1_000, rounds=2, sorted_=(50_000,), heavy_rounds=1)


def run(table: Table, directory: str, sizes: Sizes, wanted: Callable[[str], bool]) -> None:
    """Fill the table with every topic that is wanted."""
    if wanted("limestone/write"):
        table.rows += write(directory, sizes)
    if wanted("limestone/get"):
        table.rows += get(os.path.join(directory, "get"), sizes)
    for count in sizes.sorted_:
        for keys in (count, min(FEW_KEYS, count // 10)):
            if wanted(f"limestone/sort/{count}/{keys}"):
                table.rows += sort(table, directory, sizes, count, keys)
    table.notes += NOTES


def columns(count: int, keys: int) -> Iterator[tuple[pa.Array, pa.Array]]:
    """Keys in no order, with values; in pieces."""
    chance = np.random.default_rng(1)
    numbers = chance.permutation(count) if keys >= count else chance.integers(0, keys, count)
    numbers = numbers.astype(">u8")
    values = pa.array([os.urandom(VALUE_BYTES) for _ in range(PIECE)], pa.binary())
    for begin in range(0, count, PIECE):
        raw = numbers[begin : begin + PIECE].tobytes()
        size = len(raw) // 8
        yield pa.Array.from_buffers(pa.binary(8), size, [None, pa.py_buffer(raw)]), values.slice(0, size)


def fill(directory: str, count: int, keys: int, *, channels: int = 1) -> float:
    """Write with epochs of 40 ms; returns entries per second until all of them are durable."""
    with Datastore(directory, snapshot=False) as store:
        pieces = [list(columns(count // channels, keys)) for _ in range(channels)]
        begin = time.perf_counter()

        def work() -> None:
            mine = pieces.pop()
            channel = store.channel()
            session = channel.begin()
            switched = time.perf_counter()
            for names, values in mine:
                session.put_many(1, names, values)
                if time.perf_counter() - switched >= EPOCH_SECONDS:
                    store.switch_epoch()
                    channel.end()
                    session = channel.begin()
                    switched = time.perf_counter()
            channel.end()

        in_threads(channels, work)()
        last = store.epoch
        store.switch_epoch()
        store.wait_durable(last)
        return count / (time.perf_counter() - begin)


def singles(directory: str, count: int, channels: int) -> float:
    """One put after the other, with epochs of 40 ms."""
    value = b"x" * VALUE_BYTES
    with Datastore(directory, snapshot=False) as store:
        begin = time.perf_counter()

        def work() -> None:
            channel = store.channel()
            session = channel.begin()
            switched = time.perf_counter()
            for number in range(count // channels):
                session.put(1, number.to_bytes(8, "big"), value)
                if number % 100 == 0 and time.perf_counter() - switched >= EPOCH_SECONDS:
                    store.switch_epoch()
                    channel.end()
                    session = channel.begin()
                    switched = time.perf_counter()
            channel.end()

        in_threads(channels, work)()
        last = store.epoch
        store.switch_epoch()
        store.wait_durable(last)
        return count / (time.perf_counter() - begin)


def floor(directory: str, count: int) -> float:
    """The same number of bytes, written and synced as often."""
    os.makedirs(directory)
    data = os.urandom((33 + 8 + VALUE_BYTES) * PIECE)
    handle = os.open(os.path.join(directory, "floor"), os.O_CREAT | os.O_RDWR)
    begin = time.perf_counter()
    synced = begin
    for at in range(count // PIECE):
        os.pwrite(handle, data, at * len(data))
        if time.perf_counter() - synced >= EPOCH_SECONDS:
            os.fdatasync(handle)
            synced = time.perf_counter()
    os.fdatasync(handle)
    found = count / (time.perf_counter() - begin)
    os.close(handle)
    return found


def write(directory: str, sizes: Sizes) -> list[Row]:
    def fresh(measure: Callable[[str], float]) -> Callable[[], float]:
        def once() -> float:
            place = os.path.join(directory, "write")
            try:
                return measure(place)
            finally:
                shutil.rmtree(place)

        return once

    fill(os.path.join(directory, "warm-up"), PIECE, PIECE)
    shutil.rmtree(os.path.join(directory, "warm-up"))
    rows = []
    disk_floor = Contender(FLOOR, fresh(lambda place: floor(place, sizes.written)))
    for channels in (1, 2):
        word = f"{channels} channel{'s' if channels > 1 else ''}"
        ours = Contender(
            OURS, fresh(lambda place, n=channels: fill(place, sizes.written, sizes.written, channels=n))
        )
        figures = contest(ours, [disk_floor], sizes.rounds)
        compared = f"{sizes.written:,} entries with put_many on {word}, epochs of 40 ms; the bytes alone"
        rows.append(
            row(
                f"write, put_many, {word}",
                RECORDS_PER_SECOND,
                figures,
                [FLOOR],
                compared=compared,
                ours_min=ORIGINAL_WRITE_RATE,
            )
        )
        one = Contender(OURS, fresh(lambda place, n=channels: singles(place, sizes.singles, n)))
        figures = contest(one, [disk_floor], sizes.rounds)
        compared = f"{sizes.singles:,} single puts on {word}, epochs of 40 ms; the bytes alone"
        rows.append(row(f"write, put, {word}", RECORDS_PER_SECOND, figures, [FLOOR], compared=compared))
    one = Contender(OURS, fresh(lambda place: singles(place, sizes.singles, 1)))
    many = Contender(PUT_MANY, fresh(lambda place: fill(place, sizes.singles, sizes.singles)))
    figures = contest(one, [many], sizes.rounds)
    compared = f"{sizes.singles:,} single puts on 1 channel; the same entries with put_many"
    title = "write, put, against put_many"
    rows.append(row(title, RECORDS_PER_SECOND, figures, [PUT_MANY], compared=compared, ratio_min=0.4))
    return rows


def get(directory: str, sizes: Sizes) -> list[Row]:
    """Values of single keys: from the snapshot of a store, from a table of SQLite, from RocksDB."""
    os.makedirs(directory)
    count = sizes.looked_up
    keys = [number.to_bytes(8, "big") for number in range(count)]
    value = b"x" * VALUE_BYTES
    asked = [keys[number] for number in np.random.default_rng(2).integers(0, count, count).tolist()]
    place = os.path.join(directory, "store")
    with Datastore(place) as store:
        with store.channel().session() as session:
            session.put_many(1, keys, [value] * count)
        store.wait_durable(store.switch_epoch() - 1)
    table = sqlite3.connect(os.path.join(directory, "table.db"))
    table.execute("CREATE TABLE entries (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID")
    table.executemany("INSERT INTO entries VALUES (?, ?)", ((key, value) for key in keys))
    table.commit()
    rocksdb = Rdict(os.path.join(directory, "rocksdb"), Options(raw_mode=True))
    for key in keys:
        rocksdb[key] = value

    def measured(find: Callable[[bytes], object]) -> Callable[[], float]:
        def work() -> None:
            for key in asked:
                find(key)

        return lambda: rate(count, work)

    def select(key: bytes) -> object:
        return table.execute("SELECT value FROM entries WHERE key = ?", (key,)).fetchone()

    with Datastore(place) as store, closing(table), closing(rocksdb):
        assert store.snapshot is not None and store.snapshot.get(1, keys[0]) == value
        snapshot = store.snapshot
        ours = Contender(OURS, measured(lambda key: snapshot.get(1, key)))
        peers = [Contender(SQLITE, measured(select)), Contender(ROCKSDB, measured(rocksdb.get))]
        figures = contest(ours, peers, sizes.rounds)
    shutil.rmtree(directory)
    compared = f"{count:,} lookups of single keys among {count:,}, in no order, warm cache"
    return [
        row("get, one key", RECORDS_PER_SECOND, figures, [SQLITE], compared=compared, ratio_min=1),
        row(
            "get, one key, RocksDB", RECORDS_PER_SECOND, figures, [ROCKSDB], compared=compared, ratio_min=0.33
        ),
    ]


def job(table: Table, name: str, directory: str, count: int, label: str) -> float:
    """Seconds per million of one heavy job; its memory goes to the facts."""
    command = [sys.executable, "-m", "benchmarks.limestone_job", name, directory]
    found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    table.facts[f"memory, {label}, {name}"] = f"{found['peak'] / 1e6:,.0f} MB at its peak"
    return float(found["seconds"]) * 1e6 / count


def sort(table: Table, directory: str, sizes: Sizes, count: int, keys: int) -> list[Row]:
    place = os.path.join(directory, "log")
    fill(place, count, keys, channels=2)
    label = f"{count:,} entries, {'all keys distinct' if keys >= count else f'{keys:,} keys'}"

    def copied(name: str) -> float:
        copy = os.path.join(directory, "copy")
        shutil.copytree(place, copy)
        try:
            return job(table, name, copy, count, label)
        finally:
            shutil.rmtree(copy)

    rows = []
    peer = Contender(PEER, lambda: job(table, "rocksdb", place, count, label))
    for name, original in (("open", ORIGINAL_OPEN_SECONDS), ("compact", ORIGINAL_COMPACT_SECONDS)):
        figures = contest(Contender(OURS, lambda n=name: copied(n)), [peer], sizes.heavy_rounds)
        compared = f"{name} a log of {label}; the same sort in RocksDB"
        title = f"{name}, {label}"
        rows.append(row(title, SECONDS_PER_MILLION, figures, [PEER], compared=compared, ratio_min=10))
        most = original / 10 / AIM_TIMES
        rows.append(
            row(
                f"{title}, against the original",
                SECONDS_PER_MILLION,
                figures,
                [PEER],
                compared=compared,
                ours_max=most,
            )
        )
    shutil.rmtree(place)
    return rows
