"""Columns to records: what one append writes, without Python per record where there are many."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from flintlog.columns.checksum import checksums, crc32_mpeg2
from flintlog.columns.compile import kernel
from flintlog.columns.gather import offsets_of
from flintlog.columns.payloads import back_to_back
from flintlog.dialects.taskflux.layout import KEY_AND_LENGTH, RECORD_MARKER, Layout
from flintlog.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

Ints = NDArray[np.int64]
Payloads: TypeAlias = "Sequence[bytes] | pa.Array"


@dataclass(frozen=True, slots=True)
class Blob:
    """Encoded records back to back. `ends` says where each ends; None for a single one."""

    data: bytes | bytearray
    count: int = 1
    ends: Ints | None = None


def one(layout: Layout, term: int, data: bytes) -> Blob:
    """A single record."""
    return Blob(layout.encode_record(term, data))


def several(layout: Layout, term: int, datas: Sequence[bytes]) -> Blob:
    """Records with any data."""
    encoded = [layout.encode_record(term, data) for data in datas]
    return Blob(b"".join(encoded), len(encoded), offsets_of(np.fromiter(map(len, encoded), np.int64))[1:])


@kernel
def _fill_adds(
    out: Any, start: Any, head: Any, at_checksum: int, prefix: Any, key: Any, payload: Any, offset: Any
) -> None:
    """Write each record: head up to the checksum, checksum, length, delta."""
    shift = len(prefix)
    for index in range(len(key)):
        at = start[index]
        size = offset[index + 1] - offset[index]
        out[at : at + at_checksum] = head
        data = at + at_checksum + 8
        out[data : data + shift] = prefix
        length = shift + 12 + size
        place = data + shift
        for byte in range(8):
            out[place + byte] = (key[index] >> (56 - 8 * byte)) & 255
        for byte in range(4):
            out[place + 8 + byte] = (size >> (24 - 8 * byte)) & 255
            out[at + at_checksum + 4 + byte] = (length >> (24 - 8 * byte)) & 255
        if size > 0:
            out[place + 12 : place + 12 + size] = payload[offset[index] : offset[index + 1]]
        value = crc32_mpeg2(out, data, data + length)
        for byte in range(4):
            out[at + at_checksum + byte] = (value >> (24 - 8 * byte)) & 255


def payload_column(payloads: Payloads) -> tuple[bytes, Ints]:
    """The payloads back to back, and where each begins (one more for the end)."""
    if hasattr(payloads, "buffers"):
        return _arrow_column(payloads)
    return back_to_back(payloads)


def _arrow_column(column: pa.Array) -> tuple[bytes, Ints]:
    import pyarrow as pa

    if column.null_count:
        raise UsageError("the column of payloads holds nulls", advice="Fill or drop them first")
    if not len(column):
        return b"", np.zeros(1, np.int64)
    wide = column.cast(pa.large_binary())
    _, offsets, data = wide.buffers()
    places = np.frombuffer(offsets, np.int64)[wide.offset : wide.offset + len(wide) + 1]
    joined = b"" if data is None else bytes(memoryview(data)[places[0] : places[-1]])
    return joined, places - places[0]


def adds(layout: Layout, term: int, prefix: bytes, keys: Ints, payloads: bytes, offsets: Ints) -> Blob:
    """One A record for each key and payload; `prefix` is the delta up to the key."""
    data_sizes = np.diff(offsets) + (len(prefix) + 12)
    ends = offsets_of(data_sizes + layout.record_header_size + (-data_sizes % layout.alignment))
    if not _fill_adds.worth_compiling(int(ends[-1])):
        return Blob(_adds_one_by_one(layout, term, prefix, keys, payloads, offsets), len(keys), ends[1:])
    arena = bytearray(int(ends[-1]))  # zeros, so padding is there already
    head = np.frombuffer(RECORD_MARKER + term.to_bytes(layout.term_size, "big"), np.uint8)
    _fill_adds.compiled()(
        np.frombuffer(arena, np.uint8),
        ends[:-1],
        head,
        len(head),
        np.frombuffer(prefix, np.uint8),
        keys,
        np.frombuffer(payloads or b"\x00", np.uint8),
        offsets,
    )
    return Blob(arena, len(keys), ends[1:])


def _adds_one_by_one(
    layout: Layout, term: int, prefix: bytes, keys: Ints, payloads: bytes, offsets: Ints
) -> bytes:
    pack = KEY_AND_LENGTH.pack
    places = offsets.tolist()
    return b"".join(
        layout.encode_record(term, prefix + pack(key, end - begin) + payloads[begin:end])
        for key, begin, end in zip(keys.tolist(), places[:-1], places[1:], strict=True)
    )


def removes(layout: Layout, term: int, prefix: bytes, ids: Sequence[int]) -> Blob:
    """One R record for each id; all are of one size, so a table of bytes holds them."""
    if len(ids) == 1:
        return one(layout, term, prefix + struct.pack(">Q", ids[0]))
    if len(ids) < 32:
        return several(layout, term, [prefix + struct.pack(">Q", id_) for id_ in ids])
    data_size = len(prefix) + 8
    header = layout.record_header_size
    size = layout.record_size(data_size)
    head = (
        RECORD_MARKER
        + term.to_bytes(layout.term_size, "big")
        + bytes(4)
        + struct.pack(">I", data_size)
        + prefix
    )
    table = np.zeros((len(ids), size), np.uint8)
    table[:, : len(head)] = np.frombuffer(head, np.uint8)
    table[:, len(head) : len(head) + 8] = np.array(ids, ">u8").view(np.uint8).reshape(-1, 8)
    raw = table.tobytes()
    starts = np.arange(len(ids), dtype=np.int64) * size + header
    values = checksums(memoryview(raw), starts, starts + data_size)
    table[:, header - 8 : header - 4] = values.astype(">u4").view(np.uint8).reshape(-1, 4)
    return Blob(table.tobytes(), len(ids), starts - header + size)
