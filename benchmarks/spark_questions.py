"""Spark answers the same questions from a log and from Parquet with the same rows, in one warm session.

`plain` is `spark.read`, which reads every column; `asked` is `flintlog.read` with the columns and rows of the question.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import flintlog
from benchmarks.limestone import fill
from benchmarks.table import Contender, Row, Unit, contest, row

SECONDS = Unit("s", more_is_better=False)
PARQUET, PLAIN, ASKED = "Parquet", "spark.read", "flintlog.read"
TOGETHER = {PLAIN: 3.5, ASKED: 2.0}  # times Parquet's time, all questions together
EACH_MAX = 6.0
ROW = ("position", "term", "operation", "stream", "key", "payload", "file", "offset", "length")
SCANNED = ("position", "operation", "stream", "key", "payload")

# What is asked: columns, rows, and what Spark makes of the frame.
QUESTIONS: dict[str, tuple[tuple[str, ...], str | None, Callable]] = {
    "count": (("position",), None, lambda frame: frame.count()),
    "filter on position": (("position",), "position <= {middle}", lambda frame: frame.count()),
    "group by operation": (("operation",), None, lambda frame: frame.groupBy("operation").count().collect()),
    "sum of payload lengths": (
        ("payload",),
        None,
        lambda frame: frame.selectExpr("sum(length(payload))").collect(),
    ),
    "max(position)": (("position",), None, lambda frame: frame.selectExpr("max(position)").collect()),
}
SCAN = "scan to noop"


def prepare(spark, directory: str, count: int) -> None:
    """The log, and its rows as Parquet."""
    if not os.path.exists(directory):
        fill(directory, count, count, channels=2)
    frame = spark.read.format("flintlog").load(directory)
    assert tuple(frame.columns) == ROW
    frame.write.mode("overwrite").parquet(directory + "-parquet")


def answer(spark, directory: str, contender: str, question: str, middle: int):
    """One answer of one contender."""
    columns, where, ask = QUESTIONS.get(question, (SCANNED, None, _scan))
    where = None if where is None else where.format(middle=middle)
    if contender == ASKED:
        return ask(flintlog.read(spark, directory, columns=columns, where=where))
    if contender == PLAIN:
        frame = spark.read.format("flintlog").load(directory)
    else:
        frame = spark.read.parquet(directory + "-parquet")
    frame = frame if where is None else frame.where(where)
    return ask(frame.select(*SCANNED) if question == SCAN else frame)


def _scan(frame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def middle_of(spark, directory: str) -> int:
    """The position that half of the entries do not pass."""
    found = spark.read.parquet(directory + "-parquet").selectExpr("percentile_approx(position, 0.5)")
    return found.first()[0]


def rows(seconds: Callable[[str, str], float], count: int, rounds: int) -> list[Row]:
    """Every question, then all of them together, then the scan. `seconds` runs one question of one contender."""
    contenders = (PLAIN, ASKED, PARQUET)
    everything = [*QUESTIONS, SCAN]
    for contender in contenders:  # warm
        for question in everything:
            seconds(contender, question)
    found: list[Row] = []
    total = {name: [0.0] * rounds for name in contenders}
    for question in everything:
        turns = [
            Contender(name, lambda name=name, question=question: seconds(name, question))
            for name in contenders
        ]
        figures = contest(turns[0], turns[1:], rounds)
        for name in (PLAIN, ASKED) if question != SCAN else (ASKED,):
            both = {name: figures[name], PARQUET: figures[PARQUET]}
            least = 1.0 if question == SCAN else 1 / EACH_MAX if name == PLAIN else None
            compared = f"{question} of {count:,} entries by {name}; the same rows from Parquet"
            found.append(
                row(f"Spark {question}, {name}", SECONDS, both, [PARQUET], compared=compared, ratio_min=least)
            )
        if question != SCAN:
            for name in contenders:
                total[name] = [one + other for one, other in zip(total[name], figures[name], strict=True)]
    for name, most in TOGETHER.items():
        both = {name: total[name], PARQUET: total[PARQUET]}
        compared = f"the five questions of {count:,} entries by {name}; the same rows from Parquet"
        title = f"Spark five questions, {name}"
        found.append(row(title, SECONDS, both, [PARQUET], compared=compared, ratio_min=round(1 / most, 3)))
    return found
