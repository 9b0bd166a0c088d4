"""The data source `flintlog` as a sink: `df.write.format("flintlog")`, and the same of a stream.

Tasks stage their rows beside the log, and the driver makes all of them count by one commit (`core/load.py`). Spark runs
writers in several Python processes, so a writer holds only plain data, and messages carry what the commit needs.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from flintlog.core.dialect import detect, dialect
from flintlog.core.load import Batch, Plan, Staged, check_columns, new_job, staged_name, sweep
from flintlog.disk import Disk
from flintlog.errors import FlintlogError, RefusedError, UsageError
from flintlog.pipeline.options import EDITIONS, choice, flag
from flintlog.pipeline.paths import is_pattern, local_path
from flintlog.pipeline.source import settle
from flintlog.pipeline.telling import told

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructField, StructType

_COMMON = ("path", "dialect", "edition")
_OF_A_BATCH = ("stream", "batch")
_OF_SPARK = ("checkpointlocation",)  # options that Spark adds for a stream
_QUERY = "sql.streaming.queryId"  # Spark's lasting id of a stream
_NUMBER_MAX = 2**63 - 1
Edition = Literal["designed", "shipped"]
_log = logging.getLogger("flintlog.spark")


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """One write, fully decided. Plain data, so that tasks can have it."""

    path: str
    dialect: str
    edition: Edition | None
    flags: tuple[tuple[str, bool], ...]
    stream: str | None
    batch: int | None

    @property
    def room(self) -> Any:
        """The room that loads the dialect."""
        return load_room(self.dialect)

    def plan(self) -> Plan:
        made: Plan = self.room.plan(Disk(), self.path, self.edition, **dict(self.flags))
        return made


def load_room(name: str) -> Any:
    """The room that loads this dialect; raises for a dialect that cannot be loaded."""
    spoken = dialect(name)
    if spoken.not_loaded is not None:
        why, instead = spoken.not_loaded
        raise RefusedError(f"Spark cannot write a log of {name}: {why}", advice=instead)
    return spoken.room("store.load")


def write_options(given: Mapping[str, str], *, streams: bool = False) -> WriteOptions:
    """The options of a write; a `UsageError` names the first wrong one."""
    values = {name.lower(): value for name, value in given.items()}
    path = _path(values)
    name = dialect(values["dialect"].lower()).name if "dialect" in values else _dialect_at(path)
    words: tuple[str, ...] = load_room(name).OPTIONS
    known = (*_COMMON, *words, *(() if streams else _OF_A_BATCH))
    for word in values:
        if word not in known and not (streams and word in _OF_SPARK):
            kind = "stream" if streams else "write"
            raise UsageError(
                f"option {word}: a {kind} to a {name} log has no such option",
                advice=f"It has {', '.join(known)}",
            )
    if ("stream" in values) != ("batch" in values):
        raise UsageError(
            "the options stream and batch belong together",
            advice="Give the name that all batches share, and the number of this one",
        )
    return WriteOptions(
        path,
        name,
        _edition(values),
        tuple((word, flag(values, word, otherwise=False)) for word in words),
        values.get("stream"),
        _number(values["batch"]) if "batch" in values else None,
    )


def _edition(values: Mapping[str, str]) -> Edition | None:
    if "edition" not in values:
        return None
    return "designed" if choice(values, "edition", EDITIONS) == "designed" else "shipped"


def _path(values: Mapping[str, str]) -> str:
    if "path" not in values:
        raise UsageError(
            "no directory was named", advice="Name the log directory: save(path), or start(path)"
        )
    if is_pattern(values["path"]) and not Disk().is_directory(local_path(values["path"])):
        raise UsageError(f"{values['path']!r} is a pattern", advice="Name the one directory to write to")
    return local_path(values["path"])


def _dialect_at(path: str) -> str:
    if not Disk().list(path):
        raise UsageError(
            f"there is no log in {path} yet",
            advice="Set the option dialect to taskflux or limestone, and the log is made there",
        )
    return detect(Disk(), path).name


def _number(text: str) -> int:
    if not text.isdecimal() or int(text) > _NUMBER_MAX:
        raise UsageError(f"option batch: {text!r} is not a number", advice="Give a whole number from 0 on")
    return int(text)


def _arrow_schema(schema: StructType) -> pa.Schema:
    """The columns of a frame. The time zone of timestamps does not matter here."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_type
    from pyspark.sql.types import AtomicType, TimestampType

    def kind(field: StructField) -> pa.DataType:
        if isinstance(field.dataType, TimestampType):
            return pa.timestamp("us", "UTC")
        return to_arrow_type(field.dataType) if isinstance(field.dataType, AtomicType) else pa.struct([])

    return pa.schema([pa.field(field.name, kind(field)) for field in schema])


@dataclass(frozen=True)
class Message(WriterCommitMessage):
    """What a task tells the driver."""

    staged: Staged
    stream: str | None  # Spark's id of the query


class _Writer:
    """What both writers share. The names of staged files begin with `job`."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        check_columns(_arrow_schema(schema), options.room.COLUMNS, options.dialect)
        self._options = options
        self._plan = options.plan()
        self._job = new_job()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Message:
        settle()
        context = TaskContext.get()
        part = 0 if context is None else context.partitionId()
        query = None if context is None else context.getLocalProperty(_QUERY)
        place = staged_name(self._plan, self._job_of(query))
        return Message(self._options.room.stage(Disk(), self._plan, place, part, iterator), query)

    def _job_of(self, query: str | None) -> str:
        """The job of a write. All batches of a stream have the same, so a commit removes what failed batches staged."""
        return self._job if query is None else hashlib.sha256(query.encode()).hexdigest()[:32]

    def _commit(self, messages: list[Message | None], batch: Batch | None, query: str | None) -> None:
        staged = [message.staged for message in messages if message is not None]
        if any(piece.rows for piece in staged) or (batch is not None and query is None):
            is_new = self._options.room.commit(Disk(), self._plan, staged, batch)
            if not is_new:
                _log.warning("%s: %s counts already; nothing was added", self._options.path, batch)
        self._sweep(query)

    def _sweep(self, query: str | None) -> None:
        try:
            sweep(Disk(), self._plan.scratch, self._job_of(query))
        except FlintlogError as error:
            _log.warning("staged files stay in %s: %s", self._plan.scratch, error)


class LogWriter(_Writer, DataSourceArrowWriter):
    """`df.write`: all rows of a frame, or none."""

    @told
    def commit(self, messages: list[Message | None]) -> None:  # type: ignore[override]
        stream, number = self._options.stream, self._options.batch
        self._commit(messages, None if stream is None or number is None else Batch(stream, number), None)

    def abort(self, messages: list[Message | None]) -> None:  # type: ignore[override]
        self._sweep(None)


class LogStreamWriter(_Writer, DataSourceStreamArrowWriter):
    """`df.writeStream`: each micro-batch once, also when Spark hands it over again."""

    @told
    def commit(self, messages: list[Message | None], batchId: int) -> None:  # type: ignore[override]  # noqa: N803
        query = next((message.stream for message in messages if message is not None), None)
        self._commit(messages, None if query is None else Batch(query, batchId), query)

    def abort(self, messages: list[Message | None], batchId: int) -> None:  # type: ignore[override]  # noqa: N803
        query = next((message.stream for message in messages if message is not None), None)
        if query is not None:
            self._sweep(query)


def refuse_overwriting(given: Mapping[str, str], *, streams: bool = False) -> NoReturn:
    """Raise for a mode that would replace a log: rows are only added."""
    raise RefusedError(
        "a log is added to, and never replaced",
        file=given.get("path"),
        advice='Use outputMode("append") or outputMode("update")'
        if streams
        else 'Use mode("append"); to begin anew, name another directory',
    )
