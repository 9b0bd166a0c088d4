"""What tasks make of a state: rows, or the bytes of a snapshot, each at its place in one file."""

from __future__ import annotations

import contextlib
import functools
import posixpath
import struct
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from fastcrc import crc32

from flintlog.columns.gather import copy_ranges, offsets_of
from flintlog.columns.packing import pack, unpack
from flintlog.core.workers import Workers
from flintlog.dialects.taskflux import layout as lay
from flintlog.dialects.taskflux.snapshot import RECORD_HEAD, check_fits, fill_heads, state_size
from flintlog.dialects.taskflux.spread.joining import Replayed, state_of
from flintlog.dialects.taskflux.spread.looking import Place, changed, looked
from flintlog.dialects.taskflux.state import Ints, Pointers
from flintlog.disk import Disk, File
from flintlog.errors import DiskError, RefusedError

if TYPE_CHECKING:
    import pyarrow as pa

PIECE_ROWS = 1 << 18
PIECE_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Payloads:
    """The files that pointers count into, for a task."""

    place: Place
    files: tuple[str, ...]
    newest: str | None
    snapshot: object  # which file the snapshot was: another one may take its name

    @staticmethod
    def of(made: Replayed) -> Payloads:
        path = posixpath.join(made.place.data, lay.SNAPSHOT_FILE)
        stat = made.place.disk.stat(path)
        return Payloads(made.place, made.files, made.newest, stat and (stat.identity, stat.size))

    def copy(self, out: np.ndarray, target: Ints, records: Pointers) -> None:
        """Copy payloads to their places in a buffer, file after file."""
        for which in np.unique(records.source).tolist():
            mine = np.flatnonzero((records.source == which) & (records.payload_length > 0))
            if not len(mine):
                continue
            start, length = records.payload[mine], records.payload_length[mine]
            low, high = int(start.min()), int((start + length).max())
            buffer = self._bytes(self.files[which], low, high)
            copy_ranges(out, target[mine], buffer, start - low, length)

    def _bytes(self, name: str, low: int, high: int) -> memoryview:
        path = posixpath.join(self.place.data, name)
        if self.place.disk.stat(path) is None:
            raise changed(self.place, name)
        with self.place.disk.open(path) as file:
            stat = file.stat()
            if name == lay.SNAPSHOT_FILE and (stat.identity, stat.size) != self.snapshot:
                raise changed(self.place, name)
            data = memoryview(file.pread(high - low, low)) if name == self.newest else file.window(low, high)
        if len(data) < high - low:
            raise changed(self.place, name)
        return data


@dataclass(frozen=True, slots=True)
class Piece:
    """Some records in order: how many of which queue, and packed pointers."""

    queues: tuple[tuple[str, int], ...]
    pointers: bytes


def _joined(parts: list[Pointers]) -> Pointers:
    names = Pointers.__dataclass_fields__
    return Pointers(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def _pack(records: Pointers) -> bytes:
    return pack({name: getattr(records, name) for name in Pointers.__dataclass_fields__})


def _cuts(records: Pointers, rows: int, size: int) -> Iterator[tuple[int, int]]:
    """Ranges of records that are not too many and not too large."""
    ends = np.cumsum(records.payload_length + RECORD_HEAD)
    begin = 0
    while begin < len(records):
        before = int(ends[begin - 1]) if begin else 0
        end = max(int(np.searchsorted(ends, before + size, "right")), begin + 1)
        end = min(end, begin + rows)
        yield begin, end
        begin = end


# Rows


def state_frame(
    workers: Workers, disk: Disk, data: str, as_of: int | None, *, piece_rows: int = PIECE_ROWS
) -> Any:
    """The state, now or at an LSN, as a table of the workers' own kind."""
    from flintlog.dialects.taskflux.tables import STATE_SCHEMA

    found = looked(workers, disk, data, as_of=as_of)
    found.refuse_damage()
    made = state_of(workers, Place(disk, data, found.layout), found, as_of)
    pieces = list(_pieces(made, piece_rows))
    return workers.frame(functools.partial(rows, Payloads.of(made)), pieces, STATE_SCHEMA)


def _pieces(made: Replayed, piece_rows: int) -> Iterator[Piece]:
    """The records of all queues; small queues share a piece."""
    queues: list[tuple[str, int]] = []
    parts: list[Pointers] = []
    count = size = 0
    for queue in made.state.queues:
        for begin, end in _cuts(queue.records, piece_rows, PIECE_BYTES):
            some = queue.records[begin:end]
            queues.append((queue.spec.name, len(some)))
            parts.append(some)
            count += len(some)
            size += int(some.payload_length.sum())
            if count >= piece_rows or size >= PIECE_BYTES:
                yield Piece(tuple(queues), _pack(_joined(parts)))
                queues, parts, count, size = [], [], 0, 0
    if parts:
        yield Piece(tuple(queues), _pack(_joined(parts)))


def rows(files: Payloads, piece: Piece) -> Iterator[pa.RecordBatch]:
    """The rows of some records."""
    import pyarrow as pa

    from flintlog.columns.numbers import number_column
    from flintlog.dialects.taskflux.tables import BATCH_RECORDS, STATE_SCHEMA

    records = Pointers(**unpack(piece.pointers))
    names = pa.array([name for name, _ in piece.queues], pa.string())
    which = np.repeat(np.arange(len(piece.queues)), [count for _, count in piece.queues])
    for begin, end in _cuts(records, BATCH_RECORDS, PIECE_BYTES):
        some = records[begin:end]
        offsets = offsets_of(some.payload_length)
        arena = np.empty(int(offsets[-1]), np.uint8)
        files.copy(arena, offsets[:-1], some)
        buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(arena)]
        yield pa.RecordBatch.from_arrays(
            [
                names.take(pa.array(which[begin:end])),
                number_column(some.id),
                pa.array(some.key),
                pa.Array.from_buffers(pa.binary(), len(some), buffers),
            ],
            schema=STATE_SCHEMA,
        )


# A snapshot


@dataclass(frozen=True, slots=True)
class Range:
    """Bytes of a snapshot: where they begin, heads of queues at their places, records with theirs."""

    begin: int
    size: int
    heads: tuple[tuple[int, bytes], ...]
    starts: bytes
    pointers: bytes


def ranges(made: Replayed, begin: int, piece_rows: int, piece_bytes: int) -> Iterator[Range]:
    """The state of a snapshot in ranges; the first one begins at `begin`."""
    at = begin
    heads = [(0, struct.pack(">i", len(made.state.queues)))]
    size, count = 4, 0
    parts: list[Pointers] = []
    starts: list[Ints] = [np.empty(0, np.int64)]

    def done() -> Range:
        places = pack({"start": np.concatenate(starts)})
        return Range(at, size, tuple(heads), places, _pack(_joined(parts)) if parts else b"")

    for queue in made.state.queues:
        head = lay.encode_queue_header(queue.spec, queue.last_id, len(queue.records))
        heads.append((size, head))
        size += len(head)
        for first, last in _cuts(queue.records, piece_rows, piece_bytes):
            some = queue.records[first:last]
            places = offsets_of(some.payload_length + RECORD_HEAD)
            parts.append(some)
            starts.append(places[:-1] + size)
            size += int(places[-1])
            count += len(some)
            if count >= piece_rows or size >= piece_bytes:
                yield done()
                at, size, count = at + size, 0, 0
                heads, parts, starts = [], [], [np.empty(0, np.int64)]
    if size:
        yield done()


def write(files: Payloads, path: str, piece: Range) -> int:
    """Write some bytes of a snapshot to their place, durably."""
    arena = bytearray(piece.size)
    for at, head in piece.heads:
        arena[at : at + len(head)] = head
    if piece.pointers:
        records = Pointers(**unpack(piece.pointers))
        starts = unpack(piece.starts)["start"]
        out = np.frombuffer(arena, np.uint8)
        fill_heads(out, starts, records)
        files.copy(out, starts + RECORD_HEAD, records)
    with files.place.disk.open(path, "write") as file:
        file.pwrite(arena, piece.begin)
        file.sync()
    return piece.size


@contextlib.contextmanager
def write_snapshot(
    workers: Workers,
    made: Replayed,
    scratch: str,
    *,
    piece_rows: int = PIECE_ROWS,
    piece_bytes: int = PIECE_BYTES,
) -> Iterator[File]:
    """Have the workers write a snapshot; it is whole and open in the block, which gives it a name or lets it go.

    `scratch` gets a token of this job: a task of an earlier job that is late finds no file to write to.
    """
    disk, layout, state = made.place.disk, made.place.layout, made.state
    size = state_size(state)
    check_fits(state, layout, size)
    head = layout.encode_snapshot_header(state.index, state.term, size)
    path = f"{scratch}.{uuid.uuid4().hex[:12]}"
    pieces = list(ranges(made, len(head), piece_rows, piece_bytes))
    with disk.create_scratch(path) as file:
        try:
            file.pwrite(head, 0)
            written = sum(workers.map(functools.partial(write, Payloads.of(made), path), pieces))
            if written != size or file.size() != len(head) + size:
                raise RefusedError(
                    "the workers did not write what they should have",
                    file=path,
                    advice="Every worker must see the directory under the same path; nothing was published",
                )
            checksum = 0xFFFFFFFF
            for chunk in file.chunks(len(head), len(head) + size):
                checksum = crc32.mpeg_2(chunk, checksum)
            file.pwrite(struct.pack(">I", checksum), len(head) + size)
            yield file
        except BaseException:
            if file.path == path:
                with contextlib.suppress(DiskError):
                    disk.unlink(path)
            raise
