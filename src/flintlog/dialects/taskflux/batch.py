"""Columns to records: what one append writes, without Python per record where there are many."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from fastcrc.crc32 import mpeg_2
from numpy.typing import NDArray

from flintlog.columns.checksum import checksums_behind, crc32_mpeg2
from flintlog.columns.compile import kernel_beside
from flintlog.columns.gather import offsets_of
from flintlog.columns.payloads import back_to_back
from flintlog.dialects.taskflux.layout import KEY_AND_LENGTH, RECORD_MARKER, Layout
from flintlog.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

Ints = NDArray[np.int64]
Payloads: TypeAlias = "Sequence[bytes] | pa.Array"
_PADDING = tuple(map(bytes, range(4)))
_SUM_AND_LENGTH = struct.Struct(">Ii")  # offset of the data behind the head of a record


@dataclass(slots=True)
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
    pack, alignment = _SUM_AND_LENGTH.pack, layout.alignment
    head = RECORD_MARKER + term.to_bytes(layout.term_size, "big")
    pieces: list[bytes] = []
    for data in datas:
        pieces += (head, pack(mpeg_2(data), len(data)), data, _PADDING[-len(data) % alignment])
    sizes = np.fromiter(map(len, datas), np.int64, len(datas))
    sizes += layout.record_header_size + (-sizes % alignment)
    return Blob(b"".join(pieces), len(datas), np.cumsum(sizes))


def _join_adds(
    out: Any, start: Any, head: Any, at_checksum: int, prefix: Any, key: Any, payload: Any, offset: Any
) -> None:
    """The plain form of `_fill_adds`, as Python does it fastest: pieces, joined at the end."""
    pieces: list[bytes] = []
    head, prefix, payload = head.tobytes(), prefix.tobytes(), payload.tobytes()
    places = offset.tolist()
    sizes = np.diff(start, append=len(out)).tolist()
    fixed = at_checksum + _SUM_AND_LENGTH.size
    pack_key, pack_sum = KEY_AND_LENGTH.pack, _SUM_AND_LENGTH.pack
    for number, begin, end, size in zip(key.tolist(), places[:-1], places[1:], sizes, strict=True):
        data = prefix + pack_key(number, end - begin) + payload[begin:end]
        sum_and_length = pack_sum(mpeg_2(data), len(data))
        pieces += (head, sum_and_length, data, _PADDING[size - fixed - len(data)])
    out[:] = np.frombuffer(b"".join(pieces), np.uint8)


@kernel_beside(_join_adds, times=64)
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
    arena = bytearray(int(ends[-1]))  # zeros, so the padding is done
    head = np.frombuffer(RECORD_MARKER + term.to_bytes(layout.term_size, "big"), np.uint8)
    _fill_adds.run(
        len(arena),
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


def removes(layout: Layout, term: int, prefix: bytes, ids: Sequence[int]) -> Blob:
    """One R record for each id, in a table of bytes, because all have one size."""
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
    tails = table[:, len(head) : len(head) + 8]
    tails[:] = np.array(ids, ">u8").view(np.uint8).reshape(-1, 8)
    values = checksums_behind(prefix, tails)
    table[:, header - 8 : header - 4] = values.astype(">u4").view(np.uint8).reshape(-1, 4)
    return Blob(table.tobytes(), len(ids), np.arange(1, len(ids) + 1, dtype=np.int64) * size)
