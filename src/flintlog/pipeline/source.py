"""The data source `flintlog`: logs as DataFrames.

The driver asks the dialects for splits, each task reads some and yields Arrow batches in the columns of the read. Spark
plans in a Python process of its own, so Arrow and NumPy are imported where they are needed.
"""

from __future__ import annotations

import gc
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from flintlog.core.dialect import EntryQuery, Split, dialect_names
from flintlog.core.lazy import lazy
from flintlog.core.live import Moment
from flintlog.core.log import Log
from flintlog.core.surveys import UNSHARED, Surveys
from flintlog.disk import Disk
from flintlog.errors import FlintlogError, UsageError
from flintlog.pipeline.options import ReadOptions, read_options
from flintlog.pipeline.paths import at_once, is_remote, open_at
from flintlog.pipeline.stream_options import StreamOptions, stream_options
from flintlog.pipeline.telling import RefusedStream, told
from flintlog.pipeline.where import Condition, check, scope_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter
    from pyspark.sql.types import StructType

# Small splits share a task: starting one costs as much as reading some megabytes.
_OPEN_BYTES = 256 << 10
_TASK_BYTES_MIN = 16 << 20
_TASKS = 64
_PLANS = 16  # plans that are kept


class FlintlogDataSource(DataSource):
    """`spark.read.format("flintlog")`. Options and columns: docs/spark.md."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))

    @lazy
    def _asked(self) -> tuple[StreamOptions, ReadOptions]:
        """The options of a read. A write has others."""
        stream, others = stream_options(self.options)
        return stream, read_options(others)

    @classmethod
    def name(cls) -> str:
        return "flintlog"

    @told
    def schema(self) -> StructType:
        from pyspark.sql.pandas.types import from_arrow_schema

        return from_arrow_schema(arrow_schema(self._asked[1]))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        try:
            from flintlog.pipeline.streaming import stream_reader

            stream, read = self._asked
            return stream_reader(read, stream, columns(read, schema))
        except FlintlogError as error:
            return RefusedStream(error)

    @told
    def reader(self, schema: StructType) -> DataSourceReader:
        stream, read = self._asked
        stream.refuse_in_a_batch()
        kind = EntriesReader if read.view == "entries" else DirectoryReader
        return kind(read, columns(read, schema))

    @told
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from flintlog.pipeline.writing import LogWriter, refuse_overwriting, write_options

        if overwrite:
            refuse_overwriting(self.options)
        return LogWriter(write_options(self.options), schema)

    @told
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        from flintlog.pipeline.writing import LogStreamWriter, refuse_overwriting, write_options

        if overwrite:
            refuse_overwriting(self.options, streams=True)
        return LogStreamWriter(write_options(self.options, streams=True), schema)


def arrow_schema(read: ReadOptions) -> pa.Schema:
    """The columns of a view."""
    from flintlog.pipeline import views

    return views.arrow_schema(read)


def columns(read: ReadOptions, schema: StructType) -> pa.Schema:
    """The columns that Spark expects: those of the view, or of the user's schema."""
    from pyspark.sql.pandas.types import to_arrow_schema

    from flintlog.pipeline import views

    ours = views.whole_schema(read)
    check(read.where, ours)
    asked = to_arrow_schema(schema)
    for field in asked:
        if field.name not in ours.names:
            known = ", ".join(ours.names)
            raise UsageError(f"the view {read.view!r} has no column {field.name!r}", advice=f"It has {known}")
        if field.type != ours.field(field.name).type:
            raise UsageError(
                f"column {field.name!r} is {ours.field(field.name).type}, not {field.type}",
                advice="Give it that type, and cast it behind the read",
            )
    return asked


@dataclass(frozen=True, slots=True)
class SourceSplit:
    """A split of a directory, or (without one) the whole directory."""

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
    """Group neighbouring splits into tasks of even size; a large split has a task of its own."""
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
    """What both readers share: tasks read their splits one after the other."""

    def __init__(self, read: ReadOptions, schema: pa.Schema) -> None:
        self.options = read
        self._schema = schema
        self.scope = scope_of(read.query, read.where, entries=read.view == "entries")

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, LogPartition):
            return  # when nothing is planned, Spark makes up a partition
        from flintlog.pipeline.views import Shape

        settle()
        shape = Shape(self.options, self._schema, self.scope.rest)
        for piece in partition.pieces:
            with naming(piece.source):
                for batch in self._batches(piece):
                    yield from shape.of(batch, piece.source)

    @abstractmethod
    def _batches(self, piece: SourceSplit) -> Iterable[pa.RecordBatch]:
        """The rows of one split."""

    def _log(self, source: str, speaking: str) -> Log:
        return open_at(source, self.options.storage, speaking)

    def _directories(self) -> Iterator[tuple[str, str]]:
        kept = set(self.scope.kept(self.options.sources))
        for source, name in zip(self.options.sources, self.options.dialects, strict=True):
            if source in kept:
                yield source, name


class EntriesReader(_Reader):
    """The entries: splits of each directory, small ones together."""

    def __init__(self, read: ReadOptions, schema: pa.Schema) -> None:
        super().__init__(read, schema)
        skip = unasked(schema, self.scope.rest) | read.query.skip
        self.scope = replace(self.scope, query=replace(self.scope.query, skip=skip))

    @told
    def partitions(self) -> list[InputPartition]:
        planned = at_once(self._plan, list(self._directories()), self.options.sources)
        return packed([piece for pieces in planned for piece in pieces], self.scope.query.split_bytes)

    def _plan(self, directory: tuple[str, str]) -> list[SourceSplit]:
        from flintlog.core.entries import plan_entries

        source, name = directory
        query = replace(self.scope.query, skip=frozenset())
        with naming(source):
            log = self._log(source, name)
            alone = is_remote(source) or len(self.options.sources) > _PLANS
            plans = UNSHARED if alone else _plans(log.root, name, query)
            splits = plans.take("entries", lambda: plan_entries(log, query))
        return [SourceSplit(source, name, split) for split in splits if self.scope.holds(split.file)]

    def _batches(self, piece: SourceSplit) -> Iterable[pa.RecordBatch]:
        from flintlog.core.entries import read_entries

        if piece.split is None:
            return ()
        return read_entries(self._log(piece.source, piece.dialect), piece.split, self.scope.query)


@lru_cache(maxsize=_PLANS)
def _plans(root: str, dialect: str, query: EntryQuery) -> Surveys:
    """The plans of queries; the next query reuses one as long as the directory does not change.

    Spark plans the queries of a session in one process.
    """
    return Surveys(lambda: Moment(Disk(), root))


class DirectoryReader(_Reader):
    """The other views: a task for each directory, or for some of a great many."""

    @told
    def partitions(self) -> list[InputPartition]:
        pieces = [SourceSplit(source, name) for source, name in self._directories()]
        size = -(-len(pieces) // _TASKS) or 1
        return [LogPartition(tuple(pieces[at : at + size])) for at in range(0, len(pieces), size)]

    def _batches(self, piece: SourceSplit) -> Iterable[pa.RecordBatch]:
        from flintlog.pipeline.views import directory_batches

        return directory_batches(self.options, self._log(piece.source, piece.dialect))


@cache
def settle() -> None:
    # Spark collects garbage after every task; what is imported by now need not be searched again.
    gc.freeze()


@contextmanager
def naming(source: str) -> Iterator[None]:
    """Add to an error the directory that it comes from."""
    try:
        yield
    except FlintlogError as error:
        error.add_note(f"flintlog: {error.code} in {source}")
        raise


def unasked(schema: pa.Schema, conditions: Sequence[Condition]) -> frozenset[str]:
    """The columns of entries that neither the schema nor a condition needs."""
    from flintlog.core.entries import COMMON_FIELDS

    asked = {*schema.names, *(condition.column.partition(".")[0] for condition in conditions)}
    return frozenset({*(field.name for field in COMMON_FIELDS), *dialect_names()} - asked)
