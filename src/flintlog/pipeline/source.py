"""The data source `flintlog`: logs as DataFrames.

The driver asks the dialect for splits, each task reads one and yields Arrow batches; this module only puts
the column `source` in front, so that several directories give one DataFrame. Spark plans in short-lived
Python processes, so Arrow and NumPy are imported where they are needed.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from flintlog.core.dialect import Split, dialect
from flintlog.disk import Disk
from flintlog.errors import FlintlogError, UsageError
from flintlog.pipeline.filters import Scope, narrow_entries, narrow_state
from flintlog.pipeline.options import ReadOptions, local_path, read_options
from flintlog.pipeline.stream_options import stream_options

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import Filter
    from pyspark.sql.types import StructType

SOURCE = "source"


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
        kind = EntriesReader if self._read.view == "entries" else StateReader
        reader = kind(self._read, columns(self._read, schema))
        return PushingReader(reader) if self._read.pushdown and _filters_are_pushed() else reader


def arrow_schema(read: ReadOptions) -> pa.Schema:
    """The columns of a view: `source`, then those of the dialect."""
    import pyarrow as pa

    spoken = dialect(read.dialect)
    own = spoken.entry_schema() if read.view == "entries" else spoken.state_schema()
    return pa.schema([pa.field(SOURCE, pa.string(), nullable=False), *own])


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


class LogPartition(InputPartition):
    """What one task reads: a piece of a log, or (without a split) the state of a whole directory."""

    def __init__(self, source: str, split: Split | None = None) -> None:
        super().__init__((source, split))
        self.source = source
        self.split = split


class EntriesReader(DataSourceReader):
    """The entries: a task for each split of each directory."""

    narrow = staticmethod(narrow_entries)

    def __init__(self, read: ReadOptions, schema: pa.Schema) -> None:
        self._read = read
        self._schema = schema
        self.scope = Scope(replace(read.query, payload=read.query.payload and "payload" in schema.names))

    def partitions(self) -> list[InputPartition]:
        spoken, disk, scope = dialect(self._read.dialect), Disk(), self.scope
        planned: list[InputPartition] = []
        for source in scope.kept(self._read.sources):
            with naming(source):
                splits = spoken.splits(disk, local_path(source), scope.query)
            planned += [LogPartition(source, split) for split in splits if scope.holds(split.file)]
        return planned

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, LogPartition) or partition.split is None:
            return  # nothing was planned; Spark then makes up a partition of its own
        settle()
        source = partition.source
        with naming(source):
            spoken = dialect(self._read.dialect)
            for batch in spoken.read_split(Disk(), local_path(source), partition.split, self.scope.query):
                yield with_source(batch, source, self._schema)


class StateReader(DataSourceReader):
    """The state: a task for each directory."""

    narrow = staticmethod(narrow_state)

    def __init__(self, read: ReadOptions, schema: pa.Schema) -> None:
        self._read = read
        self._schema = schema
        self.scope = Scope()

    def partitions(self) -> list[InputPartition]:
        return [LogPartition(source) for source in self.scope.kept(self._read.sources)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, LogPartition):
            return  # nothing was planned; Spark then makes up a partition of its own
        settle()
        source = partition.source
        with naming(source):
            for batch in dialect(self._read.dialect).state(Disk(), local_path(source), self._read.as_of):
                yield with_source(batch, source, self._schema)


class PushingReader(DataSourceReader):
    """A reader whose scope the filters of the query narrow before it is asked for partitions."""

    def __init__(self, reader: EntriesReader | StateReader) -> None:
        self._reader = reader

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:  # noqa: N802 - Spark's name
        """Narrow the scope; give back what Spark must still apply."""
        for filter_ in filters:
            narrowed = self._reader.narrow(self._reader.scope, filter_)
            if narrowed is not None:
                self._reader.scope = narrowed.scope
            if narrowed is None or not narrowed.exact:
                yield filter_

    def partitions(self) -> list[InputPartition]:
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

    named = pa.repeat(pa.scalar(source), batch.num_rows)
    arrays = [named if name == SOURCE else batch.column(name) for name in schema.names]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
