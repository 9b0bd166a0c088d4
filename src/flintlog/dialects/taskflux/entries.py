"""The entries of a directory: a split is a segment, or a range of a large one, and any task can read it.

A split that does not hold what the plan said (damage, a segment that went away) is an error, never fewer rows.
A torn tail is no damage: nothing in it was acknowledged.
"""

from __future__ import annotations

import posixpath
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from flintlog.core.dialect import ByteField, ByteRange, EntryQuery, Split
from flintlog.core.fields import Span
from flintlog.core.file_fields import every_byte, fields_of, file_view, leftover
from flintlog.core.live import settled, suppress_gone
from flintlog.core.position import span
from flintlog.core.surveys import UNSHARED, Surveys
from flintlog.core.workers import Workers
from flintlog.dialects.taskflux import fields, files, tables
from flintlog.dialects.taskflux import layout as lay
from flintlog.dialects.taskflux.files import Segment, SegmentFile
from flintlog.dialects.taskflux.findings import CODES
from flintlog.dialects.taskflux.layout import Layout
from flintlog.dialects.taskflux.scan import COMMIT_BYTES_MAX, Marks, judge, scan_segment, walk_headers
from flintlog.dialects.taskflux.state import State
from flintlog.dialects.taskflux.survey import survey
from flintlog.disk import Disk
from flintlog.errors import RefusedError

# The context of a whole segment below the snapshot: a removal that was cut short may leave a gap behind it.
_BELOW = (0, 1)


def splits(disk: Disk, data: str, query: EntryQuery) -> list[Split]:
    """The segments that can hold entries of the query, by their names; large ones in ranges."""
    found = files.list_files(disk, data).segments
    result: list[Split] = []
    covered = files.claimed_index(disk, data)
    for at, segment in enumerate(found):
        last = found[at + 1].first - 1 if at + 1 < len(found) else None
        if query.first is not None and last is not None and last < query.first[0]:
            continue
        if query.last is not None and segment.first > query.last[0]:
            break
        step = query.range_bytes(segment.size)
        if step is not None:
            result += _cut(disk, data, segment, last, step, query)
        else:
            below = last is not None and last <= covered
            result.append(Split(segment.name, 0, segment.size, segment.first, last, _BELOW if below else ()))
    return result


def _cut(
    disk: Disk, data: str, segment: SegmentFile, last: int | None, step: int, query: EntryQuery
) -> Iterator[Split]:
    """The ranges of a segment, each beginning with a record.

    The walk follows headers without checking them. So it cuts a closed segment only when it finds as many records as
    the segment's name and the next one's promise. It does not cut the newest where it may be torn: one range holds all
    of that.
    """
    newest = last is None
    marks = _marks(disk, data, segment, step)
    room = (lay.LSN_MAX if last is None else last) + 1 - segment.first
    if marks is None or marks.records > room or (last is not None and marks.records != room):
        yield Split(segment.name, 0, segment.size, segment.first, last)
        return
    upto = marks.end - 2 * COMMIT_BYTES_MAX if newest else marks.end
    cuts = [
        (offset, segment.first + before)
        for offset, before in zip(marks.offset, marks.before, strict=True)
        if offset <= upto
    ]
    begins = [(0, segment.first), *cuts]
    ends = [*((offset, lsn - 1) for offset, lsn in cuts), (segment.size, last)]
    for (start, first), (end, final) in zip(begins, ends, strict=True):
        before = query.first is not None and final is not None and final < query.first[0]
        if before and not newest:  # in the newest only reading proves the numbers
            continue
        if query.last is not None and first > query.last[0]:
            return
        yield Split(segment.name, start, end, first, final, (int(newest),))


def _marks(disk: Disk, data: str, segment: SegmentFile, step: int) -> Marks | None:
    """Where a segment can be cut; None when it does not have our header."""
    layout = files.layout_at(disk, data)
    with disk.open(posixpath.join(data, segment.name)) as file:
        head = file.pread(lay.SEGMENT_HEADER_SIZE, 0)
        if (
            head[:4] != lay.FILE_MARKER
            or int.from_bytes(head[4:], "big", signed=True) > layout.segment_version
        ):
            return None
        return walk_headers(lambda begin, end: file.view(begin=begin, end=end), segment.size, layout, step)


def read_split(disk: Disk, data: str, split: Split, query: EntryQuery) -> Iterator[pa.RecordBatch]:
    """The entries of one segment that a query asks for."""
    layout = files.layout_at(disk, data)
    segment = _read(disk, data, split, layout)
    for begin in range(0, len(segment.records), tables.BATCH_RECORDS):
        records = segment.records[begin : begin + tables.BATCH_RECORDS]
        numbers = np.arange(segment.first + begin, segment.first + begin + len(records), dtype=np.int64)
        keep = tables.wanted(segment.view, records, numbers, layout, query)
        if not keep.all():
            records, numbers = records[keep], numbers[keep]
        if len(records):
            yield tables.entry_batch(segment.view, records, numbers, split.file, layout, query)
    if query.last is None or query.last[0] > segment.last:
        _refuse_damage(segment, split, data)


def _read(disk: Disk, data: str, split: Split, layout: Layout) -> Segment:
    place = posixpath.join(data, split.file)
    found = disk.stat(place)
    if found is None:
        raise RefusedError(
            "this segment was removed while the log was read; a snapshot covers it now",
            file=place,
            advice="Read the directory again",
        )
    file = SegmentFile(split.file, split.first, found.size)
    if not split.context or (split.start == 0 and split.end >= found.size):
        return files.read_segment(disk, data, file, layout, newest=_newest(split))
    return _read_range(disk, place, split, file, layout)


def _read_range(disk: Disk, place: str, split: Split, file: SegmentFile, layout: Layout) -> Segment:
    """The records of a range of a segment. A stop before the end of the range is judged with all bytes that follow."""
    newest = _newest(split)
    is_last = split.last is None or split.end >= file.size
    start = max(split.start, lay.SEGMENT_HEADER_SIZE)
    with disk.open(place) as handle:
        view = handle.view(copy=newest, begin=split.start, end=None if is_last else split.end)
        records, stop = scan_segment(view, layout, start, len(view) if is_last else split.end)
        if is_last:
            return Segment(file, view, records, stop.offset, judge(view, layout, stop, newest=newest))
        if stop.offset == split.end:
            return Segment(file, view, records, stop.offset)
        rest = handle.view(copy=newest, begin=stop.offset)
    _, true_stop = scan_segment(rest, layout, stop.offset)
    damage = judge(rest, layout, true_stop, newest=False) if true_stop.offset == stop.offset else None
    if damage is None:
        raise RefusedError(
            "this segment was written anew while it was read", file=place, advice="Read the directory again"
        )
    return Segment(file, view, records, stop.offset, damage)


def _newest(split: Split) -> bool:
    return bool(split.context[0]) if split.context else split.last is None


def _refuse_damage(segment: Segment, split: Split, data: str) -> None:
    """Raise for entries that should be there and cannot be read."""
    finding = files.finding_in(segment, newest=_newest(split))
    if finding is not None and finding.is_grave:
        raise finding.error(data)
    if split.last is not None and segment.last != split.last and split.context != _BELOW:
        raise CODES.finding(
            "log-gap",
            f"missing behind this segment: LSN {span(segment.last + 1, split.last)}",
            split.file,
            segment.end,
            f"LSN {split.last}",
            f"LSN {segment.last}",
        ).error(data)


def entry_fields(
    disk: Disk, data: str, query: EntryQuery, where: ByteRange | None = None
) -> Iterator[ByteField]:
    """The bytes of the entries of a query, field by field."""
    layout = files.layout_at(disk, data)
    for split in splits(disk, data, replace(query, split_bytes=sys.maxsize)):
        if where is not None and where.file != split.file:
            continue
        segment = _read(disk, data, split, layout)
        yield from fields_of(split.file, segment.view, _segment_spans(segment, query, layout, where))


def _segment_spans(
    segment: Segment, query: EntryQuery, layout: Layout, where: ByteRange | None
) -> Iterator[Span]:
    if where is None or where.begin < lay.SEGMENT_HEADER_SIZE:
        yield from fields.header(segment)
    for at in _places(segment, query, layout, where):
        yield from fields.record(segment, at, layout)
    behind = query.last is None or query.last[0] > segment.last
    if behind and (where is None or where.end > segment.end):
        yield from fields.end(segment)


def file_fields(disk: Disk, data: str, where: ByteRange | None = None) -> Iterator[ByteField]:
    """Every byte of every file, field by field."""
    layout = files.layout_at(disk, data)
    listing = files.list_files(disk, data)
    newest = listing.segments[-1] if listing.segments else None
    for file in listing.segments:
        if where is None or where.file == file.name:
            with suppress_gone():
                segment = files.read_segment(disk, data, file, layout, newest=file is newest)
                spans = _segment_spans(segment, EntryQuery(), layout, where)
                yield from every_byte(file.name, segment.view, spans, where)
    known = (lay.METADATA_FILE, lay.SNAPSHOT_FILE, lay.SETTINGS_FILE, lay.IGNORED_FILE, *listing.scratch)
    for name in known:
        view = file_view(disk, data, name) if where is None or where.file == name else None
        if view is not None:
            yield from every_byte(name, view, _spans_of(name, view, layout, where), where)


def _spans_of(name: str, view: memoryview, layout: Layout, where: ByteRange | None) -> Iterator[Span]:
    if not len(view):
        return
    if name == lay.METADATA_FILE:
        yield from fields.metadata(view, layout)
    elif name == lay.SNAPSHOT_FILE:
        yield from fields.snapshot(view, layout, where)
    elif name == lay.SETTINGS_FILE:
        yield from fields.settings(view)
    elif name == lay.IGNORED_FILE:
        yield Span(0, len(view), "rest", "no program reads this file")
    else:
        yield from leftover(len(view))


def _places(segment: Segment, query: EntryQuery, layout: Layout, where: ByteRange | None) -> list[int]:
    """The places of the records that a query asks for."""
    records = segment.records
    if not len(records):
        return []
    lsn = np.arange(segment.first, segment.first + len(records), dtype=np.int64)
    keep = tables.wanted(segment.view, records, lsn, layout, query)
    if where is not None:
        keep &= where.touches(records.offset, records.length + (layout.record_header_size + 3))  # padding
    places: list[int] = np.flatnonzero(keep).tolist()
    return places


# State


def state(disk: Disk, data: str, as_of: int | None, seen: Surveys = UNSHARED) -> Iterator[pa.RecordBatch]:
    """The records that wait, now or after an LSN."""

    def read() -> State:
        found = seen.take("part", partial(survey, disk, data))
        found.refuse_damage()
        return found.state(as_of)

    return tables.state_batches(settled(disk, data, read))


def state_frame(workers: Workers, disk: Disk, data: str, as_of: int | None) -> Any:
    """The state as a table of the workers' own kind. One task reads it all: ids follow from the order of entries."""
    return workers.frame(partial(_state_rows, disk, as_of), [data], tables.STATE_SCHEMA)


def _state_rows(disk: Disk, as_of: int | None, data: str) -> Iterator[pa.RecordBatch]:
    return state(disk, data, as_of)
