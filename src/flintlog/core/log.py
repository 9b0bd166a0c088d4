"""A log directory, opened for reading: the one object through which everything outside a dialect reads a log.

    log = flintlog.open("spool")
    log.dialect, log.edition, log.health
    log.entries(first=10, payload=False).to_table()
    log.state(as_of=42)
    log.verify().findings
    log.plan_repair().apply()

A `Log` locks nothing and changes no byte; the directory may belong to a store that is writing. Only `apply` of a plan
writes. The log finds its dialect and its root once, and asks the rooms of the dialect for the rest.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, overload

from flintlog.core.dialect import (
    ByteField,
    ByteRange,
    Dialect,
    EntryQuery,
    GivenState,
    OnDamage,
    Split,
    detect,
    dialect,
    skipping,
)
from flintlog.core.lazy import lazy
from flintlog.core.live import Moment
from flintlog.core.position import Position, as_position
from flintlog.core.surveys import UNSHARED, Surveys
from flintlog.disk import Disk, Progress, no_progress
from flintlog.errors import RefusedError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from flintlog.core.backup.picture import Picture
    from flintlog.core.follow import Follower
    from flintlog.core.inventory import Inventory
    from flintlog.core.plan import Plan
    from flintlog.core.workers import Workers

Where = Position | int | str


class Rows:
    """Rows of a log as Arrow batches. Each iteration reads them anew.

    Code that takes an Arrow stream (`__arrow_c_stream__`) takes this: pyarrow, Polars, DuckDB, pandas.
    """

    def __init__(self, schema: pa.Schema, read: Callable[[], Iterator[pa.RecordBatch]]) -> None:
        self.schema = schema
        self._read = read

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self._read()

    def __repr__(self) -> str:
        return f"<Rows: {', '.join(self.schema.names)}>"

    def to_reader(self) -> pa.RecordBatchReader:
        """The batches one after the other, for code that takes a reader of Arrow."""
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self.schema, iter(self))

    def to_table(self) -> pa.Table:
        """All rows in memory."""
        return self.to_reader().read_all()

    def to_pandas(self) -> Any:
        """All rows as a DataFrame of pandas."""
        return self.to_table().to_pandas()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)


class Log:
    """One log directory. It reads nothing until you call a method.

    Inside `with`, later calls reuse the surveys of earlier ones as long as the directory does not change.
    """

    _surveys: Surveys | None = None

    def __init__(self, spoken: Dialect, disk: Disk, path: str) -> None:
        self.disk = disk
        self.path = path
        self._dialect = spoken

    def __repr__(self) -> str:
        return f"<Log {self.dialect} {self.path}>"

    def __enter__(self) -> Log:
        self._surveys = self._surveys or self._new_surveys()
        return self

    def __exit__(self, *exc: object) -> None:
        """Release what is held."""
        if self._surveys is not None:
            self._surveys.release()
        self._surveys = None

    def at(self, disk: Disk, path: str | None = None) -> Log:
        """A log of the same dialect through another disk, here or at another path."""
        return Log(self._dialect, disk, self.path if path is None else path)

    # What it is

    @lazy
    def root(self) -> str:
        """The directory that holds the files: `path`, or its data directory."""
        return self._dialect.home(self.disk, self.path)

    @property
    def dialect(self) -> str:
        """`taskflux`, `zmqraft`, `mpy6a` or `limestone`."""
        return self._dialect.name

    @property
    def edition(self) -> str | None:
        """`designed` or `shipped`; None when the dialect has only one edition, or no file shows it."""
        return self._dialect.edition(self.disk, self.root)

    @property
    def health(self) -> str:
        """`clean`, `repairable`, `corrupt` or `unsupported`, as `inspect` finds it: without what a snapshot covers."""
        return self.inspect().verdict

    @property
    def stream(self) -> str | None:
        """What the column `stream` is here: queue, topic or storage; None where a log has only one."""
        return self._dialect.stream

    @property
    def unit(self) -> str:
        """What a position is called: LSN, index, state id, epoch."""
        return self._dialect.unit

    @property
    def operations(self) -> tuple[str, ...]:
        """What the column `operation` can say here."""
        return self._dialect.operations

    @property
    def entry_schema(self) -> pa.Schema:
        """The columns of `entries`."""
        return self._dialect.entry_schema

    @property
    def state_schema(self) -> pa.Schema:
        """The columns of `state`."""
        return self._dialect.state_schema

    # How it is

    def inspect(self) -> Inventory:
        """What is here, and how it is; leaves out what a snapshot covers."""
        from flintlog.core.verdict import judged

        with self._seen() as seen:
            found = self._room("upkeep.verify").inspect(self.disk, self.root, seen)
            return judged(found, lambda: self._plan_repair(seen))

    def verify(self, progress: Progress = no_progress, workers: Workers | None = None) -> Inventory:
        """Every check the dialect knows, over every byte; by `workers` if given."""
        from flintlog.core.verdict import judged

        with self._seen() as seen:
            found = self._room("upkeep.verify").verify(self.disk, self.root, progress, workers, seen)
            return judged(found, lambda: self._plan_repair(seen))

    # What it says

    def entries(
        self,
        first: Where | None = None,
        last: Where | None = None,
        *,
        operations: str | Collection[str] | None = None,
        streams: str | int | Collection[str | int] | None = None,
        key: str | int | None = None,
        payload: bool = True,
        on_damage: OnDamage = "fail",
    ) -> Rows:
        """The entries of the log in log order, from `first` to `last` inclusive.

        Pass `payload=False` to leave the payloads null, which is faster. `on_damage` says what happens where entries
        cannot be read: `fail` raises, `stop` ends that file, `report` gives a row for it.
        """
        if on_damage not in ("fail", "stop", "report"):
            raise UsageError(
                f"on_damage cannot be {on_damage!r}", advice="Choose one of: 'fail', 'stop', 'report'"
            )
        asked = _words(operations)
        self.check_operations((asked or frozenset()) - {"damage"})
        if isinstance(key, int):
            key = str(key)
        if key is not None and not isinstance(key, str):
            raise UsageError(f"{key!r} is not a key as `dump --key` takes it", advice="Give text")
        bounds = as_position(first), as_position(last)
        query = EntryQuery(*bounds, asked, _words(streams), key, skipping(payload=bool(payload)), on_damage)
        return self.rows(self._checked(query))

    def check_operations(self, words: Collection[str]) -> None:
        """Raise for a word that the column `operation` cannot have here."""
        for word in words:
            if word not in self.operations:
                raise UsageError(
                    f"no entry of this {self.dialect} log is a {word!r}",
                    advice=f"There are {', '.join(one for one in self.operations if not one.isdecimal())}",
                )

    def rows(self, query: EntryQuery) -> Rows:
        """The entries of a query."""
        from flintlog.core.entries import fitted, plan_entries, read_entries, reported

        schema = self.entry_schema
        if query.on_damage == "report":
            schema = reported(schema)

        def read() -> Iterator[pa.RecordBatch]:
            for split in plan_entries(self, query):
                for batch in read_entries(self, split, query):
                    yield fitted(batch, schema)

        return Rows(schema, read)

    def splits(self, query: EntryQuery) -> list[Split]:
        """The splits that hold the entries of `query`, in log order."""
        found: list[Split] = self._room("entries").splits(self.disk, self.root, self._checked(query))
        return found

    def read_split(self, split: Split, query: EntryQuery) -> Iterator[pa.RecordBatch]:
        """The entries of one split, in batches."""
        batches: Iterator[pa.RecordBatch] = self._room("entries").read_split(
            self.disk, self.root, split, query
        )
        return batches

    def fields(self, query: EntryQuery | None = None, where: ByteRange | None = None) -> Iterator[ByteField]:
        """The fields of the entries of `query`; with `where`, of those that touch this range.

        Without a query: every byte of every file that the dialect knows, each in one field, in the order of the
        inventory; damage is a field too. A file that goes away meanwhile is left out.
        """
        room = self._room("entries")
        fields: Iterator[ByteField] = (
            room.file_fields(self.disk, self.root, where)
            if query is None
            else room.entry_fields(self.disk, self.root, self._checked(query), where)
        )
        return fields

    @overload
    def state(self, as_of: Where | None = None) -> Rows: ...

    @overload
    def state(self, as_of: Where | None = None, *, workers: Workers) -> Any: ...

    def state(self, as_of: Where | None = None, *, workers: Workers | None = None) -> Any:
        """The live state in the order of the JSON contract, now or at a position.

        Pass `workers` to have them make it in parts; the result is then a table of their own kind.
        """
        number = self._parsed(as_of)
        room = self._room("entries")
        if workers is not None:
            return room.state_frame(workers, self.disk, self.root, number)
        return Rows(
            self.state_schema,
            lambda: room.state(self.disk, self.root, number, self._surveys or UNSHARED),
        )

    def follower(self) -> Follower:
        """A follower, which finds what is new since a cursor. Make one for each reader: it remembers where it was."""
        follower: Follower = self._room("follow").follower(self)
        return follower

    def picture(self, as_of: Position | None = None) -> Picture:
        """Which files, and how much of each, make the log now or at a position; raises where no store would open.

        A picture that a writer spoiled raises `ChangedError`: take it again.
        """
        number = self._parsed(as_of)
        with self._seen() as seen:
            found: Picture = self._room("picture").picture(self.disk, self.root, number, seen)
            return found

    def is_member(self, name: str) -> bool:
        """Can a picture have a file of this name?"""
        return self._dialect.is_member(name)

    # What can be done to it

    def plan_repair(self) -> Plan:
        """What would make the directory open again, and what that gives up."""
        with self._seen() as seen:
            return self._plan_repair(seen)

    def _plan_repair(self, seen: Surveys) -> Plan:
        from flintlog.core.verdict import judged_plan

        make = self._room("upkeep.repair").plan_repair
        return judged_plan(self, lambda: make(self.disk, self.root, seen=seen))

    def plan_undo(self, name: str | None = None, *, force: bool = False) -> Plan:
        """Take the newest repair back, or the one with this name; with `force` also when a store has written since."""
        from flintlog.core.journal import plan_undo

        lock, mode = self._dialect.lock(self.root)
        return plan_undo(self.disk, self.root, self.dialect, name, force=force, lock=lock, lock_mode=mode)

    def plan_snapshot(
        self, as_of: Where | None = None, given: GivenState | None = None, workers: Workers | None = None
    ) -> Plan:
        """Write the state, now or at a position, to a snapshot and drop what it covers.

        `given` is the state of a dialect whose entries mean something to the application only.
        """
        if given is not None and not self._dialect.takes_state:
            raise UsageError(
                f"the state of this {self.dialect} log follows from its entries", advice="Leave --data out"
            )
        number = self._parsed(as_of)
        options = {"given": given} if self._dialect.takes_state else {}
        make = self._room("upkeep.snapshot").plan_snapshot
        plan: Plan = make(self.disk, self.root, number, workers=workers, **options)
        return replace(plan, by_workers=workers is not None)

    def plan_compact(self, workers: Workers | None = None) -> Plan:
        """Drop what is no longer needed; some dialects write a snapshot first."""
        plan: Plan = self._room("upkeep.compact").plan_compact(self.disk, self.root, workers)
        return replace(plan, by_workers=workers is not None)

    def plan_migrate(self, edition: str | None = None, target: str | None = None) -> Plan:
        """Write the log anew in another edition at `target`, an empty place; it counts only when both states are equal.

        Without an edition: bring the directory, in its place, to the newest version.
        """
        if edition is None and not self._dialect.has_versions:
            raise RefusedError(
                f"{self.dialect} has no versions of its format, so there is nothing to upgrade",
                file=self.path,
                advice="Name --edition and --to to write the directory in another edition"
                if self._dialect.has_editions
                else "Every release of Flintlog reads and writes the same bytes",
            )
        if edition is not None and not self._dialect.has_editions:
            return self._refused("migrate", f"{self.dialect} has one edition only")
        plan: Plan = self._room("upkeep.migrate").plan_migrate(self.disk, self.root, edition, target)
        return plan

    def _refused(self, verb: str, why: str) -> Plan:
        """A plan that cannot be applied."""
        from flintlog.core.plan import Plan

        def act(disk: Disk) -> str:
            raise RefusedError(why, file=self.path)

        return Plan(verb, self.dialect, self.root, (), act, refusal=why, disk=self.disk)

    # How a dialect is asked

    def _new_surveys(self) -> Surveys:
        return Surveys(lambda: Moment(self.disk, self.root))

    @contextmanager
    def _seen(self) -> Iterator[Surveys]:
        """The surveys that the calls inside a `with` share; outside of one, those of this call alone."""
        if self._surveys is not None:
            yield self._surveys
            return
        seen = self._new_surveys()
        try:
            yield seen
        finally:
            seen.release()

    def _room(self, name: str) -> Any:
        return self._dialect.room(name)

    def _parsed(self, position: Where | None) -> Any:
        found = as_position(position)
        return None if found is None else self._dialect.parse(found)

    def _checked(self, query: EntryQuery) -> EntryQuery:
        for bound in (query.first, query.last):
            if bound is not None:
                self._dialect.check_bound(bound)
        return query


def _words(given: str | int | Collection[str | int] | None) -> frozenset[str] | None:
    """One word or several as a set; numbers, as storages and topics have them, become words too."""
    if given is None:
        return None
    return frozenset(map(str, [given] if isinstance(given, str | int) else given))


def open_log(
    path: str | bytes | os.PathLike[str], *, disk: Disk | None = None, speaking: str | None = None
) -> Log:
    """Open a log directory for reading, in the dialect of its files or in the one you name."""
    place = str(path) if disk is not None else Disk.resolve(path)
    disk = disk or Disk()
    return Log(detect(disk, place) if speaking is None else dialect(speaking), disk, place)
