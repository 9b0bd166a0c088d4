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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.limestone import fill
from flintlog.core.log import open_log
from flintlog.core.workers import TASK_BYTES
from flintlog.dialects.limestone.distributed import looking, state, writing
from flintlog.pipeline.session import session
from flintlog.pipeline.workers import SparkWorkers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENTRY_BYTES = 141  # in the log: a key of 8 bytes and a value of 100
FILE_BYTES = 1 << 30
SESSION_BYTES = 4 << 20
POINTER_BYTES = 17  # of an entry in the scratch files, packed; and then of those that are alive
LIVE_BYTES = 10
SESSION_HELD_BYTES = 120  # by the driver
SAMPLE_HELD_BYTES = looking.SAMPLE_BYTES + 16
PIECE_BYTES = 109  # of what a task gives to a bucket, besides its rows
PIECE_SECONDS = 1e-4
PLANNED_SECONDS = 2e-3  # of the driver, for each task

TERABYTE = 10**12
SIZES = (500_000, 1_000_000, 2_000_000)
EXECUTORS = (1, 2, 4)
STEPS = ("look", "spread", "gather", "write")


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds of one core: to look at an entry, to sort it, to find whether it wins, to write it; of a whole job."""

    look: float
    spread: float
    gather: float
    write: float
    fixed: float


HERE = Costs(look=7.3e-7, spread=9.8e-7, gather=1.97e-6, write=1.01e-6, fixed=1.3)  # on a busy machine


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a compaction takes."""

    files: int
    reads: int
    buckets: int
    pieces: int
    rows: float  # of a piece
    scratch_bytes: float
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
    shares = len(writing.shared([size // buckets] * buckets, executors))
    work = {
        "look": (files, entries * costs.look),
        "spread": (len(tasks), entries * costs.spread + pieces * PIECE_SECONDS),
        "gather": (buckets, entries * costs.gather + pieces * PIECE_SECONDS),
        "write": (shares, entries * costs.write),
    }
    steps = [-(-count // executors) * seconds / count for count, seconds in work.values()]
    planned = sum(count for count, _ in work.values()) * PLANNED_SECONDS
    return Forecast(
        files=files,
        reads=len(tasks),
        buckets=buckets,
        pieces=pieces,
        rows=entries / pieces,
        scratch_bytes=entries * (POINTER_BYTES + LIVE_BYTES) + pieces * PIECE_BYTES,
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
        workers = Telling(spark)
        begin = time.time()
        open_log(str(log)).plan_compact(workers).apply()
        spans.append((count, time.time() - begin, workers.begun))
        shutil.rmtree(log)
    spark.stop()
    stages = _stages(events)
    for (count, seconds, begun), (_, _, after) in pairwise([*spans[1:], (0, 0.0, [(time.time(), "")])]):
        yield Run(count, executors, seconds, _steps(stages, begun, after[0][0]))


class Telling(SparkWorkers):
    """Workers that tell when each step began."""

    def __init__(self, spark: SparkSession) -> None:
        super().__init__(spark)
        self.begun: list[tuple[float, str]] = []

    def map(self, function: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Any]:
        name = getattr(function, "func", function).__name__
        self.begun.append((time.time(), name))
        return super().map(function, items)


@dataclass(slots=True)
class Stage:
    """A stage of Spark: when it began, and the time of its tasks."""

    begun: float = 0.0
    seconds: float = 0.0


def _stages(events: Path) -> list[Stage]:
    """The stages of a session, in order."""
    found: dict[int, Stage] = defaultdict(Stage)
    for file in sorted(events.rglob("events_*")):  # beside them stand checksums
        for line in file.read_text().splitlines():
            event = json.loads(line)
            if event["Event"] == "SparkListenerStageCompleted":
                found[event["Stage Info"]["Stage ID"]].begun = event["Stage Info"]["Submission Time"] / 1000
            if event["Event"] == "SparkListenerTaskEnd" and event.get("Task Metrics"):
                found[event["Stage ID"]].seconds += event["Task Metrics"]["Executor Run Time"] / 1000
    return [found[number] for number in sorted(found)]


def _steps(stages: list[Stage], begun: list[tuple[float, str]], end: float) -> dict[str, float]:
    """The time of the tasks of each step of one compaction."""
    steps = dict.fromkeys(STEPS, 0.0)
    for (begin, name), (after, _) in pairwise([*begun, (end, "")]):
        steps[name] += sum(stage.seconds for stage in stages if begin <= stage.begun < after)
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
                        _size(found.scratch_bytes),
                        _size(found.driver_bytes),
                        _time(found.widest_seconds),
                        hours,
                    ]
                )
    heads = ["log", "executors", "taskBytes", "buckets", "pieces", "rows of a piece"]
    return table([*heads, "scratch", "driver", "widest task", "time"], rows)


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
