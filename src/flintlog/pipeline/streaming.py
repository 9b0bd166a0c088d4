"""`spark.readStream.format("flintlog")`: follows live logs.

Spark keeps an offset for each micro-batch, and this module gives it: for each directory the place up to which
everything was delivered (`flintlog.core.follow`). All knowledge about logs is there; here it only meets Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from flintlog.core.dialect import EntryQuery
from flintlog.core.follow import Cursor, Delivery, Follower, Limits, beginning
from flintlog.core.log import open_log
from flintlog.errors import UsageError
from flintlog.pipeline.options import ReadOptions, local_path
from flintlog.pipeline.source import naming, settle, with_source
from flintlog.pipeline.stream_options import StreamOptions

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
    """The reader of a stream; what only a batch can do is refused."""
    if read.view != "entries":
        raise UsageError(f"option view: {read.view!r} is no stream", advice="A stream has the view entries")
    for name, value in (("from", read.query.first), ("to", read.query.last)):
        if value is not None:
            raise UsageError(
                f"option {name}: a stream has none", advice="Its checkpoint says where it stands"
            )
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
        self._ends = False  # Trigger.AvailableNow: what comes later is not for this run
        self._targets: dict[str, Cursor] = {}

    # Offsets

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        places = {source: beginning() for source in self._read.sources}
        if self._stream.start == "latest":
            places = {source: self._advance(source, place, Limits()) for source, place in places.items()}
        return _offset(places)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        # Spark knows one limit at a time; that it hands back one of ours says that both hold.
        if self._stream.max_entries is not None:
            return ReadMaxRows(self._stream.max_entries)
        if self._stream.max_bytes is not None:
            return ReadMaxBytes(self._stream.max_bytes)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._ends = True

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 - Spark's name
        places = self._places(start)
        if self._ends and not self._targets:
            self._targets = {
                source: self._advance(source, place, Limits()) for source, place in places.items()
            }
        share = self._share(limit, len(places))
        return _offset(
            {
                source: self._advance(
                    source, place, Limits(share.entries, share.bytes, self._targets.get(source))
                )
                for source, place in places.items()
            }
        )

    def _share(self, limit: ReadLimit, sources: int) -> Limits:
        """What each of the directories may deliver in one batch."""
        if isinstance(limit, ReadAllAvailable):
            return Limits()
        entries, size = self._stream.max_entries, self._stream.max_bytes
        return Limits(
            None if entries is None else max(entries // sources, 1),
            None if size is None else max(size // sources, 1),
        )

    def _places(self, offset: Offset) -> dict[str, Cursor]:
        """The place of each directory; one that is new begins."""
        if offset.get("version") != _VERSION:
            raise UsageError(f"the checkpoint has version {offset.get('version')!r} of our offsets, not 1")
        known: dict[str, Cursor] = offset["sources"]
        for source in known:
            if source not in self._read.sources:
                raise UsageError(
                    f"the checkpoint follows {source}, which the query does not load",
                    advice="Load it too, or begin with a new checkpoint",
                )
        return {source: known.get(source, beginning()) for source in self._read.sources}

    def _advance(self, source: str, place: Cursor, limits: Limits) -> Cursor:
        with naming(source):
            return self._follower(source).advance(place, limits, self._stream.on_loss)

    def _follower(self, source: str) -> Follower:
        if source not in self._followers:
            self._followers[source] = self._open(source)
        return self._followers[source]

    def _open(self, source: str) -> Follower:
        return open_log(local_path(source), speaking=self._read.dialect).follower()

    # Rows

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        before, after = self._places(start), self._places(end)
        query = EntryQuery(payload=self._read.query.payload and "payload" in self._schema.names)
        planned: list[InputPartition] = []
        for source in self._read.sources:
            with naming(source):
                deliveries = self._follower(source).deliveries(
                    before[source], after[source], query, self._stream.on_loss
                )
            planned += [PiecePartition(source, delivery) for delivery in deliveries]
        return planned

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, PiecePartition):
            return  # nothing was planned; Spark then makes up a partition of its own
        settle()
        source = partition.source
        with naming(source):
            for batch in self._open(source).read(partition.delivery):
                yield with_source(batch, source, self._schema)


def _offset(places: dict[str, Cursor]) -> Offset:
    return {"version": _VERSION, "sources": places}
