"""The fields of a segment, of metadata and of a snapshot."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from contextlib import suppress

import numpy as np

from flintlog.columns.checksum import crc32_mpeg2
from flintlog.columns.zeros import zeros_from
from flintlog.core.dialect import ByteRange
from flintlog.core.fields import MalformedError, Span
from flintlog.core.file_fields import asked, damaged, rest, shortened
from flintlog.dialects.taskflux import layout as lay
from flintlog.dialects.taskflux.files import HEADER_DAMAGED, SETTINGS_SIZE_MAX, Segment
from flintlog.dialects.taskflux.layout import Layout
from flintlog.dialects.taskflux.state import record_places
from flintlog.errors import DamageError

# Segments


def header(segment: Segment) -> Iterator[Span]:
    """File marker and version, and whether they are right."""
    problem, size = segment.damage, len(segment.view)
    if segment.uninitialised:
        yield from rest(0, size, "the segment was created and its header did not arrive", "torn")
    elif problem is not None and problem.code == HEADER_DAMAGED:
        yield from damaged(0, lay.SEGMENT_HEADER_SIZE, problem.message, problem.expected)
    elif segment.end:
        yield from (span for span in lay.SEGMENT_HEADER.spans(segment.view) if span.end <= segment.end)


def record(segment: Segment, at: int, layout: Layout) -> Iterator[Span]:
    """One record; `at` is its place in the segment."""
    told = {"record marker": f"LSN {segment.first + at} begins"}
    for span in layout.record.spans(segment.view, int(segment.records.offset[at]), told=told):
        if span.name == "data":
            yield from _delta(segment.view[: span.end], span.begin)
        else:
            yield span


def end(segment: Segment) -> Iterator[Span]:
    """The bytes at which the records stop."""
    problem, at, size = segment.damage, segment.end, len(segment.view)
    if segment.uninitialised:
        return
    if problem is not None and problem.code != HEADER_DAMAGED:
        yield from damaged(at, size, problem.message, problem.expected)
        return
    marker, at = at, min(at + 4, size)
    yield from rest(marker, at, "the log ends here", "end marker")
    zeros = max(at, zeros_from(segment.view, at))
    yield from rest(at, zeros, "behind the end marker; it does not count")
    yield from rest(zeros, size, f"{size - zeros} zeros, written ahead", "reserve")


def _delta(view: memoryview, at: int) -> Iterator[Span]:
    """A delta up to the end of `view`, as far as its fields go."""
    table = lay.DELTAS.get(view[at]) if at + 2 <= len(view) else None
    if table is None or at + 2 + view[at + 1] > len(view):
        yield Span(at, len(view), "data", "not a delta")
        return
    with suppress(MalformedError):
        for span in table.spans(view, at):
            yield span
            at = span.end
        if table is lay.CREATE and view[at - 1]:
            for span in lay.KEY_RANGE.spans(view, at):
                yield span
                at = span.end
    yield from rest(at, len(view), "behind the delta; ignored")


# Metadata


def metadata(view: memoryview, layout: Layout) -> Iterator[Span]:
    """Term and vote; a field that cannot be right says so."""
    size = layout.metadata_size
    if view[:4] != lay.METADATA_MARKER:
        yield from damaged(0, len(view), "not a metadata file", lay.METADATA_MARKER.hex())
        return
    version = int.from_bytes(view[4:8], "big", signed=True)
    if len(view) < size or version > layout.metadata_version:
        message = "the metadata file is too short" if len(view) < size else f"version {version} is not known"
        wanted = f"{size} bytes" if len(view) < size else f"{layout.metadata_version} or lower"
        yield next(layout.metadata.spans(view))
        yield from damaged(4, len(view), message, wanted)
        return
    told = {"checksum": _checksum(view, 4, size - 4, "version, term and vote")}
    yield from layout.metadata.spans(view, told=told)
    yield from rest(size, len(view), "behind the metadata; ignored")


def _checksum(view: memoryview, begin: int, end: int, of: str) -> str:
    """The meaning of the checksum behind a range."""
    computed = crc32_mpeg2(view, begin, end)
    stored = int.from_bytes(view[end : end + 4], "big")
    fits = "fits" if computed == stored else f"does not fit: expected {computed:08x}"
    return f"CRC-32/MPEG-2 of {of}; {fits}"


# Snapshots


def snapshot(view: memoryview, layout: Layout, where: ByteRange | None) -> Iterator[Span]:
    """Header, queues with their records, checksum. Damage does not hide what can be read."""
    size, begin = len(view), layout.snapshot_header_size
    if view[:4] != lay.SNAPSHOT_MARKER:
        yield from damaged(0, size, "not a snapshot", lay.SNAPSHOT_MARKER.hex())
        return
    if size < begin:
        yield next(layout.snapshot_header.spans(view))
        yield from damaged(4, size, "the snapshot ends inside its header", f"{begin} bytes")
        return
    (_, _, length), _ = layout.snapshot_header.decode(view)
    end = begin + length
    whole = length >= 0 and end + 4 <= size
    told = {"length": f"{length} bytes of state{'' if whole else ', which cannot be'}"}
    yield from layout.snapshot_header.spans(view, told=told)
    body = view[: end if whole else size]
    behind = yield from _state(body, begin, where)
    yield from rest(
        behind, len(body), f"behind the last queue; {'ignored' if whole else 'the length is wrong'}"
    )
    if whole:
        if asked(where, end, end + 4):
            yield Span(end, end + 4, "checksum", _checksum(view, begin, end, "the state"))
        yield from rest(end + 4, size, "behind the snapshot; ignored")


def _state(body: memoryview, at: int, where: ByteRange | None) -> Generator[Span, None, int]:
    """The queues of the state that ends with `body`, as far as they can be read, and where that is."""
    if at + 4 > len(body):
        return (yield from _damage(at, body, "the snapshot ends early"))
    (queues,), _ = lay.STATE.decode(body, at)
    yield from lay.STATE.spans(body, at)
    at += lay.STATE.size
    for _ in range(queues):
        try:
            _, _, count, behind = lay.decode_queue_header(body, at)
        except DamageError as error:
            return (yield from _damage(at, body, error.message))
        for table in (lay.QUEUE, lay.KEY_RANGE, lay.RECORDS):
            if table is lay.KEY_RANGE and body[at - 1] != 1:
                continue
            for span in table.spans(body, at):
                yield span
                at = span.end
        assert at == behind
        at = yield from _records(body, at, count, where)
        if at == len(body):
            break
    return at


def _damage(at: int, body: memoryview, message: str) -> Generator[Span, None, int]:
    yield from damaged(at, len(body), message)
    return len(body)


def _records(body: memoryview, at: int, left: int, where: ByteRange | None) -> Generator[Span, None, int]:
    """The records of a queue; in a range only those that touch it, one by one."""
    head = lay.STATE_RECORD.head.size
    while left:
        payload, ends, behind = record_places(body, at, left)
        if not len(payload):
            return (yield from _damage(at, body, f"the state ends {left} records before the queue does"))
        begins = payload - head
        keep = slice(None) if where is None else np.asarray(where.touches(begins, ends - begins))
        for begin in begins[keep].tolist():
            yield from lay.STATE_RECORD.spans(body, begin)
        at = behind
        left -= len(payload)
    return at


# Settings


def settings(view: memoryview) -> Iterator[Span]:
    """A text; the settings in it."""
    try:
        facts = json.loads(bytes(view[:SETTINGS_SIZE_MAX]))
        meaning = ", ".join(f"{name} {value}" for name, value in facts.items()) or "none"
    except (ValueError, AttributeError, RecursionError):
        yield from damaged(0, len(view), "not a JSON object")
        return
    yield Span(0, len(view), "settings", shortened(meaning))
