"""What the tasks do: a window to candidates in buckets, a bucket to the live records in it."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from flintlog.columns.gather import copy_ranges, offsets_of
from flintlog.columns.packing import Packer, unpack
from flintlog.columns.table import Columns, slices
from flintlog.dialects.limestone import scan
from flintlog.dialects.limestone.candidates import (
    Candidates,
    Groups,
    Ints,
    Source,
    Sources,
    Words,
    candidates,
)
from flintlog.dialects.limestone.distributed.looking import LogFile, shifted
from flintlog.dialects.limestone.merge import Merge
from flintlog.dialects.limestone.passes import sort_in
from flintlog.dialects.limestone.replay import OF_KEYS, Cleared, columns_of, lengths_of
from flintlog.dialects.limestone.scan import Snippets
from flintlog.errors import RefusedError

_WINDOWS_MAX = 1 << 15
_ARENA_STEP = 1 << 23
_SHARE_MAX = 0.7  # of winners: with more, dropping the others is not worth its time

Order = Callable[[int], int]


@dataclass(frozen=True, slots=True)
class Reading:
    """A window of a file that counts, for a task."""

    file: int
    start: int
    end: int
    snippets: Snippets
    base: bool

    @property
    def entries(self) -> int:
        return int(self.snippets.entries.sum())


@dataclass(frozen=True, slots=True)
class Job:
    """What every task of one state knows."""

    files: tuple[LogFile, ...]
    sizes: tuple[int, ...]
    storages: tuple[int, ...]
    beginnings: tuple[bytes, ...]
    pivots: tuple[NDArray[np.uint32], NDArray[np.uint64]]
    cleared: Cleared
    order: Order
    window_bytes: int

    def groups(self) -> Groups:
        return Groups.of(self.storages, self.beginnings, self.order)

    def sources(self) -> Windows:
        return Windows(self.files, self.sizes, self.window_bytes)

    @property
    def buckets(self) -> int:
        return len(self.pivots[0]) + 1


class Windows(Sources):
    """Files whose bytes are mapped window by window, one at a time."""

    def __init__(self, files: Sequence[LogFile], sizes: Sequence[int], window_bytes: int) -> None:
        self._files = files
        starts = np.zeros(len(sizes), np.uint64)
        starts[1:] = np.cumsum(np.array(sizes, np.uint64))[:-1]
        self.starts = starts
        window_bytes = max(window_bytes, -(-sum(sizes) // _WINDOWS_MAX))
        edges = [
            np.arange(start, start + size, window_bytes).astype(np.uint64)
            for start, size in zip(starts.tolist(), sizes, strict=True)
        ]
        self._edges = np.concatenate([np.empty(0, np.uint64), *edges])

    def chunks(self, begin: Words, end: Words) -> Iterator[tuple[Ints, memoryview, int]]:
        # Windows are counted over all files; few of them, so that sorting by them takes one pass.
        number = np.searchsorted(self._edges, begin, "right")
        if len(self._edges) < 1 << 16:
            number = number.astype(np.uint16)
        order = np.argsort(number, kind="stable")
        for mine in np.split(order, np.flatnonzero(np.diff(number[order])) + 1):
            if not len(mine):
                continue
            which = int(self.of(begin[mine[:1]])[0])
            start = int(self.starts[which])
            low, high = int(begin[mine].min()) - start, int(end[mine].max()) - start
            with self._files[which].open() as file:
                view = self._files[which].window(file, low, high)
            yield mine, view, start + low
            del view


def parted(job: Job, readings: Sequence[Reading], rows: int | None = None) -> Iterator[tuple[int, bytes]]:
    """The candidates of some windows in buckets, packed; where it is said, at most so many of them at a time."""
    groups = job.groups()
    part = Candidates.join([some for reading in readings for some in _candidates(job, groups, reading)])
    if not len(part):
        return
    merge = Merge(job.sources(), 1, groups=groups)
    ranks, depths = groups.ranks(), groups.depths()
    order, edges = sort_in(part, ranks, job.pivots)
    packer = Packer(part)
    deduplicate = True
    for bucket, (begin, end) in enumerate(pairwise(edges.tolist())):
        mine = order[begin:end].astype(np.int64)
        if deduplicate and len(mine):
            newest = mine[merge.newest(part[mine], ranks, depths)]
            deduplicate = len(newest) <= _SHARE_MAX * len(mine)
            mine = newest
        size = rows or max(len(mine), 1)
        for at in range(0, len(mine), size):
            yield bucket, packer.rows(mine[at : at + size])


def _candidates(job: Job, groups: Groups, reading: Reading) -> Iterator[Candidates]:
    """The candidates of a window, in the order of the file."""
    file = job.files[reading.file]
    with file.open() as opened:
        view = file.window(opened, reading.start, reading.end)
    source = Source(view, int(job.sources().starts[reading.file]) + reading.start)
    seen = 0
    for entries in scan.read_entries(view, shifted(reading.snippets, -reading.start)):
        seen += len(entries)
        of_keys = OF_KEYS[entries.type]
        keyed = entries if of_keys.all() else entries[of_keys]
        if len(keyed):
            yield candidates(groups, source, columns_of(keyed, base=reading.base))
    if seen != reading.entries:
        raise RefusedError(
            "this file was changed while it was read",
            file=posixpath.join(file.path, file.name),
            advice="Read the directory again",
        )


@dataclass(frozen=True, slots=True)
class LiveRecords(Columns):
    """Live records in key order: their addresses, lengths, and what rows need of them."""

    address: Words
    length: Ints
    key_length: NDArray[np.uint32]
    storage: Words
    major: Words
    minor: Words


_RECORD_BYTES = sum(kind.itemsize for kind in LiveRecords.types().values())


def live_records(job: Job, pieces: Iterable[bytes]) -> LiveRecords:
    """The live records among the packed candidates of a bucket."""
    groups = job.groups()
    sources = job.sources()
    part = Candidates.join([unpack(Candidates, piece) for piece in pieces])
    merge = Merge(sources, 1, groups=groups)
    winners = merge.winners(part, groups.ranks(), groups.depths())
    del part
    is_live = job.cleared.is_live(winners, groups)
    live = winners if is_live.all() else winners[is_live]
    length = lengths_of(sources, live)
    storage = groups.storage_of(live.group)
    return LiveRecords(live.address, length, live.key_length, storage, live.major, live.minor)


def portions(buckets: Iterable[LiveRecords], bytes_max: int) -> Iterator[LiveRecords]:
    """The records of buckets that follow each other, as many at a time as fit in so many bytes with their own."""
    held: list[LiveRecords] = []
    size = 0
    for records in buckets:
        for which in slices(records.length + _RECORD_BYTES, bytes_max):
            part = records[which]
            more = int(part.length.sum()) + _RECORD_BYTES * len(part)
            if held and size + more > bytes_max:
                yield LiveRecords.join(held)
                held, size = [], 0
            held.append(part)
            size += more
    if held:
        yield LiveRecords.join(held)


class Arena:
    """Room for the bytes of records, which is used again and again."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._room = np.empty(0, np.uint8)

    def fill(self, records: LiveRecords) -> tuple[memoryview, Ints]:
        """The bytes of records back to back until it is filled anew, and where each begins."""
        starts = offsets_of(records.length)
        size = int(starts[-1])
        if size > len(self._room):
            self._room = self._room[:0].copy()  # the old room goes before the new one comes
            self._room = np.empty(-(-size // _ARENA_STEP) * _ARENA_STEP, np.uint8)
        end = records.address + records.length.astype(np.uint64)
        for mine, buffer, start in self._sources.chunks(records.address, end):
            offset = (records.address[mine] - np.uint64(start)).astype(np.int64)
            copy_ranges(self._room, starts[mine], buffer, offset, records.length[mine])
            del buffer  # before the next window is mapped
        return memoryview(self._room[:size].data), starts
