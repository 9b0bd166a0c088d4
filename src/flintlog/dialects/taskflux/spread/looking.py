"""Segments read by tasks: how each fits to the others, and what happens to queues in it."""

from __future__ import annotations

import functools
import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flintlog.columns.compile import kernel
from flintlog.core.finding import Finding
from flintlog.core.workers import Workers
from flintlog.dialects.taskflux import files, scan
from flintlog.dialects.taskflux import layout as lay
from flintlog.dialects.taskflux.files import Fall, Segment, SegmentFile
from flintlog.dialects.taskflux.layout import Layout
from flintlog.dialects.taskflux.replay import Table
from flintlog.dialects.taskflux.state import Base, Ints, Source
from flintlog.dialects.taskflux.survey import Fit, Look, look_at
from flintlog.disk import Disk
from flintlog.errors import RefusedError

_C, _D, _A, _ = b"CDAR"


@dataclass(frozen=True, slots=True)
class Place:
    """A directory, for a task."""

    disk: Disk
    data: str
    layout: Layout


@dataclass(frozen=True, slots=True)
class Deltas:
    """The records of a segment that count, and what they do to queues; counted adds, not the adds themselves."""

    begin: int  # places of records
    end: int
    term: int  # of the last one
    names: tuple[str, ...]
    # The creations and deletions in order: which, of which name, where the record stands and how long its data is.
    operation: NDArray[np.uint8]
    queue: NDArray[np.int32]
    place: Ints
    offset: Ints
    length: Ints
    adds: Ints  # for each name those before its first event, then for each event those up to the next of its name


@dataclass(frozen=True, slots=True)
class Looked:
    """A segment that a task has read."""

    file: SegmentFile
    newest: bool
    last: int
    end: int
    damage: scan.Damage | None
    uninitialised: bool
    stale_bytes: bool
    last_term: int | None
    fall: Fall | None
    conflict: tuple[int, int] | None  # term and offset of the snapshot's last entry
    bad_creates: tuple[Finding, ...]
    deltas: Deltas | None  # None: no record of it counts

    @property
    def first(self) -> int:
        return self.file.first

    def term_at(self, lsn: int) -> tuple[int, int]:
        assert self.conflict is not None  # nobody asks for another one
        return self.conflict


@dataclass(frozen=True, slots=True)
class _Glance:
    """What a task must know to read a segment."""

    place: Place
    base: int  # the last LSN of the snapshot
    as_of: int | None


def read(place: Place, file: SegmentFile, *, newest: bool) -> Segment:
    """A segment, in a task."""
    if place.disk.stat(posixpath.join(place.data, file.name)) is None:
        raise changed(place, file.name)
    return files.read_segment(place.disk, place.data, file, place.layout, newest=newest)


def changed(place: Place, name: str) -> RefusedError:
    return RefusedError(
        "this file was removed or changed while the log was read",
        file=posixpath.join(place.data, name),
        advice="Read the directory again",
    )


def look(job: _Glance, item: tuple[SegmentFile, bool]) -> Looked:
    """Read one segment."""
    file, newest = item
    segment = read(job.place, file, newest=newest)
    begin = max(job.base + 1 - segment.first, 0)
    end = len(segment.records)
    if job.as_of is not None:
        end = min(job.as_of + 1 - segment.first, end)
    return Looked(
        file,
        newest,
        segment.last,
        segment.end,
        segment.damage,
        segment.uninitialised,
        newest and segment.stale_bytes,
        segment.last_term,
        segment.fall,
        segment.term_at(job.base) if segment.first <= job.base <= segment.last else None,
        tuple(files.bad_creates(segment, job.place.layout)),
        _deltas(segment, job.place.layout, begin, end) if begin < end else None,
    )


def source_of(segment: Segment, begin: int, end: int) -> Source:
    return Source(segment.file.name, segment.view, segment.records[begin:end], segment.first + begin)


def _deltas(segment: Segment, layout: Layout, begin: int, end: int) -> Deltas:
    source = source_of(segment, begin, end)
    table = Table(Base(), [source], layout.record_header_size)
    events = np.flatnonzero((table.operation == _C) | (table.operation == _D))
    latest = np.arange(len(table.names), dtype=np.int64)
    adds = np.zeros(len(table.names) + len(events), np.int64)
    _count_adds.run(8 * len(table.operation), table.operation, table.queue, latest, adds)
    return Deltas(
        begin,
        end,
        int(source.records.term[-1]),
        tuple(table.names),
        table.operation[events],
        table.queue[events],
        events + begin,
        source.records.offset[events],
        source.records.length[events],
        adds,
    )


@kernel
def _count_adds(operation: Any, queue: Any, latest: Any, adds: Any) -> None:
    """Count the adds behind each event; `latest` says for each name where those of its last event are counted."""
    event = len(latest)
    for index in range(len(operation)):
        kind = operation[index]
        if kind in (_C, _D):
            latest[queue[index]] = event
            event += 1
        elif kind == _A:
            adds[latest[queue[index]]] += 1


def looked(
    workers: Workers,
    disk: Disk,
    data: str,
    *,
    layout: Layout | None = None,
    as_of: int | None = None,
    read_all: bool = False,
    progress: Look | None = None,
) -> Fit[Looked]:
    """A survey whose segments are read by workers; entries up to `as_of` count."""
    listing = files.list_files(disk, data)
    found: Fit[Looked] = Fit(listing, layout or files.detect_layout(disk, listing) or lay.DESIGNED)

    def reader(wanted: Sequence[SegmentFile]) -> Iterator[Looked]:
        job = _Glance(Place(disk, data, found.layout), found.base.index, as_of)
        newest = listing.segments[-1:]
        return workers.map(functools.partial(look, job), [(file, file in newest) for file in wanted])

    look_at(disk, found, reader, read_all=read_all, progress=progress)
    return found
