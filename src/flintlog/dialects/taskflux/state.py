"""What replay begins with and returns: queues with pointers to their records. Also how to read a snapshot.

It never reads payloads; a pointer gives the file and the offset of one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flintlog.columns.compile import be32, be64, kernel
from flintlog.columns.table import Columns
from flintlog.core.finding import Finding
from flintlog.dialects.taskflux import layout as lay
from flintlog.dialects.taskflux.layout import QueueSpec
from flintlog.dialects.taskflux.scan import Records
from flintlog.errors import DamageError

Ints = NDArray[np.int64]
Ids = NDArray[np.uint64]

_RECORD_HEAD = lay.STATE_RECORD.size
_KEY_AT, _LENGTH_AT = lay.STATE_RECORD.offset("key"), lay.STATE_RECORD.offset("payload length")
_PLACES_MAX = 1 << 16


@dataclass(frozen=True, slots=True)
class Source:
    """A file with payloads, and the records read from it; `first` is the LSN of the first one."""

    name: str
    buffer: memoryview
    records: Records
    first: int


@dataclass(frozen=True, slots=True)
class Pointers(Columns):
    """Records of a queue in dequeue order; `source` counts into the sources of the state, -1 is the snapshot."""

    id: Ids
    key: Ints
    source: NDArray[np.int32]
    payload: Ints
    payload_length: Ints


@dataclass(frozen=True, slots=True)
class QueueState:
    """One queue with its live records."""

    spec: QueueSpec
    last_id: int
    records: Pointers

    @property
    def first_id(self) -> int:
        """The lowest id that a removal may name: 1, because ids count from there, or 0 where the snapshot holds it."""
        return int(self.records.id.min(initial=np.uint64(1)))


@dataclass(frozen=True, slots=True)
class State:
    """The queues, by name, after the entry `index`; their payloads are in `snapshot` and `sources`."""

    index: int
    term: int
    queues: tuple[QueueState, ...]
    snapshot: memoryview
    sources: tuple[Source, ...]
    notes: tuple[Finding, ...] = ()  # odd entries with one clear meaning

    @property
    def record_count(self) -> int:
        return sum(len(queue.records) for queue in self.queues)


@dataclass(frozen=True, slots=True)
class Base:
    """What replay begins with: the queues of a snapshot, or only the default queue."""

    index: int = lay.LSN_NONE
    term: int = lay.TERM_FIRST
    queues: tuple[QueueState, ...] = field(
        default_factory=lambda: (QueueState(QueueSpec(lay.DEFAULT_QUEUE), 0, Pointers.join([])),)
    )
    buffer: memoryview = field(default_factory=lambda: memoryview(b""))


@kernel
def _snapshot_records(buffer: Any, at: int, size: int, id_: Any, key: Any, payload: Any, length: Any) -> int:
    """Read len(id_) records; the offset behind them, or -1 when the state ends inside one."""
    for index in range(len(id_)):
        if size - at < _RECORD_HEAD:
            return -1
        id_[index] = be64(buffer, at)
        key[index] = be64(buffer, at + _KEY_AT)
        count = be32(buffer, at + _LENGTH_AT)
        at += _RECORD_HEAD
        if count > size - at:
            return -1
        payload[index] = at
        length[index] = count
        at += count
    return at


def read_base(buffer: memoryview, start: int, end: int, index: int, term: int) -> Base:
    """The queues in a snapshot file, whose state is from `start` to `end`; offsets count from the file's beginning."""
    if end - start < 4:
        raise DamageError("the snapshot holds no state", code="snapshot-short", offset=start)
    count = int.from_bytes(buffer[start : start + 4], "big", signed=True)
    at = start + 4
    queues: dict[str, QueueState] = {}
    body = buffer[:end]
    for _ in range(count):  # a wrong count gives an error at the end of the state
        spec, last_id, record_count, at = lay.decode_queue_header(body, at)
        if spec.name in queues:
            raise DamageError(f"the snapshot holds queue {spec.name!r} twice", code="snapshot-queue-twice")
        records, at = _read_pointers(body, at, record_count)
        last_id = max(last_id, int(records.id.max(initial=np.uint64(0))))
        order = np.argsort(records.key, kind="stable")  # the file's order is the order among equal keys
        queues[spec.name] = QueueState(spec, last_id, records[order])
    if lay.DEFAULT_QUEUE not in queues:
        raise DamageError("the snapshot has no default queue", code="snapshot-no-default")
    return Base(index, term, tuple(queues.values()), buffer)


def record_places(body: memoryview, at: int, count: int) -> tuple[Ints, Ints, int]:
    """Where the payloads of up to `count` records from `at` on begin and end, and the offset behind the records.

    Gives fewer than `count` when the state ends inside one, or when there are very many.
    """
    count = min(count, (len(body) - at) // _RECORD_HEAD, _PLACES_MAX)
    begin = at
    while True:
        ids, keys, payloads, lengths = (np.empty(count, np.int64) for _ in range(4))
        at = _snapshot_records.run(len(body) - begin, body, begin, len(body), ids, keys, payloads, lengths)
        if at >= 0:
            return payloads, payloads + lengths, at
        count //= 2


def _read_pointers(body: memoryview, at: int, count: int) -> tuple[Pointers, int]:
    if count > (len(body) - at) // _RECORD_HEAD:
        raise DamageError(f"the snapshot ends before {count} records", code="snapshot-short", offset=at)
    ids, keys, payloads, lengths = (np.empty(count, np.int64) for _ in range(4))
    begin = at
    at = _snapshot_records.run(len(body) - begin, body, begin, len(body), ids, keys, payloads, lengths)
    if at < 0:
        raise DamageError("the snapshot ends inside a record", code="snapshot-short", offset=begin)
    ordered = np.sort(ids)
    if np.any(ordered[1:] == ordered[:-1]):
        raise DamageError("the snapshot holds a record id twice", code="snapshot-id", offset=begin)
    return Pointers(ids.view(np.uint64), keys, np.full(count, -1, np.int32), payloads, lengths), at
