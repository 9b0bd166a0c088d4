"""`--engine` and `--master`: where a verb does its work."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from flintlog.errors import RefusedError, UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from flintlog.core.workers import Workers

MASTER = "local[*]"
_WORDS_MAX = 300


def engine_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a verb that can run on Spark."""
    parser.add_argument(
        "--engine",
        choices=("process", "spark"),
        default="process",
        metavar="ENGINE",
        help="where the work is done: process (this one, the default) or spark",
    )
    parser.add_argument(
        "--master", metavar="URL", help=f"Spark's master, with --engine spark; {MASTER} when it is not given"
    )


@contextmanager
def engine(arguments: argparse.Namespace) -> Iterator[SparkSession | None]:
    """Give a Spark session until the verb ends; None when it works in this process."""
    if arguments.engine != "spark":
        if arguments.master is not None:
            raise UsageError("--master is for --engine spark", advice="Give both, or none")
        yield None
        return
    from flintlog.pipeline.session import session, was_submitted

    ours = not _runs_already()
    spark = session(arguments.master or (None if was_submitted() else MASTER))
    if ours:
        spark.sparkContext.setLogLevel("ERROR")
    try:
        with _in_short():
            yield spark
    finally:
        if ours:
            spark.stop()


@contextmanager
def _in_short() -> Iterator[None]:
    """Cut an error of Spark, which fills pages, to its first line."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        causes = [line for line in lines if line.startswith("Caused by:")]
        words = (causes[-1].removeprefix("Caused by:").strip() if causes else lines[0])[:_WORDS_MAX]
        raise RefusedError(
            f"Spark could not do it: {words}",
            advice="Nothing was published. --debug shows all that Spark says",
        ) from error


def _runs_already() -> bool:
    """Has other code in this process started a session?"""
    try:
        from pyspark.sql import SparkSession
    except ImportError:  # `session` says what to do
        return False
    return SparkSession.getActiveSession() is not None


@contextmanager
def workers(arguments: argparse.Namespace) -> Iterator[Workers | None]:
    """The workers for the heavy work of the verb; None: this process does it."""
    with engine(arguments) as spark:
        if spark is None:
            yield None
            return
        from flintlog.pipeline.workers import SparkWorkers

        yield SparkWorkers(spark)
