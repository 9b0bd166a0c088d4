"""Following a log that a store writes to: what is new since a cursor, delivered once and never before it is durable.

A *cursor* says up to where everything was delivered. It is a small JSON object that describes itself, so that a
checkpoint or a manifest can hold it; the empty one is the beginning of the log. `advance` finds the next cursor,
`deliveries` turns two cursors into work for any task, `read` does one delivery. The same two cursors always give the
same rows.

Two rows report what no entry says:

| operation | meaning |
|---|---|
| `truncate` | entries that were delivered from this position on are void; what follows takes their place |
| `lost` | from this position on entries were removed before they were delivered: `length` of them, if known |

A reader cannot see whether bytes have left the cache of the system. So it calls fsync on what it read before it
delivers it.
"""

from __future__ import annotations

import errno
import posixpath
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from flintlog.core.dialect import EntryQuery, Split
from flintlog.core.position import Position
from flintlog.disk import Disk
from flintlog.errors import DiskError, RefusedError

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
Cursor = dict[str, Any]
OnLoss = Literal["fail", "report"]

TRUNCATE = "truncate"
LOST = "lost"
_LOOKS_MAX = 5
_PAUSE_SECONDS = 0.02
_NOT_SYNCABLE = (errno.EROFS, errno.EINVAL, errno.EBADF, errno.ENOTSUP, errno.EACCES, errno.EPERM)


def beginning() -> Cursor:
    """The cursor in front of the first entry."""
    return {}


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one step may deliver; at least one entry (limestone: one epoch) is always delivered."""

    entries: int | None = None
    bytes: int | None = None
    until: Cursor | None = None  # deliver nothing behind this cursor

    def room(self, entries: int, size: int) -> bool:
        """Is there room for more, after so many entries and bytes?"""
        return (self.entries is None or entries < self.entries) and (self.bytes is None or size < self.bytes)


@dataclass(frozen=True, slots=True)
class Report:
    """A row that is no entry: a truncation or a loss."""

    operation: str  # TRUNCATE or LOST
    position: Position
    length: int = 0


@dataclass(frozen=True, slots=True)
class Delivery:
    """What one task reads: a part of a split, or a report. Plain data, so that it travels."""

    query: EntryQuery
    split: Split | None = None
    report: Report | None = None
    marks: tuple[tuple[Position, int, int], ...] = ()  # entries that must be here: position, term, checksum
    count: int | None = None  # how many entries there must be; None: not known
    statuses: tuple[str, ...] = ()  # deliver entries with these, where entries have a status
    inode: int | None = None  # of the file, where a file may be renamed


class Follower(Protocol):
    """How one log is followed. Never locks and never changes a byte."""

    def advance(self, start: Cursor, limits: Limits, on_loss: OnLoss) -> Cursor:
        """The cursor behind what is new and durable; `start` itself when nothing is new."""

    def deliveries(self, start: Cursor, end: Cursor, query: EntryQuery, on_loss: OnLoss) -> list[Delivery]:
        """The deliveries between two cursors, in log order. Of the query only `payload` counts."""

    def read(self, delivery: Delivery) -> Iterator[pa.RecordBatch]:
        """The rows of one delivery."""


class LossError(RefusedError):
    """Entries were removed before they were delivered."""

    code = "lost"


class ReplacedError(RefusedError):
    """Entries that were planned are no longer what the log holds."""

    code = "replaced"


def lost(path: str, what: str) -> LossError:
    """The error for entries that can no longer be delivered."""
    return LossError(
        f"{what} were removed before they were delivered",
        file=path,
        advice="Follow more often than the log is compacted; on_loss=report goes on behind them and says so in a row",
    )


def replaced(path: str, what: str) -> ReplacedError:
    """The error for a delivery that was cut or written anew between planning and reading."""
    return ReplacedError(
        f"{what} were cut or replaced while they were read",
        file=path,
        advice="Start again: what became void is then reported",
    )


def report_batch(schema: pa.Schema, dialect: str, report: Report) -> pa.RecordBatch:
    """A report as a row of the entries."""
    import pyarrow as pa

    # A position of two parts shows its last one in this column, as those of entries do.
    term = report.position[0] if len(report.position) > 1 else None
    row = {
        "dialect": dialect,
        "file": "",
        "offset": 0,
        "length": report.length,
        "term": term,
        "position": report.position[-1],
        "operation": report.operation,
    }
    return pa.RecordBatch.from_pylist([row], schema=schema)


def make_durable(disk: Disk, path: str, names: set[str]) -> None:
    """Sync these files and their names; go on where the file system cannot sync."""
    for name in sorted(names):
        try:
            with disk.open(posixpath.join(path, name)) as file:
                file.sync()
            disk.sync_directory(posixpath.dirname(posixpath.join(path, name)))
        except DiskError as error:
            if error.errno not in _NOT_SYNCABLE:
                raise


def looking_again(disk: Disk, look: Callable[[], T]) -> T:
    """Look again when a file was removed, renamed or cut between its listing and its reading."""
    for _ in range(_LOOKS_MAX):
        try:
            return look()
        except (LossError, ReplacedError):
            raise
        except RefusedError as error:
            last: RefusedError | DiskError = error
        except DiskError as error:
            if error.errno != errno.ENOENT:
                raise
            last = error
        disk.pause(_PAUSE_SECONDS)
    raise last


def step(
    follower: Follower, start: Cursor, limits: Limits, on_loss: OnLoss = "fail"
) -> tuple[Cursor, Iterator[pa.RecordBatch]]:
    """Do one step in this process: the next cursor, and the rows up to it."""
    end = follower.advance(start, limits, on_loss)
    if end == start:
        return start, iter(())
    deliveries = follower.deliveries(start, end, EntryQuery(), on_loss)
    return end, (batch for delivery in deliveries for batch in follower.read(delivery))
