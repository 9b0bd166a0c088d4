"""The bytes of a segment field by field, for a person who looks at a hex dump."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from flintlog.core.dialect import ByteField
from flintlog.dialects.taskflux import layout as lay
from flintlog.dialects.taskflux.files import Segment
from flintlog.dialects.taskflux.layout import Layout

_PAYLOAD_SHOWN = 64


def explain_header(segment: Segment) -> Iterator[ByteField]:
    view, file = segment.view, segment.file.name
    yield ByteField(file, 0, bytes(view[:4]), "file marker", "a segment of a log")
    yield ByteField(file, 4, bytes(view[4:8]), "version", str(int.from_bytes(view[4:8], "big", signed=True)))


def explain_record(segment: Segment, at: int, layout: Layout) -> Iterator[ByteField]:
    """One record; `at` is its place in the segment."""
    records = segment.records
    offset = int(records.offset[at])
    length = int(records.length[at])
    view, file = segment.view, segment.file.name
    data = offset + layout.record_header_size

    def field(begin: int, end: int, name: str, meaning: str) -> ByteField:
        return ByteField(file, begin, bytes(view[begin:end]), name, meaning)

    yield field(offset, offset + 4, "record marker", f"LSN {segment.first + at} begins")
    yield field(offset + 4, data - 8, "term", str(int(records.term[at])))
    yield field(data - 8, data - 4, "checksum", "CRC-32/MPEG-2 of the data; fits")
    yield field(data - 4, data, "length", f"{length} bytes of data")
    yield from _explain_delta(bytes(view[data : data + length]), data, file)
    padding = layout.padding(length)
    if padding:
        yield field(data + length, data + length + padding, "padding", "zeros up to a multiple of 4")


def explain_end(segment: Segment) -> Iterator[ByteField]:
    """What stands where the records stop."""
    view, file, end = segment.view, segment.file.name, segment.end
    if segment.damage is not None:
        shown = bytes(view[end : end + _PAYLOAD_SHOWN])
        yield ByteField(
            file, end, shown, "damage", f"{segment.damage.message}; expected {segment.damage.expected}"
        )
    elif len(view) - end >= 4:
        yield ByteField(file, end, bytes(view[end : end + 4]), "end marker", "the log ends here")


def _explain_delta(data: bytes, offset: int, file: str) -> Iterator[ByteField]:
    at = 0

    def take(size: int, name: str, meaning: str) -> ByteField:
        nonlocal at
        begin, at = at, at + size
        return ByteField(file, offset + begin, data[begin : begin + size], name, meaning)

    kind = lay.OPERATIONS.get(data[0]) if data else None
    if kind is None or len(data) < 2 or len(data) < 2 + data[1]:
        yield take(len(data), "data", "not a delta")
        return
    yield take(1, "delta", f"{chr(data[0])}: {kind}")
    yield take(1, "name length", str(data[1]))
    name = data[2 : 2 + data[1]].decode("ascii", "backslashreplace")
    yield take(len(name) if name.isascii() and len(name) == data[1] else data[1], "queue", repr(name))
    if kind == "create":
        yield from _explain_create(data, take)
    elif kind == "remove" and len(data) >= at + 8:
        yield take(8, "id", str(struct.unpack_from(">Q", data, at)[0]))
    elif kind == "add" and len(data) >= at + 12:
        yield take(8, "key", str(struct.unpack_from(">q", data, at)[0]))
        (size,) = struct.unpack_from(">i", data, at)
        yield take(4, "payload length", f"{size} bytes")
        if 0 <= size <= len(data) - at:
            yield take(size, "payload", repr(data[at : at + min(size, _PAYLOAD_SHOWN)])[1:])
    if at < len(data):
        yield take(len(data) - at, "rest", "behind the delta; ignored")


def _explain_create(data: bytes, take: object) -> Iterator[ByteField]:
    assert callable(take)
    at = 2 + data[1]
    for name in ("implementation", "maximum size", "maximum payload"):
        if len(data) < at + 4:
            return
        (value,) = struct.unpack_from(">i", data, at)
        yield take(4, name, "none" if value == -1 else str(value))
        at += 4
    if len(data) > at:
        flag = data[at]
        yield take(1, "has key range", "yes" if flag else "no")
        if flag and len(data) >= at + 17:
            yield take(8, "lowest key", str(struct.unpack_from(">q", data, at + 1)[0]))
            yield take(8, "highest key", str(struct.unpack_from(">q", data, at + 9)[0]))
