"""Spark on the logs of the limestone benchmark: reading, compaction, state; against Parquet, this process, RocksDB."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks import spark_questions as questions
from benchmarks import spark_writing as writing
from benchmarks.limestone import FEW_KEYS, fill
from benchmarks.limestone import PEER as ROCKSDB
from benchmarks.limestone import job as run_here
from benchmarks.table import (
    SECONDS_PER_MILLION,
    Contender,
    Figures,
    Row,
    Table,
    Unit,
    contest,
    row,
)

OURS = "Spark, local[2]"
HERE = "this process"
AGAIN = "the second time"
PROCESS = "flintlog compact, its start included"
FLINTLOG = (sys.executable, "-m", "flintlog")
SMALL = 20_000
START_SECONDS = 1.0
AIM_SECONDS = 7.5  # of work for 10,000,000 entries
TWICE_MAX = 2.1
TIMES = Unit("times", more_is_better=False)
SECONDS = Unit("s", more_is_better=False)
LIMITED = ("compact",)  # jobs whose workers get 1 GB; one task maps a whole log of this size for its state

NOTES = [
    "spark: jobs are measured without the start of Spark, which is in the facts. The JVM has 1 GB. Each of the"
    " two Python workers of a compaction may take 1 GB of addresses: a log of 10,000,000 entries is larger than"
    " either.",
]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything."""

    entries: int = 10_000_000
    read: int = 3_000_000
    rounds: int = 1
    fresh: bool = True  # a Spark of its own for each job


QUICK = Sizes(entries=50_000, read=50_000, fresh=False)


def run(table: Table, directory: str, sizes: Sizes, wanted: Callable[[str], bool]) -> None:
    """Fill the table with every topic that is wanted."""
    spark = Spark(table, sizes.fresh)
    for keys in (sizes.entries, min(FEW_KEYS, sizes.entries // 10)):
        if wanted(f"spark/sort/{keys}"):
            table.rows += sort(spark, table, directory, sizes, keys)
    if wanted("spark/start"):
        table.rows += start(table, directory, sizes)
    if wanted("spark/read"):
        table.rows += read(table, directory, sizes)
    if wanted("spark/write"):
        table.rows += write(table, directory, sizes)
    if wanted("spark/twice"):
        table.rows += twice(spark, directory, sizes)
    spark.close()
    table.notes += NOTES


class Spark:
    """Runs jobs in a process of their own: one for each, or one for all."""

    def __init__(self, table: Table, fresh: bool) -> None:
        self._table = table
        self._fresh = fresh
        self._process: subprocess.Popen[str] | None = None

    def seconds(self, job: str, directory: str, label: str) -> float:
        """Seconds of one job; the start of Spark and its memory go to the facts."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.spark_job", *(["limited"] if job in LIMITED else [])],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(f"{job}\t{directory}\n")
        process.stdin.flush()
        found = json.loads(process.stdout.readline())
        if "/" not in job:
            self._table.facts[f"start of Spark, before {job}, {label}"] = f"{found['start']:.1f} s"
            memory = f"{found['peak'] / 1e6:,.0f} MB at its peak"
            self._table.facts[f"memory of a Python worker, {job}, {label}"] = memory
        if self._fresh:
            self.close()
        return float(found["seconds"])

    def close(self) -> None:
        if self._process is not None:
            self._process.communicate()
            self._process = None


def sort(spark: Spark, table: Table, directory: str, sizes: Sizes, keys: int) -> list[Row]:
    count = sizes.entries
    place = os.path.join(directory, "log")
    fill(place, count, keys, channels=2)
    label = f"{count:,} entries, {'all keys distinct' if keys >= count else f'{keys:,} keys'}"

    def copied(measure: Callable[[str], float]) -> float:
        copy = os.path.join(directory, "copy")
        shutil.copytree(place, copy)
        try:
            return measure(copy)
        finally:
            shutil.rmtree(copy)

    def on_spark(name: str) -> float:
        return copied(lambda copy: spark.seconds(name, copy, label)) * 1e6 / count

    def here(name: str) -> float:
        return copied(lambda copy: run_here(table, name, copy, count, label))

    rows = []
    rocksdb = Contender(ROCKSDB, lambda: run_here(table, "rocksdb", place, count, label))
    for name, own in (("compact", "compact"), ("state", "open")):
        ours = Contender(OURS, lambda name=name: on_spark(name))
        process = Contender(HERE, lambda own=own: here(own))
        figures = contest(ours, [process, rocksdb], sizes.rounds)
        compared = f"{name} of {label}: work on Spark; {own} in this process; the same sort in RocksDB"
        title = f"Spark {name}, {label}"
        most = AIM_SECONDS * 1e6 / 10_000_000 if name == "compact" else None
        rows.append(row(title, SECONDS_PER_MILLION, figures, [ROCKSDB], compared=compared, ours_max=most))
        rows.append(
            row(f"{title}, against this process", SECONDS_PER_MILLION, figures, [HERE], compared=compared)
        )
    shutil.rmtree(place)
    return rows


def start(table: Table, directory: str, sizes: Sizes) -> list[Row]:
    """The first query and the first compaction of a session, on a log that is small."""
    queries: Figures = {OURS: [], AGAIN: []}
    compactions: Figures = {OURS: [], PROCESS: []}
    for _ in range(max(sizes.rounds, 3)):
        place = os.path.join(directory, "log")
        fill(place, SMALL, SMALL)
        shutil.copytree(place, f"{place}-2")
        begin = time.perf_counter()
        subprocess.run([*FLINTLOG, "compact", f"{place}-2"], check=True, stdout=subprocess.DEVNULL)
        compactions[PROCESS].append(time.perf_counter() - begin)
        command = [sys.executable, "-m", "benchmarks.spark_job", "start", place]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        found = json.loads(done.stdout)
        queries[OURS].append(found["query"])
        queries[AGAIN].append(found["query again"])
        compactions[OURS].append(found["compaction"])
        for name in ("session", "job", "Python job"):
            table.facts[f"Spark's own start, the first {name}"] = f"{found[name]:.1f} s"
        shutil.rmtree(place)
        shutil.rmtree(f"{place}-2")
    compared = f"{SMALL:,} entries, in a session that has done one job and one Python job of Spark's own"
    return [
        row("Spark start, first query", SECONDS, queries, [AGAIN], compared=compared, ours_max=START_SECONDS),
        row("Spark start, first compaction", SECONDS, compactions, [PROCESS], compared=compared),
    ]


def read(table: Table, directory: str, sizes: Sizes) -> list[Row]:
    """Five questions and a scan, from the log and from Parquet, in one session."""
    spark = Spark(table, fresh=False)
    place = os.path.join(directory, "log")
    spark.seconds(f"prepare/{sizes.read}", place, "questions")
    found = questions.rows(
        lambda contender, question: spark.seconds(f"ask/{contender}/{question}", place, "questions"),
        sizes.read,
        max(sizes.rounds, 3),
    )
    spark.close()
    for name in ("", "-parquet"):
        shutil.rmtree(place + name)
    return found


def write(table: Table, directory: str, sizes: Sizes) -> list[Row]:
    """Rows from Parquet to a log and to Parquet, in one session; and by the calls of the store."""
    spark = Spark(table, fresh=False)
    place = os.path.join(directory, "write")
    spark.seconds(f"rows/{sizes.read}", place, "writing")
    found = writing.rows(
        lambda contender: spark.seconds(f"write/{contender}", place, "writing"),
        place,
        sizes.read,
        max(sizes.rounds, 3),
    )
    spark.close()
    return found


def twice(spark: Spark, directory: str, sizes: Sizes) -> list[Row]:
    """How much longer twice the data takes."""
    seconds = {}
    for count in (sizes.entries, 2 * sizes.entries):
        place = os.path.join(directory, "log")
        seconds[count] = []
        for _ in range(sizes.rounds):
            fill(place, count, count, channels=2)
            seconds[count].append(spark.seconds("compact", place, f"{count:,} entries"))
            shutil.rmtree(place)
    less, more = (statistics.median(found) for found in seconds.values())
    compared = (
        f"Spark compacts {2 * sizes.entries:,} and {sizes.entries:,} entries: {more:.1f} s and {less:.1f} s"
    )
    figures = {"twice the data": [more / less], "the data": [1.0]}
    return [
        row(
            "Spark compact, twice the data",
            TIMES,
            figures,
            ["the data"],
            compared=compared,
            ours_max=TWICE_MAX,
        )
    ]
