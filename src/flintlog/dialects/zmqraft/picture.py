"""Which bytes of a peer's directory make the log at one moment: for a copy of it, also while a store writes."""

from __future__ import annotations

import posixpath
from functools import partial

import msgpack

from flintlog.core.backup.picture import ChangedError, Part, Picture
from flintlog.core.surveys import Surveys
from flintlog.dialects.zmqraft import layout as lay
from flintlog.dialects.zmqraft.findings import CODES
from flintlog.dialects.zmqraft.state import PROPERTIES_OF, STATE_SIZE_MAX, load
from flintlog.dialects.zmqraft.survey import IndexRead, Survey, survey
from flintlog.disk import Disk
from flintlog.errors import RefusedError


def picture(disk: Disk, path: str, as_of: int | None, seen: Surveys) -> Picture:
    """The snapshot, the index files of the log, the state files; entries of the last index file up to `as_of`.

    It reads the applied index before the log and the term after it: a copy holds all that it says is applied, and its
    term is never behind its entries.
    """
    applied = _read(disk, path, lay.APPLIED_STATE_FILE)
    found = seen.take("part", partial(survey, disk, path))
    found.refuse_damage()
    assert found.snapshot is not None  # `refuse_damage` raises for one that cannot be read
    base, last = found.snapshot.index, found.range.last
    if as_of is not None:
        found.refuse_missing(as_of)
        last = as_of
    kept = [first for first in found.range.files if first <= last] or list(found.range.files[:1])
    parts = []
    for first in kept:
        read = found.reads[first]
        parts.append(
            _index_file(found, read, last) if first == kept[-1] else Part(read.file.name, read.file.size)
        )
    if found.listing.snapshot != lay.SNAPSHOT_FILE:
        raise RefusedError(
            f"the snapshot here is called {found.listing.snapshot}, and a backup trusts no such name",
            file=path,
            advice=f"Close the store and copy the directory, or call the snapshot {lay.SNAPSHOT_FILE}",
        )
    if lay.SNAPSHOT_FILE in found.listing.sizes:
        parts.append(Part(lay.SNAPSHOT_FILE, found.listing.sizes[lay.SNAPSHOT_FILE]))
    if applied is not None:
        parts.append(_applied(applied, last))
    raft = _read(disk, path, lay.RAFT_STATE_FILE)
    if raft is not None:
        end = load(raft, PROPERTIES_OF[lay.RAFT_STATE_FILE], lay.RAFT_STATE_FILE).end
        parts.append(Part(lay.RAFT_STATE_FILE, head=raft[:end], made=True))
    return Picture(path, None, None, (base,), (last,), tuple(parts))


def _read(disk: Disk, path: str, name: str) -> bytes | None:
    place = posixpath.join(path, name)
    return None if disk.stat(place) is None else disk.read(place, STATE_SIZE_MAX)


def _index_file(found: Survey, read: IndexRead, last: int) -> Part:
    """An index file up to an entry: the slots behind it are free."""
    table = read.table
    if table is None:  # damage below the snapshot, and the picture ends before it
        assert read.damage is not None
        raise CODES.of(read.damage, read.file.name).error(found.path)
    count = min(max(last - table.first + 1, 0), len(table.ends))
    with found.disk.open(posixpath.join(found.path, read.file.name)) as file:
        head = bytearray(file.pread(table.data_start, 0))
    if len(head) < table.data_start:
        raise ChangedError("this file was cut while it was read", file=read.file.name)
    begin, end = (lay.TABLE_OFFSET + lay.SLOT_SIZE * slot for slot in (count, table.capacity))
    head[begin:end] = bytes(end - begin)
    size = table.data_start + (int(table.ends[count - 1]) if count else 0)
    return Part(read.file.name, size, head=bytes(head))


def _applied(raw: bytes, last: int) -> Part:
    """The applied index, at most the last entry of the copy."""
    loaded = load(raw, PROPERTIES_OF[lay.APPLIED_STATE_FILE], lay.APPLIED_STATE_FILE)
    if loaded.values["lastApplied"] <= last:
        return Part(lay.APPLIED_STATE_FILE, head=raw[: loaded.end], made=True)
    return Part(lay.APPLIED_STATE_FILE, head=msgpack.packb({"lastApplied": last}), made=True)


def is_member(name: str) -> bool:
    """Can a picture have a file of this name?"""
    known = (lay.SNAPSHOT_FILE, lay.RAFT_STATE_FILE, lay.APPLIED_STATE_FILE)
    return name in known or lay.parse_index_path(name) is not None
