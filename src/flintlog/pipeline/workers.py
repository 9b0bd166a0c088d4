"""The tasks of a Spark session as `core.workers.Workers`.

A partition holds one item, so that Spark spreads, repeats and counts tasks as it likes. An item is its pickled bytes.
Only bytes travel: a shuffle moves a few large cells, whatever is packed in them.

A Flintlog error in a task is an answer (repeating the task would find the same damage): it comes back as a value and
is raised here. Any other error is Spark's to repeat.
"""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from flintlog.core.workers import TASK_BYTES, Exchange, Produce
from flintlog.errors import FlintlogError, UsageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

A = TypeVar("A")
R = TypeVar("R")

Batches = Iterator[pa.RecordBatch]

_SENT_BYTES_MAX = 1 << 20
_SHARES = 4  # of the items of one job, for each worker: a task costs some 30 ms of its own
_WAVE = 256  # items of one job; their results are in memory at the same time
_TASK_BYTES = "spark.flintlog.taskBytes"
_TASK_BYTES_MIN = 1 << 20
_FAILED = -1  # the number of a row that holds an error
_SCHEMA = pa.schema(
    [pa.field("number", pa.int64(), nullable=False), pa.field("data", pa.binary(), nullable=False)]
)
_COLUMNS = "number bigint not null, data binary not null"
_SETTINGS = {
    # Cells are large, so that rows say little about the size of a batch.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(32 << 20),
    # Partitions are what was asked for, however small they turn out to be.
    "spark.sql.adaptive.enabled": "false",
    # A plan of two nodes does not give back what it takes to compile it.
    "spark.sql.codegen.wholeStage": "false",
}


class SparkWorkers:
    """Work for the executors of a session."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.count = _slots(spark)
        self.task_bytes = _task_bytes(spark)

    def map(self, function: Callable[[A], R], items: Sequence[A]) -> Iterator[R]:
        """What a function gives for each item, in order."""
        for begin in range(0, len(items), _WAVE):
            some = items[begin : begin + _WAVE]
            with self._settings():
                found = self._each(some, _calling(function), _COLUMNS, _SHARES * self.count).toArrow()
            answers = _answers(found)
            for number in range(len(some)):
                yield answers[number]

    def exchange(self, produce: Produce[A], items: Sequence[A], buckets: int) -> Exchange:
        """Sort what `produce` gives into buckets, through the shuffle."""
        made = self._each(items, _producing(produce), _COLUMNS)
        # The rows of errors go to the first bucket.
        spread = made.selectExpr("number", "data", "cast(greatest(number, 0) as int) as bucket")
        return SparkExchange(self, spread.repartitionById(buckets, "bucket").select("number", "data"))

    def frame(
        self, function: Callable[[A], Iterator[pa.RecordBatch]], items: Sequence[A], schema: pa.Schema
    ) -> DataFrame:
        """The rows that a function gives for each item, as a DataFrame."""
        return self._each(items, _rows(function), _struct(schema))

    def _each(
        self,
        items: Sequence[A],
        make: Callable[[Batches], Batches],
        schema: str | StructType,
        most: int | None = None,
    ) -> DataFrame:
        """What `make` gives for each item, each in a partition of its own, or in `most` partitions."""
        packed = [pickle.dumps(item, protocol=5) for item in items]
        count = min(max(len(items), 1), most or len(items) or 1)
        if sum(map(len, packed)) <= _SENT_BYTES_MAX:  # they travel with the code, and nothing is shuffled
            numbers = self.spark.range(0, len(items), 1, count)
            return numbers.mapInArrow(_with_items(packed, make), schema)
        table = pa.table(
            [pa.array(range(len(items)), pa.int64()), pa.array(packed, pa.binary())], schema=_SCHEMA
        )
        given = self.spark.createDataFrame(table)
        parted = given.selectExpr(
            "number", "data", f"cast(number * {count} div {max(len(items), 1)} as int) as part"
        )
        return parted.repartitionById(count, "part").select("number", "data").mapInArrow(make, schema)

    @contextmanager
    def _settings(self) -> Iterator[None]:
        old = {name: self.spark.conf.get(name, None) for name in _SETTINGS}
        for name, value in _SETTINGS.items():
            self.spark.conf.set(name, value)
        try:
            yield
        finally:
            for name, before in old.items():
                if before is None:
                    self.spark.conf.unset(name)
                else:
                    self.spark.conf.set(name, before)


class SparkExchange:
    """The buckets of an exchange, made whenever something is asked of them."""

    def __init__(self, workers: SparkWorkers, made: DataFrame) -> None:
        self._workers = workers
        self._made = made

    def map(self, function: Callable[[int, Iterator[bytes]], R]) -> dict[int, R]:
        with self._workers._settings():
            return _answers(self._made.mapInArrow(_calling_on_bucket(function), _COLUMNS).toArrow())

    def frame(
        self, function: Callable[[int, Iterator[bytes]], Iterator[pa.RecordBatch]], schema: pa.Schema
    ) -> DataFrame:
        return self._made.mapInArrow(_rows_of_bucket(function), _struct(schema))


def _struct(schema: pa.Schema) -> StructType:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)


def _slots(spark: SparkSession) -> int:
    """How many tasks run at the same time, as far as one can tell from here."""
    try:
        return max(spark.sparkContext.defaultParallelism, 1)
    except Exception:  # Spark Connect does not tell
        return int(spark.conf.get("spark.sql.shuffle.partitions", "8") or 8)


def _task_bytes(spark: SparkSession) -> int:
    """What a task may hold, as the session says."""
    given = spark.conf.get(_TASK_BYTES, None)
    if given is None:
        return TASK_BYTES
    if not given.isdecimal() or int(given) < _TASK_BYTES_MIN:
        raise UsageError(
            f"{_TASK_BYTES} cannot be {given!r}", advice=f"Give bytes, at least {_TASK_BYTES_MIN}"
        )
    return int(given)


# In the tasks


def _answering(make: Callable[[Batches], Batches]) -> Callable[[Batches], Batches]:
    """A task whose Flintlog error becomes a row of its own."""

    def run(batches: Batches) -> Batches:
        _settle()
        try:
            yield from make(batches)
        except FlintlogError as error:
            yield _row(_FAILED, pickle.dumps(error))

    return run


def _with_items(packed: list[bytes], make: Callable[[Batches], Batches]) -> Callable[[Batches], Batches]:
    """A task that finds its items by their numbers."""

    def run(batches: Batches) -> Batches:
        numbers = (number for batch in batches for number in batch.column(0).to_pylist())
        return make(_row(number, packed[number]) for number in numbers)

    return run


def _calling(function: Callable[[A], R]) -> Callable[[Batches], Batches]:
    def run(batches: Batches) -> Batches:
        for number, data in _cells(batches):
            yield _row(number, pickle.dumps(function(pickle.loads(data)), protocol=5))

    return _answering(run)


def _calling_on_bucket(function: Callable[[int, Iterator[bytes]], R]) -> Callable[[Batches], Batches]:
    def run(batches: Batches) -> Batches:
        for number, pieces in _bucket(batches):
            yield _row(number, pickle.dumps(function(number, pieces), protocol=5))

    return _answering(run)


def _producing(produce: Produce[A]) -> Callable[[Batches], Batches]:
    def run(batches: Batches) -> Batches:
        for _, data in _cells(batches):
            for bucket, piece in produce(pickle.loads(data)):
                yield _row(bucket, piece)

    return _answering(run)


def _rows(function: Callable[[A], Iterator[pa.RecordBatch]]) -> Callable[[Batches], Batches]:
    def run(batches: Batches) -> Batches:
        _settle()
        for _, data in _cells(batches):
            yield from function(pickle.loads(data))

    return run


def _rows_of_bucket(
    function: Callable[[int, Iterator[bytes]], Iterator[pa.RecordBatch]],
) -> Callable[[Batches], Batches]:
    def run(batches: Batches) -> Batches:
        _settle()
        for number, pieces in _bucket(batches):
            yield from function(number, pieces)

    return run


def _cells(batches: Batches) -> Iterator[tuple[int, bytes]]:
    for batch in batches:
        for number, data in zip(batch.column(0), batch.column(1), strict=True):
            yield number.as_py(), data.as_buffer()


def _bucket(batches: Batches) -> Iterator[tuple[int, Iterator[bytes]]]:
    """The number of the one bucket in this partition, and its pieces; nothing when it is empty."""
    cells = _raising(_cells(batches))
    first = next(cells, None)
    if first is not None:
        number, piece = first
        yield number, _pieces(piece, cells)


def _raising(cells: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    for number, data in cells:
        if number == _FAILED:
            raise pickle.loads(data)
        yield number, data


def _pieces(first: bytes, cells: Iterator[tuple[int, bytes]]) -> Iterator[bytes]:
    yield first
    for _, piece in cells:
        yield piece


def _row(number: int, data: bytes) -> pa.RecordBatch:
    columns = [pa.array([number], pa.int64()), pa.array([data], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)


def _answers(found: pa.Table) -> dict[int, Any]:
    answers: dict[int, Any] = {}
    for number, data in zip(found.column(0), found.column(1), strict=True):
        value = pickle.loads(data.as_buffer())
        if number.as_py() == _FAILED:
            raise value
        answers[number.as_py()] = value
    return answers


@cache
def _settle() -> None:
    # Spark collects garbage after every task; what is imported by now need not be looked at again.
    gc.freeze()
