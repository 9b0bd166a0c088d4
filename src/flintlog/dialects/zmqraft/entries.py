"""The entries of a directory, piece by piece: one split for each index file, read on its own by any task.

A piece that does not hold what the plan said (damage, a file that went away) is an error, never fewer rows.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from functools import partial
from typing import Any

import pyarrow as pa

from flintlog.core.dialect import ByteField, EntryQuery, Split
from flintlog.core.finding import Finding, Severity
from flintlog.core.position import span
from flintlog.core.workers import Workers
from flintlog.dialects.zmqraft import explain as fields
from flintlog.dialects.zmqraft import scan, tables
from flintlog.dialects.zmqraft.scan import Damage, Table
from flintlog.dialects.zmqraft.survey import Survey, glance, survey
from flintlog.disk import Disk
from flintlog.errors import RefusedError


def splits(disk: Disk, path: str, query: EntryQuery) -> list[Split]:
    """The index files of the log that can hold entries of the query."""
    return _splits_of(survey(disk, path), query)


def _splits_of(found: Survey, query: EntryQuery) -> list[Split]:
    files = found.range.files
    result = []
    for at, first in enumerate(files):
        last = files[at + 1] - 1 if at + 1 < len(files) else None
        if query.first is not None and last is not None and last < query.first[0]:
            continue
        if query.last is not None and first > query.last[0]:
            break
        file = found.reads[first].file
        result.append(Split(file.name, 0, file.size, first, last))
    return result


def read_split(disk: Disk, path: str, split: Split, query: EntryQuery) -> Iterator[pa.RecordBatch]:
    """The entries of one index file that a query asks for."""
    view, table = _read(disk, path, split)
    entries, damage = scan.read_entries(view, table)
    for begin in range(0, len(entries), tables.BATCH_ENTRIES):
        some = entries[begin : begin + tables.BATCH_ENTRIES]
        keep = tables.wanted(view, some, query)
        if keep.any():
            yield tables.entry_batch(view, some if keep.all() else some[keep], split.file, query)
    if query.last is None or query.last[0] >= split.first + len(entries):
        _refuse_damage(table, damage, split, path)


def _read(disk: Disk, path: str, split: Split) -> tuple[memoryview, Table]:
    place = posixpath.join(path, split.file)
    if disk.stat(place) is None:
        raise RefusedError(
            "this index file was removed while the log was read; a snapshot covers it now",
            file=place,
            advice="Read the directory again",
        )
    with disk.open(place) as file:
        view = file.view(copy=split.last is None)
    table = scan.read_table(view, split.first)
    if isinstance(table, Damage):
        raise table.finding(split.file).error(path)
    return view, table


def _refuse_damage(table: Table, damage: Damage | None, split: Split, path: str) -> None:
    """Raise for entries that should be there and cannot be read."""
    if damage is not None:
        raise damage.finding(split.file).error(path)
    last = split.first + len(table.ends) - 1
    if split.last is not None and last != split.last:
        raise Finding(
            Severity.CORRUPT,
            "log-gap",
            f"missing behind this file: index {span(last + 1, split.last)}",
            split.file,
            None,
            f"index {split.last}",
            f"index {last}",
        ).error(path)


def explain(disk: Disk, path: str, query: EntryQuery) -> Iterator[ByteField]:
    """The bytes of the entries of a query, field by field."""
    for split in splits(disk, path, query):
        view, table = _read(disk, path, split)
        entries, damage = scan.read_entries(view, table)
        chosen = entries[tables.wanted(view, entries, query)]
        yield from fields.explain_head(view, table, split.file, chosen)
        for at in range(len(chosen)):
            yield from fields.explain_entry(view, chosen, at, split.file)
        if damage is not None:
            yield fields.explain_damage(view, damage, split.file)


def live_splits(found: Survey, as_of: int | None) -> tuple[list[Split], tuple[int, int]]:
    """The pieces that hold the entries behind the snapshot, now or up to an index; and the first and last of these."""
    found.refuse_damage()
    last = found.range.last if as_of is None else min(as_of, found.range.last)
    live = (found.range.first, last)
    return _splits_of(found, EntryQuery(first=live[:1], last=live[1:])), live


def state(disk: Disk, path: str, as_of: int | None) -> Iterator[pa.RecordBatch]:
    """The live range of the log."""
    pieces, live = live_splits(survey(disk, path), as_of)
    return (batch for split in pieces for batch in _state_rows(disk, path, live, split))


def _state_rows(disk: Disk, path: str, live: tuple[int, int], split: Split) -> Iterator[pa.RecordBatch]:
    """The entries of a piece that are live."""
    first, last = live
    view, table = _read(disk, path, split)
    begin = max(first - split.first, 0)
    entries, damage = scan.read_entries(view, table, begin, last - split.first + 1)
    if damage is not None:
        raise damage.finding(split.file).error(path)
    for at in range(0, len(entries), tables.BATCH_ENTRIES):
        yield tables.state_batch(view, entries[at : at + tables.BATCH_ENTRIES])


def state_frame(workers: Workers, disk: Disk, path: str, as_of: int | None) -> Any:
    """The same as a table of the workers' own kind; each index file is read by a task."""
    pieces, live = live_splits(survey(disk, path, reader=partial(workers.map, glance)), as_of)
    return workers.frame(partial(_state_rows, disk, path, live), pieces, tables.STATE_SCHEMA)
