"""Following a key-value log: whole epochs, as soon as the epoch file says that they are durable.

A cursor of such a log:

| field | meaning |
|---|---|
| `epoch` | everything up to this epoch was delivered |
| `base` | on the way here the compacted files that cover this epoch were delivered |
| `lost` | [first, last] of the epochs that were compacted before they could be delivered |

Sessions of a durable epoch are written and closed, so nothing is added to it and nothing taken back. Channels are read
side by side: within an epoch only the entries of one channel are in order. Invalidated sessions are not delivered.

Compaction takes logs away. A follower that has their epochs goes on behind them; a new follower gets the compacted
entries first (`status` compacted), then the epochs above. A follower that missed some epochs cannot get them any more:
with `on_loss="report"` it gets a row that says so, and then begins with the compacted entries.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from flintlog.core.dialect import NO_PAYLOAD, EntryQuery, Split
from flintlog.core.follow import (
    LOST,
    Cursor,
    Delivery,
    Follower,
    Limits,
    OnLoss,
    Report,
    looking_again,
    lost,
    make_durable,
    replaced,
    report_batch,
)
from flintlog.core.live import ChangedError
from flintlog.core.log import Log
from flintlog.core.position import span
from flintlog.dialects.limestone import entries, tables
from flintlog.dialects.limestone.survey import Survey, survey
from flintlog.disk import Disk

# An idle follower moves on after so many epochs without an entry, so that a later compaction is no loss for it.
IDLE_EPOCHS = 256


Counts = dict[int, tuple[int, int]]  # entries and bytes by epoch


@dataclass(frozen=True, slots=True)
class _Part:
    """A split, and which of its entries count."""

    split: Split
    statuses: tuple[str, ...]
    first: int | None


class EpochFollower:
    """Follows the durable epoch. Remembers which files it need not read again."""

    def __init__(self, log: Log) -> None:
        self._disk, self._path = log.disk, log.root
        self._done: dict[tuple[int, int], tuple[int, int]] = {}  # the size and the greatest epoch of a file
        self._counts: dict[
            tuple[int | None, Split], Counts
        ] = {}  # the counts of the last look, by part of a file

    def advance(self, start: Cursor, limits: Limits, on_loss: OnLoss) -> Cursor:
        return looking_again(self._disk, lambda: self._advance(start, limits, on_loss))

    def _advance(self, start: Cursor, limits: Limits, on_loss: OnLoss) -> Cursor:
        found = _look(self._disk, self._path)
        make_durable(self._disk, self._path, set(found.listing.epochs))
        delivered = start.get("epoch")
        cursor: Cursor = {}
        gone = _gone(found, delivered)
        if gone is not None:
            if on_loss == "fail":
                raise lost(self._path, f"epochs {span(*gone)}")
            cursor["lost"] = list(gone)
            delivered = None
        if delivered is None and found.base:
            cursor["base"] = found.low
        taken = self._count(found, delivered, with_base="base" in cursor)
        until = found.durable
        if limits.until is not None:
            until = min(until, limits.until.get("epoch", -1))
        end = _within(taken, limits, until)
        if end is None:
            idle = delivered is not None and until - delivered >= IDLE_EPOCHS
            if not idle and "lost" not in cursor:
                return start
            end = until
        return {"epoch": max(end, found.low) if delivered is None else end, **cursor}

    def _count(self, found: Survey, delivered: int | None, *, with_base: bool) -> Counts:
        """Entries and bytes of each epoch that is new."""
        result: Counts = {}
        self._counts.clear()
        for part in _parts(found, delivered, with_base=with_base):
            stat = self._disk.stat(f"{self._path}/{part.split.file}")
            key, size = (stat.identity, stat.size) if stat is not None else ((0, 0), -1)
            known = self._done.get(key)
            if delivered is not None and known is not None and known[0] == size and known[1] <= delivered:
                continue
            greatest, counts = self._count_part(part, max(found.low, 0))
            self._counts[key[1], part.split] = counts
            for epoch, (count, length) in counts.items():
                before = result.get(epoch, (0, 0))
                result[epoch] = (before[0] + count, before[1] + length)
            again = self._disk.stat(f"{self._path}/{part.split.file}")
            if again != stat:
                continue  # it was rotated or written to meanwhile: count it again next time
            if part.split.start == 0 and part.split.end >= size:
                self._done[key] = (size, max(greatest, known[1] if known and known[0] == size else -1))
        return result

    def _count_part(self, part: _Part, low: int = 0) -> tuple[int, Counts]:
        """The greatest epoch in a part of a log, and the counts by epoch; compacted entries count as epoch `low`."""
        query = EntryQuery(first=_bound(part.first), skip=NO_PAYLOAD)
        greatest, counts = -1, Counts()
        for batch in entries.read_split(self._disk, self._path, part.split, query):
            greatest = max(greatest, int(batch.column("position").to_numpy().max()))
            counted = _kept(batch, part.statuses)
            compacted = tables.COMPACTED in part.statuses
            epochs = np.full(counted.num_rows, low) if compacted else counted.column("position").to_numpy()
            _add(counts, epochs, counted)
        return greatest, counts

    def _expected(self, part: _Part, inode: int | None, last: int) -> int:
        """How many entries up to an epoch a part holds now. If a compaction moves them before `read` gets to them,
        `read` finds fewer and raises."""
        counts = self._counts.get((inode, part.split))
        if counts is None:
            _, counts = self._count_part(part)
        first = -1 if part.first is None else part.first
        return sum(count for epoch, (count, _) in counts.items() if first <= epoch <= last)

    def deliveries(self, start: Cursor, end: Cursor, query: EntryQuery, on_loss: OnLoss) -> list[Delivery]:
        return looking_again(self._disk, lambda: self._pieces(start, end, query, on_loss))

    def _pieces(self, start: Cursor, end: Cursor, query: EntryQuery, on_loss: OnLoss) -> list[Delivery]:
        if start == end:
            return []
        found = _look(self._disk, self._path)
        result = []
        delivered, last = start.get("epoch"), end["epoch"]
        with_base = "base" in end
        if "lost" in end:
            result.append(Delivery(query, report=Report(LOST, (end["lost"][0],))))
            delivered = None
        since = delivered if delivered is not None else end.get("base", -1)
        gone = _gone(found, since)
        if gone is None and with_base and found.low != end["base"]:
            gone = (end["base"] + 1, found.low)
        if gone is not None:  # planned in an earlier run; a compaction took it away since
            if on_loss == "fail":
                raise lost(self._path, f"epochs {span(*gone)}")
            result.append(Delivery(query, report=Report(LOST, (gone[0],))))
            if found.low > last:
                return result  # the next step begins with the compacted entries
            with_base, delivered = True, None
        asked = EntryQuery(last=(last,), skip=query.skip)
        inodes = _inodes(self._disk, self._path)
        parts = list(_parts(found, delivered, with_base=with_base))
        if any(inodes.get(name) != inode for name, inode in _inodes(self._disk, self._path).items()):
            raise ChangedError(
                "logs were rotated while they were listed", file=self._path, advice="Try again"
            )
        for part in parts:
            compacted = tables.COMPACTED in part.statuses
            wanted = EntryQuery(skip=query.skip) if compacted else replace(asked, first=_bound(part.first))
            if not self._is_done(part.split, delivered):
                inode = inodes.get(part.split.file)
                count = None if compacted else self._expected(part, inode, last)
                result.append(Delivery(wanted, part.split, statuses=part.statuses, inode=inode, count=count))
        return result

    def _is_done(self, split: Split, delivered: int | None) -> bool:
        """Did an earlier look see nothing in this file above what was delivered?"""
        stat = self._disk.stat(f"{self._path}/{split.file}")
        if stat is None or delivered is None:
            return False
        known = self._done.get(stat.identity)
        return known is not None and known[0] == stat.size and known[1] <= delivered

    def read(self, delivery: Delivery) -> Iterator[pa.RecordBatch]:
        if delivery.report is not None:
            yield report_batch(tables.ENTRY_SCHEMA, "limestone", delivery.report)
        split = delivery.split
        if split is None:
            return
        seen = 0
        for batch in looking_again(self._disk, lambda: self._open(delivery, split)):
            some = _kept(batch, delivery.statuses)
            if some.num_rows:
                seen += some.num_rows
                yield some
        if delivery.count is not None and seen != delivery.count:
            raise replaced(f"{self._path}/{split.file}", "the entries of this log")

    def _open(self, delivery: Delivery, split: Split) -> Iterator[pa.RecordBatch]:
        """The batches of a split; when this returns, its file is open and the right one.

        Rotation gives a log another name, and its old name to a new file.
        """
        name = next(
            (name for name, inode in _inodes(self._disk, self._path).items() if inode == delivery.inode), None
        )
        if name is None:
            raise replaced(f"{self._path}/{split.file}", "the entries of this log")
        batches = entries.read_split(self._disk, self._path, replace(split, file=name), delivery.query)
        first = list(itertools.islice(batches, 1))
        if _inodes(self._disk, self._path).get(name) != delivery.inode:
            raise ChangedError(
                "this log was rotated while it was opened", file=self._path, advice="Try again"
            )
        return itertools.chain(first, batches)


def follower(log: Log) -> Follower:
    """A follower of this log."""
    return EpochFollower(log)


def _inodes(disk: Disk, path: str) -> dict[str, int]:
    """The inodes of the files in the directory; they stay when a file is renamed."""
    found = ((name, disk.stat(f"{path}/{name}")) for name in disk.list(path))
    return {name: stat.identity[1] for name, stat in found if stat is not None and not stat.is_directory}


def _look(disk: Disk, path: str) -> Survey:
    found = survey(disk, path, walk=False)
    found.refuse_damage()
    return found


def _gone(found: Survey, delivered: int | None) -> tuple[int, int] | None:
    """The epochs that a compaction took away before they were delivered, with their logs."""
    last = min(found.low, found.durable)  # compaction takes nothing above the durable epoch
    if delivered is None or last <= delivered:
        return None
    there = {log.name for log in found.listing.logs}
    return None if found.catalog.detached <= there else (delivered + 1, last)


def _parts(found: Survey, delivered: int | None, *, with_base: bool) -> Iterator[_Part]:
    """The splits that may hold new entries. When the base is delivered, the logs that it took in are not."""
    covered = found.catalog.detached if with_base else frozenset()
    for split in entries.splits(found.disk, found.path, EntryQuery()):
        if split.file in found.base:
            if with_base:
                yield _Part(split, (tables.COMPACTED,), None)
        else:
            first = found.low if split.file in covered else delivered
            yield _Part(split, (tables.DURABLE,), None if first is None else first + 1)


def _bound(first: int | None) -> tuple[int, ...] | None:
    return None if first is None else (first,)


def _kept(batch: pa.RecordBatch, statuses: tuple[str, ...]) -> pa.RecordBatch:
    status = batch.column("limestone").field("status")
    return batch.filter(pc.is_in(status, pa.array(statuses, pa.string())))


def _add(result: Counts, epochs: NDArray[Any], batch: pa.RecordBatch) -> None:
    if not len(epochs):
        return
    found, which = np.unique(epochs, return_inverse=True)
    counts = np.bincount(which)
    sizes = np.bincount(which, batch.column("length").to_numpy())
    for epoch, count, size in zip(found.tolist(), counts.tolist(), sizes.tolist(), strict=True):
        before = result.get(epoch, (0, 0))
        result[epoch] = (before[0] + count, before[1] + int(size))


def _within(taken: Counts, limits: Limits, durable: int) -> int | None:
    """The last epoch within the limits, at least the first; the durable epoch when all fit; None when none is new."""
    entries_, size = 0, 0
    last: int | None = None
    for epoch in sorted(taken):
        if epoch > durable:
            break
        count, length = taken[epoch]
        over = (limits.entries is not None and entries_ + count > limits.entries) or (
            limits.bytes is not None and size + length > limits.bytes
        )
        if over and last is not None:
            return last
        entries_, size, last = entries_ + count, size + length, epoch
    return None if last is None else durable
