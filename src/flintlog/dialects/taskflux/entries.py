"""The entries of a directory, piece by piece: one split for each segment, read on its own by any task.

A piece that does not hold what the plan said (damage, a segment that went away) is an error, never fewer rows.
A torn tail is no damage: nothing acknowledged stood there.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flintlog.core.dialect import ByteField, EntryQuery, Split
from flintlog.core.finding import Finding, Severity
from flintlog.core.position import span
from flintlog.dialects.taskflux import explain as fields
from flintlog.dialects.taskflux import files, tables
from flintlog.dialects.taskflux.files import Segment, SegmentFile
from flintlog.dialects.taskflux.layout import Layout
from flintlog.disk import Disk
from flintlog.errors import RefusedError


def splits(disk: Disk, data: str, query: EntryQuery) -> list[Split]:
    """The segments that can hold entries of the query, told by their names alone."""
    found = files.list_files(disk, data).segments
    result = []
    for at, segment in enumerate(found):
        last = found[at + 1].first - 1 if at + 1 < len(found) else None
        if query.first is not None and last is not None and last < query.first[0]:
            continue
        if query.last is not None and segment.first > query.last[0]:
            break
        result.append(Split(segment.name, 0, segment.size, segment.first, last))
    return result


def read_split(disk: Disk, data: str, split: Split, query: EntryQuery) -> Iterator[pa.RecordBatch]:
    """The entries of one segment that a query asks for."""
    layout = files.layout_at(disk, data)
    segment = _read(disk, data, split, layout)
    for begin in range(0, len(segment.records), tables.BATCH_RECORDS):
        records = segment.records[begin : begin + tables.BATCH_RECORDS]
        numbers = np.arange(segment.first + begin, segment.first + begin + len(records), dtype=np.int64)
        keep = tables.wanted(records, numbers, query)
        if not keep.all():
            records, numbers = records[keep], numbers[keep]
        if not len(records):
            continue
        batch = tables.entry_batch(segment.view, records, numbers, split.file, layout, query)
        if query.streams is not None:
            batch = batch.filter(pc.is_in(batch["stream"], pa.array(sorted(query.streams), pa.string())))
        if batch.num_rows:
            yield batch
    if query.last is None or query.last[0] > segment.last:
        _refuse_damage(segment, split, data)


def _read(disk: Disk, data: str, split: Split, layout: Layout) -> Segment:
    found = disk.stat(posixpath.join(data, split.file))
    if found is None:
        raise RefusedError(
            "this segment was removed while the log was read; a snapshot covers it now",
            file=posixpath.join(data, split.file),
            advice="Read the directory again",
        )
    file = SegmentFile(split.file, split.first, found.size)
    return files.read_segment(disk, data, file, layout, newest=split.last is None)


def _refuse_damage(segment: Segment, split: Split, data: str) -> None:
    """Raise for entries that should be there and cannot be read."""
    finding = files.finding_in(segment, newest=split.last is None)
    if finding is not None and finding.severity in (Severity.CORRUPT, Severity.UNSUPPORTED):
        raise finding.error(data)
    if split.last is not None and segment.last != split.last:
        raise Finding(
            Severity.CORRUPT,
            "segment-gap",
            f"missing behind this segment: LSN {span(segment.last + 1, split.last)}",
            split.file,
            segment.end,
            f"LSN {split.last}",
            f"LSN {segment.last}",
        ).error(data)


def explain(disk: Disk, data: str, query: EntryQuery) -> Iterator[ByteField]:
    """The bytes of the entries of a query, field by field."""
    layout = files.layout_at(disk, data)
    for split in splits(disk, data, query):
        segment = _read(disk, data, split, layout)
        yield from fields.explain_header(segment)
        for at in _places(segment, query, layout):
            yield from fields.explain_record(segment, at, layout)
        if query.last is None or query.last[0] > segment.last:
            yield from fields.explain_end(segment)


def _places(segment: Segment, query: EntryQuery, layout: Layout) -> list[int]:
    """The places of the records that a query asks for."""
    lsn = np.arange(segment.first, segment.first + len(segment.records), dtype=np.int64)
    places: list[int] = np.flatnonzero(tables.wanted(segment.records, lsn, query)).tolist()
    if query.streams is None:
        return places
    return [at for at in places if _queue_of(segment, at, layout) in query.streams]


def _queue_of(segment: Segment, at: int, layout: Layout) -> str:
    begin = int(segment.records.offset[at]) + layout.record_header_size + 2
    return bytes(segment.view[begin : begin + int(segment.records.name_length[at])]).decode(
        "ascii", "replace"
    )
