"""What a dialect offers to the command line and to Spark, and how a directory finds its dialect.

A dialect plugs in by one line in `_MODULES`; nothing else in the package knows it by name. Its module is
imported when a directory is looked at, so that the command line starts fast.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from flintlog.core.finding import Finding
from flintlog.core.inventory import Inventory
from flintlog.core.plan import Plan
from flintlog.core.position import Position
from flintlog.core.workers import Workers
from flintlog.disk import Disk, Progress, no_progress
from flintlog.errors import NotALogError, RefusedError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from flintlog.core.backup.picture import Picture
    from flintlog.core.follow import Follower

OnDamage = Literal["fail", "stop", "report"]

SPLIT_BYTES = 64 << 20

_MODULES = {
    "taskflux": "flintlog.dialects.taskflux.dialect",
    "zmqraft": "flintlog.dialects.zmqraft.dialect",
    "mpy6a": "flintlog.dialects.mpy6a.dialect",
    "limestone": "flintlog.dialects.limestone.dialect",
}


@dataclass(frozen=True, slots=True)
class EntryQuery:
    """Which entries. Positions are inclusive; None means no bound. `operations` and `streams` name what to keep.

    `on_damage` says what happens where entries should be and cannot be read: the error, an end of that file, or a
    row for it and what the dialect knows to read behind. `split_bytes` is how large a piece of a file may be.
    """

    first: Position | None = None
    last: Position | None = None
    operations: frozenset[str] | None = None
    streams: frozenset[str] | None = None
    key: str | None = None  # as a person types it; the dialect knows what it means
    payload: bool = True
    on_damage: OnDamage = "fail"
    split_bytes: int = SPLIT_BYTES

    @property
    def takes_all(self) -> bool:
        """Does it leave no entry out?"""
        given = (self.first, self.last, self.operations, self.streams, self.key)
        return all(part is None for part in given)

    @property
    def cut_bytes(self) -> int | None:
        """How large a piece may be; None: files are read whole, because behind damage nobody knows where one begins."""
        return self.split_bytes if self.on_damage == "fail" else None

    @property
    def tells_damage(self) -> bool:
        """Are rows for damage among what is asked for? They have no stream."""
        asked = self.operations is None or "damage" in self.operations
        return self.on_damage == "report" and asked and self.streams is None


@dataclass(frozen=True, slots=True)
class Split:
    """A piece of a log that one task reads: a byte range of one file. Plain data, so that it travels."""

    file: str
    start: int
    end: int
    first: int  # the position of its first entry
    last: int | None  # and of its last one; None at the end of the log, which may grow
    context: tuple[int, ...] = ()  # what the dialect must know to begin in the middle of a file
    damage: Finding | None = None  # nothing to read, only this to report


@dataclass(frozen=True, slots=True)
class GivenState:
    """A state that only the application knows, handed in for a snapshot: where it comes from, and its bytes."""

    name: str
    size: int | None  # None: known when it was read
    chunks: Callable[[], Iterator[bytes]]


@dataclass(frozen=True, slots=True)
class ByteField:
    """One field of a file for `dump --hex`: where it stands, its bytes, its name and what it means."""

    file: str
    offset: int
    data: bytes
    name: str
    meaning: str


@dataclass(frozen=True, slots=True)
class ByteRange:
    """A range of the bytes of one file: `begin` is in it, `end` is not."""

    file: str
    begin: int
    end: int

    def touches(self, begin: Any, length: Any) -> Any:
        """Is any of so many bytes in the range? Of arrays of them: which are."""
        return (begin < self.end) & (begin + length > self.begin)


class Dialect(Protocol):
    """One on-disk language, from bytes to the person. Reading methods never change a byte and never lock."""

    name: str
    stream: str | None
    """What the common column `stream` is here: queue, topic or storage; None where a log has one only."""

    def home(self, disk: Disk, path: str) -> str:
        """The directory that holds the files: `path`, or the one that it stands for."""

    def operations(self) -> tuple[str, ...]:
        """What the common column `operation` can say here."""

    def recognise(self, disk: Disk, path: str) -> bool:
        """Does this directory (or one inside it, by the dialect's own rule) look like ours? Cheap."""

    def edition(self, disk: Disk, path: str) -> str | None:
        """Which bytes the directory holds; None when nothing in it tells or the dialect has one edition. Cheap."""

    def inspect(self, disk: Disk, path: str) -> Inventory:
        """What is here, and how it is; leaves out what a snapshot covers."""

    def verify(self, disk: Disk, path: str, progress: Progress, workers: Workers | None = None) -> Inventory:
        """Every check the dialect knows, over every byte; done by `workers` where they are given, as below."""

    def entry_schema(self) -> pa.Schema:
        """The columns of `read_split`: those of `core.entries` and the dialect's own struct."""

    def splits(self, disk: Disk, path: str, query: EntryQuery) -> list[Split]:
        """The pieces that hold the entries of `query`, in log order."""

    def read_split(self, disk: Disk, path: str, split: Split, query: EntryQuery) -> Iterator[pa.RecordBatch]:
        """The entries of one piece, in batches."""

    def follower(self) -> Follower:
        """What is new since a place, for streams and exports. One for each reader: it remembers where it was."""

    def explain(
        self, disk: Disk, path: str, query: EntryQuery | None = None, where: ByteRange | None = None
    ) -> Iterator[ByteField]:
        """The bytes of the entries of `query`, field by field; with `where` of those that touch this range.

        Without a query every byte of every file that the dialect knows, each in one field, in the order of the
        inventory; damage is a field too. A file that goes away meanwhile is left out.
        """

    def state_schema(self) -> pa.Schema:
        """The columns of `state`."""

    def state(self, disk: Disk, path: str, as_of: Position | None) -> Iterator[pa.RecordBatch]:
        """The live state in the order of the JSON contract, now or at a position."""

    def state_frame(self, disk: Disk, path: str, as_of: Position | None, workers: Workers) -> Any:
        """The same as a table of the workers' own kind, which makes it in parts."""

    def plan_repair(self, disk: Disk, path: str) -> Plan:
        """What would make the directory open again, and what that gives up."""

    def plan_undo(self, disk: Disk, path: str, name: str | None = None, *, force: bool = False) -> Plan:
        """Take the newest repair back, or the one of that name; `force` also when something was written since."""

    def plan_snapshot(
        self,
        disk: Disk,
        path: str,
        as_of: Position | None = None,
        given: GivenState | None = None,
        workers: Workers | None = None,
    ) -> Plan:
        """Write the state, now or at a position, to a snapshot and drop what it makes superfluous.

        `given` is the state of a dialect whose entries mean something to the application only.
        """

    def plan_compact(self, disk: Disk, path: str, workers: Workers | None = None) -> Plan:
        """Drop what the newest snapshot, or the one written for it, makes superfluous."""

    def plan_convert(self, disk: Disk, path: str, edition: str, target: str) -> Plan:
        """Write the directory anew in another edition, in an empty place, and prove the states equal first."""

    def picture(self, disk: Disk, path: str, as_of: Position | None = None) -> Picture:
        """Which files, and how much of each, make the log now or at a position; raises where no store would open.

        Somebody may be writing: a picture that cannot be right raises `ChangedError`, and is taken again.
        """

    def is_member(self, name: str) -> bool:
        """Can a picture have a file of this name? A list of files comes from outside."""

    def plan_upgrade(self, disk: Disk, path: str) -> Plan:
        """Bring the directory, in its place, to the version that is written; refuses where there is no later one."""


def refuse_upgrade(dialect: str, path: str, *, editions: bool) -> RefusedError:
    """What a dialect without versions says to `plan_upgrade`."""
    return RefusedError(
        f"{dialect} has no versions of its format, so there is nothing to upgrade",
        file=path,
        advice="Name --edition and --to to write the directory in another edition"
        if editions
        else "Every release of Flintlog reads and writes the same bytes",
    )


def dialect_names() -> list[str]:
    """The dialects of this release."""
    return list(_MODULES)


def dialect(name: str) -> Dialect:
    """The dialect of that name."""
    if name not in _MODULES:
        raise UsageError(f"{name!r} is not a dialect", advice=f"Known: {', '.join(_MODULES)}")
    found: Dialect = importlib.import_module(_MODULES[name]).DIALECT
    return found


def detect(disk: Disk, path: str) -> Dialect:
    """The dialect whose files lie in this directory."""
    found = disk.stat(path)
    if found is None:
        raise NotALogError("there is no such directory", file=path, advice="Check the spelling of the path")
    if not found.is_directory:
        raise NotALogError("this is a file", file=path, advice="Name the log directory that holds it")
    for name in _MODULES:
        candidate = dialect(name)
        if candidate.recognise(disk, path):
            return candidate
    raise NotALogError(
        "no dialect recognises this directory",
        file=path,
        advice=f"Known dialects: {', '.join(_MODULES)}. Name the directory that one store owns",
    )


def refuse_others(disk: Disk, path: str, own: str) -> None:
    """A store makes no home where the files of another dialect lie."""
    if not disk.list(path) or dialect(own).recognise(disk, path):
        return
    for name in _MODULES:
        if dialect(name).recognise(disk, path):
            raise RefusedError(
                f"this directory holds a {name} log", file=path, advice="Name another one for this store"
            )


__all__ = [
    "SPLIT_BYTES",
    "ByteField",
    "ByteRange",
    "Dialect",
    "EntryQuery",
    "Finding",
    "GivenState",
    "Inventory",
    "OnDamage",
    "Plan",
    "Progress",
    "Split",
    "detect",
    "dialect",
    "dialect_names",
    "no_progress",
    "refuse_upgrade",
]
