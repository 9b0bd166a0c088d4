"""Loading queues from many tasks: each stages whole records, and one new segment makes all of them count.

The segment is written in the scratch directory, in the order of the rows, and is durable before it gets its name behind
the newest segment. That name is the commit. Ids follow from the order of the entries, as always.

A batch of a stream leaves a mark in the same segment: a record of the queue `BATCHES` that says how far the stream is.
"""

from __future__ import annotations

import json
import posixpath
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flintlog.columns.gather import gather, offsets_of
from flintlog.columns.strings import repeated
from flintlog.core.load import PLAN_WAIT_SECONDS, WAIT_SECONDS, Batch, Column, Staged, refuse_gone, rows_of
from flintlog.dialects.taskflux import batch as encoding
from flintlog.dialects.taskflux import files
from flintlog.dialects.taskflux import layout as lay
from flintlog.dialects.taskflux.batch import Blob, Ints
from flintlog.dialects.taskflux.layout import Layout, QueueSpec
from flintlog.dialects.taskflux.state import QueueState, State
from flintlog.dialects.taskflux.store.engine import Engine, open_queues
from flintlog.dialects.taskflux.store.opening import opening_of
from flintlog.dialects.taskflux.store.queue import admit, missing
from flintlog.dialects.taskflux.store.queue_store import QueueStore
from flintlog.disk import Disk, File, take_lock
from flintlog.errors import RefusedError, UsageError

BATCHES = "flintlog.batches"  # the queue of the marks
COLUMNS = (
    Column("queue", pa.string(), "the queue; without the column the default queue", required=False),
    Column("key", pa.int64(), "the key, lowest first; without the column 0", required=False),
    Column("payload", pa.binary(), "the payload"),
    Column(
        "order",
        pa.int64(),
        "records are added in its order; without it task by task, each in the order of its rows",
        required=False,
    ),
)
OPTIONS = ("create_queues",)
_SEGMENT = "load.segment"
_CHUNK_BYTES = 32 << 20
_ROWS_SHIFT = 40  # the row within its task; the bits above are the task


@dataclass(frozen=True, slots=True)
class Plan:
    """Where to load, and whether to create missing queues."""

    path: str
    data: str
    layout: Layout
    create_queues: bool

    @property
    def scratch(self) -> str:
        return posixpath.join(self.data, self.layout.scratch)


class Added(NamedTuple):
    """What a task has for one queue."""

    rows: int
    key_low: int
    key_high: int
    payload_size: int

    def joined(self, other: Added) -> Added:
        return Added(
            self.rows + other.rows,
            min(self.key_low, other.key_low),
            max(self.key_high, other.key_high),
            max(self.payload_size, other.payload_size),
        )


@dataclass(frozen=True, slots=True)
class StagedRecords(Staged):
    """The staged records of a task: their bytes, then where each ends, then its number in the order of the rows."""

    queues: Mapping[str, Added] = field(default_factory=dict)


def plan(disk: Disk, path: str, edition: str | None, *, create_queues: bool = False) -> Plan:
    """Create the directory if there is none; refuse one that another process writes to."""
    data = opening_of(disk, path, edition=edition).data
    metadata = posixpath.join(data, lay.METADATA_FILE)
    if disk.stat(metadata) is None:
        QueueStore(path, edition=edition, disk=disk).close()
    files.list_files(disk, data)  # refuses a link in the place of a directory of the log
    layout = files.layout_at(disk, data)
    if edition is not None and lay.layout_of(edition) is not layout:
        raise RefusedError(
            f"this directory is of the {layout.edition} edition, not {edition}",
            file=data,
            advice="Leave the option edition out",
        )
    take_lock(disk, metadata, "write", data, PLAN_WAIT_SECONDS).close()
    made = Plan(disk.resolve(path), data, layout, create_queues)
    disk.make_passing_directory(made.scratch)
    return made


# In a task


def stage(disk: Disk, plan: Plan, place: str, part: int, batches: Iterable[pa.RecordBatch]) -> StagedRecords:
    """Write the rows of a task as records, which the commit puts in order."""
    queues: dict[str, Added] = {}
    lengths: list[Ints] = []
    orders: list[Ints] = []
    size = count = checksum = 0
    with disk.create_scratch(place) as file:
        file.be_like(disk.stat(posixpath.join(plan.data, lay.METADATA_FILE)))
        for row in rows_of(batches, COLUMNS):
            order = _order(row.get("order"), part, count, len(row["payload"]))
            count += len(order)
            for name, blob, added, rows in _by_queue(plan.layout, row):
                assert blob.ends is not None
                file.pwrite(blob.data, size)
                checksum = zlib.crc32(blob.data, checksum)
                size += len(blob.data)
                lengths.append(np.diff(blob.ends, prepend=0))
                orders.append(order[rows])
                queues[name] = queues[name].joined(added) if name in queues else added
        behind = b"".join(
            np.concatenate([[0], *some]).astype("<i8")[1:].tobytes() for some in (lengths, orders)
        )
        file.pwrite(behind, size)  # not synced: the commit copies it, and checks the checksum
    return StagedRecords(part, place, count, size + len(behind), zlib.crc32(behind, checksum), queues)


def _order(given: pa.Array | None, part: int, done: int, rows: int) -> Ints:
    if given is None:
        return np.arange(done, done + rows, dtype=np.int64) + (part << _ROWS_SHIFT)
    found: Ints = given.to_numpy()
    return found


def _by_queue(layout: Layout, row: Mapping[str, pa.Array]) -> Iterator[tuple[str, Blob, Added, Ints | slice]]:
    """The records of each queue, and which rows they are."""
    payload = row["payload"]
    queue, key = row.get("queue"), row.get("key")
    names = (repeated("", len(payload)) if queue is None else queue).dictionary_encode()
    keys = np.zeros(len(payload), np.int64) if key is None else key.to_numpy()
    for at, name in enumerate(names.dictionary.to_pylist()):
        lay.check_name(name)
        rows = slice(None) if len(names.dictionary) == 1 else np.flatnonzero(names.indices.to_numpy() == at)
        some = payload if isinstance(rows, slice) else payload.take(pa.array(rows))
        arena, offsets = encoding.payload_column(some)
        mine = np.ascontiguousarray(keys[rows])
        blob = encoding.adds(layout, lay.TERM_FIRST, lay.add_prefix(name), mine, arena, offsets)
        longest = pc.max(pc.binary_length(some)).as_py()
        yield name, blob, Added(len(mine), int(mine.min()), int(mine.max()), longest), rows


# On the driver


def commit(disk: Disk, plan: Plan, pieces: Sequence[StagedRecords], batch: Batch | None) -> bool:
    """Add the records of these tasks, all or none; durable on return. False where the batch is there already."""
    refuse_gone(disk, pieces)
    engine, state, term = open_queues(
        disk, opening_of(disk, plan.path, wait=WAIT_SECONDS), on_stop=lambda: None
    )
    try:
        if engine.layout is not plan.layout:
            raise RefusedError(
                f"this directory is of the {engine.layout.edition} edition now",
                file=plan.data,
                advice="Nothing of the batch counts; write it again",
            )
        known = {queue.spec.name: queue for queue in state.queues}
        heads, tails = _changes(plan, known, state, pieces, batch)
        if heads is None:
            return False
        count = sum(piece.rows for piece in pieces)
        if engine.log.last + count + len(heads) + len(tails) > lay.LSN_MAX:
            raise RefusedError(f"the log is full: {lay.LSN_MAX} is the last LSN", file=plan.data)
        if heads or tails or count:
            _add(engine, term, pieces, heads, tails)
        return True
    finally:
        engine.close()


def _changes(
    plan: Plan,
    known: Mapping[str, QueueState],
    state: State,
    pieces: Sequence[StagedRecords],
    batch: Batch | None,
) -> tuple[list[bytes] | None, list[bytes]]:
    """The changes before and behind the records: new queues, a mark. None: the batch is there already."""
    heads: list[bytes] = []
    tails: list[bytes] = []
    if batch is not None:
        marks = _marks(state, known.get(BATCHES))
        old = marks.get(batch.stream)
        if old is not None and old.number >= batch.number:
            return None, []
        if BATCHES not in known:
            tails.append(lay.encode_delta(lay.CreateQueue(QueueSpec(BATCHES))))
        if old is not None:
            tails.append(lay.encode_delta(lay.RemoveRecord(BATCHES, old.id)))
        text = json.dumps({"stream": batch.stream, "batch": batch.number}).encode()
        tails.append(lay.encode_delta(lay.AddRecord(BATCHES, 0, text)))
    for name, added in _joined(pieces).items():
        queue = known.get(name)
        if queue is None and not plan.create_queues:
            error = missing(name)
            error.advice = "Make it with `QueueStore.create`, or set the option create_queues to true"
            raise error
        if queue is None:
            heads.append(lay.encode_delta(lay.CreateQueue(QueueSpec(name))))
        spec, waiting, last = (QueueSpec(name), 0, 0) if queue is None else _of(queue)
        admit(spec, waiting, last, *added)
    return heads, tails


def _of(queue: QueueState) -> tuple[QueueSpec, int, int]:
    return queue.spec, len(queue.records), queue.last_id


def _joined(pieces: Sequence[StagedRecords]) -> dict[str, Added]:
    found: dict[str, Added] = {}
    for piece in pieces:
        for name, added in piece.queues.items():
            found[name] = found[name].joined(added) if name in found else added
    if BATCHES in found:
        raise UsageError(f"the queue {BATCHES!r} holds the marks of loads", advice="Name another queue")
    return dict(sorted(found.items()))


class _Mark(NamedTuple):
    number: int
    id: int


def _marks(state: State, queue: QueueState | None) -> dict[str, _Mark]:
    """The last batch of each stream."""
    found: dict[str, _Mark] = {}
    if queue is None:
        return found
    records = queue.records
    buffers = [*(source.buffer for source in state.sources), state.snapshot]
    arena, ends = gather(buffers, records.source, records.payload, records.payload_length)
    for at, id_ in enumerate(records.id.tolist()):
        try:
            said = json.loads(arena[ends[at] : ends[at + 1]])
            found[str(said["stream"])] = _Mark(int(said["batch"]), id_)
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            continue  # an application wrote it
    return found


def _add(
    engine: Engine, term: int, pieces: Sequence[StagedRecords], heads: Sequence[bytes], tails: Sequence[bytes]
) -> None:
    layout = engine.layout
    scratch = posixpath.join(engine.scratch, _SEGMENT)
    with engine.failstop.preparing(), engine.disk.create_scratch(scratch) as file:
        file.be_like(engine.disk.stat(posixpath.join(engine.data, lay.METADATA_FILE)))
        writing = _Writing(file, layout.segment_header())
        writing.add(encoding.several(layout, term, heads))
        for blob in _in_order(engine.disk, layout, term, pieces):
            writing.add(blob)
        writing.add(encoding.several(layout, term, tails))
        file.pwrite(lay.END_MARKER, writing.end)
        with engine.failstop.guard():
            engine.log.take_in(file, np.concatenate(writing.starts))


class _Writing:
    """A segment in the making; `starts` says where its records begin."""

    def __init__(self, file: File, header: bytes) -> None:
        self._file = file
        file.pwrite(header, 0)
        self.end = len(header)
        self.starts: list[Ints] = [np.empty(0, np.int64)]

    def add(self, blob: Blob) -> None:
        assert blob.ends is not None
        self._file.pwrite(blob.data, self.end)
        self.starts.append(self.end + np.concatenate([[0], blob.ends]).astype(np.int64)[:-1])
        self.end += len(blob.data)


def _in_order(disk: Disk, layout: Layout, term: int, pieces: Sequence[StagedRecords]) -> Iterator[Blob]:
    """The records of all tasks in the order of the rows, in their term, some MiB at a time."""
    pieces = sorted((piece for piece in pieces if piece.rows), key=lambda piece: piece.part)
    if not pieces:
        return
    views, starts, lengths, orders = [], [], [], []
    for piece in pieces:
        with disk.open(piece.place) as file:
            views.append(file.view())
        if zlib.crc32(views[-1]) != piece.checksum:
            raise RefusedError(
                "a staged file is not what its task wrote",
                file=piece.place,
                advice="Nothing of the batch counts; write it again",
            )
        table = np.frombuffer(views[-1], "<i8", 2 * piece.rows, len(views[-1]) - 16 * piece.rows)
        lengths.append(table[: piece.rows].astype(np.int64))
        starts.append(offsets_of(lengths[-1])[:-1])
        orders.append(table[piece.rows :])
    source = np.repeat(np.arange(len(pieces), dtype=np.int32), [piece.rows for piece in pieces])
    start, length, order = map(np.concatenate, (starts, lengths, orders))
    which = np.argsort(order, kind="stable")
    ends = np.cumsum(length[which])
    stamp = np.frombuffer(term.to_bytes(layout.term_size, "big"), np.uint8)
    at = 0
    while at < len(which):
        begin = int(ends[at - 1]) if at else 0
        upto = max(int(np.searchsorted(ends, begin + _CHUNK_BYTES)), at + 1)
        some = which[at:upto]
        arena, offsets = gather(views, source[some], start[some], length[some])
        raw = np.frombuffer(arena, np.uint8)
        for byte, value in enumerate(stamp):
            raw[offsets[:-1] + len(lay.RECORD_MARKER) + byte] = value
        yield Blob(arena, len(some), offsets[1:])
        at = upto
