"""A Spark session with fitting settings, for jobs, tests and a first look on a laptop."""

from __future__ import annotations

import importlib.resources
import io
import os
import sys
import zipfile
from collections.abc import Iterator
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING

from flintlog.disk import Disk
from flintlog.disk.machine import java_command
from flintlog.errors import RefusedError, UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",  # the default of 200 costs seconds on a few cores
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.python.unix.domain.socket.enabled": "true",  # TCP adds some 25 ms to each Python task
    "spark.sql.python.filterPushdown.enabled": "true",
}
_LOCAL_SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


def session(master: str | None = "local[2]", app: str = "flintlog", **conf: str) -> SparkSession:
    """The running session, or a new one; `conf` wins over the settings of this module.

    On a local master the workers run the Python that runs this, unless PYSPARK_PYTHON says otherwise. On a cluster it
    sends this package to the executors; its libraries (NumPy, PyArrow, Numba) must be in their Python. Without a master
    it takes that of `spark-submit`.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise UsageError("PySpark is not installed", advice="pip install pyspark 'pandas<3'") from None
    settings = dict(SETTINGS)
    logging = importlib.resources.files("flintlog.pipeline") / "log4j2.properties"
    settings["spark.driver.extraJavaOptions"] = f"-Dlog4j2.configurationFile=file:{logging}"
    builder = SparkSession.builder.appName(app)
    if master is not None:
        builder = builder.master(master)
        if master.startswith("local"):
            settings |= _LOCAL_SETTINGS
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for name, value in (settings | conf).items():
        builder = builder.config(name, value)
    if SparkSession.getActiveSession() is None:
        refuse_without_java()
    running = builder.getOrCreate()
    if not (running.sparkContext.master or "").startswith("local"):
        send_package(running)
    return running


def was_submitted() -> bool:
    """Did `spark-submit` start this process? Then there is a JVM, with a master."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def refuse_without_java() -> None:
    """Raise when there is no Java, before Spark fills a page with it. A JVM that runs already will do."""
    if was_submitted():
        return
    if java_command() is None:
        home = os.environ.get("JAVA_HOME")
        raise RefusedError(
            f"there is no Java in JAVA_HOME, {home}" if home else "there is no Java, and Spark needs it",
            advice="Install Java 17 or 21, or let JAVA_HOME name it",
        )


def send_package(spark: SparkSession) -> None:
    """Let the executors of a cluster find this package. They fetch it whenever they start, so it stays until this
    process ends."""
    spark.sparkContext.addPyFile(write_package(f"{Disk.borrow_directory()}/flintlog-package.zip"))


def write_package(target: str) -> str:
    """Write this package to a zip file, for `--py-files`; returns its path."""
    package = importlib.resources.files("flintlog")
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in _modules(package, "flintlog"):
            archive.writestr(name, data)
    path = Disk.resolve(target)
    Disk().publish(path, [content.getbuffer()], scratch=f"{path}.new")
    return path


def _modules(folder: Traversable, name: str) -> Iterator[tuple[str, bytes]]:
    for item in sorted(folder.iterdir(), key=lambda item: item.name):
        inner = f"{name}/{item.name}"
        if item.is_dir():
            yield from _modules(item, inner)
        elif item.name.endswith(".py"):
            yield inner, item.read_bytes()
