"""What a dialect states of itself, and how a directory finds its dialect.

A dialect plugs in by its name in `_NAMES` and a folder in `dialects/`; nothing outside that folder names it. Its
`dialect.py` is imported when a directory is looked at, its other rooms when they are needed, so that the command
line starts fast.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from flintlog.core.finding import Finding
from flintlog.core.position import Position, one_number
from flintlog.disk import Disk, Mode
from flintlog.errors import FlintlogError, NotALogError, RefusedError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

OnDamage = Literal["fail", "stop", "report"]

SPLIT_BYTES = 128 << 20
NO_PAYLOAD = frozenset({"payload"})

_NAMES = ("taskflux", "zmqraft", "mpy6a", "limestone")


def skipping(*, payload: bool) -> frozenset[str]:
    """The columns that a query skips, with payloads or without."""
    return frozenset() if payload else NO_PAYLOAD


@dataclass(frozen=True, slots=True)
class EntryQuery:
    """Which entries to read. Positions are inclusive; None means no bound. `operations` and `streams` name what to
    keep.

    Batches lack the columns that `skip` names, which then cost nothing; `offset` is always there. `on_damage` says what
    to do where entries should be and cannot be read: `fail` raises, `stop` ends that file, `report` gives a row for the
    damage and goes on where the dialect can read behind it. `split_bytes` is the largest split of a file.
    """

    first: Position | None = None
    last: Position | None = None
    operations: frozenset[str] | None = None
    streams: frozenset[str] | None = None
    key: str | None = None  # as the user types it; the dialect reads it
    skip: frozenset[str] = frozenset()
    on_damage: OnDamage = "fail"
    split_bytes: int = SPLIT_BYTES

    @property
    def payload(self) -> bool:
        """Are the payloads read?"""
        return self.makes("payload")

    def makes(self, column: str) -> bool:
        """Is this column made?"""
        return column not in self.skip or column == "offset"

    @property
    def takes_all(self) -> bool:
        """Does it leave no entry out?"""
        given = (self.first, self.last, self.operations, self.streams, self.key)
        return all(part is None for part in given)

    def range_bytes(self, size: int) -> int | None:
        """The size of the ranges of a file of `size` bytes, all about equal; None: read it whole.

        Damage hides where a range begins, so a query that goes on behind damage reads files whole.
        """
        if self.on_damage != "fail" or size <= self.split_bytes:
            return None
        return -(-size // -(-size // self.split_bytes))

    @property
    def tells_damage(self) -> bool:
        """Does the query ask for rows for damage? They have no stream."""
        asked = self.operations is None or "damage" in self.operations
        return self.on_damage == "report" and asked and self.streams is None


@dataclass(frozen=True, slots=True)
class Split:
    """What one task reads of a log: a byte range of one file. Plain data, so that it can be pickled."""

    file: str
    start: int
    end: int
    first: int  # the position of its first entry
    last: int | None  # and of its last one; None at the end of the log, which may grow
    context: tuple[int, ...] = ()  # what the dialect must know to begin in the middle of a file
    damage: Finding | FlintlogError | None = None  # report this; there is nothing to read


@dataclass(frozen=True, slots=True)
class GivenState:
    """A state that only the application knows, handed in for a snapshot: where it comes from, and its bytes."""

    name: str
    size: int | None  # None: not known before it is read
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
    """A byte range of one file: `begin` is in it, `end` is not."""

    file: str
    begin: int
    end: int

    def touches(self, begin: Any, length: Any) -> Any:
        """Does a run of bytes touch the range? For arrays: which of them do."""
        return (begin < self.end) & (begin + length > self.begin)


class Dialect(ABC):
    """One on-disk language: what it states of itself. Its rooms are modules, found by their names.

    | room | has |
    |---|---|
    | `tables` | `ENTRY_SCHEMA`, `STATE_SCHEMA`, `OPERATION_WORDS`: columns, and the words of the column `operation` |
    | `entries` | `splits`, `read_split`, `entry_fields`, `file_fields`, `state` |
    | `follow` | `follower` |
    | `upkeep/verify` | `inspect`, `verify` |
    | `upkeep/repair`, `snapshot`, `compact` | `plan_repair`, `plan_snapshot`, `plan_compact` |
    | `upkeep/migrate` | `plan_migrate`, where there is another edition or a newer version |
    | `picture` | `picture`, `is_member` |
    | `store/load` | `plan`, `stage`, `commit`, where Spark can write (`core/load.py`) |

    `core.log.Log` calls them, with its disk and its root first, and imports a room when it needs it. A function with a
    parameter `seen` gets its surveys from it (`core/surveys.py`).
    """

    name: str
    stream: str | None = None
    """What the common column `stream` is here: queue, topic or storage; None where a log has only one."""
    unit: str = "position"
    """What a position is called: LSN, index, state id, epoch."""
    takes_state = False
    """Does the application give the state of a snapshot? Otherwise it follows from the entries."""
    has_editions = False
    """Are there other bytes for the same log? Then `upkeep/migrate` writes them."""
    has_versions = False
    """Does a directory have a version of its format? Then `upkeep/migrate` writes the newest."""
    not_loaded: tuple[str, str] | None = None
    """Why Spark cannot write here, and what to do instead; None: the room `store/load` does it."""

    def room(self, name: str) -> Any:
        """A module of this dialect."""
        return importlib.import_module(f"flintlog.dialects.{self.name}.{name}")

    def home(self, disk: Disk, path: str) -> str:
        """The root: `path`, or its data directory."""
        return path

    @abstractmethod
    def recognise(self, disk: Disk, path: str) -> bool:
        """Does this directory (or one inside it, by the dialect's own rule) look like this dialect? Cheap."""

    def edition(self, disk: Disk, root: str) -> str | None:
        """The edition of the directory; None when no file shows it, or the dialect has only one. Cheap."""
        return None

    def lock(self, root: str) -> tuple[str, Mode]:
        """The file that a writer locks, and how it is opened."""
        return root, "read"

    def check_bound(self, position: Position) -> None:
        """Raise unless this can be a bound of a query in this dialect."""
        one_number(position, self.name, self.unit)

    def parse(self, position: Position) -> Any:
        """A position as the rooms of this dialect take it; raises when it is not one of this dialect."""
        number = one_number(position, self.name, self.unit)
        if number < 0:
            raise UsageError(f"{number} is not an {self.unit}", advice="Give a number from 0 on")
        return number

    @property
    def operations(self) -> tuple[str, ...]:
        """What the common column `operation` can say here."""
        words: tuple[str, ...] = self.room("tables").OPERATION_WORDS
        return words

    @property
    def entry_schema(self) -> pa.Schema:
        """The columns of entries: those of `core.entries` and the dialect's own struct."""
        return self.room("tables").ENTRY_SCHEMA

    @property
    def state_schema(self) -> pa.Schema:
        """The columns of a state."""
        return self.room("tables").STATE_SCHEMA

    def is_member(self, name: str) -> bool:
        """Can a backup have a file of this name? A list of files comes from outside."""
        found: bool = self.room("picture").is_member(name)
        return found


def dialect_names() -> list[str]:
    """The dialects of this release."""
    return list(_NAMES)


def dialect(name: str) -> Dialect:
    """The dialect of that name."""
    if name not in _NAMES:
        raise UsageError(f"{name!r} is not a dialect", advice=f"Known: {', '.join(_NAMES)}")
    found: Dialect = importlib.import_module(f"flintlog.dialects.{name}.dialect").DIALECT
    return found


def detect(disk: Disk, path: str) -> Dialect:
    """The dialect whose files lie in this directory."""
    found = disk.stat(path)
    if found is None:
        raise NotALogError("there is no such directory", file=path, advice="Check the spelling of the path")
    if not found.is_directory:
        raise NotALogError("this is a file", file=path, advice="Name the log directory that holds it")
    for name in _NAMES:
        candidate = dialect(name)
        if candidate.recognise(disk, path):
            return candidate
    raise NotALogError(
        "no dialect recognises this directory",
        file=path,
        advice=f"Known dialects: {', '.join(_NAMES)}. Name the directory that one store owns",
    )


def refuse_others(disk: Disk, path: str, own: str) -> None:
    """Raise where files of another dialect lie: no store may be made there."""
    if not disk.list(path) or dialect(own).recognise(disk, path):
        return
    for name in _NAMES:
        if dialect(name).recognise(disk, path):
            raise RefusedError(
                f"this directory holds a {name} log", file=path, advice="Name another one for this store"
            )
