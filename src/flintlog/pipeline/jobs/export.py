"""`export`: entries or state to Parquet, NDJSON or a Delta table; each run adds what is new, exactly once."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from flintlog.core.dialect import EntryQuery
from flintlog.core.follow import Cursor, Delivery, Limits, OnLoss
from flintlog.core.log import Log, open_log
from flintlog.core.position import Position, position_json
from flintlog.disk import Disk
from flintlog.disk.remote import RemoteKernel
from flintlog.errors import UsageError
from flintlog.pipeline import delta
from flintlog.pipeline.paths import is_remote, local_path, locate_target, open_at
from flintlog.pipeline.target import DataFile, Format, Sink, Target, View

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

PART_BYTES = 256 << 20
FORMATS: tuple[Format, ...] = ("parquet", "ndjson", "delta")
VIEWS: tuple[View, ...] = ("entries", "state")


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
    position: Any  # everything up to it is exported, as JSON has it; None: the log never had anything

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
    storage: Mapping[str, str] | None = None,
    disk: Disk | None = None,
) -> ExportReport:
    """Bring `target` up to date with the log at `path`. Without a session this process does the work.

    It adds entries to those exported before, and replaces an exported state by the new one. If it is killed at any
    moment and run again, no row is missing and none is there twice. With `dry_run` it writes nothing, and the report
    says up to where a run would go. Log and target may be remote; `storage` has the options of their file system, such
    as `region`. A remote target has no lock: run one export to it at a time.
    """
    if format not in FORMATS or view not in VIEWS:
        raise UsageError(
            f"there is no export of {view!r} to {format!r}", advice="See the documentation of export"
        )
    known = tuple(sorted((storage or {}).items()))
    log = open_at(path, known) if is_remote(path) else open_log(local_path(path), disk=disk)
    source = log.path
    there, place = locate_target(target, known)
    if disk is not None and not is_remote(target):
        there = disk
    if f"{place}/".startswith(f"{source}/"):
        raise UsageError(
            "the target lies inside the log directory", file=place, advice="Choose another place"
        )
    about = {"source": source, "dialect": log.dialect, "view": view, "format": format}
    goal = Target(there, place, about)
    table = delta.Table(place, known) if format == "delta" else None
    _refuse_foreign(goal)
    if dry_run:
        goal.look(table.last_transaction() if table else None)
        end, _ = _new(log, goal, on_loss)
        return _report(goal, None) if end == goal.last.place else _report(goal, goal.next, end)
    with goal.locked():
        goal.open(table.last_transaction() if table else None)
        end, deliveries = _new(log, goal, on_loss)
        if end == goal.last.place:
            return _report(goal, None)
        schema = log.entry_schema if view == "entries" else log.state_schema
        if spark is None:
            rows = (batch for delivery in deliveries for batch in read_delivery(log, view, delivery))
            parts = _write_parts(goal, rows, schema, part_bytes, goal.part_name)
        else:
            reading = partial(open_at, log.path, known, log.dialect)
            parts = _write_on_spark(spark, reading, goal, deliveries, schema, part_bytes)
        if not parts and goal.replaces:
            parts = [_PartWriter(goal, goal.part_name(0), schema).close()]  # an empty state is exported too
        made = goal.prepare(end, parts)
        if table:
            goal.move_early(made)
            table.commit(schema, made, replace=goal.replaces)
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
    """The cursor to which this run goes, and the deliveries on the way."""
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
    """The position of the newest state. A compaction may be ahead of the last epoch with an entry."""
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


def _write_parts(
    goal: Target,
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    part_bytes: int,
    name_of: Callable[[int], str],
) -> list[DataFile]:
    """Write rows to staged files of about this size."""
    parts: list[DataFile] = []
    writing: _PartWriter | None = None
    for batch in batches:
        if writing is not None and writing.size >= part_bytes:
            parts.append(writing.close())
            writing = None
        if writing is None:
            writing = _PartWriter(goal, name_of(len(parts)), schema)
        writing.write(batch)
    return parts if writing is None else [*parts, writing.close()]


class _PartWriter:
    """One data file that is being written."""

    def __init__(self, goal: Target, name: str, schema: pa.Schema) -> None:
        self._name = name
        self._sink = Sink(goal.disk.create_scratch(goal.staged(name)))
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
    spark: SparkSession,
    reading: Callable[[], Log],
    goal: Target,
    deliveries: list[Delivery],
    schema: pa.Schema,
    part_bytes: int,
) -> list[DataFile]:
    """Run a task for each delivery. A task that runs twice writes other names; only the files that it returns count."""
    from flintlog.pipeline.workers import SparkWorkers

    there = goal if isinstance(goal.disk.kernel, RemoteKernel) else replace(goal, disk=Disk())
    task = partial(_write_delivery, reading, there, schema, part_bytes)
    parts: list[DataFile] = []
    for made in SparkWorkers(spark).map(task, deliveries):
        for part in made:
            name = goal.part_name(len(parts))
            goal.disk.rename(goal.staged(part.name), goal.staged(name))
            parts.append(replace(part, name=name))
    return parts


def _write_delivery(
    reading: Callable[[], Log], goal: Target, schema: pa.Schema, part_bytes: int, delivery: Delivery
) -> list[DataFile]:
    token = uuid.uuid4().hex
    rows = read_delivery(reading(), goal.about["view"], delivery)
    return _write_parts(goal, rows, schema, part_bytes, lambda at: f"{token}-{at:04}")
