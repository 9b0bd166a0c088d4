"""The state of a directory by many workers, and merged files that they write.

Chains are sorted by time, so the state is cut into ranges of its order, which is time, then chain, then place in the
chain. A task for each file goes through its waiting records and marks one every so many bytes. The sorted marks of all
files say where to cut, and from where on a task has to read each file for its range.
"""

from __future__ import annotations

import contextlib
import functools
import uuid
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from flintlog.core.workers import Workers
from flintlog.dialects.mpy6a import layout as lay
from flintlog.dialects.mpy6a import scan
from flintlog.dialects.mpy6a.compaction import Merge
from flintlog.dialects.mpy6a.content import Content
from flintlog.dialects.mpy6a.files import SCRATCH_DATA
from flintlog.dialects.mpy6a.layout import StateID
from flintlog.dialects.mpy6a.seen import Survey
from flintlog.dialects.mpy6a.waiting import Cut, Taken, Within, chains_of, merge, merge_chains
from flintlog.disk import Disk, File
from flintlog.errors import DiskError, RefusedError

if TYPE_CHECKING:
    import pyarrow as pa

MARK_BYTES = 4 << 20
RANGE_BYTES = 64 << 20


# State


@dataclass(frozen=True, slots=True)
class Marks:
    """Records of a file, some bytes apart: offset and time. The first is the first that may wait."""

    offset: tuple[int, ...]
    time: tuple[int, ...]
    last: int  # when the last record is due
    good: bool


def marks(content: Content, mark_bytes: int) -> Marks:
    """Mark records among those that may wait in a file."""
    file = content.file
    view, base = content.view(), 0
    if len(view) < file.length:  # the file is gone; the operation log has its waiting records
        view, base = content.part(file.offset, file.length), file.offset
    offsets: list[int] = []
    times: list[int] = []
    last = file.replay
    stop: scan.Stop | None = None
    slot = -1
    for records, stop in scan.record_batches(view, file.offset - base, before=last):  # noqa: B007
        if len(records):
            offset = records.offset + base
            slots = (offset - file.offset) // mark_bytes
            rows = np.flatnonzero(np.diff(slots, prepend=slot))
            offsets += offset[rows].tolist()
            times += records.replay_time[rows].tolist()
            slot = int(slots[-1])
            last = int(records.replay_time[-1])
    assert stop is not None
    return Marks(tuple(offsets), tuple(times), last, stop.good and base + stop.offset == file.length)


@dataclass(frozen=True, slots=True)
class Range:
    """A part of the state for a task."""

    chains: tuple[tuple[tuple[Content, ...], Within], ...]
    taken: Taken
    until: StateID | None


def rows(part: Range) -> Iterator[pa.RecordBatch]:
    """The rows of a part."""
    from flintlog.dialects.mpy6a import tables

    for pieces, order in merge_chains(part.chains, part.taken, part.until):
        yield from tables.state_batches(pieces, order)


def state_frame(
    workers: Workers,
    found: Survey,
    until: StateID | None,
    *,
    mark_bytes: int = MARK_BYTES,
    range_bytes: int = RANGE_BYTES,
) -> Any:
    """The sessions that wait as a table of the workers' own kind, in the order of replay."""
    from flintlog.dialects.mpy6a.tables import STATE_SCHEMA

    chains = [[item for item in chain if item.file.offset < item.file.length] for chain in chains_of(found)]
    files = [item for chain in chains for item in chain]
    made = dict(
        zip(
            (item.file.name for item in files),
            workers.map(functools.partial(marks, mark_bytes=mark_bytes), files),
            strict=True,
        )
    )
    if not all(_in_order([made[item.file.name] for item in chain]) for chain in chains):
        for _ in merge(found, until):  # says what is wrong, and where
            pass
        raise RefusedError(
            "a file was changed while it was read", file=found.path, advice="Read the directory again"
        )
    ranges = _ranges(chains, made, found.machine.taken, until, range_bytes)
    return workers.frame(rows, ranges, STATE_SCHEMA)


def _in_order(chain: Sequence[Marks]) -> bool:
    return all(one.good for one in chain) and all(
        before.last <= after.time[0] for before, after in pairwise(chain)
    )


def _ranges(
    chains: list[list[Content]],
    made: dict[str, Marks],
    taken: Taken,
    until: StateID | None,
    range_bytes: int,
) -> list[Range]:
    """Cut the order of all records at marks, into ranges of about one size."""
    places: list[list[Cut]] = [
        [
            (time, number, at, offset)
            for at, item in enumerate(chain)
            for offset, time in zip(made[item.file.name].offset, made[item.file.name].time, strict=True)
        ]
        for number, chain in enumerate(chains)
    ]
    cuts: list[Cut | None] = [None]
    size = 0
    for cut, length in sorted(_sized(chains, places)):
        if size >= range_bytes:
            cuts.append(cut)
            size = 0
        size += length
    found = []
    for low, high in pairwise([*cuts, None]):
        parts = [
            part
            for number, chain in enumerate(chains)
            if (part := _part(chain, number, places[number], low, high)) is not None
        ]
        names = {item.file.name for contents, _ in parts for item in contents}
        mine = {key: session for key, session in taken.items() if key[0] in names}
        found.append(Range(tuple(parts), mine, until))
    return found


def _sized(chains: list[list[Content]], places: list[list[Cut]]) -> Iterator[tuple[Cut, int]]:
    """Each mark with the bytes up to the next one."""
    for chain, cuts in zip(chains, places, strict=True):
        for cut, following in pairwise([*cuts, None]):
            assert cut is not None
            same = following is not None and following[2] == cut[2]
            end = following[3] if following is not None and same else chain[cut[2]].file.length
            yield cut, end - cut[3]


def _part(
    chain: list[Content], number: int, places: list[Cut], low: Cut | None, high: Cut | None
) -> tuple[tuple[Content, ...], Within] | None:
    """What a range needs of a chain; None when nothing."""
    first = 0 if low is None else max(bisect_right(places, low) - 1, 0)
    last = len(places) if high is None else bisect_left(places, high)
    if first >= last:
        return None
    begin, end = places[first][2], places[last - 1][2]
    numbers = {item.file.name: at for at, item in enumerate(chain)}
    within = Within(number, numbers, places[first][3], low, high)
    return tuple(chain[begin : end + 1]), within


# Compaction


@dataclass(frozen=True, slots=True)
class Merged:
    """A new file, which a task fills with the unread parts of others."""

    disk: Disk
    path: str
    scratch: str
    merge: Merge


def chunks_of(disk: Disk, path: str, merge: Merge) -> Iterator[bytes]:
    """The bytes of a merged file."""
    for file in merge.files:
        with disk.open(f"{path}/{file.name}") as opened:
            for begin, end in file.unread():
                yield from opened.chunks(begin, end)


def fill(item: Merged) -> int:
    """Write a merged file, durable on return; returns its size."""
    at = 0
    with item.disk.open(item.scratch, "write") as file:
        for chunk in chunks_of(item.disk, item.path, item.merge):
            file.pwrite(chunk, at)
            at += len(chunk)
        file.sync()
    return at


@contextlib.contextmanager
def merged_files(
    workers: Workers | None, disk: Disk, path: str, merges: Sequence[Merge]
) -> Iterator[Sequence[File]]:
    """Write merged files, by workers if given. They are whole and open inside the block, which must name them.

    Scratch names have a token of this job: a late task of an earlier job finds no file to write to.
    """
    token = "merged" if workers is None else uuid.uuid4().hex[:12]
    names = [f"{path}/{SCRATCH_DATA}.{token}-{number}{lay.SCRATCH_SUFFIX}" for number in range(len(merges))]
    with contextlib.ExitStack() as stack:
        files: list[File] = []
        try:
            files.extend(stack.enter_context(disk.create_scratch(name)) for name in names)
            items = [Merged(disk, path, name, merge) for name, merge in zip(names, merges, strict=True)]
            sizes = map(fill, items) if workers is None else workers.map(fill, items)
            for file, merge, size in zip(files, merges, sizes, strict=True):
                if not size == file.size() == merge.live_bytes:
                    raise RefusedError(
                        "the workers did not write what they should have",
                        file=file.path,
                        advice="Every worker must see the directory under the same path; nothing was published",
                    )
            yield files
        except BaseException:
            for file in files:
                if file.path in names:
                    with contextlib.suppress(DiskError):
                        disk.unlink(file.path)
            raise
