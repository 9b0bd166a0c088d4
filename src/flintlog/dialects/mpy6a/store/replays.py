"""Many sessions that are due, as columns; they are ended together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from flintlog.columns.gather import gather
from flintlog.columns.payloads import Payloads
from flintlog.core import threads
from flintlog.core.lazy import lazy
from flintlog.dialects.mpy6a import batch, scan
from flintlog.dialects.mpy6a.layout import Record
from flintlog.dialects.mpy6a.operations import Place
from flintlog.dialects.mpy6a.store.errors import SessionFinishedError
from flintlog.dialects.mpy6a.windows import Piece
from flintlog.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from flintlog.dialects.mpy6a.store.session_store import SessionStore

RUN_BYTES_MAX = 4 << 20  # records of one operation


class Run:
    """Records back to back in one file that end the same way."""

    def __init__(self, piece: Piece, rows: NDArray[np.int64], delay: int) -> None:
        self._piece = piece
        self._rows = rows
        self.delay = delay
        records = piece.records
        first, last = rows[0], rows[-1]
        begin = int(records.offset[first])
        end = int(records.offset[last] + records.size[last])
        self.place = Place(piece.file.name, piece.base + begin, end - begin)

    def again(self, due: int) -> bytearray:
        """The records as they wait once more, with one attempt more."""
        records = self._piece.records[self._rows]
        payloads = Payloads(self._piece.buffer, records.data, records.length)
        return batch.encode(
            due, records.term, records.index, records.topic, records.attempts + np.uint64(1), payloads
        )


class Replays:
    """Sessions that are due, in the order of their replay. End them with `delete`, `store` or `finish`."""

    def __init__(self, store: SessionStore, pieces: list[Piece], order: NDArray[np.int64]) -> None:
        self._store = store
        self._pieces = pieces
        self._order = order  # rows of all pieces, counted one after the other
        self._ending = threads.lock()
        self._ended = False

    @lazy
    def _starts(self) -> NDArray[np.int64]:
        return np.cumsum([0, *(len(piece.records) for piece in self._pieces)])

    def __len__(self) -> int:
        return len(self._order)

    def rows(self) -> Iterator[tuple[Record, Place]]:
        """The records one by one, each with the place where it waits."""
        if len(self._pieces) == 1:
            piece = self._pieces[0]
            yield from ((piece.record(row), piece.place(row)) for row in self._order.tolist())
            return
        which = np.searchsorted(self._starts, self._order, side="right") - 1
        rows = self._order - self._starts[which]
        for at, row in zip(which.tolist(), rows.tolist(), strict=True):
            piece = self._pieces[at]
            yield piece.record(row), piece.place(row)

    def table(self) -> pa.Table:
        """replay_time, delay, term, index, topic, attempts, data."""
        import pyarrow as pa

        records = scan.Records.join([piece.records for piece in self._pieces])[self._order]
        which = np.repeat(np.arange(len(self._pieces)), np.diff(self._starts))[self._order]
        delays = np.array([piece.file.delay for piece in self._pieces], np.int64)
        arena, offsets = gather(
            [piece.buffer for piece in self._pieces], which.astype(np.int32), records.data, records.length
        )
        data = pa.Array.from_buffers(
            pa.large_binary(), len(records), [None, pa.py_buffer(offsets), pa.py_buffer(arena)]
        )
        return pa.table(
            {
                "replay_time": records.replay_time,
                "delay": delays[which],
                "term": records.term,
                "index": records.index,
                "topic": records.topic,
                "attempts": records.attempts,
                "data": data,
            }
        )

    def delete(self) -> None:
        """End all of them for good; durable on return."""
        self.finish(np.ones(len(self), np.bool_))

    def store(self, delay: int | None = None, *, now: float | None = None) -> None:
        """Let all of them wait again, each as long as its topic says, or `delay` seconds; durable on return."""
        self.finish(np.zeros(len(self), np.bool_), delay=delay, now=now)

    def finish(
        self,
        done: Sequence[bool] | NDArray[np.bool_],
        *,
        delay: int | None = None,
        now: float | None = None,
    ) -> None:
        """Delete those that are done and store the others again; durable on return.

        A crash meanwhile can leave some of them ended and others not, but none half ended.
        """
        mask = np.asarray(done, np.bool_)
        if mask.shape != (len(self),):
            raise UsageError(f"give one answer for each of {len(self)} sessions, not {mask.size}")
        with self._ending:
            if self._ended:
                raise SessionFinishedError("these sessions were deleted or stored already")
            self._store.end_many(list(self._runs(mask, delay)), now)
            self._ended = True

    def _runs(self, done: NDArray[np.bool_], delay: int | None) -> Iterator[Run]:
        """Runs of neighbours that end the same way; a delay of 0 means done."""
        way = np.full(int(self._starts[-1]), -1, np.int64)
        way[self._order] = np.where(done, 0, self._delays(delay) if not done.all() else 0)
        for at, piece in enumerate(self._pieces):
            records = piece.records
            mine = way[self._starts[at] : self._starts[at + 1]]
            rows = np.flatnonzero(mine >= 0)
            if not len(rows):
                continue
            end = records.offset + records.size
            held = (end[rows] - records.offset[rows[0]]) // RUN_BYTES_MAX
            breaks = 1 + np.flatnonzero(
                (end[rows[:-1]] != records.offset[rows[1:]])
                | (mine[rows[:-1]] != mine[rows[1:]])
                | (held[:-1] != held[1:])
            )
            for run in np.split(rows, breaks):
                yield Run(piece, run, int(mine[run[0]]))

    def _delays(self, delay: int | None) -> NDArray[np.int64]:
        topics = np.concatenate([piece.records.topic for piece in self._pieces])[self._order]
        known, which = np.unique(topics, return_inverse=True)
        return np.array([self._store.delay_of(int(topic), delay) for topic in known], np.int64)[which]
