"""Compaction beside the work: the state at a durable epoch, sorted, in the place of the logs that led to it.

Everything up to the durable epoch stood in logs before they were rotated, so the new compacted files hold it
all, and the logs that reach no further may go once the switch is made. A session that was open during the
rotation ends in a rotated log, above that epoch; such a log, like one with sessions that are not durable yet, stays
until the next compaction.

*Designed.* The files are written as `cmpct_NNNN.tmp` under numbers that were not in use. Then: the catalog gets
the name `.back`; a new catalog is written; the files get their names; `.back` goes, and that is the switch. A
crash before it is rolled back by whoever opens the directory next.

*Shipped.* The one file is written in `compaction_temp/` and takes the place of the old one by a rename. Until
the new catalog takes the place of the old one, the logs above the old catalog's epoch are applied on top of it,
which gives the same state. The original reads no log that the catalog lists, so one that stays must not be listed,
and it would count what is old in it once more. So the first catalog lists it, then its old sessions are marked as
invalid, then a second catalog leaves it out. A crash in between is finished by whoever opens the directory next.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone.layout import Catalog
from flintlog.dialects.limestone.merge import by_bytes, numeric
from flintlog.dialects.limestone.passes import MEMORY_BYTES
from flintlog.dialects.limestone.replay import State
from flintlog.dialects.limestone.store.healing import mark_covered, publish_catalog
from flintlog.dialects.limestone.store.sorted_file import sorted_file
from flintlog.dialects.limestone.survey import Survey
from flintlog.disk import Buffer, Disk, write_all

COMPACTED_BYTES = 1 << 30  # of one file of the designed edition
_TEMPORARY = "compaction_temp"


@dataclass(frozen=True, slots=True)
class Compacted:
    """What a compaction did."""

    epoch: int
    files: tuple[str, ...]  # that hold the state now
    superseded: tuple[str, ...]  # that nothing needs any more


def is_due(found: Survey, epoch: int) -> bool:
    """Is there anything up to this epoch that the compacted files do not have?"""
    return found.all_history or any(len(read.counted(found.low, epoch)) for read in found.logs)


def compact(
    found: Survey,
    epoch: int,
    *,
    busy: Collection[str] = (),
    file_bytes: int = COMPACTED_BYTES,
    memory_bytes: int = MEMORY_BYTES,
) -> Compacted:
    """Write the state at a durable epoch to compacted files and switch to them. `busy` are rotated logs that may still
    grow."""
    order = numeric if found.edition == "designed" else by_bytes
    state = State(found, epoch, order=order, memory_bytes=memory_bytes)
    rotated = [read for read in found.logs if not read.file.active]
    detached = frozenset(read.file.name for read in rotated if read.file.channel is not None)
    staying = [
        read
        for read in rotated
        if read.file.name in detached and (read.file.name in busy or read.reaches_above(epoch))
    ]
    stay = {read.file.name for read in staying}
    if found.edition == "designed":
        names = _write_designed(found, state, epoch, file_bytes)
        _switch_designed(
            found, Catalog(dict.fromkeys(names, lay.COMPACTED_VERSION), detached, epoch, None), names
        )
    else:
        names = _write_shipped(found, state)
        blob = max(found.catalog.max_blob or 0, _largest_blob(found))
        catalog = Catalog(dict.fromkeys(names, lay.COMPACTED_VERSION), detached, epoch, blob)
        _switch_shipped(found, catalog)
        if stay:
            mark_covered(found, staying, epoch)
            publish_catalog(found.disk, found.path, replace(catalog, detached=detached - stay))
    old = [name for name in found.base if name not in names]
    return Compacted(epoch, tuple(names), (*old, *sorted(detached - stay)))


def _path(found: Survey, name: str) -> str:
    return posixpath.join(found.path, name)


# Designed


def _write_designed(found: Survey, state: State, epoch: int, file_bytes: int) -> list[str]:
    used = [*found.listing.compacted, *found.listing.scratch, *found.catalog.compacted]
    numbers = [int(match[1]) for name in used if (match := lay.CMPCT_NAME.match(name))]
    number = max(numbers, default=-1) + 1
    names: list[str] = []
    for chunks in _in_files(sorted_file(state, epoch), lay.encode_begin(epoch), file_bytes):
        name = lay.cmpct_name(number + len(names))
        _write_synced(found.disk, _path(found, name + lay.COMPACTED_SCRATCH), chunks)
        names.append(name)
    return names


def _in_files(chunks: Iterable[Buffer], head: bytes, file_bytes: int) -> Iterator[Iterator[Buffer]]:
    """The chunks of one sorted file as those of several, each with a head of its own."""
    source = iter(chunks)
    next(source)  # the head of the first
    held: list[Buffer] = []
    more = True

    def one() -> Iterator[Buffer]:
        nonlocal more
        yield head
        size = 0
        while size < file_bytes:
            chunk = held.pop() if held else next(source, None)
            if chunk is None:
                more = False
                return
            size += len(chunk)
            yield chunk

    while more:
        yield one()
        if more:
            following = next(source, None)
            if following is None:
                more = False
            else:
                held.append(following)


def _switch_designed(found: Survey, catalog: Catalog, names: list[str]) -> None:
    disk, path = found.disk, found.path
    main, back = _path(found, lay.CATALOG_FILE), _path(found, lay.CATALOG_BACK)
    disk.rename(main, back)
    disk.sync_directory(path)
    _write_synced(disk, main, [catalog.encode()])
    for name in names:
        disk.rename(_path(found, name + lay.COMPACTED_SCRATCH), _path(found, name))
    disk.sync_directory(path)
    disk.unlink(back)  # this commits
    disk.sync_directory(path)


# Shipped


def _write_shipped(found: Survey, state: State) -> list[str]:
    directory = _path(found, _TEMPORARY)
    found.disk.make_passing_directory(directory)
    scratch = posixpath.join(directory, lay.COMPACTED_FILE)
    _write_synced(found.disk, scratch, sorted_file(state, 0, zero_versions=True))
    found.disk.rename(scratch, _path(found, lay.COMPACTED_FILE))
    found.disk.sync_directory(found.path)
    return [lay.COMPACTED_FILE]


def _switch_shipped(found: Survey, catalog: Catalog) -> None:
    """The catalog before it is left as `.back`, as the original does; nothing of ours needs it, so it is not synced.
    With either catalog the new compacted file gives the same state."""
    back = _path(found, lay.CATALOG_BACK)
    with found.disk.create_scratch(back + ".new") as file:
        write_all(file, [found.catalog.encode()])
        found.disk.rename(file.path, back)
    publish_catalog(found.disk, found.path, catalog)
    found.disk.sync_directory(found.path)  # before logs are marked, or go, that the old catalog does not list


def _largest_blob(found: Survey) -> int:
    from flintlog.dialects.limestone.store.blobs import referenced

    return max(referenced(found), default=0)


def _write_synced(disk: Disk, path: str, chunks: Iterable[Buffer]) -> None:
    with disk.create_scratch(path) as file:
        at = 0
        for chunk in chunks:
            file.pwrite(chunk, at)
            at += len(chunk)
        file.sync()
