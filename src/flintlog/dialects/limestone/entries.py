"""The entries of a directory, split by split: a split is a file, or a range of a large one, and any task can read it.

A split that does not hold what the plan said (damage, a file that went away) is an error, never fewer rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from flintlog.core.dialect import ByteField, ByteRange, EntryQuery, Split
from flintlog.core.entries import damage_rows
from flintlog.core.fields import Span
from flintlog.core.file_fields import asked, every_byte, fields_of, file_view, leftover
from flintlog.core.finding import Finding, Severity
from flintlog.core.live import settled, suppress_gone
from flintlog.core.surveys import UNSHARED, Surveys
from flintlog.core.workers import Workers, threads, threads_for
from flintlog.dialects.limestone import fields, scan, tables
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone.base import damage_of
from flintlog.dialects.limestone.files import blobs
from flintlog.dialects.limestone.judge import Tail, judge, resumption
from flintlog.dialects.limestone.replay import State
from flintlog.dialects.limestone.scan import Around, Walk
from flintlog.dialects.limestone.survey import Survey, survey
from flintlog.disk import Disk

_NOWHERE = -1
_FIELDS_BYTES = 64 << 20  # explained at a time
_SLACK = 1 << 20  # the last record of a range usually ends within so many bytes behind it


def splits(disk: Disk, path: str, query: EntryQuery) -> list[Split]:
    """The compacted files that count, then the logs; large ones in ranges."""
    found = _glance(disk, path)
    result = _damaged(found, query)
    sizes = found.sizes
    files = [(name, True, False) for name in found.base]
    files += [(log.name, False, log.active) for log in found.listing.logs]

    def cut(file: tuple[str, bool, bool]) -> list[Split]:
        name, base, active = file
        size = sizes[name]
        return list(_cut(found, name, size, query.range_bytes(size), base=base, active=active))

    with threads(threads_for(found.size)) as pool:
        for some in pool.map(cut, files):
            result += some
    return result


def _glance(disk: Disk, path: str) -> Survey:
    """A survey without the logs. It walks them only when the epoch files lost records: then only the logs say by which
    epoch they are judged."""
    found = survey(disk, path, walk=False)
    if found.has_lost_epochs:
        found.reach = survey(disk, path).reach
    return found


def _damaged(found: Survey, query: EntryQuery) -> list[Split]:
    """Splits that report damage outside the logs; raises where the query or the damage does not let reading go on."""
    grave = [item for item in found.findings if item.is_grave]
    if query.on_damage == "fail" or any(item.severity is Severity.UNSUPPORTED for item in grave):
        found.refuse_damage()
    return [Split(item.file or "", 0, 0, 0, None, damage=item) for item in grave]


def _cut(
    found: Survey, name: str, size: int, step: int | None, *, base: bool, active: bool
) -> Iterator[Split]:
    """The ranges of a file. A file larger than a range is walked to find where records begin."""
    facts = (found.durable, found.reach, int(found.end_markers), int(base), int(active))
    if not size:
        return
    if step is None:
        yield Split(name, 0, size, 0, None, (*facts, _NOWHERE, 0, 0))
        return
    start, around = 0, None
    while start < size:
        view, walk = _walk_range(found, name, active, start, step, around)
        size = len(view)
        place = (_NOWHERE, 0, 0) if around is None else (around.offset, around.epoch, around.kind)
        end = walk.stop.offset if walk.stop.reason == scan.PAUSED else size
        first = min(place[1], 2**63 - 1)
        yield Split(name, start, end, first, None, (*facts, *place))
        start, around = end, _around(walk)


def _walk_range(
    found: Survey, name: str, active: bool, start: int, step: int, around: Around | None
) -> tuple[memoryview, Walk]:
    """The bytes and the snippets of the range that begins at `start`; the view is as long as the file."""
    upto = start + step + _SLACK
    while True:
        view = found.view(name, active=active, begin=start, end=upto)
        walk = scan.walk(view[:upto], start, start + step, around)
        if walk.stop.reason not in (scan.CUT, scan.EDGE) or upto >= len(view):
            return view, walk
        upto += upto - start  # the last record is larger, or ends where the view does


def _around(walk: Walk) -> Around | None:
    if not walk.stop.inside:
        return None
    last = walk.snippets[-1:]
    return Around(int(last.offset[0]), int(last.epoch[0]), int(last.kind[0]))


class _Piece:
    """The content of one split, or of the rest of it from `start` on."""

    def __init__(self, found: Survey, split: Split, start: int, around: Around | None) -> None:
        durable, self.reach, end_markers, base, active, *_ = split.context
        self.base = bool(base)
        self.start = start
        self.view = found.view(split.file, active=bool(active), begin=start, end=split.end)
        self.walk = scan.walk(self.view, start, split.end, around)
        if not self.walk.stop.good:  # its meaning depends on what follows
            self.view = found.view(split.file, active=bool(active))
            self.walk = scan.walk(self.view, start, split.end, around)
        reach = lay.NUMBER_MAX if base else self.reach
        self.tail = judge(self.view, self.walk, reach, end_markers=bool(end_markers) or self.base)
        self.statuses = tables.statuses_of(self.walk.snippets, durable, base=self.base)

    def damage(self, split: Split, query: EntryQuery) -> Finding | None:
        """The damage that hides entries of the query, if any."""
        if self.tail is None or (self.tail.torn and not self.base):
            return None
        snippets = self.walk.snippets
        if query.last is not None and len(snippets) and int(snippets.epoch[-1]) > query.last[0]:
            return None
        return damage_of(split.file, self.tail)

    def behind(self) -> tuple[int, Around | None]:
        """Where reading goes on behind the damage."""
        if self.base:
            return len(self.view), None
        return _resumption(self.view, self.walk, self.reach)


def _resumption(view: memoryview, walk: Walk, reach: int) -> tuple[int, Around | None]:
    snippets = walk.snippets
    counted = snippets[(snippets.kind == lay.BEGIN) & (snippets.epoch <= np.uint64(reach))]
    epoch = max(int(counted.epoch[-1]), 1) if len(counted) else 1
    return resumption(view, walk.stop.offset, epoch, reach)


def _first_piece(disk: Disk, path: str, split: Split) -> _Piece:
    *_, offset, epoch, kind = split.context
    around = None if offset == _NOWHERE else Around(offset, epoch, kind)
    return _Piece(Survey(disk, path), split, split.start, around)


def read_split(disk: Disk, path: str, split: Split, query: EntryQuery) -> Iterator[pa.RecordBatch]:
    """The entries of one split that a query asks for."""
    piece = _first_piece(disk, path, split)
    while True:
        snippets = piece.walk.snippets
        for entries in scan.read_entries(piece.view, snippets, piece.start):
            keep = tables.wanted(piece.view, entries, snippets, query)
            if keep.any():
                some = entries if keep.all() else entries[keep]
                yield from tables.entry_batches(piece.view, some, snippets, piece.statuses, split.file, query)
        damage = piece.damage(split, query)
        if damage is None:
            return
        if query.on_damage != "report":
            raise damage.error(path)
        yield from damage_rows(tables.ENTRY_SCHEMA, damage, query)
        start, around = piece.behind()
        if start >= len(piece.view):
            return
        piece = _Piece(Survey(disk, path), split, start, around)


def entry_fields(
    disk: Disk, path: str, query: EntryQuery, where: ByteRange | None = None
) -> Iterator[ByteField]:
    """The bytes of the entries of a query, field by field."""
    for split in splits(disk, path, query):
        elsewhere = where is not None and not (
            where.file == split.file and where.touches(split.start, split.end - split.start)
        )
        if not elsewhere and split.damage is None:
            piece = _first_piece(disk, path, split)
            yield from fields_of(split.file, piece.view, _piece_spans(piece, query, where))


def _piece_spans(piece: _Piece, query: EntryQuery, where: ByteRange | None) -> Iterator[Span]:
    snippets = piece.walk.snippets
    seen = -1
    for entries in scan.read_entries(piece.view, snippets, piece.start):
        keep = tables.wanted(piece.view, entries, snippets, query)
        if where is not None:
            around = lay.MARKER_SIZE + lay.END_SIZE  # a marker is explained with the entries beside it
            keep &= where.touches(entries.offset - around, entries.length + 2 * around)
        for at in keep.nonzero()[0].tolist():
            which = int(entries.snippet[at])
            if which != seen:
                yield from fields.end(piece.view, snippets, seen)
                yield from fields.begin(piece.view, snippets, which)
            seen = which
            yield from fields.entry(piece.view, int(entries.offset[at]))
    yield from fields.end(piece.view, snippets, seen)
    if piece.tail is not None:
        yield fields.tail(piece.tail, len(piece.view))


def file_fields(disk: Disk, path: str, where: ByteRange | None = None) -> Iterator[ByteField]:
    """Every byte of every file, field by field."""
    found = _glance(disk, path)
    listing = found.listing
    active = {log.name for log in listing.logs if log.active}
    logs = {
        *listing.compacted,
        lay.COMPACTED_PREVIOUS,
        lay.SNAPSHOT_FILE,
        *(log.name for log in listing.logs),
    }
    bases = logs - {log.name for log in listing.logs}
    for name in _names(found, where):
        if name in logs:
            with suppress_gone():
                yield from _log_fields(found, name, where, base=name in bases, active=name in active)
            continue
        view = file_view(disk, path, name, copy=name == lay.EPOCH_FILE)
        if view is not None and len(view):
            yield from every_byte(name, view, _spans_of(found, name, view, where), where)


def _names(found: Survey, where: ByteRange | None) -> list[str]:
    """All files in the order of the inventory, then the blobs; or only the one asked for, if it is known."""
    listing = found.listing
    names = [*listing.manifests, *listing.catalogs, *listing.epochs, *listing.odd_epochs, *listing.compacted]
    names += [lay.COMPACTED_PREVIOUS] if listing.previous is not None else []
    names += [log.name for log in listing.logs]
    names += [lay.SNAPSHOT_FILE] if listing.snapshot is not None else []
    names += [lay.WITNESS_FILE] if listing.witness is not None else []
    names += listing.scratch
    if where is None or where.file.startswith(f"{lay.BLOB_DIRECTORY}/"):
        names += map(lay.blob_path, sorted(blobs(found.disk, found.path)))
    return names if where is None else [name for name in names if name == where.file]


def _spans_of(found: Survey, name: str, view: memoryview, where: ByteRange | None) -> Iterator[Span]:
    listing = found.listing
    if name in listing.manifests:
        return fields.manifest(view, name)
    if name in listing.catalogs:
        return fields.catalog(view, name, where)
    if name in listing.epochs or name in listing.odd_epochs or name == lay.WITNESS_FILE:
        return fields.epochs(view, name, where)
    if name in listing.scratch:
        return leftover(len(view))
    return fields.blob(view, name)


def _log_fields(
    found: Survey, name: str, where: ByteRange | None, *, base: bool, active: bool
) -> Iterator[ByteField]:
    """The fields of a file of records, a range at a time; reading goes on behind damage where it can."""
    start, around, size = 0, None, 1
    while start < size and (where is None or start < where.end):
        view, walk = _walk_range(found, name, active, start, _FIELDS_BYTES, around)
        size, end = len(view), walk.stop.offset
        tail, following = None, _around(walk)
        if not walk.stop.good:
            view = found.view(name, active=active)
            tail, end, following = _behind(found, view, walk, base=base)
        part = ByteRange(name, start, end)
        if where is not None:
            part = ByteRange(name, max(start, where.begin), min(end, where.end))
        if part.begin < part.end:
            spans = _log_spans(view, walk, start, part, inside=around is not None)
            tails = [fields.tail(tail, end)] if tail is not None and tail.offset < end else []
            yield from every_byte(name, view[:end], chain(spans, tails), part)
        if tail is not None and tail.offset == end and asked(where, end, end):
            yield from fields_of(name, view, [fields.tail(tail, end)])  # only the marker before it is gone
        start, around = end, following


def _behind(found: Survey, view: memoryview, walk: Walk, *, base: bool) -> tuple[Tail, int, Around | None]:
    """The tail at which a walk stopped, where it ends, and the snippet around what follows."""
    reach = lay.NUMBER_MAX if base else found.reach
    tail = judge(view, walk, reach, end_markers=found.end_markers or base)
    assert tail is not None
    if base or tail.torn:
        return tail, len(view), None
    start, around = _resumption(view, walk, reach)
    return tail, start, around


def _log_spans(view: memoryview, walk: Walk, start: int, where: ByteRange, *, inside: bool) -> Iterator[Span]:
    """The markers and the entries of a range in file order; `inside`: the first snippet began before the range."""
    snippets = walk.snippets
    begins = snippets.offset.copy()
    begins[: int(inside)] = _NOWHERE
    ends = np.where(snippets.closed == 1, snippets.end - lay.END_SIZE, _NOWHERE)
    offsets, lengths = [], []
    for entries in scan.read_entries(view, snippets, start, walk.stop.offset):
        keep = where.touches(entries.offset, entries.length)
        offsets.append(entries.offset[keep])
        lengths.append(entries.length[keep])
    places = np.concatenate([begins, ends, *offsets])
    markers = [np.full(len(begins), lay.MARKER_SIZE), np.full(len(ends), lay.END_SIZE)]
    keep = (places >= 0) & where.touches(places, np.concatenate([*markers, *lengths]))
    chosen = np.flatnonzero(keep)
    for item in chosen[np.argsort(places[chosen], kind="stable")].tolist():
        if item < len(begins):
            yield from fields.begin(view, snippets, item)
        elif item < len(begins) + len(ends):
            yield from fields.end(view, snippets, item - len(begins))
        else:
            yield from fields.entry(view, int(places[item]))


def state(disk: Disk, path: str, as_of: int | None, seen: Surveys = UNSHARED) -> Iterator[pa.RecordBatch]:
    """The live keys, now or at an epoch."""

    def begun() -> Iterator[list[pa.RecordBatch]]:
        """The batches of one look, the first one made: by then every file was read, so a later change does no harm."""
        found = State(seen.take("whole", partial(survey, disk, path)), as_of)
        mapped = found.mapped(lambda live: list(tables.state_batches(found.views, found.names, live)))
        return chain([next(mapped, [])], mapped)

    for batches in settled(disk, path, begun):
        yield from batches


def state_frame(workers: Workers, disk: Disk, path: str, as_of: int | None) -> Any:
    """The state as a table of the workers' own kind."""
    from flintlog.dialects.limestone import distributed

    return distributed.state_frame(workers, disk, path, as_of)
