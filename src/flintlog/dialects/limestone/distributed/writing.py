"""Sorted files that many tasks write together."""

from __future__ import annotations

import contextlib
import functools
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from flintlog.dialects.limestone import tables
from flintlog.dialects.limestone.distributed.state import Distribution
from flintlog.dialects.limestone.distributed.tasks import Job, copied, lengths, records_of
from flintlog.disk import Disk
from flintlog.errors import DiskError, RefusedError


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
    return int(lengths(pieces).sum())


def begins_of(file_bytes: int, befores: dict[int, int], bucket: int, pieces: Iterator[bytes]) -> list[int]:
    """For each multiple of `file_bytes` in a bucket: where the first record at or behind it begins, or the end."""
    ends = np.cumsum(lengths(pieces)) + befores[bucket]
    starts = np.concatenate([[befores[bucket]], ends])
    first = -(-befores[bucket] // file_bytes) * file_bytes
    multiples = np.arange(first, int(ends[-1]), file_bytes)
    return [int(start) for start in starts[np.searchsorted(starts, multiples)]]


def write(job: Job, target: Target, befores: dict[int, int], bucket: int, pieces: Iterator[bytes]) -> int:
    """Write the records of a bucket to where they belong, durably."""
    sources = job.sources()
    begins = np.array(target.begins, np.int64)
    before, count = befores[bucket], 0
    written: set[int] = set()
    for records in records_of(pieces):
        starts = np.cumsum(records.length) - records.length + before
        owner = np.searchsorted(begins, starts, "right") - 1
        data, within = copied(sources, records)
        if target.zero_versions:
            tables.zero_versions(data, within[:-1], records.key_length.astype(np.int64))
        for which in np.unique(owner).tolist():
            first, end = np.searchsorted(owner, [which, which + 1]).tolist()
            at = len(target.head) + int(starts[first]) - int(begins[which])
            with target.disk.open(target.paths[which], "write") as file:
                file.pwrite(memoryview(data)[int(within[first]) : int(within[end])], at)
            written.add(which)
        before += int(within[-1])
        count += len(records)
    for which in sorted(written):
        with target.disk.open(target.paths[which], "write") as file:
            file.sync()
    return count


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
    disk, job, token = distribution.disk, distribution.job, uuid.uuid4().hex[:12]
    paths: list[str] = []
    try:
        with distribution.exchange() as exchange:
            totals = exchange.map(total_of)
            befores, before = {}, 0
            for bucket in sorted(totals):
                befores[bucket] = before
                before += totals[bucket]
            begins = [0]
            if file_bytes is not None and before > file_bytes:
                cut = [
                    bucket
                    for bucket, begin in befores.items()
                    if -(-begin // file_bytes) * file_bytes < begin + totals[bucket]
                ]
                found = exchange.map(functools.partial(begins_of, file_bytes, befores), cut)
                begins = sorted({begin for some in found.values() for begin in some if begin < before})
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
