"""`flintlog.write`: a frame to a log, from any thread."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from flintlog.pipeline.paths import local_path
from flintlog.pipeline.reading import word

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def write(frame: DataFrame, path: str | os.PathLike[str], **options: object) -> None:
    """Add the rows of a frame to a log: all of them, or none. On return they are on disk.

    `options` are those of `frame.write.format("flintlog")`, such as `dialect="limestone"`. Ctrl-C returns at once, and
    Spark goes on with the write: give it a `stream` and a `batch`, and you can write it again.
    """
    spark = frame.sparkSession
    writer = frame.write.format("flintlog").mode("append")
    for name, value in options.items():
        if value is not None:
            writer = writer.option(name, word(value))
    place = os.fspath(path)
    activate(spark)
    writer.save(place if _jvm(spark) is None else local_path(place))


def activate(spark: SparkSession) -> None:
    """Let this thread write, and start streams that do.

    Spark looks a source that is written in Python up in the session of its thread. PySpark 4.3 sets that session when
    it reads, and not when it writes.
    """
    jvm = _jvm(spark)
    if jvm is not None:
        jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(spark._jsparkSession)


def _jvm(spark: SparkSession) -> Any:
    """The JVM of a session; a client of Spark Connect has none."""
    return getattr(spark, "_jvm", None)
