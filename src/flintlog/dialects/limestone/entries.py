"""The entries of a directory, piece by piece: a split is a file, or a range of a large one, read by any task.

A piece that does not hold what the plan said (damage, a file that went away) is an error, never fewer rows.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from flintlog.core.dialect import ByteField, EntryQuery, Split
from flintlog.dialects.limestone import explain as fields
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone import scan, tables
from flintlog.dialects.limestone.judge import judge
from flintlog.dialects.limestone.replay import State
from flintlog.dialects.limestone.scan import Around, Walk
from flintlog.dialects.limestone.survey import Survey, damage_of, survey
from flintlog.disk import Disk

SPLIT_BYTES = 128 << 20
_NOWHERE = -1


def splits(disk: Disk, path: str, query: EntryQuery, split_bytes: int = SPLIT_BYTES) -> list[Split]:
    """The compacted files that count, then the logs; large ones in ranges."""
    found = survey(disk, path, walk=False)
    found.refuse_damage()
    sizes = {**found.listing.compacted, lay.COMPACTED_PREVIOUS: found.listing.previous or 0}
    result = [
        split
        for name in found.base
        for split in _cut(found, name, sizes[name], split_bytes, base=True, active=False)
    ]
    for log in found.listing.logs:
        result += _cut(found, log.name, log.size, split_bytes, base=False, active=log.active)
    return result


def _cut(
    found: Survey, name: str, size: int, split_bytes: int, *, base: bool, active: bool
) -> Iterator[Split]:
    """The ranges of a file. One that is larger than a range is walked to find where records begin."""
    facts = (found.durable, int(found.end_markers), int(base), int(active))
    if not size:
        return
    if size <= split_bytes:
        yield Split(name, 0, size, 0, None, (*facts, _NOWHERE, 0, 0))
        return
    view = found.view(name, active=active)
    start, around = 0, None
    while start < len(view):
        walk = scan.walk(view, start, start + split_bytes, around)
        place = (_NOWHERE, 0, 0) if around is None else (around.offset, around.epoch, around.kind)
        end = walk.stop.offset if walk.stop.reason == scan.PAUSED else len(view)
        first = min(place[1], 2**63 - 1)
        yield Split(name, start, end, first, None, (*facts, *place))
        start, around = end, _around(walk)


def _around(walk: Walk) -> Around | None:
    if not walk.stop.inside:
        return None
    last = walk.snippets[-1:]
    return Around(int(last.offset[0]), int(last.epoch[0]), int(last.kind[0]))


class _Piece:
    """What one split holds."""

    def __init__(self, disk: Disk, path: str, split: Split) -> None:
        durable, end_markers, base, active, offset, epoch, kind = split.context
        self.view = Survey(disk, path).view(split.file, active=bool(active))
        around = None if offset == _NOWHERE else Around(offset, epoch, kind)
        self.walk = scan.walk(self.view, split.start, split.end, around)
        self.tail = judge(
            self.view,
            self.walk,
            lay.NUMBER_MAX if base else durable,
            end_markers=bool(end_markers) or bool(base),
        )
        self.statuses = tables.statuses_of(self.walk.snippets, durable, base=bool(base))
        self.base = bool(base)

    def refuse_damage(self, path: str, split: Split, query: EntryQuery) -> None:
        """Raise for entries that should be there and cannot be read."""
        if self.tail is None or (self.tail.torn and not self.base):
            return
        snippets = self.walk.snippets
        if query.last is not None and len(snippets) and int(snippets.epoch[-1]) > query.last[0]:
            return
        raise damage_of(split.file, self.tail).error(path)


def read_split(disk: Disk, path: str, split: Split, query: EntryQuery) -> Iterator[pa.RecordBatch]:
    """The entries of one piece that a query asks for."""
    piece = _Piece(disk, path, split)
    snippets = piece.walk.snippets
    for entries in scan.read_entries(piece.view, snippets, split.start):
        keep = tables.wanted(piece.view, entries, snippets, query)
        if keep.any():
            some = entries if keep.all() else entries[keep]
            yield from tables.entry_batches(piece.view, some, snippets, piece.statuses, split.file, query)
    piece.refuse_damage(path, split, query)


def explain(disk: Disk, path: str, query: EntryQuery) -> Iterator[ByteField]:
    """The bytes of the entries of a query, field by field."""
    for split in splits(disk, path, query):
        piece = _Piece(disk, path, split)
        snippets = piece.walk.snippets
        seen = -1
        for entries in scan.read_entries(piece.view, snippets, split.start):
            keep = tables.wanted(piece.view, entries, snippets, query)
            for at in keep.nonzero()[0].tolist():
                which = int(entries.snippet[at])
                if which != seen:
                    yield from fields.explain_end(piece.view, snippets, seen, split.file)
                    yield from fields.explain_begin(piece.view, snippets, which, split.file)
                seen = which
                yield from fields.explain_entry(piece.view, int(entries.offset[at]), split.file)
        yield from fields.explain_end(piece.view, snippets, seen, split.file)
        if piece.tail is not None:
            yield fields.explain_tail(piece.view, piece.tail, split.file)


def state(disk: Disk, path: str, as_of: int | None) -> Iterator[pa.RecordBatch]:
    """The live keys, now or at an epoch."""
    found = State(survey(disk, path), as_of)
    for batches in found.mapped(lambda live: list(tables.state_batches(found.views, found.names, live))):
        yield from batches
