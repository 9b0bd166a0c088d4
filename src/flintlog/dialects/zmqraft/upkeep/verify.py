"""What is here, and every check there is over every byte."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from functools import partial

from flintlog.core.finding import Finding
from flintlog.core.inventory import FileItem, Inventory
from flintlog.core.live import look
from flintlog.core.surveys import Surveys
from flintlog.core.workers import Workers
from flintlog.dialects.zmqraft import layout as lay
from flintlog.dialects.zmqraft.findings import CODES
from flintlog.dialects.zmqraft.survey import PASSING, IndexRead, Survey, glance, steady_survey, survey
from flintlog.disk import Disk, Progress


def inspect(disk: Disk, path: str, seen: Surveys) -> Inventory:
    """Files, roles, ranges; reads the heads of index files."""

    return look(
        disk,
        path,
        lambda: _inventory(seen.take("part", partial(survey, disk, path))),
        lambda: _inventory(steady_survey(disk, path)),
        PASSING,
    )


def verify(disk: Disk, path: str, progress: Progress, workers: Workers | None, seen: Surveys) -> Inventory:
    """Check every file and every entry, and whether they make a log."""
    reader = None if workers is None else partial(workers.map, glance)
    whole = partial(survey, disk, path, read_all=True, progress=progress, reader=reader)
    kind = "whole" if workers is None else "by workers"
    return look(
        disk,
        path,
        lambda: _inventory(seen.take(kind, whole, anew=True)),
        lambda: _inventory(steady_survey(disk, path, reader=reader)),
        PASSING,
    )


def _inventory(found: Survey) -> Inventory:
    log = found.range
    ends = not log.files or found.reads[log.files[-1]].count is not None
    return Inventory(
        "zmqraft",
        None,
        found.path,
        tuple(_items(found)),
        (log.first,) if log.last >= log.first else None,
        (log.last,) if log.last and ends else None,
        (*found.findings, *_odd_files(found)),
        _facts(found),
    )


def _odd_files(found: Survey) -> Iterator[Finding]:
    for name in found.listing.scratch:
        yield CODES.finding("leftover", "left over from an unfinished operation", name)
    needed = {stray.name for stray in found.misplaced}
    for name in found.listing.foreign:
        if name not in needed:
            yield CODES.finding("foreign", "no part of a zmqraft directory; not touched", name)


def _items(found: Survey) -> Iterator[FileItem]:
    for read in found.reads.values():
        yield _index_item(found, read)
    name = found.listing.snapshot
    if name in found.listing.sizes:
        index = (found.snapshot.index,) if found.snapshot else None
        yield FileItem(name, "snapshot", found.listing.sizes[name], None, index)
    for name in (lay.RAFT_STATE_FILE, lay.APPLIED_STATE_FILE):
        if name in found.listing.sizes:
            yield FileItem(name, "state", found.listing.sizes[name])
    for name in found.listing.history:
        stat = found.disk.stat(posixpath.join(found.path, name))
        yield FileItem(name, "predecessor", 0 if stat is None or stat.is_directory else stat.size)


def _index_item(found: Survey, read: IndexRead) -> FileItem:
    first, count = read.file.first, read.count
    if first in found.range.files:
        role = "active" if first == found.range.files[-1] else "closed"
    else:
        role = "leftover"
    if not count:
        return FileItem(read.file.name, role, read.file.size, None, None, count)
    return FileItem(read.file.name, role, read.file.size, (first,), (first + count - 1,), count)


def _facts(found: Survey) -> dict[str, object]:
    raft = found.states.get(lay.RAFT_STATE_FILE)
    applied = found.states.get(lay.APPLIED_STATE_FILE)
    return {
        "term": raft.values["currentTerm"] if raft else None,
        "vote": raft.values["votedFor"] if raft else None,
        "applied": applied.values["lastApplied"] if applied else None,
        "snapshot": found.snapshot.index if found.snapshot else None,
        "snapshot_term": found.snapshot.term if found.snapshot else None,
    }
