"""`spark.readStream.format("flintlog")`: follows live logs.

Spark keeps an offset for each micro-batch. Here an offset is a cursor for each directory (`flintlog.core.follow`), up
to which everything was delivered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from flintlog.core.dialect import EntryQuery, skipping
from flintlog.core.follow import Cursor, Delivery, Follower, Limits, beginning
from flintlog.errors import UsageError
from flintlog.pipeline.options import ReadOptions
from flintlog.pipeline.paths import at_once, open_at
from flintlog.pipeline.source import naming, settle
from flintlog.pipeline.stream_options import StreamOptions
from flintlog.pipeline.telling import told

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError as error:  # PySpark 4.1
    raise UsageError("streams need PySpark 4.2 or newer", advice="pip install 'pyspark>=4.2'") from error

if TYPE_CHECKING:
    import pyarrow as pa

_VERSION = 1
Offset = dict[str, Any]


def stream_reader(read: ReadOptions, stream: StreamOptions, schema: pa.Schema) -> EntriesStreamReader:
    """The reader of a stream; raises for options that only a batch has."""
    if read.view != "entries":
        raise UsageError(f"option view: {read.view!r} is no stream", advice="A stream has the view entries")
    for name, value in (("from", read.query.first), ("to", read.query.last)):
        if value is not None:
            raise UsageError(
                f"option {name}: a stream has none", advice="Its checkpoint says where it stands"
            )
    if read.where:
        raise UsageError("option where: a stream has none", advice="Filter the frame of the stream")
    return EntriesStreamReader(read, stream, schema)


class PiecePartition(InputPartition):
    """What one task reads: a delivery of one directory."""

    def __init__(self, source: str, delivery: Delivery) -> None:
        super().__init__((source, delivery))
        self.source = source
        self.delivery = delivery


class EntriesStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The durable entries of live directories, each once."""

    def __init__(self, read: ReadOptions, stream: StreamOptions, schema: pa.Schema) -> None:
        self._read = read
        self._stream = stream
        self._schema = schema
        self._followers: dict[str, Follower] = {}
        self._ends = False  # Trigger.AvailableNow: this run leaves out what comes later
        self._targets: dict[str, Cursor] = {}

    # Offsets

    @told
    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        places = {source: beginning() for source in self._read.sources}
        return _offset(self._step(places, Limits()) if self._stream.start == "latest" else places)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        # Spark knows only one limit; when it hands back one of ours, both apply.
        if self._stream.max_entries is not None:
            return ReadMaxRows(self._stream.max_entries)
        if self._stream.max_bytes is not None:
            return ReadMaxBytes(self._stream.max_bytes)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._ends = True

    @told
    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 - Spark's name
        places = self._places(start)
        if self._ends and not self._targets:
            self._targets = self._step(places, Limits())
        return _offset(self._step(places, self._share(limit, len(places))))

    def _share(self, limit: ReadLimit, sources: int) -> Limits:
        """How much each directory may deliver in one batch."""
        if isinstance(limit, ReadAllAvailable):
            return Limits()
        entries, size = self._stream.max_entries, self._stream.max_bytes
        return Limits(
            None if entries is None else max(entries // sources, 1),
            None if size is None else max(size // sources, 1),
        )

    def _places(self, offset: Offset) -> dict[str, Cursor]:
        """The cursor of each directory; a new one begins."""
        if offset.get("version") != _VERSION:
            raise UsageError(
                f"the checkpoint has version {offset.get('version')!r} of our offsets, not {_VERSION}",
                advice="Go on with the release that wrote it, or begin with a new checkpoint",
            )
        known: dict[str, Cursor] = offset["sources"]
        for source in known:
            if source not in self._read.sources:
                raise UsageError(
                    f"the checkpoint follows {source}, which the query does not load",
                    advice="Load it too, or begin with a new checkpoint",
                )
        return {source: known.get(source, beginning()) for source in self._read.sources}

    def _step(self, places: dict[str, Cursor], limits: Limits) -> dict[str, Cursor]:
        """The next cursor of each directory."""

        def advance(source: str) -> Cursor:
            until = replace(limits, until=self._targets.get(source))
            with naming(source):
                return self._follower(source).advance(places[source], until, self._stream.on_loss)

        return dict(zip(places, at_once(advance, list(places), places), strict=True))

    def _follower(self, source: str) -> Follower:
        if source not in self._followers:
            self._followers[source] = self._open(source)
        return self._followers[source]

    def _open(self, source: str) -> Follower:
        return open_at(source, self._read.storage, self._read.dialect_of(source)).follower()

    # Rows

    @told
    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        before, after = self._places(start), self._places(end)
        payload = self._read.query.payload and "payload" in self._schema.names
        query = EntryQuery(skip=skipping(payload=payload))

        def plan(source: str) -> list[InputPartition]:
            with naming(source):
                deliveries = self._follower(source).deliveries(
                    before[source], after[source], query, self._stream.on_loss
                )
            return [PiecePartition(source, delivery) for delivery in deliveries]

        planned = at_once(plan, self._read.sources, self._read.sources)
        return [piece for pieces in planned for piece in pieces]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, PiecePartition):
            return  # when nothing is planned, Spark makes up a partition
        from flintlog.pipeline.views import Shape

        settle()
        source = partition.source
        shape = Shape(self._read, self._schema)
        with naming(source):
            for batch in self._open(source).read(partition.delivery):
                yield from shape.of(batch, source)


def _offset(places: dict[str, Cursor]) -> Offset:
    return {"version": _VERSION, "sources": places}
