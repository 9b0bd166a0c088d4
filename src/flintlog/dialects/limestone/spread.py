"""The state of a directory by many workers: pointers travel, payloads stay in their files.

1. *Look.* A task for each file walks it window by window. It gives back the snippets of each window, a sample of
   the keys, and what happened to whole storages.
2. *Produce.* A task for each window reads the entries that count as candidates (`merge.py`), drops those that
   another one of the window beats, and sorts the rest into buckets: ranges of storage and key, cut at the samples so
   that each bucket fits in a worker's memory.
3. *Reduce.* A task for each bucket finds the winners and notes where their records stand and how long they are.
4. Whoever asked makes rows of them, or bytes. The lengths of all buckets before it say where in the sorted files
   the bytes of a bucket belong, so that the tasks write one file together.

A worker maps windows, never whole files: it may have room for few addresses.
"""

from __future__ import annotations

import contextlib
import functools
import posixpath
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flintlog.columns.gather import copy_ranges, offsets_of
from flintlog.columns.packing import pack, unpack
from flintlog.core.workers import Exchange, Workers
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone import scan, tables
from flintlog.dialects.limestone.merge import (
    Candidates,
    Groups,
    Ints,
    Merge,
    Source,
    Sources,
    Words,
    numeric,
)
from flintlog.dialects.limestone.passes import pivots_of, sort_in
from flintlog.dialects.limestone.replay import OF_KEYS, Cleared, Live, candidates_of, epoch_of, lengths_of
from flintlog.dialects.limestone.scan import Around, Entries, Snippets, Stop, Walk
from flintlog.dialects.limestone.survey import Survey, Walker, counted, survey
from flintlog.disk import COPY_BYTES_MAX, Disk, File
from flintlog.errors import DiskError, RefusedError

if TYPE_CHECKING:
    import pyarrow as pa

WINDOW_BYTES = 64 << 20
BUCKET_ENTRIES = 1 << 20
OUTPUT_BYTES = 96 << 20  # that a task holds at a time before it writes them

_WINDOWS_MAX = 1 << 15
_SLACK = 1 << 16  # behind a window, for the record that crosses its end
_CELL_ROWS = 1 << 15
_SAMPLES = 256  # of each window
_BEGINNING_MAX = 64  # bytes of keys that can be left out of their windows
_SAMPLE_BYTES = _BEGINNING_MAX + 8
_SHARE_MAX = 0.7  # of winners: with more, dropping the others is not worth its time

Order = Callable[[int], int]


# --- looking -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Place:
    """A file of a directory, for a task."""

    disk: Disk
    path: str
    name: str
    active: bool

    def open(self) -> File:
        return self.disk.open(posixpath.join(self.path, self.name))

    def window(self, file: File, start: int, end: int) -> memoryview:
        """Some bytes. An active log may be cut meanwhile, so that they are copied while it is small."""
        if self.active and file.size() <= COPY_BYTES_MAX:
            return memoryview(file.pread(end - start, start))
        return file.window(start, end)


@dataclass(frozen=True, slots=True)
class Piece:
    """A window of a file: its snippets, how many entries of keys and which storages; a sample of the keys."""

    start: int
    end: int
    snippets: Snippets  # one that began before the window has its entries in the window only
    carried: bool  # the first one did
    storages: tuple[int, ...]
    sample_storage: Words
    sample: NDArray[np.uint8]  # the first bytes of each key, filled with zeros
    sample_length: Ints
    changes: tuple[Entries, Snippets] | None  # what happened to whole storages


@dataclass(frozen=True, slots=True)
class Looked:
    """A file that was looked at."""

    pieces: tuple[Piece, ...]
    stop: Stop

    @property
    def walk(self) -> Walk:
        """The walk over the whole file."""
        return Walk(_joined([(piece.snippets, piece.carried) for piece in self.pieces]), self.stop)


def look(file: Place, window_bytes: int = WINDOW_BYTES, *, samples: int = _SAMPLES) -> Looked:
    """Walk a file window by window; without `samples` nothing but snippets is looked for."""
    pieces: list[Piece] = []
    at, around = 0, None
    with file.open() as opened:
        size = opened.size()
        while True:
            view, walk = _walk_window(file, opened, at, size, window_bytes, around)
            pieces.append(_piece(view, walk, at, around is not None, samples))
            stop = walk.stop
            at += stop.offset
            if not stop.good or at >= size:
                return Looked(tuple(pieces), replace(stop, offset=at))
            around = None
            if stop.inside:
                last = pieces[-1].snippets[-1:]
                around = Around(int(last.offset[0]), int(last.epoch[0]), int(last.kind[0]))


def _walk_window(
    file: Place, opened: File, at: int, size: int, window_bytes: int, around: Around | None
) -> tuple[memoryview, Walk]:
    """A window from `at` on, and the walk over it; offsets count from its beginning."""
    here = None if around is None else replace(around, offset=around.offset - at)
    room = window_bytes + _SLACK
    while True:
        end = min(at + room, size)
        view = file.window(opened, at, end)
        walk = scan.walk(view, 0, window_bytes, here)
        if walk.stop.reason == scan.CUT and end < size:
            needed = walk.stop.offset + (lay.record_size(view, walk.stop.offset) or 0)
            if walk.stop.offset:
                return view, replace(walk, stop=replace(walk.stop, reason=scan.PAUSED))
            if at + needed <= size:
                room = (
                    needed + lay.BLOB_COUNT.size
                )  # where the number of its blobs stands, it says how long it is
                continue
        if walk.stop.reason == scan.EDGE and end < size:
            return view, replace(walk, stop=replace(walk.stop, reason=scan.PAUSED))
        return view, walk


def _piece(view: memoryview, walk: Walk, start: int, carried: bool, samples: int) -> Piece:
    good = walk.snippets[walk.snippets.kind == lay.BEGIN]
    step = max(int(good.entries.sum()) // max(samples, 1), 1)
    storages: set[int] = set()
    sampled: list[Entries] = []
    changed: list[Entries] = []
    seen = 0
    for entries in scan.read_entries(view, good, end=walk.stop.offset) if samples else ():
        of_keys = OF_KEYS[entries.type]
        if not of_keys.all():
            changed.append(entries[~of_keys])
            entries = entries[of_keys]
        if not len(entries):
            continue
        if bool((entries.storage == entries.storage[0]).all()):
            storages.add(int(entries.storage[0]))
        else:
            storages.update(np.unique(entries.storage).tolist())
        sampled.append(entries[-seen % step :: step])
        seen += len(entries)
    some = Entries.join(sampled)
    keys = np.zeros((len(some), _SAMPLE_BYTES), np.uint8)
    for row, (begin, length) in enumerate(zip(some.key.tolist(), some.key_length.tolist(), strict=True)):
        used = min(length, _SAMPLE_BYTES)
        keys[row, :used] = np.frombuffer(view[begin : begin + used], np.uint8)
    return Piece(
        start,
        start + walk.stop.offset,
        _shifted(walk.snippets, start),
        carried,
        tuple(sorted(storages)),
        some.storage,
        keys,
        some.key_length,
        (Entries.join(changed), good) if changed else None,
    )


def _shifted(snippets: Snippets, by: int) -> Snippets:
    return replace(snippets, offset=snippets.offset + by, end=snippets.end + by)


def _joined(parts: Sequence[tuple[Snippets, bool]]) -> Snippets:
    """The snippets of windows as those of the file: one that goes on in the next window is one."""
    done: list[Snippets] = []
    for snippets, carried in parts:
        if carried:
            before, first = done[-1], snippets[:1]
            for name in ("end", "closed", "end_epoch"):
                getattr(before, name)[-1] = getattr(first, name)[0]
            before.entries[-1] += first.entries[0]
            snippets = snippets[1:]
            if not len(snippets):
                continue
        done.append(Snippets(*(getattr(snippets, name).copy() for name in Snippets.__dataclass_fields__)))
    return Snippets(
        *(np.concatenate([getattr(part, name) for part in done]) for name in Snippets.__dataclass_fields__)
    )


class Looking:
    """A look at a directory by workers: a survey, and what its state needs besides."""

    def __init__(
        self,
        workers: Workers,
        disk: Disk,
        path: str,
        *,
        window_bytes: int = WINDOW_BYTES,
        samples: int = _SAMPLES,
    ) -> None:
        self.files: dict[str, Looked] = {}
        self._workers = workers
        self._window_bytes = window_bytes
        self._samples = samples
        self.survey = survey(disk, path, walker=self._walks)

    def _walks(self, found: Survey, names: Sequence[str]) -> Iterator[Walk]:
        active = {log.name for log in found.listing.logs if log.active}
        items = [Place(found.disk, found.path, name, name in active) for name in names]
        work = functools.partial(look, window_bytes=self._window_bytes, samples=self._samples)
        for name, looked in zip(names, self._workers.map(work, items), strict=True):
            self.files[name] = looked
            yield looked.walk


def walker(workers: Workers, window_bytes: int = WINDOW_BYTES) -> Walker:
    """Files walked by workers, for a survey."""

    def walks(found: Survey, names: Sequence[str]) -> Iterator[Walk]:
        active = {log.name for log in found.listing.logs if log.active}
        items = [Place(found.disk, found.path, name, name in active) for name in names]
        work = functools.partial(look, window_bytes=window_bytes, samples=0)
        return (looked.walk for looked in workers.map(work, items))

    return walks


# --- one state ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reading:
    """A window of a file that counts, for a task."""

    file: int
    start: int
    end: int
    snippets: Snippets
    base: bool


@dataclass(frozen=True, slots=True)
class Job:
    """What every task of one state knows."""

    files: tuple[Place, ...]
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

    def __init__(self, files: Sequence[Place], sizes: Sequence[int], window_bytes: int) -> None:
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

    def __getitem__(self, which: int) -> Source:
        raise NotImplementedError("a file is not mapped whole here")

    def chunks(self, begin: Words, end: Words) -> Iterator[tuple[Ints, memoryview, int]]:
        # Windows are counted over all files; few of them, so that sorting by them takes one pass.
        number = np.searchsorted(self._edges, begin, "right").astype(np.uint16)
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


class Spread:
    """The state of a directory at an epoch, made by workers."""

    def __init__(
        self,
        workers: Workers,
        looking: Looking,
        epoch: int,
        *,
        order: Order = numeric,
        window_bytes: int = WINDOW_BYTES,
        bucket_entries: int = BUCKET_ENTRIES,
    ) -> None:
        looking.survey.refuse_damage()
        self._workers = workers
        found = looking.survey
        self.disk = found.disk
        self.files, self._readings = _readings(looking, epoch)
        pieces = [
            piece for name in [file.name for file in self.files] for piece in looking.files[name].pieces
        ]
        entries = sum(int(reading.snippets.entries.sum()) for reading in self._readings)
        buckets = max(-(-entries // bucket_entries), min(workers.count, entries // 4096), 1)
        storages, beginnings, sample = _groups(pieces)
        groups = Groups.of(storages, beginnings, order)
        self.job = Job(
            files=tuple(self.files),
            sizes=tuple(looking.files[file.name].pieces[-1].end for file in self.files),
            storages=tuple(storages),
            beginnings=tuple(beginnings),
            pivots=pivots_of([sample], groups.ranks(), buckets),
            cleared=_cleared(looking, self._readings, self.files),
            order=order,
            window_bytes=window_bytes,
        )

    def exchange(self) -> Exchange:
        """The winners of each bucket, with the workers."""
        return self._workers.exchange(
            functools.partial(_produce, self.job),
            self._readings,
            self.job.buckets,
            functools.partial(_reduce, self.job),
        )


def _readings(looking: Looking, epoch: int) -> tuple[list[Place], list[Reading]]:
    """The files that count and the windows in them that do; the base first."""
    found = looking.survey
    low = -1 if found.all_history else found.low
    files: list[Place] = []
    readings: list[Reading] = []
    logs = [(read.file.name, read.file.active, False) for read in found.logs]
    for name, active, base in [*((name, False, True) for name in found.base), *logs]:
        some = []
        for piece in looking.files[name].pieces:
            snippets = piece.snippets
            snippets = snippets[snippets.kind == lay.BEGIN] if base else counted(snippets, low, epoch)
            if len(snippets) and int(snippets.entries.sum()):
                some.append(Reading(len(files), piece.start, piece.end, snippets, base))
        if some:
            files.append(Place(found.disk, found.path, name, active))
            readings += some
    return files, readings


def _groups(pieces: Sequence[Piece]) -> tuple[list[int], list[bytes], Candidates]:
    """The storages, the beginning that the sampled keys of each have in common, and the samples as candidates."""
    storages = sorted({storage for piece in pieces for storage in piece.storages})
    storage = np.concatenate([np.empty(0, np.uint64), *(piece.sample_storage for piece in pieces)])
    keys = np.concatenate([np.empty((0, _SAMPLE_BYTES), np.uint8), *(piece.sample for piece in pieces)])
    length = np.concatenate([np.empty(0, np.int64), *(piece.sample_length for piece in pieces)])
    beginnings: list[bytes] = []
    group, window = np.zeros(len(keys), np.uint32), np.zeros(len(keys), np.uint64)
    for slot, number in enumerate(storages):
        mine = np.flatnonzero(storage == np.uint64(number))
        beginning = b""
        if len(mine) > 1:
            most = min(int(length[mine].min()), _BEGINNING_MAX)
            same = (keys[mine, :most] == keys[mine[0], :most]).all(axis=0)
            common = most if same.all() else int(np.argmin(same))
            beginning = keys[mine[0], :common].tobytes()
        beginnings.append(beginning)
        depth = len(beginning)
        group[mine] = Groups.usual(slot)
        window[mine] = np.ascontiguousarray(keys[mine, depth : depth + 8]).view(">u8").ravel()
    zeros = np.zeros(len(keys), np.uint64)
    small = np.zeros(len(keys), np.uint8)
    lengths = length.astype(np.uint32)
    sample = Candidates(group, window, lengths, zeros, zeros, zeros, lengths, small, small)
    return storages, beginnings, sample


def _cleared(looking: Looking, readings: Sequence[Reading], files: Sequence[Place]) -> Cleared:
    """What happened to whole storages in the snippets that count."""
    cleared = Cleared()
    for reading in readings:
        pieces = looking.files[files[reading.file].name].pieces
        piece = next(piece for piece in pieces if piece.start == reading.start)
        if piece.changes is None:
            continue
        entries, snippets = piece.changes
        counts = np.isin(snippets.epoch[entries.snippet], reading.snippets.epoch)
        cleared.note(entries[counts], snippets, looking.survey.low)
    return cleared


# --- tasks -------------------------------------------------------------------------------------------------------


def _produce(job: Job, reading: Reading) -> Iterator[tuple[int, bytes]]:
    """The candidates of a window, sorted into buckets."""
    file = job.files[reading.file]
    groups = job.groups()
    start = int(job.sources().starts[reading.file]) + reading.start
    snippets = _shifted(reading.snippets, -reading.start)
    parts: list[Candidates] = []
    seen = 0
    with file.open() as opened:
        view = file.window(opened, reading.start, reading.end)
    for entries in scan.read_entries(view, snippets):
        seen += len(entries)
        keyed = entries[OF_KEYS[entries.type]]
        if len(keyed):
            parts.append(candidates_of(groups, Source(view, start), keyed, base=reading.base))
    if seen != int(snippets.entries.sum()):
        raise RefusedError(
            "this file was changed while it was read",
            file=posixpath.join(file.path, file.name),
            advice="Read the directory again",
        )
    if not parts:
        return
    part = Candidates.join(parts)
    ranks, depths = groups.ranks(), groups.depths()
    order, edges = sort_in(part, ranks, job.pivots)
    merge = Merge(Sources([Source(view, start)]), 1, groups=groups)
    deduplicate = True
    for bucket in range(len(edges) - 1):
        mine = part[order[edges[bucket] : edges[bucket + 1]].astype(np.int64)]
        if not len(mine):
            continue
        if deduplicate:
            winners = merge.winners(mine, ranks, depths)
            deduplicate = len(winners) <= _SHARE_MAX * len(mine)
            mine = winners
        for cell in _cells(mine):
            yield bucket, cell


@dataclass(frozen=True, slots=True)
class Records:
    """Live records in key order: their addresses, lengths, and what rows need of them."""

    address: Words
    length: Ints
    key_length: NDArray[np.uint32]
    storage: Words
    major: Words
    minor: Words

    def __len__(self) -> int:
        return len(self.address)

    def __getitem__(self, which: Any) -> Records:
        return Records(*(getattr(self, name)[which] for name in Records.__dataclass_fields__))

    @staticmethod
    def join(parts: Sequence[Records]) -> Records:
        names = Records.__dataclass_fields__
        return Records(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def _reduce(job: Job, bucket: int, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The live records of a bucket."""
    groups = job.groups()
    sources = job.sources()
    part = Candidates.join([Candidates(**unpack(piece)) for piece in pieces])
    merge = Merge(sources, 1, groups=groups)
    winners = merge.winners(part, groups.ranks(), groups.depths())
    del part
    live = winners[job.cleared.is_live(winners, groups)]
    length = lengths_of(sources, live)
    storage = groups.storage_of(live.group)
    yield from _cells(Records(live.address, length, live.key_length, storage, live.major, live.minor))


def _cells(columns: Any) -> Iterator[bytes]:
    """Columns as bytes, some rows at a time: many small cells travel faster than a few large ones."""
    for begin in range(0, len(columns), _CELL_ROWS):
        some = columns[begin : begin + _CELL_ROWS]
        yield pack({name: getattr(some, name) for name in some.__dataclass_fields__})


def records_of(pieces: Iterator[bytes]) -> Records:
    """What `reduce` made of a bucket."""
    return Records.join([Records(**unpack(piece)) for piece in pieces])


def slices(length: Ints, most: int = OUTPUT_BYTES) -> Iterator[slice]:
    """Slices of records whose bytes can be held at a time."""
    ends = np.cumsum(length)
    begin = 0
    while begin < len(length):
        before = int(ends[begin - 1]) if begin else 0
        end = max(int(np.searchsorted(ends, before + most, "right")), begin + 1)
        yield slice(begin, end)
        begin = end


def copied(sources: Sources, records: Records) -> tuple[bytearray, Ints]:
    """The bytes of records back to back, and where each begins."""
    starts = offsets_of(records.length)
    arena = bytearray(int(starts[-1]))
    out = np.frombuffer(arena, np.uint8)
    end = records.address + records.length.astype(np.uint64)
    for mine, buffer, start in sources.chunks(records.address, end):
        offset = (records.address[mine] - np.uint64(start)).astype(np.int64)
        copy_ranges(out, starts[mine], buffer, offset, records.length[mine])
    return arena, starts


def rows(job: Job, bucket: int, pieces: Iterator[bytes]) -> Iterator[pa.RecordBatch]:
    """The live records of a bucket as rows of the state."""
    records = records_of(pieces)
    sources = job.sources()
    for some in (records[piece] for piece in slices(records.length)):
        data, starts = copied(sources, some)
        file = np.zeros(len(some), np.int32)
        keys = some.key_length.astype(np.int64)
        live = Live(file, starts[:-1], some.storage, some.major, some.minor, keys, some.length)
        yield from tables.state_batches([memoryview(data)], [job.files[0].name], live)


def state_frame(workers: Workers, disk: Disk, path: str, as_of: int | None) -> Any:
    """The state, now or at an epoch, as a table of the workers' own kind."""
    looking = Looking(workers, disk, path)
    spread = Spread(workers, looking, epoch_of(looking.survey, as_of))
    return spread.exchange().frame(functools.partial(rows, spread.job), tables.STATE_SCHEMA)


@dataclass(frozen=True, slots=True)
class Facts:
    """How much is alive in a bucket, and which blobs its entries name: file, offset, number."""

    keys: int
    value_bytes: int
    blobs: tuple[tuple[int, int, int], ...]


def facts(job: Job, bucket: int, pieces: Iterator[bytes]) -> Facts:
    """What verify tells of the live records of a bucket."""
    records = records_of(pieces)
    sources = job.sources()
    names: list[tuple[int, int, int]] = []
    size = int((records.length - lay.PUT_SIZE - records.key_length).sum())
    for mine, buffer, start in sources.chunks(records.address, records.address + np.uint64(1)):
        at = (records.address[mine] - np.uint64(start)).astype(np.int64)
        types = np.frombuffer(buffer, np.uint8)[at]
        for which in mine[types == lay.PUT_BLOBS].tolist():
            data, _ = copied(sources, records[which : which + 1])
            entry, _ = lay.decode(memoryview(data), 0)
            size -= lay.BLOB_COUNT.size + lay.BLOB_SIZE * len(entry.blobs)
            file = int(sources.of(records.address[which : which + 1])[0])
            offset = int(records.address[which] - sources.starts[file])
            names += [(file, offset, number) for number in entry.blobs]
    return Facts(len(records), size, tuple(names))


# --- sorted files ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Target:
    """The sorted files that the tasks write together."""

    disk: Disk
    paths: tuple[str, ...]
    head: bytes
    begins: tuple[int, ...]  # how many bytes of records stand before the first one of each file
    zero_versions: bool


def total_of(bucket: int, pieces: Iterator[bytes]) -> int:
    """How many bytes the records of a bucket have."""
    return int(records_of(pieces).length.sum())


@dataclass(frozen=True, slots=True)
class Cuts:
    """To which files the records of a bucket belong: the first and the last one, and where others begin between."""

    begin: int
    first: int
    last: int
    inner: tuple[int, ...]


def cuts_of(file_bytes: int, befores: dict[int, int], bucket: int, pieces: Iterator[bytes]) -> Cuts:
    """Where in the bytes of all records files begin in this bucket."""
    length = records_of(pieces).length
    if not len(length):
        return Cuts(0, 0, 0, ())
    starts = np.cumsum(length) - length + befores[bucket]
    number = starts // file_bytes
    inner = starts[1:][np.diff(number) != 0]
    return Cuts(int(starts[0]), int(number[0]), int(number[-1]), tuple(inner.tolist()))


def _begins(cuts: Sequence[Cuts]) -> list[int]:
    """Where each file begins in the bytes of all records; `cuts` in the order of the buckets."""
    begins: list[int] = []
    last = -1
    for cut in cuts:
        if cut.first != last:
            begins.append(cut.begin)
        begins += cut.inner
        last = cut.last
    return begins


def write(job: Job, target: Target, befores: dict[int, int], bucket: int, pieces: Iterator[bytes]) -> int:
    """Write the records of a bucket to where they belong, durably."""
    records = records_of(pieces)
    if not len(records):
        return 0
    sources = job.sources()
    begins = np.array(target.begins, np.int64)
    starts = np.cumsum(records.length) - records.length + befores[bucket]
    owner = np.searchsorted(begins, starts, "right") - 1
    for which in np.unique(owner).tolist():
        mine = np.flatnonzero(owner == which)
        with target.disk.open(target.paths[which], "write") as file:
            for piece in slices(records.length[mine]):
                some = records[mine[piece]]
                data, within = copied(sources, some)
                if target.zero_versions:
                    tables.zero_versions(data, within[:-1], some.key_length.astype(np.int64))
                file.pwrite(data, len(target.head) + int(starts[mine[piece]][0]) - int(begins[which]))
            file.sync()
    return len(records)


def write_files(
    spread: Spread,
    path_of: Callable[[int], str],
    head: bytes,
    *,
    file_bytes: int | None,
    zero_versions: bool,
) -> list[str]:
    """Have the workers write the state to sorted files, each with a head; returns their paths.

    Names get a token of this job: a task of an earlier job that is late finds no file to write to.
    """
    disk, job, token = spread.disk, spread.job, uuid.uuid4().hex[:12]
    paths: list[str] = []
    try:
        with spread.exchange() as exchange:
            totals = exchange.map(total_of)
            befores, before = {}, 0
            for bucket in sorted(totals):
                befores[bucket] = before
                before += totals[bucket]
            begins = [0]
            if file_bytes is not None and before > file_bytes:
                cuts = exchange.map(functools.partial(cuts_of, file_bytes, befores))
                begins = _begins([cuts[bucket] for bucket in sorted(cuts) if totals[bucket]])
            for number in range(len(begins)):
                paths.append(f"{path_of(number)}.{token}")
                with disk.create_scratch(paths[-1]) as file:
                    file.pwrite(head, 0)
                    file.sync()
            target = Target(disk, tuple(paths), head, tuple(begins), zero_versions)
            exchange.map(functools.partial(write, job, target, befores))
        ends = [*begins[1:], before]
        for path, begin, end in zip(paths, begins, ends, strict=True):
            _check_size(disk, path, len(head) + end - begin)
        for number, path in enumerate(paths):
            paths[number] = path_of(number)
            disk.rename(path, paths[number])
        return paths
    except BaseException:
        for path in paths:
            with contextlib.suppress(DiskError):
                disk.unlink(path)
        raise


def _check_size(disk: Disk, path: str, size: int) -> None:
    stat = disk.stat(path)
    if stat is None or stat.size != size:
        raise RefusedError(
            "the workers did not write what they should have",
            file=path,
            advice="Every worker must see the directory under the same path; nothing was published",
        )
