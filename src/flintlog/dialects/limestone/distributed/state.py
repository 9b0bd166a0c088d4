"""One state: what its tasks must know, worked out from the looks, and its rows."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from flintlog.core.workers import Exchange, Workers
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone import tables
from flintlog.dialects.limestone.candidates import Candidates, Groups
from flintlog.dialects.limestone.distributed.looking import (
    SAMPLE_BYTES,
    WINDOW_BYTES,
    LogFile,
    LogWindow,
    Looking,
    Looks,
)
from flintlog.dialects.limestone.distributed.tasks import (
    Arena,
    Job,
    Order,
    Reading,
    live_records,
    parted,
    portions,
)
from flintlog.dialects.limestone.merge import numeric
from flintlog.dialects.limestone.passes import pivots_of
from flintlog.dialects.limestone.replay import Cleared, Live, epoch_of
from flintlog.dialects.limestone.survey import counted
from flintlog.disk import Disk
from flintlog.errors import RefusedError

if TYPE_CHECKING:
    import pyarrow as pa

SORTED_BYTES = 160  # that a task holds of each entry that it sorts
_OUTPUT_BYTES = 32 << 20  # of records that a task has read: it holds what it sorted, and makes rows
_CELL_ROWS = 1 << 15  # many small cells travel faster than a few large ones
_TASKS_MIN = 4  # for each worker, as long as there are windows for them
_WINDOWS_MAX = 16  # of one task
PIECES_MAX = 1 << 26  # what tasks give to buckets: more of them take days, and each holds a few entries only

_BEGINNING_MAX = SAMPLE_BYTES - 8  # bytes of keys that can be left out of their windows


class Distribution:
    """The state of a directory at an epoch, made by workers."""

    def __init__(
        self,
        looking: Looking,
        epoch: int,
        *,
        order: Order = numeric,
        window_bytes: int = WINDOW_BYTES,
        bucket_entries: int | None = None,
    ) -> None:
        looking.survey.refuse_damage()
        self.workers = looking.workers
        found = looking.survey
        self.disk = found.disk
        self.files, self._readings = _readings(looking, epoch)
        pieces = [
            piece for name in [file.name for file in self.files] for piece in looking.files[name].pieces
        ]
        bucket_entries = bucket_entries or looking.workers.task_bytes // SORTED_BYTES
        entries = [reading.entries for reading in self._readings]
        cuts, buckets = cut(entries, bucket_entries, self.workers.count)
        self.tasks = [tuple(self._readings[task]) for task in cuts]
        if len(cuts) * buckets > PIECES_MAX:
            raise RefusedError(
                f"{len(cuts):,} tasks would give pieces to {buckets:,} buckets each",
                file=found.path,
                advice=f"Let tasks hold more: set spark.flintlog.taskBytes to {16 * looking.workers.task_bytes},"
                " and give the Python workers memory for it",
            )
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

    def facts(self) -> list[Facts]:
        """What verify tells of the state, bucket by bucket in the order of keys."""
        found = self.exchange().map(functools.partial(facts, self.job))
        return [found[bucket] for bucket in sorted(found)]

    def exchange(self) -> Exchange:
        """The candidates of each bucket, with the workers."""
        produce = functools.partial(parted, self.job, rows=_CELL_ROWS)
        return self.workers.exchange(produce, self.tasks, self.job.buckets)


def _readings(looking: Looking, epoch: int) -> tuple[list[LogFile], list[Reading]]:
    """The files that count and the windows in them that do; the base first."""
    found = looking.survey
    low = -1 if found.all_history else found.low
    files: list[LogFile] = []
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
            files.append(LogFile(found.disk, found.path, name, active))
            readings += some
    return files, readings


def cut(entries: Sequence[int], bucket_entries: int, workers: int) -> tuple[list[slice], int]:
    """Which windows each task reads, where this many entries stand in each, and how many buckets there are.

    A task reads windows that follow each other. The fewer tasks, the more each of them gives to a bucket at a time.
    """
    total = sum(entries)
    room = min(bucket_entries, total // (_TASKS_MIN * workers))
    tasks: list[slice] = []
    begin = held = 0
    for at, count in enumerate(entries):
        if at > begin and (held + count > room or at - begin == _WINDOWS_MAX):
            tasks.append(slice(begin, at))
            begin, held = at, 0
        held += count
    if entries:
        tasks.append(slice(begin, len(entries)))
    return tasks, max(-(-total // bucket_entries), min(workers, total // 4096), 1)


def _groups(pieces: Sequence[LogWindow]) -> tuple[list[int], list[bytes], Candidates]:
    """The storages, the beginning that the sampled keys of each have in common, and the samples as candidates."""
    storages = sorted({storage for piece in pieces for storage in piece.storages})
    storage = np.concatenate([np.empty(0, np.uint64), *(piece.sample_storage for piece in pieces)])
    keys = np.concatenate([np.empty((0, SAMPLE_BYTES), np.uint8), *(piece.sample for piece in pieces)])
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


def _cleared(looking: Looking, readings: Sequence[Reading], files: Sequence[LogFile]) -> Cleared:
    """What happened to whole storages in the snippets that count."""
    cleared = Cleared()
    changes = [
        {piece.start: piece.changes for piece in looking.files[file.name].pieces if piece.changes is not None}
        for file in files
    ]
    for reading in readings:
        if reading.start not in changes[reading.file]:
            continue
        entries, snippets = changes[reading.file][reading.start]
        counts = np.isin(snippets.epoch[entries.snippet], reading.snippets.epoch)
        cleared.note(entries[counts], snippets, looking.survey.low)
    return cleared


def rows(job: Job, bucket: int, pieces: Iterator[bytes]) -> Iterator[pa.RecordBatch]:
    """The live records of a bucket as rows of the state."""
    arena = Arena(job.sources())
    for some in portions([live_records(job, pieces)], _OUTPUT_BYTES):
        data, starts = arena.fill(some)
        file = np.zeros(len(some), np.int32)
        keys = some.key_length.astype(np.int64)
        live = Live(file, starts[:-1], some.storage, some.major, some.minor, keys, some.length)
        yield from tables.state_batches([data], [job.files[0].name], live)


def state_frame(workers: Workers, disk: Disk, path: str, as_of: int | None) -> Any:
    """The state, now or at an epoch, as a table of the workers' own kind."""
    looking = Looking(Looks(workers), disk, path)
    distribution = Distribution(looking, epoch_of(looking.survey, as_of))
    return distribution.exchange().frame(functools.partial(rows, distribution.job), tables.STATE_SCHEMA)


@dataclass(frozen=True, slots=True)
class Facts:
    """How much is alive in a bucket, and which blobs its entries name: file, offset, number."""

    keys: int
    value_bytes: int
    blobs: tuple[tuple[int, int, int], ...]


def facts(job: Job, bucket: int, pieces: Iterator[bytes]) -> Facts:
    """What verify tells of the live records of a bucket."""
    sources = job.sources()
    names: list[tuple[int, int, int]] = []
    keys = size = 0
    arena = Arena(sources)
    for records in portions([live_records(job, pieces)], _OUTPUT_BYTES):
        keys += len(records)
        size += int((records.length - lay.PUT_SIZE - records.key_length).sum())
        for mine, buffer, start in sources.chunks(records.address, records.address + np.uint64(1)):
            at = (records.address[mine] - np.uint64(start)).astype(np.int64)
            types = np.frombuffer(buffer, np.uint8)[at]
            for which in mine[types == lay.PUT_BLOBS].tolist():
                data, _ = arena.fill(records[which : which + 1])
                entry, _ = lay.decode(data, 0)
                size -= lay.BLOB_COUNT.size + lay.BLOB_SIZE * len(entry.blobs)
                file = int(sources.of(records.address[which : which + 1])[0])
                offset = int(records.address[which] - sources.starts[file])
                names += [(file, offset, number) for number in entry.blobs]
    return Facts(keys, size, tuple(names))
