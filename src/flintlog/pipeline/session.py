"""A Spark session that fits: for the jobs, for the tests, and for a first look on a laptop."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from flintlog.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",  # the default of 200 costs seconds on a few cores
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.python.filterPushdown.enabled": "true",
}
_LOCAL_SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


def session(master: str = "local[2]", app: str = "flintlog", **conf: str) -> SparkSession:
    """The running session, or a new one; `conf` wins over the settings of this module.

    On a local master the workers run the Python that runs this, unless PYSPARK_PYTHON says otherwise.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise UsageError("PySpark is not installed", advice="pip install 'flintlog[spark]'") from None
    settings = dict(SETTINGS)
    if master.startswith("local"):
        settings |= _LOCAL_SETTINGS
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName(app)
    for name, value in (settings | conf).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
