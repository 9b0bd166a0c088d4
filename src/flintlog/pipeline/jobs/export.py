"""`export`: entries or state to Parquet, NDJSON or a Delta table; each run adds what is new, exactly once."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from flintlog.core.dialect import EntryQuery
from flintlog.core.follow import Cursor, Delivery, Limits, OnLoss
from flintlog.core.log import Log, open_log
from flintlog.core.position import Position, position_json
from flintlog.disk import Disk
from flintlog.errors import UsageError
from flintlog.pipeline import delta
from flintlog.pipeline.options import local_path
from flintlog.pipeline.target import DataFile, Format, Sink, Target, View

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

PART_BYTES = 256 << 20
FORMATS: tuple[Format, ...] = ("parquet", "ndjson", "delta")
VIEWS: tuple[View, ...] = ("entries", "state")
Write = Callable[[Target, list[Delivery], "pa.Schema"], list[DataFile]]


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What one run did. `commit` is None when nothing was new."""

    source: str
    target: str
    dialect: str
    view: View
    format: Format
    commit: int | None
    rows: int
    bytes: int
    files: tuple[str, ...]
    position: Any  # up to where everything is exported, as JSON has it; None: nothing was ever there

    def json(self) -> dict[str, Any]:
        """The fields of `--json`."""
        return {**asdict(self), "files": list(self.files)}


def export(
    spark: SparkSession | None,
    path: str,
    target: str,
    *,
    view: View = "entries",
    format: Format = "parquet",
    on_loss: OnLoss = "fail",
    dry_run: bool = False,
    part_bytes: int = PART_BYTES,
    disk: Disk | None = None,
) -> ExportReport:
    """Bring `target` up to date with the log at `path`. Without a session the work is done in this process.

    Entries are added to what is there; a state takes the place of the one before. Killed at any moment and run again,
    it leaves nothing out and nothing twice. With `dry_run` nothing is written, and the report says up to where a run
    would go.
    """
    if format not in FORMATS or view not in VIEWS:
        raise UsageError(
            f"there is no export of {view!r} to {format!r}", advice="See the documentation of export"
        )
    disk = disk or Disk()
    source, place = local_path(path), local_path(target)
    log = open_log(source, disk=disk)
    if posixpath.commonpath([source, place]) == source:
        raise UsageError(
            "the target lies inside the log directory", file=place, advice="Choose another place"
        )
    about = {"source": source, "dialect": log.dialect, "view": view, "format": format}
    goal = Target(disk, place, about)
    _refuse_foreign(goal)
    if dry_run:
        goal.look(delta.last_transaction(place) if format == "delta" else None)
        end, _ = _new(log, goal, on_loss)
        return _report(goal, None) if end == goal.last.place else _report(goal, goal.next, end)
    with goal.locked():
        goal.open(delta.last_transaction(place) if format == "delta" else None)
        end, deliveries = _new(log, goal, on_loss)
        if end == goal.last.place:
            return _report(goal, None)
        schema = log.entry_schema if view == "entries" else log.state_schema
        if spark is None:
            parts = _write_here(log, goal, deliveries, schema, part_bytes)
        else:
            parts = _write_on_spark(spark, log, goal, deliveries, schema)
        made = goal.prepare(end, parts)
        if format == "delta":
            goal.move_early(made)
            delta.commit(place, schema, made, replace=goal.replaces)
        goal.finish(made)
        return _report(goal, made.number)


def _refuse_foreign(goal: Target) -> None:
    found = goal.disk.stat(goal.path)
    if found is None or (found.is_directory and "_flintlog" in goal.disk.list(goal.path)):
        return
    if not found.is_directory or goal.disk.list(goal.path):
        raise UsageError(
            "the target holds something else than an export",
            file=goal.path,
            advice="Name an empty or a new directory",
        )


def _new(log: Log, goal: Target, on_loss: OnLoss) -> tuple[Cursor, list[Delivery]]:
    """The place to which this run goes, and the work on the way."""
    start = goal.last.place
    if goal.replaces:
        last = newest_position(log)
        end = {"position": position_json(last)}
        if goal.last.number and end == start:
            return start, []
        return end, [Delivery(EntryQuery(last=last))]
    follower = log.follower()
    end = follower.advance(start, Limits(), on_loss)
    return end, follower.deliveries(start, end, EntryQuery(), on_loss)


def newest_position(log: Log) -> Position | None:
    """The position of the newest state. A compaction may be ahead of the last epoch that had an entry."""
    inventory = log.inspect()
    compacted = inventory.facts.get("compacted_epoch")
    return inventory.last if compacted is None else max(inventory.last or (0,), (compacted,))


def _report(goal: Target, number: int | None, planned: Cursor | None = None) -> ExportReport:
    parts = goal.last.parts if number is not None and planned is None else ()
    place = goal.last.place if planned is None else planned
    return ExportReport(
        source=goal.about["source"],
        target=goal.path,
        dialect=goal.about["dialect"],
        view="state" if goal.replaces else "entries",
        format=next(name for name in FORMATS if name == goal.about["format"]),
        commit=number,
        rows=sum(part.rows for part in parts),
        bytes=sum(part.size for part in parts),
        files=tuple(part.name for part in parts),
        position=place.get("position", place.get("epoch")),
    )


def read_delivery(log: Log, view: str, delivery: Delivery) -> Iterator[pa.RecordBatch]:
    """The rows of one delivery of work."""
    return iter(log.state(delivery.query.last)) if view == "state" else log.follower().read(delivery)


# In this process


def _write_here(
    log: Log, goal: Target, deliveries: list[Delivery], schema: pa.Schema, part_bytes: int
) -> list[DataFile]:
    parts: list[DataFile] = []
    writing: _PartWriter | None = None
    for delivery in deliveries:
        for batch in read_delivery(log, goal.about["view"], delivery):
            if writing is not None and writing.size >= part_bytes:
                parts.append(writing.close())
                writing = None
            if writing is None:
                writing = _PartWriter(goal, len(parts), schema)
            writing.write(batch)
    if writing is None and goal.replaces:
        writing = _PartWriter(goal, 0, schema)  # an empty state is a state
    return parts if writing is None else [*parts, writing.close()]


class _PartWriter:
    """One data file that is being written."""

    def __init__(self, goal: Target, at: int, schema: pa.Schema) -> None:
        self._name = goal.part_name(at)
        self._sink = Sink(goal.disk.create_scratch(goal.staged(self._name)))
        self._rows = 0
        self._parquet = None
        if goal.about["format"] != "ndjson":
            import pyarrow.parquet as pq

            self._parquet = pq.ParquetWriter(self._sink, schema, compression="zstd")

    @property
    def size(self) -> int:
        return self._sink.size

    def write(self, batch: pa.RecordBatch) -> None:
        self._rows += batch.num_rows
        if self._parquet is not None:
            self._parquet.write_batch(batch)
        else:
            from flintlog.columns import ndjson

            self._sink.write(ndjson.encode(batch))

    def close(self) -> DataFile:
        if self._parquet is not None:
            self._parquet.close()
        self._sink.file.close()
        return DataFile(self._name, self._rows, self._sink.size)


# On Spark


def _write_on_spark(
    spark: SparkSession, log: Log, goal: Target, deliveries: list[Delivery], schema: pa.Schema
) -> list[DataFile]:
    """A task for each delivery; Spark's own committer sees to it that only whole and finished tasks leave a file."""
    import pyarrow.parquet as pq
    from pyspark.sql.pandas.types import from_arrow_schema

    if not deliveries:
        return []
    as_lines = goal.about["format"] == "ndjson"
    task = partial(_run_pieces, log.dialect, log.path, goal.about["view"], as_lines, deliveries)
    given = "value string" if as_lines else from_arrow_schema(schema)
    frame = spark.range(0, len(deliveries), 1, len(deliveries)).mapInArrow(task, given)
    writer = frame.write.mode("overwrite")
    (writer.text if as_lines else writer.option("compression", "zstd").parquet)(
        f"file://{goal.staged('spark')}"
    )
    parts: list[DataFile] = []
    for name in goal.disk.list(goal.staged("spark")):
        if not name.startswith("part-"):
            continue
        place = goal.staged(f"spark/{name}")
        found = goal.disk.stat(place)
        assert found is not None
        rows = _count_lines(goal.disk, place) if as_lines else pq.read_metadata(place).num_rows
        if rows or (goal.replaces and not parts):
            part = DataFile(goal.part_name(len(parts)), rows, found.size)
            goal.disk.rename(place, goal.staged(part.name))
            parts.append(part)
    return parts


def _run_pieces(
    dialect: str,
    path: str,
    view: str,
    as_lines: bool,
    deliveries: list[Delivery],
    numbers: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    from flintlog.columns import ndjson

    log = open_log(path, speaking=dialect)
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            for rows in read_delivery(log, view, deliveries[number]):
                yield pa.RecordBatch.from_arrays([ndjson.lines(rows)], ["value"]) if as_lines else rows


def _count_lines(disk: Disk, place: str) -> int:
    with disk.open(place) as file:
        return sum(chunk.count(b"\n") for chunk in file.chunks(0, file.size()))
