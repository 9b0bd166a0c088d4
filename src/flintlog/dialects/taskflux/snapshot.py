"""A state to the bytes of a snapshot file, in chunks of bounded size."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np
from fastcrc import crc32
from numpy.typing import NDArray

from flintlog.columns.gather import copy_ranges, offsets_of
from flintlog.columns.table import slices
from flintlog.dialects.taskflux import layout as lay
from flintlog.dialects.taskflux.layout import Layout
from flintlog.dialects.taskflux.state import Ints, Pointers, State
from flintlog.errors import RefusedError

_CHUNK_BYTES = 1 << 18  # other threads wait while a chunk is put together
RECORD_HEAD = lay.STATE_RECORD.size


def encode_snapshot(state: State, layout: Layout) -> Iterator[bytes | bytearray]:
    """The whole file: header, queues by name, records in dequeue order, checksum.

    Dequeue order in the file keeps first-in-first-out across a restart, because readers keep the file's order among
    equal keys.
    """
    size = state_size(state)
    check_fits(state, layout, size)
    yield layout.snapshot_header.encode(state.index, state.term, size)
    checksum = 0xFFFFFFFF
    for chunk in _state_chunks(state):
        checksum = crc32.mpeg_2(bytes(chunk), checksum)
        yield chunk
    yield struct.pack(">I", checksum)


def state_size(state: State) -> int:
    """The length of the state, which the file has before the state."""
    size = 4
    for queue in state.queues:
        size += len(lay.encode_queue_header(queue.spec, queue.last_id, 0))
        size += int(queue.records.payload_length.sum()) + RECORD_HEAD * len(queue.records)
    return size


def check_fits(state: State, layout: Layout, size: int) -> None:
    """Raise for a state that no snapshot can hold."""
    if size > lay.STATE_SIZE_MAX:
        raise RefusedError(
            f"the state takes {size} bytes and a snapshot holds at most {lay.STATE_SIZE_MAX}",
            advice="Nothing is lost: the log keeps everything. Take records out of the queues, or use several stores",
        )
    if state.index > layout.term_max or state.term > layout.term_max:
        raise RefusedError(
            f"LSN {state.index} or term {state.term} does not fit a snapshot of the {layout.edition} edition",
            advice="Nothing is lost: the log keeps everything. Migrate the directory to the shipped edition",
        )


def _state_chunks(state: State) -> Iterator[bytes | bytearray]:
    yield lay.STATE.encode(len(state.queues))
    for queue in state.queues:
        yield lay.encode_queue_header(queue.spec, queue.last_id, len(queue.records))
        for rows in slices(queue.records.payload_length + RECORD_HEAD, _CHUNK_BYTES):
            yield _records(state, queue.records[rows])


def _records(state: State, records: Pointers) -> bytearray:
    starts = offsets_of(records.payload_length + RECORD_HEAD)
    chunk = bytearray(int(starts[-1]))
    out = np.frombuffer(chunk, np.uint8)
    fill_heads(out, starts[:-1], records)
    buffers = [*(source.buffer for source in state.sources), state.snapshot]
    for which in np.unique(records.source):
        mine = np.flatnonzero(records.source == which)
        copy_ranges(
            out,
            starts[mine] + RECORD_HEAD,
            buffers[which],
            records.payload[mine],
            records.payload_length[mine],
        )
    return chunk


def fill_heads(out: NDArray[np.uint8], starts: Ints, records: Pointers) -> None:
    """Write the head of each record, before its payload."""
    heads = np.empty((len(records), RECORD_HEAD), np.uint8)
    heads[:, 0:8] = records.id.astype(">u8").view(np.uint8).reshape(-1, 8)
    heads[:, 8:16] = records.key.astype(">i8").view(np.uint8).reshape(-1, 8)
    heads[:, 16:20] = records.payload_length.astype(">i4").view(np.uint8).reshape(-1, 4)
    out[(starts[:, None] + np.arange(RECORD_HEAD)).ravel()] = heads.ravel()
