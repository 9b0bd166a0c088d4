"""Work that is spread over many workers: threads of this process, or the tasks of a Spark cluster.

A dialect writes its large jobs against `Workers` and never learns who does the work. Functions and items are pickled; a
task returns little, or bytes.

A task may run twice, at the same time or later, and its result may be thrown away. So a task changes nothing but
scratch files, and there it writes the same bytes to the same places whenever it runs. The caller publishes, once, when
all of it is done.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from flintlog.disk import DEFERRED

if TYPE_CHECKING:
    import pyarrow as pa

A = TypeVar("A")
R = TypeVar("R")

Produce = Callable[[A], Iterator[tuple[int, bytes]]]

TASK_BYTES = 80 << 20
THREADS_MAX = 8
_THREADS_BYTES_MIN = 1 << 20  # below this, one thread is done before another has started


class Exchange(Protocol):
    """What tasks gave, sorted into buckets. A function is called for each bucket that got anything."""

    def map(self, function: Callable[[int, Iterator[bytes]], R]) -> dict[int, R]:
        """What a function gives for each bucket that is not empty."""

    def frame(
        self, function: Callable[[int, Iterator[bytes]], Iterator[pa.RecordBatch]], schema: pa.Schema
    ) -> Any:
        """The rows that a function gives for each bucket, as a table of the workers' own kind, made on demand."""


class Workers(Protocol):
    """Runs many tasks at a time."""

    count: int  # tasks that run at the same time
    task_bytes: int  # how much of what it sorts a task may hold

    def map(self, function: Callable[[A], R], items: Sequence[A]) -> Iterator[R]:
        """What a function gives for each item, in the order of the items."""

    def exchange(self, produce: Produce[A], items: Sequence[A], buckets: int) -> Exchange:
        """Sort what `produce` gives for each item into buckets, from worker to worker: nothing is written.

        The pieces of a bucket come in any order.
        """

    def frame(
        self, function: Callable[[A], Iterator[pa.RecordBatch]], items: Sequence[A], schema: pa.Schema
    ) -> Any:
        """The rows that a function gives for each item, as a table of the workers' own kind."""


class _Pool(ThreadPoolExecutor):
    def submit(self, fn: Callable[..., R], /, *args: Any, **kwargs: Any) -> Future[R]:
        with DEFERRED:  # an interrupt inside the start of a thread leaves half a thread
            return super().submit(fn, *args, **kwargs)


class _Here(Executor):
    """Does the work in the calling thread."""

    def submit(self, fn: Callable[..., R], /, *args: Any, **kwargs: Any) -> Future[R]:
        done: Future[R] = Future()
        try:
            found = fn(*args, **kwargs)
        except Exception as error:
            done.set_exception(error)
        else:
            done.set_result(found)
        return done


def threads_for(size: int) -> int:
    """How many threads are worth it for so many bytes."""
    return min(THREADS_MAX, os.cpu_count() or 1) if size >= _THREADS_BYTES_MIN else 1


@contextmanager
def threads(count: int) -> Iterator[Executor]:
    """An executor of some threads for a generator; for a count of 1 the calling thread.

    The end of the block does not wait for them: the garbage collector may close an abandoned generator inside the start
    of another thread, which holds a lock that waiting needs.
    """
    pool = _Here() if count == 1 else _Pool(count)
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


class Threads:
    """Workers of this process."""

    task_bytes = TASK_BYTES

    def __init__(self, count: int | None = None) -> None:
        self.count = count or min(THREADS_MAX, os.cpu_count() or 1)

    def map(self, function: Callable[[A], R], items: Sequence[A]) -> Iterator[R]:
        with threads(self.count) as pool:
            yield from pool.map(function, items)

    def exchange(self, produce: Produce[A], items: Sequence[A], buckets: int) -> Exchange:
        pieces: dict[int, list[bytes]] = defaultdict(list)
        for made in self.map(lambda item: list(produce(item)), items):
            for bucket, piece in made:
                assert 0 <= bucket < buckets
                pieces[bucket].append(piece)
        return _Held(self, pieces)

    def frame(
        self, function: Callable[[A], Iterator[pa.RecordBatch]], items: Sequence[A], schema: pa.Schema
    ) -> pa.Table:
        return _table(self.map(lambda item: list(function(item)), items), schema)


class _Held:
    """The buckets of an exchange in memory."""

    def __init__(self, workers: Threads, buckets: dict[int, list[bytes]]) -> None:
        self._workers = workers
        self._buckets = buckets

    def map(self, function: Callable[[int, Iterator[bytes]], R]) -> dict[int, R]:
        names = sorted(self._buckets)
        done = self._workers.map(lambda name: function(name, iter(self._buckets[name])), names)
        return dict(zip(names, done, strict=True))

    def frame(
        self, function: Callable[[int, Iterator[bytes]], Iterator[pa.RecordBatch]], schema: pa.Schema
    ) -> pa.Table:
        return _table(self.map(lambda bucket, pieces: list(function(bucket, pieces))).values(), schema)


def _table(parts: Iterable[list[pa.RecordBatch]], schema: pa.Schema) -> pa.Table:
    import pyarrow as pa

    return pa.Table.from_batches((batch for part in parts for batch in part), schema=schema)
