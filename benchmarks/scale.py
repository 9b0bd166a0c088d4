"""A model of how Spark compacts a large limestone log: time, memory, and what breaks first.

    python -m benchmarks.scale            # the tables of docs/spark-scale.md, from the costs below
    python -m benchmarks.scale measure    # runs on this machine: three sizes, one, two and four executors

The numbers of tasks, buckets and pieces come from the code that plans them. The cost of a step is the time that tasks
spent in it here, for each byte or entry. `measure` takes the costs from the smallest size on one executor and says how
far the model is off in the other runs.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.limestone import fill
from flintlog.core.workers import TASK_BYTES
from flintlog.dialects.limestone.distributed import looking, state
from flintlog.pipeline import jobs
from flintlog.pipeline.session import session

ENTRY_BYTES = 141  # in the log: a key of 8 bytes and a value of 100
FILE_BYTES = 1 << 30
SESSION_BYTES = 4 << 20
POINTER_BYTES = 12.4  # of an entry in the shuffle, packed and compressed
SESSION_HELD_BYTES = 120  # by the driver
SAMPLE_HELD_BYTES = looking.SAMPLE_BYTES + 16
PIECE_BYTES = 700  # of what a task gives to a bucket, besides its rows
PIECE_SECONDS = 1e-4
PLANNED_SECONDS = 2e-3  # of the driver, for each task

TERABYTE = 10**12
SIZES = (500_000, 1_000_000, 2_000_000)
EXECUTORS = (1, 2, 4)
STEPS = ("look", "produce", "reduce", "write")


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds of one core: to look at an entry, to sort it, to find whether it wins, to write it; of a whole job."""

    look: float
    produce: float
    reduce: float
    write: float
    fixed: float


HERE = Costs(look=7.3e-7, produce=9.8e-7, reduce=1.97e-6, write=1.01e-6, fixed=1.3)  # on a busy machine


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a compaction takes."""

    files: int
    reads: int
    buckets: int
    pieces: int
    rows: float  # of a piece
    shuffle_bytes: float
    driver_bytes: float
    widest_seconds: float
    seconds: float


def forecast(
    entries: int, executors: int, costs: Costs, task_bytes: int = TASK_BYTES, files: int | None = None
) -> Forecast:
    """The compaction of so many entries."""
    size = entries * ENTRY_BYTES
    files = files or max(-(-size // FILE_BYTES), 1)
    windows = max(-(-size // looking.WINDOW_BYTES), files)
    bucket = task_bytes // state.SORTED_BYTES
    tasks, buckets = state.cut([-(-entries // windows)] * windows, bucket, executors)
    pieces = len(tasks) * buckets
    work = {
        "look": (files, entries * costs.look),
        "produce": (len(tasks), entries * costs.produce + pieces * PIECE_SECONDS),
        "reduce": (buckets, entries * costs.reduce + pieces * PIECE_SECONDS),
        "write": (buckets, entries * costs.write),
    }
    steps = [-(-count // executors) * seconds / count for count, seconds in work.values()]
    planned = sum(count for count, _ in work.values()) * PLANNED_SECONDS
    return Forecast(
        files=files,
        reads=len(tasks),
        buckets=buckets,
        pieces=pieces,
        rows=entries / pieces,
        shuffle_bytes=entries * POINTER_BYTES + pieces * PIECE_BYTES,
        driver_bytes=windows * looking.samples_of(windows) * SAMPLE_HELD_BYTES
        + size / SESSION_BYTES * SESSION_HELD_BYTES,
        widest_seconds=max(seconds / count for count, seconds in work.values()),
        seconds=costs.fixed + planned + sum(steps),
    )


# Runs on this machine


@dataclass(frozen=True, slots=True)
class Run:
    """One compaction: how long it took, and how long the tasks of each step did."""

    entries: int
    executors: int
    seconds: float
    steps: dict[str, float]


def measure(home: Path) -> list[Run]:
    """Every size on every number of executors, each on a Spark that has compacted before."""
    for count in SIZES:
        fill(str(home / f"log-{count}"), count, count, channels=2)
    return [run for executors in EXECUTORS for run in _runs(home, executors)]


def _runs(home: Path, executors: int) -> Iterator[Run]:
    events = home / f"events-{executors}"
    events.mkdir()
    spark = session(
        f"local-cluster[{executors},1,1024]",
        **{
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": events.as_uri(),
        },
    )
    spans = []
    for count in (SIZES[0], *SIZES):
        log = home / "log"
        shutil.copytree(home / f"log-{count}", log)
        begin = time.time()
        jobs.compact(spark, str(log))
        spans.append((count, begin, time.time()))
        shutil.rmtree(log)
    spark.stop()
    stages = _stages(events)
    for count, begin, end in spans[1:]:
        mine = [stage for stage in stages if begin <= stage.begun <= end]
        yield Run(count, executors, end - begin, _steps(mine))


@dataclass(slots=True)
class Stage:
    """A stage of Spark: when it began, the time of its tasks, and what they moved through the shuffle."""

    begun: float = 0.0
    seconds: float = 0.0
    wrote: int = 0
    read: int = 0


def _stages(events: Path) -> list[Stage]:
    """The stages of a session, in order."""
    found: dict[int, Stage] = defaultdict(Stage)
    for file in sorted(events.rglob("events_*")):  # beside them stand checksums
        for line in file.read_text().splitlines():
            event = json.loads(line)
            if event["Event"] == "SparkListenerStageCompleted":
                found[event["Stage Info"]["Stage ID"]].begun = event["Stage Info"]["Submission Time"] / 1000
            if event["Event"] == "SparkListenerTaskEnd" and event.get("Task Metrics"):
                metrics, stage = event["Task Metrics"], found[event["Stage ID"]]
                read = metrics["Shuffle Read Metrics"]
                stage.seconds += metrics["Executor Run Time"] / 1000
                stage.wrote += metrics["Shuffle Write Metrics"]["Shuffle Bytes Written"]
                stage.read += read["Local Bytes Read"] + read["Remote Bytes Read"]
    return [found[number] for number in sorted(found)]


def _steps(stages: list[Stage]) -> dict[str, float]:
    """The time of the tasks of each step of one compaction. Pointers are what goes through the shuffle."""
    steps = dict.fromkeys(STEPS, 0.0)
    step = "look"
    for stage in stages:
        if stage.wrote > 1 << 20:
            step = "produce"
        elif step == "produce" and stage.read > 1 << 20:
            step = "reduce"
        elif step == "reduce":
            step = "write"
        steps[step] += stage.seconds
    return steps


def fitted(runs: list[Run]) -> Costs:
    """The costs that the smallest run on one executor shows."""
    base = min(runs, key=lambda run: (run.executors, run.entries))
    each = {step: base.steps[step] / base.entries for step in STEPS}
    return Costs(**each, fixed=base.seconds - sum(base.steps.values()))


# Tables


def table(heads: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in (heads, ["---"] * len(heads), *rows)]
    return "\n".join(lines)


def large(costs: Costs) -> str:
    rows = []
    for size in (TERABYTE, 10 * TERABYTE):
        for executors in (10, 100, 1000):
            for task_bytes in (TASK_BYTES, 1 << 30, 4 << 30):
                found = forecast(size // ENTRY_BYTES, executors, costs, task_bytes)
                hours = "refused" if found.pieces > state.PIECES_MAX else _time(found.seconds)
                rows.append(
                    [
                        f"{size // TERABYTE} TB",
                        f"{executors:,}",
                        _size(task_bytes),
                        f"{found.buckets:,}",
                        f"{found.pieces:,}",
                        f"{found.rows:,.0f}",
                        _size(found.shuffle_bytes),
                        _size(found.driver_bytes),
                        _time(found.widest_seconds),
                        hours,
                    ]
                )
    heads = ["log", "executors", "taskBytes", "buckets", "pieces", "rows of a piece"]
    return table([*heads, "shuffle", "driver", "widest task", "time"], rows)


def checked(runs: list[Run], costs: Costs) -> str:
    cores = os.cpu_count() or 1
    rows = []
    for run in runs:
        told = forecast(run.entries, min(run.executors, cores), costs, files=2).seconds
        off = f"{(told / run.seconds - 1) * 100:+.0f} %"
        rows.append([f"{run.entries:,}", f"{run.executors}", f"{run.seconds:.1f} s", f"{told:.1f} s", off])
    return table(["entries", "executors", "measured", "model", "off"], rows)


def _size(count: float) -> str:
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count / 1e3:.3g} KB"


def _time(seconds: float) -> str:
    if seconds >= 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 60:.1f} min" if seconds >= 60 else f"{seconds:.0f} s"


def main(words: list[str]) -> None:
    costs = HERE
    if words == ["measure"]:
        home = Path(tempfile.mkdtemp(prefix="flintlog-scale-"))
        try:
            runs = measure(home)
        finally:
            shutil.rmtree(home)
        costs = fitted(runs)
        print(json.dumps([asdict(run) for run in runs]), costs, checked(runs, costs), sep="\n\n", end="\n\n")
    print(large(costs))


if __name__ == "__main__":
    main(sys.argv[1:])
