"""Compaction beside the work: the state at a durable epoch, sorted, in the place of the logs that led to it.

Everything up to the durable epoch stood in logs before they were rotated, so the new compacted files hold it
all, and the logs that reach no further may go once the switch is made. A session that was open during the
rotation ends in a rotated log, above that epoch; such a log, like one with sessions that are not durable yet, stays
until the next compaction.

*Parting.* A program that follows the design note, like the original, reads no log that the catalog lists; the one
also none whose first session lies below the maximum epoch, the other all of any that is not listed. So a log may have
sessions on one side of the epoch only, and one that has both is parted first: the sessions that may not stay in it
are copied to a log of their own, then marked as invalid where they were. Each counts all the while, for a moment
twice with the same version.

*Designed.* The files are written as `cmpct_NNNN.tmp` under numbers that were not in use. Then: the catalog gets
the name `.back`; a new catalog is written; the files get their names; `.back` goes, and that is the switch. A
crash before it is rolled back by the next opening of the directory.

*Shipped.* The one compacted file is written in `compaction_temp/` and takes the place of the old one by a rename. Until
the new catalog takes the place of the old one, all logs that led to it are applied on top of it, which gives the same
state. The original needs a catalog that names a compacted file for its removals, so an empty one precedes the first.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, groupby, pairwise
from operator import itemgetter
from typing import Protocol

import numpy as np

from flintlog.columns.gather import Ints
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone.layout import Catalog, Edition
from flintlog.dialects.limestone.merge import by_bytes, numeric
from flintlog.dialects.limestone.passes import MEMORY_BYTES
from flintlog.dialects.limestone.replay import State
from flintlog.dialects.limestone.scan import Snippets
from flintlog.dialects.limestone.store.healing import PARTED_SCRATCH, mark, publish_catalog
from flintlog.dialects.limestone.store.sorted_file import sorted_records
from flintlog.dialects.limestone.survey import LogRead, Survey
from flintlog.disk import Buffer, Disk, write_all

_NO_END = 1 << 62
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


class WriteFiles(Protocol):
    """Writes the state to sorted files: this process does it, or many workers.

    A record belongs to the file number S // file_bytes, where S is how many bytes of records stand before it.
    """

    def __call__(
        self, path_of: Callable[[int], str], head: bytes, *, file_bytes: int | None, zero_versions: bool
    ) -> list[str]:
        """Write the files under names that `path_of` gives, durably; returns them."""


def compact(
    found: Survey,
    epoch: int,
    *,
    busy: Collection[str] = (),
    file_bytes: int = COMPACTED_BYTES,
    memory_bytes: int = MEMORY_BYTES,
    write: WriteFiles | None = None,
    guard: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Compacted:
    """Write the state at a durable epoch to compacted files and switch to them. `busy` are rotated logs that may still
    grow. `guard` stands around each change that others can see; between them the work can be given up."""
    if write is None:
        earlier = epoch if epoch < found.durable else None  # more became durable meanwhile
        state = State(found, earlier, order=order_of(found.edition), memory_bytes=memory_bytes)
        write = partial(write_files, found.disk, state)
    rotated = [read for read in found.logs if not read.file.active]
    detached = frozenset(read.file.name for read in rotated if read.file.channel is not None)
    staying = [
        read
        for read in rotated
        if read.file.name in detached and (read.file.name in busy or read.reaches_above(epoch))
    ]
    with guard():
        parted = _part_logs(found, staying, busy, epoch)
    covered = parted | (detached - {read.file.name for read in staying})
    if found.edition == "designed":
        reached = found.greatest(epoch)
        names = _write_designed(found, write, reached, file_bytes)
        catalog = Catalog(dict.fromkeys(names, lay.COMPACTED_VERSION), covered, reached, None)
        with guard():
            _switch_designed(found, catalog, names)
    else:
        blob = max(found.catalog.max_blob or 0, _largest_blob(found))
        [scratch] = write(
            lambda _: _scratch_path(found), lay.encode_begin(0), file_bytes=None, zero_versions=True
        )
        names = [lay.COMPACTED_FILE]
        with guard():
            if not found.catalog.compacted:
                _begin_compacted(found)
            _put_compacted(found, scratch)
            _switch_shipped(found, Catalog(dict.fromkeys(names, lay.COMPACTED_VERSION), covered, epoch, blob))
            _mark_odd(found, epoch)
    old = [name for name in found.base if name not in names]
    return Compacted(epoch, tuple(names), (*old, *sorted(covered)))


# Parting


def _part_logs(found: Survey, reads: Iterable[LogRead], busy: Collection[str], epoch: int) -> frozenset[str]:
    """Let each log hold sessions on one side of the epoch only; gives the names of those that hold the old ones.

    The new sessions get a log behind their old one. Where one is still open they stay, and the old ones get a log
    before it, whose name the rotation left free: of entries with one version the later counts.
    """
    moves: list[tuple[LogRead, Snippets, str]] = []
    covered = set()
    for read in reads:
        grows = read.file.name in busy
        moved = read.counted(-1, epoch) if grows else read.pending(epoch)
        name = read.file.name
        if len(moved):
            name = _copy_sessions(found, read, moved, read.file.number + (-1 if grows else 1))
            moves.append((read, moved, name))
        if len(moved) or not grows:
            covered.add(name if grows else read.file.name)
    if moves:
        found.disk.sync_directory(found.path)  # before what was copied is marked
    for read, moved, _ in moves:
        mark(found, read, moved)
    return frozenset(covered)


def _copy_sessions(found: Survey, read: LogRead, sessions: Snippets, number: int) -> str:
    """Copy sessions of a log to one of their own, with the next free number; the caller syncs the name."""
    assert read.file.channel is not None and read.file.time is not None
    while found.disk.stat(found.place(name := lay.rotated_name(read.file.channel, read.file.time, number))):
        number += 1
    view = found.view(read.file.name)
    ranges = zip(sessions.offset.tolist(), sessions.end.tolist(), strict=True)
    scratch = found.place(PARTED_SCRATCH)
    found.disk.make_passing_directory(posixpath.dirname(scratch))
    _write_synced(found.disk, scratch, (view[begin:end] for begin, end in ranges))
    found.disk.rename(scratch, found.place(name))
    return name


# Designed


def _write_designed(found: Survey, write: WriteFiles, epoch: int, file_bytes: int) -> list[str]:
    used = [*found.listing.compacted, *found.listing.scratch, *found.catalog.compacted]
    numbers = [int(match[1]) for name in used if (match := lay.CMPCT_NAME.match(name))]
    first = max(numbers, default=-1) + 1

    def path_of(number: int) -> str:
        return found.place(lay.cmpct_name(first + number) + lay.COMPACTED_SCRATCH)

    paths = write(path_of, lay.encode_begin(epoch), file_bytes=file_bytes, zero_versions=False)
    return [lay.cmpct_name(first + number) for number in range(len(paths))]


def _switch_designed(found: Survey, catalog: Catalog, names: list[str]) -> None:
    disk, path = found.disk, found.path
    main, back = found.place(lay.CATALOG_FILE), found.place(lay.CATALOG_BACK)
    disk.rename(main, back)
    disk.sync_directory(path)
    _write_synced(disk, main, [catalog.encode()])
    disk.sync_directory(path)  # before a compacted file has its name
    for name in names:
        disk.rename(found.place(name + lay.COMPACTED_SCRATCH), found.place(name))
    disk.sync_directory(path)
    disk.unlink(back)  # this commits
    disk.sync_directory(path)


# Shipped


def _scratch_path(found: Survey) -> str:
    directory = found.place(_TEMPORARY)
    found.disk.make_passing_directory(directory)
    return posixpath.join(directory, lay.COMPACTED_FILE)


def _begin_compacted(found: Survey) -> None:
    """An empty compacted file, and a catalog that names it."""
    empty = found.place(PARTED_SCRATCH)
    _write_synced(found.disk, empty, [lay.encode_begin(0)])
    _put_compacted(found, empty)
    named = replace(found.catalog, compacted={lay.COMPACTED_FILE: lay.COMPACTED_VERSION})
    publish_catalog(found.disk, found.path, named)
    found.disk.sync_directory(found.path)  # before there is a key in it that a later session removes


def _put_compacted(found: Survey, scratch: str) -> None:
    found.disk.rename(scratch, found.place(lay.COMPACTED_FILE))
    found.disk.sync_directory(found.path)


def _switch_shipped(found: Survey, catalog: Catalog) -> None:
    """The catalog before it is left as `.back`, as the original does; nothing of ours needs it, so it is not synced.
    With either catalog the new compacted file gives the same state."""
    back = found.place(lay.CATALOG_BACK)
    with found.disk.create_scratch(back + ".new") as file:
        write_all(file, [found.catalog.encode()])
        found.disk.rename(file.path, back)
    publish_catalog(found.disk, found.path, catalog)
    found.disk.sync_directory(found.path)  # before logs go that the old catalog does not list


def _mark_odd(found: Survey, epoch: int) -> None:
    """Logs whose names no catalog can list would be read again, on top of what is newer: their sessions are in the
    compacted file now. Until then every log is still there, and all count by their versions."""
    for read in found.logs:
        old = read.counted(-1, epoch)
        if read.file.channel is None and len(old):
            mark(found, read, old)


def _largest_blob(found: Survey) -> int:
    from flintlog.dialects.limestone.store.blobs import referenced

    return max(referenced(found), default=0)


# Writing


def order_of(edition: Edition) -> Callable[[int], int]:
    """The order of storages in the files of an edition."""
    return numeric if edition == "designed" else by_bytes


def write_files(
    disk: Disk,
    state: State,
    path_of: Callable[[int], str],
    head: bytes,
    *,
    file_bytes: int | None,
    zero_versions: bool,
) -> list[str]:
    """Write the state to sorted files in this process."""
    paths: list[str] = []
    for chunks in _in_files(sorted_records(state, zero_versions=zero_versions), file_bytes or _NO_END):
        paths.append(path_of(len(paths)))
        _write_synced(disk, paths[-1], chain([head], chunks))
    return paths


def _in_files(records: Iterator[tuple[bytearray, Ints]], file_bytes: int) -> Iterator[Iterator[Buffer]]:
    """The bytes of records by the file that they belong to; at least one file. Each must be read to its end."""
    before = 0  # bytes of records so far

    def pieces() -> Iterator[tuple[int, Buffer]]:
        nonlocal before
        for data, starts in records:
            numbers = (before + starts[:-1]) // file_bytes
            edges = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
            for begin, end in pairwise(edges):
                yield int(numbers[begin]), memoryview(data)[int(starts[begin]) : int(starts[end])]
            before += len(data)

    empty = True
    for _, group in groupby(pieces(), key=itemgetter(0)):
        empty = False
        yield (piece for _, piece in group)
    if empty:
        yield iter(())


def _write_synced(disk: Disk, path: str, chunks: Iterable[Buffer]) -> None:
    with disk.create_scratch(path) as file:
        at = 0
        for chunk in chunks:
            file.pwrite(chunk, at)
            at += len(chunk)
        file.sync()
