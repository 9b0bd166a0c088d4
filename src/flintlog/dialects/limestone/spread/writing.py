"""Sorted files that many tasks write together."""

from __future__ import annotations

import contextlib
import functools
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from flintlog.dialects.limestone import tables
from flintlog.dialects.limestone.spread.state import Spread
from flintlog.dialects.limestone.spread.tasks import Job, copied, records_of, slices
from flintlog.disk import Disk
from flintlog.errors import DiskError, RefusedError

if TYPE_CHECKING:
    pass


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
