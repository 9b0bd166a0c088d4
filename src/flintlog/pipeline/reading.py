"""`flintlog.read`: a view of logs as a DataFrame that is planned anew with each call."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from flintlog.disk import Disk
from flintlog.errors import UsageError
from flintlog.pipeline.options import read_options
from flintlog.pipeline.paths import is_pattern, is_remote, open_at

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from flintlog.pipeline.views import Shape

Path = str | os.PathLike[str]

SPREAD_BYTES = 2 << 30  # from this size of a directory on many tasks make a state faster than one


def read(
    spark: SparkSession,
    path: Path | Sequence[Path],
    *,
    columns: str | Sequence[str] | None = None,
    where: str | None = None,
    **options: object,
) -> DataFrame:
    """Log directories as a DataFrame, with these columns and the rows that fit `where`.

    Pass `columns` and `where` to read only those. `options` are those of `spark.read.format("flintlog")`, such
    as `view="state"` or `details=True`; `from_` stands for `from`. Use the DataFrame as often as you like.
    """
    paths = [path] if isinstance(path, str | os.PathLike) else list(path)
    if not paths:
        raise UsageError(
            "no directory was named", advice="Name the log directory: flintlog.read(spark, path)"
        )
    given = {name.rstrip("_"): value for name, value in options.items() if value is not None}
    if columns is not None:
        given["columns"] = columns if isinstance(columns, str) else ",".join(columns)
    if where is not None:
        given["where"] = where
    reader = spark.read.format("flintlog")
    for name, value in given.items():
        reader = reader.option(name, word(value))
    places = [os.fspath(one) for one in paths]
    found = _spread(spark, places, given)
    return reader.load(places if len(places) > 1 else places[0]) if found is None else found


def _spread(spark: SparkSession, places: list[str], given: dict[str, object]) -> DataFrame | None:
    """The state of a large directory, made by all tasks together; None when a task for each directory is faster."""
    if given.get("view") != "state" or len(places) > 1 or is_remote(places[0]) or is_pattern(places[0]):
        return None
    options = read_options({"path": places[0], **{name: word(value) for name, value in given.items()}})
    log = open_at(places[0])
    if _bytes_below(log.disk, log.root) < SPREAD_BYTES:
        return None
    from pyspark.sql import functions
    from pyspark.sql.pandas.types import from_arrow_schema

    from flintlog.pipeline.views import Shape, arrow_schema
    from flintlog.pipeline.workers import SparkWorkers

    schema = arrow_schema(options)
    rows = log.state(options.as_of, workers=SparkWorkers(spark))
    if options.where:
        shape = Shape(options, schema, options.where)
        found: DataFrame = rows.mapInArrow(partial(_shaped, shape, places[0]), from_arrow_schema(schema))
    else:
        found = rows.select(functions.lit(places[0]).alias("source"), "*").select(*schema.names)
    return found


def _shaped(shape: Shape, source: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield from shape.of(batch, source)


def _bytes_below(disk: Disk, path: str) -> int:
    """The total size of the files below a directory."""
    size = 0
    for name in disk.list(path):
        place = posixpath.join(path, name)
        found = disk.stat(place)
        if found is not None:
            size += (
                _bytes_below(disk, place) if found.is_directory and not disk.is_link(place) else found.size
            )
    return size


def word(value: object) -> str:
    """An option as Spark takes it; positions may be numbers or tuples of them."""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
