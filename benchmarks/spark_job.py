"""Spark jobs: how long Spark took to start, how long each job took, and memory.

    python -m benchmarks.spark_job [limited]

reads lines of a job, a tab and a directory, and answers each with a line of JSON.

    python -m benchmarks.spark_job start DIRECTORY

starts Spark and prints how long each first thing took, one after the other.

The JVM has 1 GB. With `limited` each Python worker may take 1 GB of addresses, which the system enforces. Memory is
what the workers held for themselves at their peak (RssAnon), the largest of them.
"""

from __future__ import annotations

import json
import os
import sys
import time

from benchmarks import spark_questions as questions
from benchmarks import spark_writing as writing
from benchmarks.limestone_job import Peak
from flintlog.pipeline import jobs
from flintlog.pipeline.session import session
from flintlog.pipeline.workers import SparkWorkers

MEMORY = {"spark.driver.memory": "1g"}
LIMIT = {"spark.executor.pyspark.memory": "1g"}


def compact(spark, directory: str) -> int:
    return len(jobs.compact(spark, directory))


def state(spark, directory: str) -> int:
    jobs.state(spark, directory).write.format("noop").mode("overwrite").save()
    return 0


JOBS = {"compact": compact, "state": state}
_MIDDLES: dict[str, int] = {}


def _ask(spark, job: str, directory: str) -> None:
    """`ask/CONTENDER/QUESTION` after `prepare/COUNT`; `write/CONTENDER` after `rows/COUNT`."""
    verb, _, rest = job.partition("/")
    if verb == "rows":
        writing.prepare(spark, directory, int(rest))
        return
    if verb == "write":
        writing.write(spark, directory, rest)
        return
    if verb == "prepare":
        questions.prepare(spark, directory, int(rest))
        _MIDDLES[directory] = questions.middle_of(spark, directory)
        return
    contender, _, question = rest.partition("/")
    questions.answer(spark, directory, contender, question, _MIDDLES[directory])


def _largest() -> int:
    """The memory of the largest Python worker of this session."""
    return max(map(_anonymous_bytes, _workers()), default=0)


def _workers() -> list[int]:
    """The processes below this one whose command is Spark's Python daemon."""
    parents, names = {}, {}
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            try:
                with open(f"/proc/{entry}/stat") as file:
                    parents[int(entry)] = int(file.read().rpartition(")")[2].split()[1])
                with open(f"/proc/{entry}/cmdline", "rb") as file:
                    names[int(entry)] = file.read()
            except OSError:
                continue
    found = []
    for process, name in names.items():
        at: int | None = process
        while at is not None and at != os.getpid():
            at = parents.get(at)
        if at is not None and b"pyspark" in name and b"daemon" in name:
            found.append(process)
    return found


def _anonymous_bytes(process: int) -> int:
    try:
        with open(f"/proc/{process}/status") as file:
            return next((int(line.split()[1]) << 10 for line in file if line.startswith("RssAnon")), 0)
    except OSError:
        return 0


def first_times(directory: str) -> dict[str, float]:
    """Seconds of what a session does for the first time: Spark's own, then ours."""
    found: dict[str, float] = {}
    begin = time.perf_counter()

    def note(name: str) -> None:
        nonlocal begin
        now = time.perf_counter()
        found[name], begin = now - begin, now

    spark = session("local[2]", **MEMORY)
    note("session")
    spark.range(2).count()
    note("job")
    spark.range(0, 2, 1, 2).mapInArrow(lambda batches: batches, "id bigint").count()
    note("Python job")
    for name in ("query", "query again"):
        spark.read.format("flintlog").load(directory).count()
        note(name)
    jobs.compact(spark, directory)
    note("compaction")
    spark.stop()
    return found


def main() -> None:
    if sys.argv[1:2] == ["start"]:
        print(json.dumps(first_times(sys.argv[2])))
        return
    begin = time.perf_counter()
    spark = session("local[2]", **MEMORY, **(LIMIT if sys.argv[1:] else {}))
    list(SparkWorkers(spark).map(abs, [1, 2]))
    start = time.perf_counter() - begin
    for line in sys.stdin:
        job, _, directory = line.rstrip("\n").partition("\t")
        peak = Peak(_largest, 0.05)
        begin = time.perf_counter()
        if job in JOBS:
            JOBS[job](spark, directory)
        else:
            _ask(spark, job, directory)
        seconds = time.perf_counter() - begin
        print(json.dumps({"start": start, "seconds": seconds, "peak": peak.stop()}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
