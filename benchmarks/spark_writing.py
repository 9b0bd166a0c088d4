"""Spark writes the same rows to a log and to Parquet, in one warm session; and a store takes them by its own calls."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable

from benchmarks.table import RECORDS_PER_SECOND, Contender, Row, contest, row
from flintlog import Datastore, QueueStore

PARQUET = "Parquet"
OWN = {"limestone": "put_many", "taskflux": "add_many"}
RATIO_MIN = 0.5  # of Parquet's rate
_BATCH = 65_536


def prepare(spark, directory: str, count: int) -> None:
    """Rows of 8 and 100 bytes, as Parquet."""
    columns = (
        "1L AS storage_id",
        "cast(lpad(cast(id AS string), 8, '0') AS binary) AS key",
        "cast(concat(sha2(cast(id AS string), 256), repeat('v', 36)) AS binary) AS value",
    )
    frame = spark.range(0, count, 1, 8).selectExpr(*columns)
    frame.write.mode("overwrite").parquet(directory + "-rows")


def write(spark, directory: str, contender: str) -> None:
    """All rows to a new place; what was there goes before the clock starts."""
    frame = spark.read.parquet(directory + "-rows")
    target = directory + "-written"
    if contender == PARQUET:
        frame.write.parquet(target)
        return
    chosen = frame if contender == "limestone" else frame.selectExpr("value AS payload")
    chosen.write.format("flintlog").mode("append").option("dialect", contender).save(target)


def by_the_store(directory: str, dialect: str) -> float:
    """Seconds of the same rows by the calls of the store, one thread."""
    import pyarrow.parquet as parquet

    batches = parquet.read_table(directory + "-rows").to_batches(_BATCH)
    begin = time.perf_counter()
    if dialect == "limestone":
        with Datastore(directory + "-written", snapshot=False) as store:
            with store.channel().session() as session:
                for batch in batches:
                    session.put_many(1, batch["key"], batch["value"])
            store.switch_epoch()
    else:
        with QueueStore(directory + "-written") as store:
            for batch in batches:
                store.queue().add_many(batch["value"])
    return time.perf_counter() - begin


def rows(seconds: Callable[[str], float], directory: str, count: int, rounds: int) -> list[Row]:
    """For each dialect against Parquet, and against its store. `seconds` writes by Spark for one contender."""

    def rate(work: Callable[[], float]) -> float:
        shutil.rmtree(directory + "-written", ignore_errors=True)
        return count / work()

    for name in (PARQUET, *OWN):  # warm
        rate(lambda name=name: seconds(name))
    found: list[Row] = []
    for dialect, own in OWN.items():
        figures = contest(
            Contender(dialect, lambda dialect=dialect: rate(lambda: seconds(dialect))),
            [
                Contender(PARQUET, lambda: rate(lambda: seconds(PARQUET))),
                Contender(own, lambda dialect=dialect: rate(lambda: by_the_store(directory, dialect))),
            ],
            rounds,
        )
        for peer, least in ((PARQUET, RATIO_MIN), (own, None)):
            compared = f"Spark writes {count:,} rows of 108 bytes to a {dialect} log; {peer} writes the same"
            title = f"Spark write, {dialect}" + ("" if peer == PARQUET else ", against the store")
            found.append(row(title, RECORDS_PER_SECOND, figures, [peer], compared=compared, ratio_min=least))
    for name in ("-rows", "-written"):
        shutil.rmtree(directory + name)
    assert not os.path.exists(directory + "-written")
    return found
