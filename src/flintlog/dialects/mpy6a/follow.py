"""Following a directory of sessions: the events of `operations.log`, by their state ids.

An event is durable when its checksum fits and the file was synced. A checkpoint puts a new log in the place of the old
one: events of the old log that were not delivered are lost. Only a follower that begins there gets the checkpoint's own
events (`base`, `open`). A `put` of several sessions takes as many state ids; the last of them is its position.
"""

from __future__ import annotations

import posixpath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from flintlog.core.dialect import NO_PAYLOAD, EntryQuery, Split
from flintlog.core.follow import Follower
from flintlog.core.log import Log
from flintlog.core.position import Position
from flintlog.core.sequence import Mark, SequenceFollower, mark_of
from flintlog.dialects.mpy6a import layout as lay
from flintlog.dialects.mpy6a import operations as ops
from flintlog.dialects.mpy6a import tables
from flintlog.dialects.mpy6a.files import list_files
from flintlog.errors import UnsupportedError

_PUT = tables.OPERATIONS[ops.PUT]
_HEAD_BYTES = 32  # the header and the state id of the checkpoint


class OperationFollower(SequenceFollower):
    """Follows the operation log."""

    counts = False

    def splits(self, query: EntryQuery) -> list[Split]:
        size = list_files(self._log.disk, self._log.root).known.get(lay.OPERATIONS_FILE)
        if size is None:
            raise UnsupportedError(
                "without an operation log nothing tells in which order sessions were written",
                file=self._log.root,
                advice="`flintlog dump`, and the views `entries` and `state`, read such a directory as it stands",
            )
        return [Split(lay.OPERATIONS_FILE, 0, size, 0, None)]

    def first_of(self, splits: list[Split]) -> Position | None:
        head = self._log.disk.read(posixpath.join(self._log.root, lay.OPERATIONS_FILE), _HEAD_BYTES)
        if len(head) < _HEAD_BYTES:
            return None
        return self.after(tuple(lay.read_state_id(head, lay.LOG_HEADER_SIZE)))

    def ids(self, batch: pa.RecordBatch) -> tuple[NDArray[Any], NDArray[Any]]:
        own = batch.column(self._log.dialect)
        term, index = (_words(own.field(name)) for name in ("term", "index"))
        puts = pc.equal(batch.column("operation"), _PUT)
        more = pc.if_else(puts, pc.subtract(own.field("number"), 1), 0).fill_null(0)
        return term, index + more.to_numpy(zero_copy_only=False).astype(np.uint64)

    def position(self, term: int, number: int) -> Position:
        return (term, number)

    def entry_at(self, splits: list[Split], position: Position) -> Mark | None:
        """The event with this last id; its first id, by which a query asks, may be lower."""
        query = EntryQuery(last=position, skip=NO_PAYLOAD)
        found = None
        for split in splits:
            for batch in self._log.read_split(split, query):
                terms, numbers = self.ids(batch)
                for row in np.flatnonzero((terms == position[0]) & (numbers == position[1])).tolist():
                    found = mark_of(self, batch, terms, numbers, row)
        return found


def follower(log: Log) -> Follower:
    """A follower of this log."""
    return OperationFollower(log)


def _words(column: pa.Array) -> NDArray[np.uint64]:
    """Decimals of 64 bits as numbers."""
    words = np.frombuffer(column.buffers()[1], np.uint64)
    return words[2 * column.offset : 2 * (column.offset + len(column)) : 2]
