"""The entries of a directory: a split is an index file, or a range of a large one, and any task can read it.

A split that does not hold what the plan said (damage, a file that went away) is an error, never fewer rows.
"""

from __future__ import annotations

import errno
import posixpath
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from flintlog.core.dialect import ByteField, ByteRange, EntryQuery, Split
from flintlog.core.fields import Span
from flintlog.core.file_fields import damaged, every_byte, fields_of, file_view, leftover
from flintlog.core.finding import Damage
from flintlog.core.live import too_fast
from flintlog.core.position import span
from flintlog.core.surveys import UNSHARED, Surveys
from flintlog.core.workers import Workers
from flintlog.dialects.zmqraft import fields, scan, tables
from flintlog.dialects.zmqraft import layout as lay
from flintlog.dialects.zmqraft.files import list_files, read_head, read_whole
from flintlog.dialects.zmqraft.findings import CODES
from flintlog.dialects.zmqraft.scan import Table
from flintlog.dialects.zmqraft.state import PROPERTIES_OF
from flintlog.dialects.zmqraft.survey import (
    LOOKS_MAX,
    PAUSE_SECONDS,
    IndexRead,
    Survey,
    glance,
    steady_survey,
)
from flintlog.disk import Disk, File
from flintlog.disk.disk import COPY_BYTES_MAX
from flintlog.errors import DamageError, DiskError, RefusedError


def splits(disk: Disk, path: str, query: EntryQuery) -> list[Split]:
    """The index files of the log that can hold entries of the query."""
    return _splits_of(steady_survey(disk, path), query)


def _splits_of(found: Survey, query: EntryQuery) -> list[Split]:
    files = found.range.files
    result: list[Split] = []
    for at, first in enumerate(files):
        last = files[at + 1] - 1 if at + 1 < len(files) else None
        if query.first is not None and last is not None and last < query.first[0]:
            continue
        if query.last is not None and first > query.last[0]:
            break
        result += _cut(found.reads[first], first, last, query)
    return result


def _cut(read: IndexRead, first: int, last: int | None, query: EntryQuery) -> Iterator[Split]:
    """The ranges of an index file, by its offset table."""
    file, table = read.file, read.table
    step = query.range_bytes(file.size)
    if step is None or table is None:
        yield Split(file.name, 0, file.size, first, last)
        return
    # A range begins with the first entry at or behind each multiple of its size.
    begins = np.concatenate(([0], table.ends[:-1])) + table.data_start
    marks = np.arange(table.data_start, file.size, step)
    slots = np.unique(np.searchsorted(begins, marks)).tolist()
    slots = [slot for slot in slots if 0 < slot < len(begins)]
    for begin, end in zip([0, *slots], [*slots, None], strict=True):
        final = last if end is None else first + end - 1
        if query.first is not None and final is not None and final < query.first[0]:
            continue
        if query.last is not None and first + begin > query.last[0]:
            return
        start = int(begins[begin]) if begin else 0
        stop = file.size if end is None else int(begins[end])
        yield Split(
            file.name,
            start,
            stop,
            first + begin,
            final,
            (first, begin, -1 if end is None else end, int(last is None)),
        )


def read_split(disk: Disk, path: str, split: Split, query: EntryQuery) -> Iterator[pa.RecordBatch]:
    """The entries of one index file, or of a range of it, that a query asks for."""
    view, table, begin, end = _read(disk, path, split)
    entries, damage = scan.read_entries(view, table, begin, end)
    for at in range(0, len(entries), tables.BATCH_ENTRIES):
        some = entries[at : at + tables.BATCH_ENTRIES]
        keep = tables.wanted(view, some, query)
        if keep.any():
            yield tables.entry_batch(view, some if keep.all() else some[keep], split.file, query)
    if query.last is None or query.last[0] >= split.first + len(entries):
        _refuse_damage(
            len(table.ends) if end is None else min(end, len(table.ends)), table, damage, split, disk, path
        )


def _read(
    disk: Disk, path: str, split: Split, *, copy: bool = False
) -> tuple[memoryview, Table, int, int | None]:
    """The bytes, the table and the slots of a split."""
    first, begin, end, newest = split.context or (split.first, 0, -1, int(copy or split.last is None))
    with _open(disk, posixpath.join(path, split.file)) as file:
        if split.context:
            _, table = read_head(file, first, copy=bool(newest))
            view = file.view(copy=bool(newest), begin=split.start, end=split.end if end >= 0 else None)
        else:
            view, table = read_whole(file, first, copy=bool(newest))
    if isinstance(table, Damage):
        raise CODES.of(table, split.file).error(path)
    return view, table, begin, None if end < 0 else end


def _open(disk: Disk, place: str) -> File:
    try:
        return disk.open(place)
    except DiskError as error:
        if error.errno != errno.ENOENT:
            raise
        raise RefusedError(
            "this index file was removed while the log was read: a snapshot covers it now, or it was rolled back",
            file=place,
            advice="Read the directory again",
        ) from error


def _refuse_damage(
    slots: int, table: Table, damage: Damage | None, split: Split, disk: Disk, path: str
) -> None:
    """Raise for entries of these `slots` that should be there and cannot be read."""
    if damage is not None:
        raise CODES.of(damage, split.file).error(path)
    last = table.first + slots - 1
    if split.last is not None and last != split.last:
        following = posixpath.join(path, lay.index_path(split.last + 1))
        if not split.context and disk.stat(following) is None:
            raise RefusedError(
                "the log was rolled back while it was read",
                file=posixpath.join(path, split.file),
                advice="Read the directory again",
            )
        raise CODES.finding(
            "log-gap",
            f"missing behind this file: index {span(last + 1, split.last)}",
            split.file,
            None,
            f"index {split.last}",
            f"index {last}",
        ).error(path)


def _whole(query: EntryQuery) -> EntryQuery:
    return replace(query, split_bytes=sys.maxsize)


def entry_fields(
    disk: Disk, path: str, query: EntryQuery, where: ByteRange | None = None
) -> Iterator[ByteField]:
    """The bytes of the entries of a query, field by field."""
    for split in splits(disk, path, _whole(query)):
        if where is None or where.file == split.file:
            view, table, _, _ = _read(disk, path, split)
            yield from fields_of(split.file, view, _index_spans(view, table, query, where))


def _index_spans(
    view: memoryview, table: Table, query: EntryQuery, where: ByteRange | None
) -> Iterator[Span]:
    entries, damage = scan.read_entries(view, table)
    keep = tables.wanted(view, entries, query)
    if where is not None:
        keep &= where.touches(entries.offset, entries.length)
    chosen = entries[keep]
    yield from fields.head(view, table, chosen)
    for at in range(len(chosen)):
        yield from fields.entry(view, chosen, at)
    if damage is not None:
        yield from damaged(damage.offset, len(view), damage.message, damage.expected)


def file_fields(disk: Disk, path: str, where: ByteRange | None = None) -> Iterator[ByteField]:
    """Every byte of every file, field by field."""
    listing = list_files(disk, path)
    firsts = {file.name: file.first for file in listing.index_files}
    newest = next(reversed(firsts), None)
    others = [name for name in (listing.snapshot, *PROPERTIES_OF) if name in listing.sizes]
    for name in (*firsts, *others, *listing.history, *listing.scratch):
        if where is not None and where.file != name:
            continue
        may_be_cut = name == newest or name in PROPERTIES_OF
        view = file_view(disk, path, name, copy=may_be_cut)
        if view is None or not len(view):
            continue
        if name in firsts:
            spans = fields.index(view, firsts[name], where)
        elif name in listing.scratch or name.startswith(lay.LOG_DIRECTORY):
            spans = leftover(len(view))
        elif name == listing.snapshot or lay.is_predecessor(name, listing.snapshot):
            spans = fields.snapshot(view)
        else:
            own = next(own for own in PROPERTIES_OF if name.startswith(own))
            spans = fields.state(view, own, where)
        yield from every_byte(name, view, spans, where)


def live_splits(found: Survey, as_of: int | None) -> tuple[list[Split], tuple[int, int]]:
    """The splits with the entries behind the snapshot, now or up to an index; and the first and last index of these."""
    found.refuse_damage()
    if as_of is not None:
        found.refuse_missing(as_of)
    live = (found.range.first, found.range.last if as_of is None else as_of)
    return _splits_of(found, _whole(EntryQuery(first=live[:1], last=live[1:]))), live


def state(disk: Disk, path: str, as_of: int | None, seen: Surveys = UNSHARED) -> Iterator[pa.RecordBatch]:
    """The live range of the log. Up to some size it is of one moment, also under a writer; more is read file by
    file."""
    for left in reversed(range(LOOKS_MAX)):
        pieces, live = live_splits(seen.take("part", partial(steady_survey, disk, path)), as_of)
        if sum(split.end for split in pieces) > COPY_BYTES_MAX:
            return (batch for split in pieces for batch in _state_rows(disk, path, live, split))
        try:
            held = [_Held(split, *_read(disk, path, split, copy=True)[:2]) for split in pieces]
            if all(piece.stands(disk, path) for piece in held):
                return (batch for piece in held for batch in piece.rows(path, live))
        except (RefusedError, DamageError):
            if not left:
                raise
        disk.pause(PAUSE_SECONDS)
    raise too_fast(path)


@dataclass(frozen=True, slots=True)
class _Held:
    """A split with a copy of its bytes."""

    split: Split
    view: memoryview
    table: Table

    def stands(self, disk: Disk, path: str) -> bool:
        """Does the disk still have these entries? Then it had them when the last split was read.

        In a Raft log index and term identify an entry.
        """
        entries, damage = scan.read_entries(self.view, self.table)
        view, table, _, _ = _read(disk, path, self.split, copy=True)
        now, damage_now = scan.read_entries(view, table, 0, len(self.table.ends))
        return (
            damage == damage_now
            and np.array_equal(now.offset, entries.offset)
            and np.array_equal(now.term, entries.term)
        )

    def rows(self, path: str, live: tuple[int, int]) -> Iterator[pa.RecordBatch]:
        """The entries that are live."""
        return _live_rows(self.view, self.table, self.split, path, live)


def _state_rows(disk: Disk, path: str, live: tuple[int, int], split: Split) -> Iterator[pa.RecordBatch]:
    """The live entries of a split."""
    view, table, _, _ = _read(disk, path, split)
    return _live_rows(view, table, split, path, live)


def _live_rows(
    view: memoryview, table: Table, split: Split, path: str, live: tuple[int, int]
) -> Iterator[pa.RecordBatch]:
    first, last = live
    begin = max(first - split.first, 0)
    entries, damage = scan.read_entries(view, table, begin, last - split.first + 1)
    if damage is not None:
        raise CODES.of(damage, split.file).error(path)
    if split.last is not None and split.last <= last and begin + len(entries) <= split.last - split.first:
        raise CODES.of(scan.zero_slot(table), split.file).error(path)
    for at in range(0, len(entries), tables.BATCH_ENTRIES):
        yield tables.state_batch(view, entries[at : at + tables.BATCH_ENTRIES])


def state_frame(workers: Workers, disk: Disk, path: str, as_of: int | None) -> Any:
    """The state as a table of the workers' own kind; a task reads each index file."""
    pieces, live = live_splits(steady_survey(disk, path, reader=partial(workers.map, glance)), as_of)
    return workers.frame(partial(_state_rows, disk, path, live), pieces, tables.STATE_SCHEMA)
