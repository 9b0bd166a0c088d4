"""The data source `flintlog`: logs as DataFrames.

The driver asks the dialects for splits, each task reads some and yields Arrow batches; this module only puts
the column `source` in front and fills the columns that another dialect has, so that several directories give one
DataFrame. Spark plans in short-lived Python processes, so Arrow and NumPy are imported where they are needed.
"""

from __future__ import annotations

import gc
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from flintlog.core.dialect import Split
from flintlog.core.log import Log
from flintlog.errors import FlintlogError, UsageError
from flintlog.pipeline.filters import Scope, narrow_entries, narrow_state
from flintlog.pipeline.options import ReadOptions, read_options
from flintlog.pipeline.paths import at_once, open_at
from flintlog.pipeline.stream_options import stream_options

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import Filter
    from pyspark.sql.types import StructType

SOURCE = "source"

# Small pieces share a task: starting one costs as much as reading some megabytes.
_OPEN_BYTES = 256 << 10
_TASK_BYTES_MIN = 4 << 20
_TASKS = 64


class FlintlogDataSource(DataSource):
    """`spark.read.format("flintlog")`. Options and columns: docs/spark.md."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        self._stream, others = stream_options(options)
        self._read = read_options(others)

    @classmethod
    def name(cls) -> str:
        return "flintlog"

    def schema(self) -> StructType:
        from pyspark.sql.pandas.types import from_arrow_schema

        return from_arrow_schema(arrow_schema(self._read))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        from flintlog.pipeline.streaming import stream_reader

        return stream_reader(self._read, self._stream, columns(self._read, schema))

    def reader(self, schema: StructType) -> DataSourceReader:
        self._stream.refuse_in_a_batch()
        kind = EntriesReader if self._read.view == "entries" else DirectoryReader
        reader = kind(self._read, columns(self._read, schema))
        return PushingReader(reader) if self._read.pushdown and _filters_are_pushed() else reader


def arrow_schema(read: ReadOptions) -> pa.Schema:
    """The columns of a view."""
    from flintlog.pipeline import views

    return views.arrow_schema(read)


def columns(read: ReadOptions, schema: StructType) -> pa.Schema:
    """The columns that Spark expects: all of the view, or those of a schema that the user gave."""
    from pyspark.sql.pandas.types import to_arrow_schema

    ours = arrow_schema(read)
    asked = to_arrow_schema(schema, timezone="UTC")
    for field in asked:
        if field.name not in ours.names:
            known = ", ".join(ours.names)
            raise UsageError(f"the view {read.view!r} has no column {field.name!r}", advice=f"It has {known}")
        if field.type != ours.field(field.name).type:
            raise UsageError(f"column {field.name!r} is {ours.field(field.name).type}, not {field.type}")
    return asked


@dataclass(frozen=True, slots=True)
class SourceSplit:
    """A piece of a log, or (without a split) a whole directory."""

    source: str
    dialect: str
    split: Split | None = None

    @property
    def weight(self) -> int:
        size = self.split.end - self.split.start if self.split is not None else 0
        return max(size, _OPEN_BYTES)


class LogPartition(InputPartition):
    """What one task reads."""

    def __init__(self, pieces: tuple[SourceSplit, ...]) -> None:
        super().__init__(pieces)
        self.pieces = pieces


def packed(pieces: list[SourceSplit], room_max: int) -> list[InputPartition]:
    """Tasks of even size, of pieces that follow each other; a large piece has one of its own."""
    room = min(room_max, max(_TASK_BYTES_MIN, sum(piece.weight for piece in pieces) // _TASKS))
    tasks: list[list[SourceSplit]] = []
    used = room
    for piece in pieces:
        if used + piece.weight > room:
            tasks.append([])
            used = 0
        tasks[-1].append(piece)
        used += piece.weight
    return [LogPartition(tuple(task)) for task in tasks]


class _Reader(DataSourceReader, ABC):
    """What both kinds of readers do: tasks of pieces, read one after the other."""

    narrow = staticmethod(narrow_state)

    def __init__(self, read: ReadOptions, schema: pa.Schema) -> None:
        self.options = read
        self._schema = schema
        self.scope = Scope()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, LogPartition):
            return  # nothing was planned; Spark then makes up a partition of its own
        settle()
        for piece in partition.pieces:
            with naming(piece.source):
                for batch in self._batches(piece):
                    yield with_source(batch, piece.source, self._schema)

    @abstractmethod
    def _batches(self, piece: SourceSplit) -> Iterable[pa.RecordBatch]:
        """The rows of one piece."""

    def _log(self, source: str, speaking: str) -> Log:
        return open_at(source, self.options.storage, speaking)

    def _directories(self) -> Iterator[tuple[str, str]]:
        kept = set(self.scope.kept(self.options.sources))
        for source, name in zip(self.options.sources, self.options.dialects, strict=True):
            if source in kept:
                yield source, name


class EntriesReader(_Reader):
    """The entries: splits of each directory, small ones together."""

    narrow = staticmethod(narrow_entries)

    def __init__(self, read: ReadOptions, schema: pa.Schema) -> None:
        super().__init__(read, schema)
        self.scope = Scope(replace(read.query, payload=read.query.payload and "payload" in schema.names))

    def partitions(self) -> list[InputPartition]:
        planned = at_once(self._plan, list(self._directories()), self.options.sources)
        return packed([piece for pieces in planned for piece in pieces], self.scope.query.split_bytes)

    def _plan(self, directory: tuple[str, str]) -> list[SourceSplit]:
        from flintlog.core.entries import plan_entries

        source, name = directory
        with naming(source):
            splits = plan_entries(self._log(source, name), self.scope.query)
        return [SourceSplit(source, name, split) for split in splits if self.scope.holds(split.file)]

    def _batches(self, piece: SourceSplit) -> Iterable[pa.RecordBatch]:
        from flintlog.core.entries import read_entries

        if piece.split is None:
            return ()
        return read_entries(self._log(piece.source, piece.dialect), piece.split, self.scope.query)


class DirectoryReader(_Reader):
    """The other views: a task for each directory, or for some of a great many."""

    def partitions(self) -> list[InputPartition]:
        pieces = [SourceSplit(source, name) for source, name in self._directories()]
        size = -(-len(pieces) // _TASKS) or 1
        return [LogPartition(tuple(pieces[at : at + size])) for at in range(0, len(pieces), size)]

    def _batches(self, piece: SourceSplit) -> Iterable[pa.RecordBatch]:
        from flintlog.pipeline.views import directory_batches

        return directory_batches(self.options, self._log(piece.source, piece.dialect))


class PushingReader(DataSourceReader):
    """A reader whose scope the filters of the query narrow before it is asked for partitions."""

    def __init__(self, reader: _Reader) -> None:
        self._reader = reader

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:  # noqa: N802 - Spark's name
        """Narrow the scope; give back what Spark must still apply."""
        # A row for damage has no position and no stream, so that Spark must look at it.
        reports = self._reader.options.query.on_damage == "report"
        for filter_ in filters:
            narrowed = self._reader.narrow(self._reader.scope, filter_)
            if narrowed is not None:
                self._reader.scope = narrowed.scope
            if narrowed is None or not narrowed.exact or reports:
                yield filter_

    def partitions(self) -> Sequence[InputPartition]:
        return self._reader.partitions()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._reader.read(partition)


_FILTER_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"


def _filters_are_pushed() -> bool:
    """Are we in the process in which Spark pushes filters?

    Elsewhere Spark refuses a reader that has `pushFilters` while spark.sql.python.filterPushdown.enabled is
    false, and does not tell the setting.
    """
    started_as = getattr(sys.modules["__main__"], "__spec__", None)
    return _FILTER_WORKER in sys.modules or (started_as is not None and started_as.name == _FILTER_WORKER)


@cache
def settle() -> None:
    # Spark collects garbage after every task; what is imported by now need not be looked at again.
    gc.freeze()


@contextmanager
def naming(source: str) -> Iterator[None]:
    """Say in an error which of the directories it comes from."""
    try:
        yield
    except FlintlogError as error:
        error.add_note(f"flintlog: {error.code} in {source}")
        raise


def with_source(batch: pa.RecordBatch, source: str, schema: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa

    def column(field: pa.Field) -> pa.Array:
        if field.name == SOURCE:
            return pa.repeat(pa.scalar(source), batch.num_rows)
        if field.name in batch.schema.names:
            return batch.column(field.name)
        return pa.nulls(batch.num_rows, field.type)

    return pa.RecordBatch.from_arrays([column(field) for field in schema], schema=schema)
