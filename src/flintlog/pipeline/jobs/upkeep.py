"""`verify`, `state`, `snapshot` and `compact` by the tasks of a Spark session.

Each calls the dialect, as the command line does, and only passes the workers: verdicts and bytes are the same. The
driver publishes, once, by the dialect's own protocol.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from flintlog.core.inventory import Inventory
from flintlog.core.log import open_log
from flintlog.core.position import Position
from flintlog.pipeline.reading import read
from flintlog.pipeline.workers import SparkWorkers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Path = str | os.PathLike[str]


def verify(spark: SparkSession, path: Path) -> Inventory:
    """Every check the dialect knows, with the files divided among the tasks."""
    return open_log(path).verify(workers=SparkWorkers(spark))


def findings(spark: SparkSession, path: Path) -> DataFrame:
    """What `verify` sees, as a table."""
    inventory = verify(spark, path)
    rows = [
        (str(path), item.severity.value, item.code, item.file, item.offset, item.message)
        for item in inventory.findings
    ]
    return spark.createDataFrame(
        rows, "source string, severity string, code string, file string, offset bigint, message string"
    )


def state(spark: SparkSession, path: Path, as_of: Position | str | int | None = None) -> DataFrame:
    """The state, now or at a position: `flintlog.read` of the view `state`."""
    return read(spark, path, view="state", as_of=as_of)


def snapshot(spark: SparkSession, path: Path, as_of: Position | str | int | None = None) -> str:
    """Write the state, now or at a position, to a snapshot and drop what it covers; returns what was done."""
    return open_log(path).plan_snapshot(as_of, workers=SparkWorkers(spark)).apply()


def compact(spark: SparkSession, path: Path) -> str:
    """Write anew what is alive and drop the rest; returns what was done."""
    return open_log(path).plan_compact(SparkWorkers(spark)).apply()
