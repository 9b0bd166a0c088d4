"""mpy6a: sessions stored and taken when they are due, one by one, in threads and in batches; memory and opening.

Sessions have 100 bytes of data (a record 130) and wait under ten delays. Peers are a table in SQLite with an index on
the due time, and huey's SqliteStorage; see `session_sides.py`.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.clock import in_threads, rate
from benchmarks.session_sides import SIDES, Flintlog, Side, SqliteTable
from benchmarks.table import (
    MEGABYTES,
    MILLISECONDS,
    RECORDS_PER_SECOND,
    Contender,
    Figures,
    Row,
    Table,
    contest,
    row,
)

DATA = b"x" * 100
THREADS = 16
FILL_BATCH = 10_000
BATCH_AIM = 5

NOTES = [
    "mpy6a: every store commits in each call, durably. What is taken is read with its data, and then deleted in"
    " another commit, so that a crash between the two loses nothing; huey deletes what it reads in the same one.",
    "mpy6a: huey has no batch to add; its batch here is an executemany by hand on its own connection. In threads the"
    " SQLite table has one connection behind a lock, huey one for each thread, as it does by itself.",
]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything."""

    rounds: int = 7
    calls: int = 400
    calls_per_thread: int = 60
    sessions: int = 1_000_000
    batches: tuple[int, ...] = (1_000, 10_000)
    heavy_rounds: int = 3
    stored: tuple[int, int] = (1_000_000, 10_000_000)
    handed_out: int = 100_000


# Shows that the benchmark runs, and nothing else.
QUICK = Sizes(
    rounds=2,
    calls=3,
    calls_per_thread=1,
    sessions=2000,
    batches=(100, 500),
    heavy_rounds=2,
    stored=(2000, 4000),
    handed_out=500,
)


def run(table: Table, directory: str, sizes: Sizes, wanted: Callable[[str], bool]) -> None:
    """Fill the table with every topic that is wanted."""
    warm_up(os.path.join(directory, "warm-up"))
    for name, topic in TOPICS.items():
        if wanted(f"mpy6a/{name}"):
            place = os.path.join(directory, name)
            os.makedirs(place)
            table.rows += topic(place, sizes)
            shutil.rmtree(place)
    table.notes += NOTES


def warm_up(directory: str) -> None:
    """Load or compile every kernel that the topics use."""
    side = Flintlog(directory)
    fill(side, 2 * FILL_BATCH, FILL_BATCH)
    while side.end(FILL_BATCH):
        pass
    side.close()
    Flintlog(directory).close()
    shutil.rmtree(directory)


@contextmanager
def opened(directory: str) -> Iterator[list[Side]]:
    """Ours and the peers, each on a directory of its own; closed at the end."""
    sides: list[Side] = [kind(os.path.join(directory, str(number))) for number, kind in enumerate(SIDES)]
    try:
        yield sides
    finally:
        for side in sides:
            side.close()


def fill(side: Side, count: int, batch: int) -> None:
    data = [DATA] * batch
    for turn, begin in enumerate(range(0, count, batch)):
        side.put_many(turn, data[: count - begin])


def play(
    sides: list[Side], store: Callable[[Side], float], end: Callable[[Side], float], rounds: int
) -> tuple[Figures, Figures]:
    """Store and then end the same sessions, round by round: the figures of both."""
    ended: Figures = {side.name: [] for side in sides}

    def both(side: Side) -> float:
        stored = store(side)
        ended[side.name].append(end(side))
        return stored

    ours, *peers = [Contender(side.name, lambda side=side: both(side)) for side in sides]
    return contest(ours, peers, rounds), ended


def two_rows(
    names: tuple[str, str], figures: tuple[Figures, Figures], compared: str, aims: tuple[float, float]
) -> list[Row]:
    return [
        row(
            name,
            RECORDS_PER_SECOND,
            found,
            [key for key in found if key != Flintlog.name],
            compared=compared,
            ratio_min=ratio_min,
        )
        for name, found, ratio_min in zip(names, figures, aims, strict=True)
    ]


# One by one


def singles(directory: str, sizes: Sizes) -> list[Row]:
    def store(side: Side) -> float:
        def work() -> None:
            for turn in range(sizes.calls):
                side.put(turn, DATA)

        return rate(sizes.calls, work)

    def end(side: Side) -> float:
        def work() -> None:
            for _ in range(sizes.calls):
                assert side.end(1) == 1

        return rate(sizes.calls, work)

    with opened(directory) as sides:
        figures = play(sides, store, end, sizes.rounds)
    compared = f"{sizes.calls} sessions per round, each call on disk when it returns"
    return two_rows(("store, 1 thread", "due + delete, 1 thread"), figures, compared, (1.2, 1.2))


def in_many_threads(directory: str, sizes: Sizes) -> list[Row]:
    count = THREADS * sizes.calls_per_thread

    def store(side: Side) -> float:
        turns = itertools.count()

        def work() -> None:
            for _ in range(sizes.calls_per_thread):
                side.put(next(turns), DATA)

        return rate(count, in_threads(THREADS, work))

    def end(side: Side) -> float:
        def work() -> None:
            for _ in range(sizes.calls_per_thread):
                side.end(1)

        return rate(count, in_threads(THREADS, work))

    with opened(directory) as sides:
        figures = play(sides, store, end, sizes.rounds)
    compared = f"{sizes.calls_per_thread} sessions in each thread per round"
    names = f"store, {THREADS} threads", f"due + delete, {THREADS} threads"
    return two_rows(names, figures, compared, (3, 3))


# Batches


def in_batches(directory: str, sizes: Sizes) -> list[Row]:
    rows = []
    for batch in sizes.batches:

        def store(side: Side, batch: int = batch) -> float:
            return rate(sizes.sessions, lambda: fill(side, sizes.sessions, batch))

        def end(side: Side, batch: int = batch) -> float:
            def work() -> None:
                done = 0
                while done < sizes.sessions:
                    found = side.end(batch)
                    assert found > 0
                    done += found

            return rate(sizes.sessions, work)

        place = os.path.join(directory, str(batch))
        with opened(place) as sides:
            figures = play(sides, store, end, sizes.heavy_rounds)
        shutil.rmtree(place)
        compared = f"{sizes.sessions:,} sessions per round over ten delays, one commit for each batch"
        names = (f"store, batches of {batch:,}", f"due + delete, batches of {batch:,}")
        rows += two_rows(names, figures, compared, (BATCH_AIM, BATCH_AIM))
    return rows


# Memory and opening, each in a process of its own

_PROCESS = """
import gc, json, os, sys, time
from benchmarks.session_sides import Flintlog, SqliteTable

def resident():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6

kind, path, handed_out = sys.argv[1], sys.argv[2], int(sys.argv[3])
before = resident()
begin = time.perf_counter()
side = Flintlog(path) if kind == "flintlog" else SqliteTable(path)
first = side.store.next_due() if kind == "flintlog" else side.first_due()
opened = time.perf_counter() - begin
after_opening = resident()
done = 0
while done < handed_out:
    found = side.end(handed_out // 10)
    assert first and found
    done += found
print(json.dumps([opened * 1e3, after_opening - before, resident() - before]))
side.close()
"""


def large(directory: str, sizes: Sizes) -> list[Row]:
    figures: dict[str, Figures] = {"open": {}, "opened": {}, "handed out": {}}
    for kind, made in (("flintlog", Flintlog), ("SQLite table", SqliteTable)):
        for count in sizes.stored:
            name = f"{kind}, {count:,}"
            place = os.path.join(directory, name.replace(" ", "-"))
            side = made(place)
            fill(side, count, FILL_BATCH)
            side.close()
            for _ in range(sizes.heavy_rounds):
                found = in_a_process(kind, place, sizes.handed_out)
                for which, value in zip(figures, found, strict=True):
                    figures[which].setdefault(name, []).append(value)
            shutil.rmtree(place)
    few, many = (f"flintlog, {count:,}" for count in sizes.stored)
    peer = f"SQLite table, {sizes.stored[1]:,}"
    what = f"{sizes.stored[1]:,} stored sessions against {sizes.stored[0]:,}, in a process of its own; what it grew by"
    return [
        row(
            f"resident memory, {when}",
            MEGABYTES,
            {name: figures[which][name] for name in (many, few, peer)},
            [few],
            compared=f"{what}, {when}",
            ratio_min=0.8,
        )
        for which, when in (("opened", "opened"), ("handed out", f"{sizes.handed_out:,} handed out"))
    ] + [
        row(
            f"open, {sizes.stored[1]:,} stored",
            MILLISECONDS,
            {name: figures["open"][name] for name in (many, few, peer)},
            [peer],
            compared="opened, and when the next session is due; warm cache, compiled code from its cache",
        )
    ]


def in_a_process(kind: str, place: str, handed_out: int) -> list[float]:
    source = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "src")
    path = os.pathsep.join([os.getcwd(), source, os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", _PROCESS, kind, place, str(handed_out)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    found: list[float] = json.loads(done.stdout)
    return found


TOPICS: dict[str, Callable[[str, Sizes], list[Row]]] = {
    "single": singles,
    "threads": in_many_threads,
    "batches": in_batches,
    "memory": large,
}
