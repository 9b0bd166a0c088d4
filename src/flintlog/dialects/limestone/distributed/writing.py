"""Sorted files that many tasks write together."""

from __future__ import annotations

import contextlib
import functools
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from flintlog.columns.gather import offsets_of
from flintlog.columns.packing import pack, unpack
from flintlog.dialects.limestone import tables
from flintlog.dialects.limestone.distributed.pieces import Scratch
from flintlog.dialects.limestone.distributed.state import Distribution
from flintlog.dialects.limestone.distributed.tasks import (
    Arena,
    Job,
    LiveRecords,
    Reading,
    live_records,
    parted,
    portions,
)
from flintlog.disk import Disk
from flintlog.errors import DiskError, RefusedError

_OUTPUT_BYTES = 80 << 20  # of records that a task holds; each time it goes through the whole log
_SHARES_MIN = 4  # for each worker, as long as there are buckets for them
_SHARE_BYTES = 1 << 30  # or a bucket


@dataclass(frozen=True, slots=True)
class Target:
    """The sorted files that the tasks write together."""

    disk: Disk
    paths: tuple[str, ...]
    head: bytes
    begins: tuple[int, ...]  # how many bytes of records stand before the first one of each file
    zero_versions: bool


@dataclass(frozen=True, slots=True)
class Share:
    """Buckets whose records one task writes: the first, how many bytes each has, and how many stand before them."""

    first: int
    sizes: tuple[int, ...]
    before: int


def shared(totals: Sequence[int], workers: int) -> list[Share]:
    """Buckets of so many bytes in shares for so many workers."""
    room = min(sum(totals) // (_SHARES_MIN * workers), _SHARE_BYTES)
    shares: list[Share] = []
    first = before = size = 0
    for bucket, total in enumerate(totals):
        size += total
        if size >= room or bucket == len(totals) - 1:
            shares.append(Share(first, tuple(totals[first : bucket + 1]), before))
            first, before, size = bucket + 1, before + size, 0
    return shares


def spread(job: Job, parts: Scratch, item: tuple[int, Sequence[Reading]]) -> None:
    """Write the candidates of some windows, a piece for each bucket."""
    number, readings = item
    parts.write(number, parted(job, readings))


def gather(job: Job, parts: Scratch, live: Scratch, bucket: int) -> int:
    """Write the live records of a bucket; returns how many bytes they point to."""
    pieces = (parts.read(number, bucket) for number in range(parts.files))
    records = live_records(job, filter(None, pieces))
    live.write(bucket, [(0, pack(records))])
    return int(records.length.sum())


def begins_of(live: Scratch, file_bytes: int, share: Share) -> list[int]:
    """For each multiple of `file_bytes` in a share: where the first record at or behind it begins, or the end."""
    found: list[int] = []
    before = share.before
    for bucket, size in enumerate(share.sizes, share.first):
        multiples = np.arange(-(-before // file_bytes) * file_bytes, before + size, file_bytes)
        if len(multiples):
            starts = before + offsets_of(_records(live, bucket).length)
            found += starts[np.searchsorted(starts, multiples)].tolist()
        before += size
    return found


def write(job: Job, live: Scratch, target: Target, share: Share) -> None:
    """Write the records of a share to where they belong, durably."""
    arena = Arena(job.sources())
    begins = np.array(target.begins, np.int64)
    before = share.before
    written: set[int] = set()
    buckets = (_records(live, bucket) for bucket, _ in enumerate(share.sizes, share.first))
    for records in portions(buckets, _OUTPUT_BYTES):
        data, within = arena.fill(records)
        starts = within[:-1] + before
        owner = np.searchsorted(begins, starts, "right") - 1
        if target.zero_versions:
            tables.zero_versions(data, within[:-1], records.key_length.astype(np.int64))
        for which in np.unique(owner).tolist():
            first, end = np.searchsorted(owner, [which, which + 1]).tolist()
            at = len(target.head) + int(starts[first]) - int(begins[which])
            with target.disk.open(target.paths[which], "write") as file:
                file.pwrite(data[int(within[first]) : int(within[end])], at)
            written.add(which)
        before += int(within[-1])
    for which in sorted(written):
        with target.disk.open(target.paths[which], "write") as file:
            file.sync()


def _records(live: Scratch, bucket: int) -> LiveRecords:
    return unpack(LiveRecords, live.read(bucket, 0))


def write_files(
    distribution: Distribution,
    path_of: Callable[[int], str],
    head: bytes,
    *,
    file_bytes: int | None,
    zero_versions: bool,
) -> list[str]:
    """Have the workers write the state to sorted files, each with a head; returns their paths.

    Names get a token of this job: a task of an earlier job that is late finds no file to write to.
    """
    disk, job, workers = distribution.disk, distribution.job, distribution.workers
    token = uuid.uuid4().hex[:12]
    paths: list[str] = []
    try:
        with _live_records(distribution, f"{path_of(0)}.{token}") as (live, totals):
            before, begins = sum(totals), [0]
            shares = shared(totals, workers.count)
            if file_bytes is not None and before > file_bytes:
                found = workers.map(functools.partial(begins_of, live, file_bytes), shares)
                begins = sorted({begin for some in found for begin in some if begin < before})
            for number in range(len(begins)):
                paths.append(f"{path_of(number)}.{token}")
                with disk.create_scratch(paths[-1]) as file:
                    file.pwrite(head, 0)
                    file.sync()
            target = Target(disk, tuple(paths), head, tuple(begins), zero_versions)
            _run(workers.map(functools.partial(write, job, live, target), shares))
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


@contextlib.contextmanager
def _live_records(distribution: Distribution, path: str) -> Iterator[tuple[Scratch, list[int]]]:
    """The live records of each bucket in scratch files, and how many bytes they point to."""
    disk, job, workers = distribution.disk, distribution.job, distribution.workers
    live = Scratch(disk, f"{path}.live", files=job.buckets, pieces=1)
    parts = Scratch(disk, f"{path}.part", files=len(distribution.tasks), pieces=job.buckets)
    with live.made():
        with parts.made():
            _run(workers.map(functools.partial(spread, job, parts), list(enumerate(distribution.tasks))))
            totals = list(workers.map(functools.partial(gather, job, parts, live), range(job.buckets)))
        yield live, totals


def _run(answers: Iterator[None]) -> None:
    """Let tasks do what they do for what it changes."""
    for _ in answers:
        pass


def _check_size(disk: Disk, path: str, size: int) -> None:
    stat = disk.stat(path)
    if stat is None or stat.size != size:
        raise RefusedError(
            "the workers did not write what they should have",
            file=path,
            advice="Every worker must see the directory under the same path; nothing was published",
        )
