"""The bytes of a segment, of metadata and of a snapshot field by field, for a person who looks at a hex dump."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np

from flintlog.columns.checksum import crc32_mpeg2
from flintlog.core.dialect import ByteRange
from flintlog.core.fields import Span, shown
from flintlog.core.file_fields import asked, damage, shortened
from flintlog.dialects.taskflux import layout as lay
from flintlog.dialects.taskflux import scan
from flintlog.dialects.taskflux.files import HEADER_DAMAGED, SETTINGS_SIZE_MAX, Segment
from flintlog.dialects.taskflux.layout import Layout
from flintlog.dialects.taskflux.state import record_places
from flintlog.errors import DamageError


class _Cursor:
    """Goes through bytes and names what it takes."""

    def __init__(self, view: memoryview, at: int, end: int) -> None:
        self.view = view
        self.at = at
        self.end = end

    @property
    def left(self) -> int:
        return self.end - self.at

    def take(self, size: int, name: str, meaning: str) -> Span:
        begin, self.at = self.at, self.at + size
        return Span(begin, self.at, name, meaning)

    def value(self, size: int, *, signed: bool = True) -> int:
        return int.from_bytes(self.view[self.at : self.at + size], "big", signed=signed)

    def number(self, size: int, name: str, meaning: str = "{}", *, signed: bool = True) -> Span:
        return self.take(size, name, meaning.format(self.value(size, signed=signed)))

    def limit(self, name: str) -> Span:
        value = self.value(4)
        return self.take(4, name, "none" if value == -1 else str(value))

    def queue(self) -> Iterator[Span]:
        size = self.view[self.at]
        yield self.take(1, "name length", str(size))
        name = bytes(self.view[self.at : self.at + size]).decode("ascii", "backslashreplace")
        yield self.take(size, "queue", repr(name))

    def implementation(self) -> Span:
        value = self.value(4)
        known = lay.CODES.get(value)
        return self.take(4, "implementation", str(value) if known is None else f"{value}: {known}")

    def payload(self, size: int) -> Span:
        return self.take(size, "payload", shown(self.view, self.at, self.at + size))

    def rest(self, end: int, meaning: str) -> Iterator[Span]:
        if self.at < end:
            yield self.take(end - self.at, "rest", meaning)


# Segments


def header(segment: Segment) -> Iterator[Span]:
    """File marker and version, as far as they can be trusted."""
    problem, size = segment.damage, len(segment.view)
    if segment.uninitialised:
        if size:
            yield Span(0, size, "torn", "the segment was created and its header did not arrive")
        return
    if problem is not None and problem.code == HEADER_DAMAGED:
        yield damage(0, lay.SEGMENT_HEADER_SIZE, problem.message, problem.expected)
        return
    cursor = _Cursor(segment.view, 0, size)
    if segment.end >= 4:
        yield cursor.take(4, "file marker", "a segment of a log")
    if segment.end >= lay.SEGMENT_HEADER_SIZE:
        yield cursor.number(4, "version")


def record(segment: Segment, at: int, layout: Layout) -> Iterator[Span]:
    """One record; `at` is its place in the segment."""
    records = segment.records
    length = int(records.length[at])
    cursor = _Cursor(segment.view, int(records.offset[at]), len(segment.view))
    yield cursor.take(4, "record marker", f"LSN {segment.first + at} begins")
    yield cursor.take(layout.term_size, "term", str(int(records.term[at])))
    yield cursor.take(4, "checksum", "CRC-32/MPEG-2 of the data; fits")
    yield cursor.take(4, "length", f"{length} bytes of data")
    cursor.end = cursor.at + length
    yield from _delta(cursor)
    padding = layout.padding(length)
    if padding:
        yield cursor.take(padding, "padding", "zeros up to a multiple of 4")


def end(segment: Segment) -> Iterator[Span]:
    """What stands where the records stop."""
    problem, end, size = segment.damage, segment.end, len(segment.view)
    if segment.uninitialised:
        return
    if problem is not None and problem.code != HEADER_DAMAGED:
        if end < size:
            yield damage(end, size, problem.message, problem.expected)
        return
    cursor = _Cursor(segment.view, end, size)
    if cursor.left:
        yield cursor.take(min(4, cursor.left), "end marker", "the log ends here")
    zeros = scan.zeros_from(segment.view, cursor.at)
    yield from cursor.rest(zeros, "behind the end marker; it does not count")
    if cursor.left:
        yield cursor.take(cursor.left, "reserve", f"{cursor.left} zeros, written ahead")


def _delta(cursor: _Cursor) -> Iterator[Span]:
    view, at = cursor.view, cursor.at
    kind = lay.OPERATIONS.get(view[at]) if cursor.left else None
    if kind is None or cursor.left < 2 or cursor.left < 2 + view[at + 1]:
        yield cursor.take(cursor.left, "data", "not a delta")
        return
    yield cursor.take(1, "delta", f"{chr(view[at])}: {kind}")
    yield from cursor.queue()
    if kind == "create":
        yield from _create(cursor)
    elif kind == "remove" and cursor.left >= 8:
        yield cursor.number(8, "id", signed=False)
    elif kind == "add" and cursor.left >= 12:
        yield cursor.number(8, "key")
        size = cursor.value(4)
        yield cursor.take(4, "payload length", f"{size} bytes")
        if 0 <= size <= cursor.left:
            yield cursor.payload(size)
    yield from cursor.rest(cursor.end, "behind the delta; ignored")


def _create(cursor: _Cursor) -> Iterator[Span]:
    for name in ("implementation", "maximum size", "maximum payload"):
        if cursor.left < 4:
            return
        yield cursor.implementation() if name == "implementation" else cursor.limit(name)
    if cursor.left:
        yield from _key_range(cursor, is_set=bool(cursor.view[cursor.at]))


def _key_range(cursor: _Cursor, *, is_set: bool) -> Iterator[Span]:
    yield cursor.take(1, "has key range", "yes" if is_set else "no")
    if is_set and cursor.left >= 16:
        yield cursor.number(8, "lowest key")
        yield cursor.number(8, "highest key")


# Metadata


def metadata(view: memoryview, layout: Layout) -> Iterator[Span]:
    """Term and vote; a field that cannot be right says so."""
    size = layout.metadata_size
    if view[:4] != lay.METADATA_MARKER:
        yield damage(0, len(view), "not a metadata file", lay.METADATA_MARKER.hex())
        return
    cursor = _Cursor(view, 0, len(view))
    yield cursor.take(4, "file marker", "term and vote")
    version = cursor.value(4)
    if len(view) < size or version > layout.metadata_version:
        message = "the metadata file is too short" if len(view) < size else f"version {version} is not known"
        wanted = f"{size} bytes" if len(view) < size else f"{layout.metadata_version} or lower"
        yield damage(cursor.at, len(view), message, wanted)
        return
    yield cursor.number(4, "version")
    term = cursor.value(layout.term_size)
    good = term >= lay.TERM_FIRST
    yield cursor.take(layout.term_size, "term", f"{term}" if good else f"{term}, which is no term")
    vote = cursor.value(4)
    meaning = "none" if vote == -1 else f"for node {vote}" if vote >= 0 else f"{vote}, which is no node"
    yield cursor.take(4, "vote", meaning)
    yield _checksum(cursor, 4, size - 4, "version, term and vote")
    yield from cursor.rest(len(view), "behind the metadata; ignored")


def _checksum(cursor: _Cursor, begin: int, end: int, of: str) -> Span:
    computed = crc32_mpeg2(cursor.view, begin, end)
    fits = "fits" if computed == cursor.value(4, signed=False) else f"does not fit: expected {computed:08x}"
    return cursor.take(4, "checksum", f"CRC-32/MPEG-2 of {of}; {fits}")


# Snapshots


def snapshot(view: memoryview, layout: Layout, where: ByteRange | None) -> Iterator[Span]:
    """Header, queues with their records, checksum. What cannot be read does not hide what can."""
    size = len(view)
    if view[:4] != lay.SNAPSHOT_MARKER:
        if size:
            yield damage(0, size, "not a snapshot", lay.SNAPSHOT_MARKER.hex())
        return
    cursor = _Cursor(view, 0, size)
    yield cursor.take(4, "file marker", "the state up to an LSN")
    if size < layout.snapshot_header_size:
        wanted = f"{layout.snapshot_header_size} bytes"
        if cursor.left:
            yield damage(4, size, "the snapshot ends inside its header", wanted)
        return
    index = cursor.value(layout.term_size)
    none = "; so it is no snapshot" if index == lay.LSN_NONE else ""
    yield cursor.take(layout.term_size, "last index", f"LSN {index} is the last one in it{none}")
    yield cursor.number(layout.term_size, "last term")
    length = cursor.value(4)
    end = cursor.at + 4 + length
    whole = length >= 0 and end + 4 <= size
    yield cursor.take(4, "length", f"{length} bytes of state{'' if whole else ', which cannot be'}")
    begin = cursor.at
    cursor.end = end if whole else size
    yield from _state(cursor, where)
    yield from cursor.rest(
        cursor.end, "behind the last queue; " + ("ignored" if whole else "the length is wrong")
    )
    if not whole:
        return
    cursor.at = end
    if asked(where, end, end + 4):
        yield _checksum(cursor, begin, end, "the state")
    cursor.at = end + 4
    yield from cursor.rest(size, "behind the snapshot; ignored")


def _state(cursor: _Cursor, where: ByteRange | None) -> Iterator[Span]:
    """The queues; in a snapshot that was cut, as far as they go."""
    end = cursor.end
    if cursor.left < 4:
        if cursor.left:
            yield damage(cursor.at, end, "the snapshot ends early")
            cursor.at = end
        return
    queues = cursor.value(4)
    yield cursor.take(4, "queues", str(queues))
    body = cursor.view[:end]
    for _ in range(queues):
        try:
            _, _, count, behind = lay.decode_queue_header(body, cursor.at)
        except DamageError as error:
            if cursor.left:
                yield damage(cursor.at, end, error.message)
                cursor.at = end
            return
        yield from cursor.queue()
        yield cursor.implementation()
        yield cursor.number(8, "last id", signed=False)
        yield cursor.limit("maximum size")
        yield cursor.limit("maximum payload")
        flag = cursor.view[cursor.at]
        yield from _key_range(cursor, is_set=flag == 1)
        yield cursor.number(4, "records")
        assert cursor.at == behind
        yield from _records(cursor, body, count, where)
        if cursor.at == end:
            return


def _records(cursor: _Cursor, body: memoryview, count: int, where: ByteRange | None) -> Iterator[Span]:
    """The records of a queue; in a range only those that touch it are looked at one by one."""
    left = count
    while left:
        payload, ends, behind = record_places(body, cursor.at, left)
        if not len(payload):
            if cursor.left:
                yield damage(cursor.at, len(body), f"the state ends {left} records before the queue does")
                cursor.at = len(body)
            return
        keep = slice(None) if where is None else np.asarray(where.touches(payload - 20, ends - payload + 20))
        for begin, end in zip(payload[keep].tolist(), ends[keep].tolist(), strict=True):
            cursor.at = begin - 20
            yield cursor.number(8, "id", signed=False)
            yield cursor.number(8, "key")
            yield cursor.take(4, "payload length", f"{end - begin} bytes")
            yield cursor.payload(end - begin)
        cursor.at = behind
        left -= len(payload)


# Settings


def settings(view: memoryview) -> Iterator[Span]:
    """A text; the settings in it."""
    try:
        facts = json.loads(bytes(view[:SETTINGS_SIZE_MAX]))
        meaning = ", ".join(f"{name} {value}" for name, value in facts.items()) or "none"
    except (ValueError, AttributeError, RecursionError):
        yield damage(0, len(view), "not a JSON object")
        return
    yield Span(0, len(view), "settings", shortened(meaning))
