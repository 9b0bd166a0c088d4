"""The entries of a directory, split by split, and its state.

Entries are the descriptors of the snapshot, the events of the logs, the records of the data files and those of
exhausted sessions: each file is a split, a large data file several. A split that does not hold what the plan said
(damage, a file that went away) is an error, never fewer rows. A torn tail is no damage: nothing in it was acknowledged.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from flintlog.columns.table import slices
from flintlog.core.dialect import ByteField, ByteRange, EntryQuery, Split
from flintlog.core.entries import damage_rows
from flintlog.core.fields import Span
from flintlog.core.file_fields import damaged, every_byte, fields_of, file_view, leftover, rest
from flintlog.core.finding import Damage
from flintlog.core.live import settled, told_when_it_goes
from flintlog.core.surveys import UNSHARED, Surveys
from flintlog.core.workers import Workers
from flintlog.dialects.mpy6a import event_columns, fields, scan, tables
from flintlog.dialects.mpy6a import layout as lay
from flintlog.dialects.mpy6a.event_columns import EventColumns
from flintlog.dialects.mpy6a.examine import EXAMINE_BYTES
from flintlog.dialects.mpy6a.findings import CODES
from flintlog.dialects.mpy6a.layout import MalformedError, StateID
from flintlog.dialects.mpy6a.scan import LogScan
from flintlog.dialects.mpy6a.seen import Survey
from flintlog.dialects.mpy6a.survey import live_survey, sound_survey, survey, survey_at
from flintlog.dialects.mpy6a.waiting import merge
from flintlog.disk import Disk
from flintlog.errors import DamageError, RefusedError

_WINDOW = 64 << 20  # bytes that a walk over records reads at a time
_LOGS = (lay.CHANGES_FILE, lay.OPERATIONS_FILE)


# Pieces


def splits(disk: Disk, path: str, query: EntryQuery) -> list[Split]:
    """The files, and the ranges of large ones, that can hold entries of the query."""
    with live_survey(disk, path, examine_bytes=0) as found:
        return _splits(found, query)


def _splits(found: Survey, query: EntryQuery) -> list[Split]:
    known = found.listing.known
    result = [
        Split(name, 0, known[name], 0, None)
        for name in (lay.SNAPSHOT_FILE, *_LOGS)
        if name in known and _holds(name, query)
    ]
    if _holds("", query):
        for name, end, written, dead in _data_files(found):
            result += _ranges(found, name, end, written, query, dead)
    if lay.EXHAUSTED_FILE in known and _holds(lay.EXHAUSTED_FILE, query):
        end = min(known[lay.EXHAUSTED_FILE], found.machine.exhausted)
        result += _ranges(found, lay.EXHAUSTED_FILE, end, True, query)
    return result


def _holds(name: str, query: EntryQuery) -> bool:
    if query.tells_damage:
        return True
    if name == lay.SNAPSHOT_FILE:
        return tables.wanted_descriptors(query)
    if query.operations is None:
        return True
    if name in _LOGS:
        return not query.operations.isdisjoint((*tables.OPERATIONS.values(), tables.UNREADABLE))
    return (tables.EXHAUSTED if name else tables.SESSION) in query.operations


def _data_files(found: Survey) -> Iterator[tuple[str, int, bool, int]]:
    """Name, end of the records, whether the file may grow, and where its waiting records begin; by delay, in the order
    of each chain."""
    listed = found.listing.data
    if found.machine.files:
        for _, chain in sorted(found.machine.chains.items()):
            for file in chain:
                if file.name in listed:
                    yield file.name, min(listed[file.name], file.length), file.written, file.offset
    else:  # no log says which of them count, or where they end
        for name in sorted(listed, key=lambda name: (lay.parse_name(name) or 0, name)):
            yield name, listed[name], True, 0


def _ranges(
    found: Survey, name: str, end: int, written: bool, query: EntryQuery, dead: int = 0
) -> Iterator[Split]:
    """One range, or for a large file several that begin with a record.

    Each has in its context when the record before it is due, how many of its first bytes belong to ended sessions, and
    how many are synced: opening writes the rest again from the operation log.
    """
    again = found.authority.synced(name, end)
    marks = [(0, 0)]
    step = query.range_bytes(end)
    if step is not None:
        marks += _marks(found, name, end, written, step)
    for (begin, before), (following, _) in zip(marks, [*marks[1:], (end, 0)], strict=True):
        if begin < following:
            context = (before, max(min(dead, following) - begin, 0), max(min(again, following) - begin, 0))
            yield Split(name, begin, following, 0, None if written and following == end else 0, context)


def _marks(found: Survey, name: str, end: int, written: bool, step: int) -> Iterator[tuple[int, int]]:
    """Where the first record of each step begins, and when the one before it is due."""
    at, slot, before, size = 0, 0, 0, _WINDOW
    place = posixpath.join(found.path, name)
    if found.disk.stat(place) is None:
        raise _gone(place)
    with found.disk.open(place) as file:
        while at < end:
            limit = min(at + size, end)
            view = file.view(copy=written, begin=at, end=limit)
            stop = None
            for records, stop in scan.record_batches(view[:limit], at, limit, ordered=False):  # noqa: B007
                slots = records.offset // step
                for row in np.flatnonzero(np.diff(slots, prepend=slot)).tolist():
                    yield int(records.offset[row]), int(records.replay_time[row - 1]) if row else before
                if len(records):
                    slot, before = int(slots[-1]), int(records.replay_time[-1])
            assert stop is not None
            if not stop.good and (stop.reason != scan.CUT or limit == end):
                return
            size = 2 * size if stop.offset == at else _WINDOW  # a record that is larger than the window
            at = stop.offset


def read_split(disk: Disk, path: str, split: Split, query: EntryQuery) -> Iterator[pa.RecordBatch]:
    """The entries of one split that a query asks for."""
    if split.file == lay.SNAPSHOT_FILE:
        yield from _read_descriptors(disk, path, split, query)
    elif split.file in _LOGS:
        yield from _read_events(disk, path, split, query)
    else:
        yield from _read_records(disk, path, split, query)


def _read_descriptors(disk: Disk, path: str, split: Split, query: EntryQuery) -> Iterator[pa.RecordBatch]:
    if not _holds(split.file, query):
        return
    found, error = _descriptors(_view(disk, path, split))
    term = np.array([item.last_id.term for _, _, item in found], np.uint64)
    index = np.array([item.last_id.index for _, _, item in found], np.uint64)
    keep = tables.between(term, index, query)
    chosen = [item for item, wanted in zip(found, keep.tolist(), strict=True) if wanted]
    if chosen and tables.wanted_descriptors(query):
        yield tables.descriptor_batch(chosen, split.file, query)
    if error is not None and _decides(disk, path, split.file):
        raise CODES.of(error).error(path)


def _descriptors(view: memoryview) -> tuple[list[tuple[int, int, lay.Descriptor]], DamageError | None]:
    """The descriptors of a snapshot with their places, and the damage that stopped reading."""
    found: list[tuple[int, int, lay.Descriptor]] = []
    at = 0
    try:
        for begin, _ in lay.read_snapshot(view):
            descriptor, at = lay.read_descriptor(view, begin)
            found.append((begin, at - begin, descriptor))
    except DamageError as error:
        return found, error
    return found, None


def _read_events(disk: Disk, path: str, split: Split, query: EntryQuery) -> Iterator[pa.RecordBatch]:
    view, log, parsed, damage = _log(disk, path, split)
    if log is not None and parsed is not None:
        keep = tables.wanted_events(view, log.events, parsed, query)
        events, columns = log.events[keep], parsed[keep]
        for rows in slices(events.length, tables.BATCH_BYTES, tables.BATCH_ROWS):
            yield tables.event_batch(view, events[rows], columns[rows], split.file, query)
    if damage is not None and not damage.torn and _decides(disk, path, split.file):
        raise CODES.of(damage, split.file).error(path)


def _log(
    disk: Disk, path: str, split: Split
) -> tuple[memoryview, LogScan | None, EventColumns | None, Damage | None]:
    """A log with its events and their fields, and its damage."""
    view = _view(disk, path, split)
    return view, *_read_log(view, checked=split.file == lay.OPERATIONS_FILE)


def _read_log(
    view: memoryview, *, checked: bool
) -> tuple[LogScan | None, EventColumns | None, Damage | None]:
    if not len(view) and not checked:
        return None, None, None  # never begun
    try:
        log = scan.scan_log(view, checked=checked)
    except MalformedError as problem:
        message = f"16 bytes of header: {problem.message}"
        return None, None, Damage(f"log-{problem.code}", message, 0, "a header", f"{len(view)} bytes")
    parsed = event_columns.read_columns(view, log.events, checked=checked)
    return log, parsed, scan.judge_log(view, log, checked=checked)


def _decides(disk: Disk, path: str, name: str) -> bool:
    """Beside an operation log damage in the note's files does no harm: opening writes them anew."""
    return name == lay.OPERATIONS_FILE or disk.stat(posixpath.join(path, lay.OPERATIONS_FILE)) is None


def _read_records(disk: Disk, path: str, split: Split, query: EntryQuery) -> Iterator[pa.RecordBatch]:
    buffer = _view(disk, path, split)
    operation = _operation(split)
    ordered = operation == tables.SESSION
    before = split.context[0] if ordered else 0
    at = 0
    while at >= 0:
        stop = None
        batches = scan.record_batches(buffer, at, None, before, tables.BATCH_ROWS, ordered=ordered)
        for records, stop in batches:  # noqa: B007
            keep = tables.wanted_records(records, query)
            if keep.any():
                chosen = records if keep.all() else records[keep]
                yield tables.record_batch(buffer, chosen, split.start, split.file, operation, query)
            before = int(records.replay_time[-1]) if len(records) and ordered else before
        assert stop is not None
        damage = scan.judge_records(buffer, stop, before, written=False)
        if damage is None:
            return
        if stop.offset < split.context[1]:  # no session waits in it, so no look has read it
            at = split.context[1]
            continue
        if split.context[2] <= stop.offset < split.end - split.start:
            return
        finding = CODES.of(damage, split.file, split.start)
        if query.on_damage != "report":
            raise finding.error(path)
        yield from damage_rows(tables.ENTRY_SCHEMA, finding, query)
        at = scan.record_behind(buffer, stop.offset, before)


def _operation(split: Split) -> str:
    return tables.EXHAUSTED if split.file == lay.EXHAUSTED_FILE else tables.SESSION


def _view(disk: Disk, path: str, split: Split) -> memoryview:
    """The bytes of a split; a copy if the file may be cut meanwhile."""
    place = posixpath.join(path, split.file)
    if disk.stat(place) is None:
        raise _gone(place)
    with disk.open(place) as file:
        if split.last is None:
            end = file.size() if split.file in (lay.SNAPSHOT_FILE, *_LOGS) else split.end
            view = memoryview(file.pread(end - split.start, split.start))
        else:
            view = file.view(begin=split.start, end=split.end)[split.start : split.end]
    if split.file not in (lay.SNAPSHOT_FILE, *_LOGS) and len(view) < split.end - split.start:
        raise _gone(place)
    return view


def _gone(place: str) -> RefusedError:
    return RefusedError(
        "this file was removed or cut while the log was read", file=place, advice="Read the directory again"
    )


# Bytes


def entry_fields(
    disk: Disk, path: str, query: EntryQuery, where: ByteRange | None = None
) -> Iterator[ByteField]:
    """The bytes of the entries of a query, field by field."""
    with live_survey(disk, path, examine_bytes=0) as found:
        for split in _splits(found, query):
            if where is not None and not (
                where.file == split.file and where.touches(split.start, split.end - split.start)
            ):
                continue
            view = _view(found.disk, path, split)
            base = 0 if _is_whole(split.file) else split.start
            yield from fields_of(split.file, view, _spans(split, view, query, where), base=base)


def _is_whole(name: str) -> bool:
    """Is this file read whole? The others hold records."""
    return name in (lay.SNAPSHOT_FILE, *_LOGS)


def _spans(split: Split, view: memoryview, query: EntryQuery, where: ByteRange | None) -> Iterator[Span]:
    if split.file == lay.SNAPSHOT_FILE:
        return _descriptor_spans(view, query, where)
    if split.file in _LOGS:
        return _event_spans(view, query, where, checked=split.file == lay.OPERATIONS_FILE)
    ordered = _operation(split) == tables.SESSION
    return _record_spans(view, split.start, split.context[0], query, where, ordered=ordered)


def file_fields(disk: Disk, path: str, where: ByteRange | None = None) -> Iterator[ByteField]:
    """Every byte of every file, field by field."""
    with live_survey(disk, path, examine_bytes=0) as found:
        yield from _every_field(found, where)


def _every_field(found: Survey, where: ByteRange | None) -> Iterator[ByteField]:
    listing, machine = found.listing, found.machine
    described = [file.name for _, chain in sorted(machine.chains.items()) for file in chain]
    names = [name for name in described if name in listing.data]
    names += [name for name in listing.data if name not in machine.files]
    names += [name for name in (lay.SNAPSHOT_FILE, *_LOGS, lay.EXHAUSTED_FILE) if name in listing.known]
    for name in (*names, *listing.scratch):
        if where is not None and where.file != name:
            continue
        file = machine.files.get(name)
        view = file_view(
            found.disk, found.path, name, copy=_is_whole(name) or (file is not None and file.written)
        )
        if view is not None and len(view):
            yield from every_byte(name, view, _file_spans(found, name, view, where), where)


def _file_spans(found: Survey, name: str, view: memoryview, where: ByteRange | None) -> Iterator[Span]:
    """The spans of a whole file; bytes behind the length that the logs give it do not count."""
    if name in found.listing.scratch:
        yield from leftover(len(view))
    elif _is_whole(name):
        yield from _spans(Split(name, 0, len(view), 0, None), view, EntryQuery(), where)
    else:
        file = found.machine.files.get(name)
        end = len(view) if file is None else min(file.length, len(view))
        if name == lay.EXHAUSTED_FILE:
            end = min(found.machine.exhausted, len(view))
        yield from _record_spans(
            view[:end], 0, 0, EntryQuery(), where, ordered=name != lay.EXHAUSTED_FILE, on=True
        )
        if end < len(view):
            yield Span(
                end, len(view), "rest", "behind the length that the descriptors tell; it does not count"
            )


def _descriptor_spans(view: memoryview, query: EntryQuery, where: ByteRange | None) -> Iterator[Span]:
    found, error = _descriptors(view)
    for begin, length, item in found:
        if where is not None and not where.touches(begin, length):
            continue
        term, index = np.array([item.last_id.term], np.uint64), np.array([item.last_id.index], np.uint64)
        if tables.between(term, index, query).all():
            yield from fields.descriptor(view, begin)
    if error is not None:
        yield from damaged(error.offset or 0, len(view), error.message)


def _event_spans(
    view: memoryview, query: EntryQuery, where: ByteRange | None, *, checked: bool
) -> Iterator[Span]:
    log, parsed, damage = _read_log(view, checked=checked)
    end = 0
    if log is not None and parsed is not None:
        yield from fields.log_header(view)
        keep = tables.wanted_events(view, log.events, parsed, query)
        ends = log.events.payload + log.events.length
        begins = np.concatenate([[lay.LOG_HEADER_SIZE], ends[:-1]])[
            : len(ends)
        ]  # zeros belong to what follows
        if where is not None:
            keep &= where.touches(begins, ends - begins)
        for row in np.flatnonzero(keep).tolist():
            begin = int(log.events.offset[row])
            yield from fields.event(view, int(begins[row]), begin, log.events.end(row), checked=checked)
        end = log.events.end(len(log.events) - 1) if len(log.events) else lay.LOG_HEADER_SIZE
        if damage is None:
            yield from rest(end, len(view), f"{len(view) - end} zeros, written ahead", "reserve")
    if damage is not None:
        yield from damaged(end, len(view), damage.message, damage.expected)


def _record_spans(
    buffer: memoryview,
    base: int,
    before: int,
    query: EntryQuery,
    where: ByteRange | None,
    *,
    ordered: bool,
    on: bool = False,
) -> Iterator[Span]:
    """The records of a range that begins at `base`; with `on` also those behind damage, where good ones follow."""
    at = 0
    while at >= 0:
        stop = None
        for records, stop in scan.record_batches(buffer, at, None, before, ordered=ordered):  # noqa: B007
            keep = tables.wanted_records(records, query)
            if where is not None:
                keep &= where.touches(base + records.offset, records.size)
            for offset in records.offset[keep].tolist():
                yield from fields.record(buffer, offset, base)
            before = int(records.replay_time[-1]) if len(records) and ordered else before
        assert stop is not None
        damage = scan.judge_records(buffer, stop, before, written=False)
        if damage is None:
            return
        at = scan.record_behind(buffer, stop.offset, before) if on else -1
        end = base + (at if at >= 0 else len(buffer))
        yield from damaged(base + stop.offset, end, damage.message, damage.expected)


# State


def state(disk: Disk, path: str, as_of: StateID | None, seen: Surveys = UNSHARED) -> Iterator[pa.RecordBatch]:
    """Every session that waits, in the order of replay; now, or as of an operation."""
    with told_when_it_goes(path), sound_survey(disk, path, examine_bytes=EXAMINE_BYTES) as now:
        found = now if as_of is None else survey_at(now, as_of)
        for pieces, order in merge(found, as_of):
            yield from tables.state_batches(pieces, order)


def state_frame(workers: Workers, disk: Disk, path: str, as_of: StateID | None) -> Any:
    """The state as a table of the workers' own kind; its tasks read the files by name."""
    from flintlog.dialects.mpy6a import distributed

    def look() -> Survey:
        found = survey(disk, path, examine_bytes=EXAMINE_BYTES)
        found.refuse_damage()
        return found

    found = settled(disk, path, look)
    return distributed.state_frame(workers, found if as_of is None else survey_at(found, as_of), as_of)
