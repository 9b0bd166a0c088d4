"""mpy6a as the command line and Spark see it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from flintlog.core.dialect import (
    ByteField,
    ByteRange,
    EntryQuery,
    GivenState,
    Progress,
    Split,
    refuse_upgrade,
)
from flintlog.core.inventory import Inventory
from flintlog.core.plan import Plan
from flintlog.core.position import Position
from flintlog.core.workers import Workers
from flintlog.dialects.mpy6a import files
from flintlog.disk import Disk
from flintlog.errors import RefusedError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from flintlog.core.backup.picture import Picture
    from flintlog.core.follow import Follower


class Mpy6a:
    """Unfinished sessions: one chain of files for each delay, descriptors, a change log, an operation log."""

    name = "mpy6a"
    stream: str | None = "topic"

    def home(self, disk: Disk, path: str) -> str:
        return path

    def operations(self) -> tuple[str, ...]:
        from flintlog.dialects.mpy6a import tables

        kinds = (tables.SESSION, tables.EXHAUSTED, tables.DESCRIPTOR, tables.UNREADABLE)
        return (*kinds, *tables.OPERATIONS.values())

    def recognise(self, disk: Disk, path: str) -> bool:
        return files.is_ours(disk, path)

    def edition(self, disk: Disk, path: str) -> str | None:
        return None

    def inspect(self, disk: Disk, path: str) -> Inventory:
        from flintlog.core.verdict import judged
        from flintlog.dialects.mpy6a.upkeep import verify

        return judged(self, disk, path, verify.inspect(disk, path))

    def verify(self, disk: Disk, path: str, progress: Progress, workers: Workers | None = None) -> Inventory:
        from flintlog.core.verdict import judged
        from flintlog.dialects.mpy6a.upkeep import verify

        return judged(self, disk, path, verify.verify(disk, path, progress, workers))

    def entry_schema(self) -> pa.Schema:
        from flintlog.dialects.mpy6a.tables import ENTRY_SCHEMA

        return ENTRY_SCHEMA

    def splits(self, disk: Disk, path: str, query: EntryQuery) -> list[Split]:
        from flintlog.dialects.mpy6a import entries

        return entries.splits(disk, path, query)

    def read_split(self, disk: Disk, path: str, split: Split, query: EntryQuery) -> Iterator[pa.RecordBatch]:
        from flintlog.dialects.mpy6a import entries

        return entries.read_split(disk, path, split, query)

    def follower(self) -> Follower:
        from flintlog.dialects.mpy6a.follow import OperationFollower

        return OperationFollower(self)

    def explain(
        self, disk: Disk, path: str, query: EntryQuery | None = None, where: ByteRange | None = None
    ) -> Iterator[ByteField]:
        from flintlog.dialects.mpy6a import entries

        if query is None:
            return entries.explain_files(disk, path, where)
        return entries.explain(disk, path, query, where)

    def state_schema(self) -> pa.Schema:
        from flintlog.dialects.mpy6a.tables import STATE_SCHEMA

        return STATE_SCHEMA

    def state(self, disk: Disk, path: str, as_of: Position | None) -> Iterator[pa.RecordBatch]:
        from flintlog.dialects.mpy6a import entries

        return entries.state(disk, path, as_of)

    def state_frame(self, disk: Disk, path: str, as_of: Position | None, workers: Workers) -> Any:
        from flintlog.dialects.mpy6a.entries import state_survey
        from flintlog.dialects.mpy6a.spread import state_frame

        return state_frame(workers, *state_survey(disk, path, as_of))

    def plan_repair(self, disk: Disk, path: str) -> Plan:
        from flintlog.core.verdict import judged_plan
        from flintlog.dialects.mpy6a.upkeep.repair import plan_repair

        return judged_plan(disk, path, lambda: plan_repair(disk, path))

    def plan_undo(self, disk: Disk, path: str, name: str | None = None, *, force: bool = False) -> Plan:
        from flintlog.core.undo import plan_undo

        return plan_undo(disk, path, self.name, name, force=force, lock=path, lock_mode="read")

    def plan_snapshot(
        self,
        disk: Disk,
        path: str,
        as_of: Position | None = None,
        given: GivenState | None = None,
        workers: Workers | None = None,
    ) -> Plan:
        from flintlog.dialects.mpy6a.upkeep.snapshot import plan_snapshot

        if given is not None:
            raise UsageError("the state of an mpy6a log follows from its files", advice="Leave --data out")
        if as_of is not None:
            raise UsageError(
                "a snapshot of an mpy6a log is of the newest state, because files hold no older one",
                advice="Leave --as-of out",
            )
        return plan_snapshot(disk, path)

    def plan_compact(self, disk: Disk, path: str, workers: Workers | None = None) -> Plan:
        from flintlog.dialects.mpy6a.upkeep.compact import plan_compact

        return plan_compact(disk, path, workers)

    def plan_convert(self, disk: Disk, path: str, edition: str, target: str) -> Plan:
        why = "mpy6a has one edition only"

        def apply() -> str:
            raise RefusedError(why, file=path)

        return Plan("migrate", self.name, path, (), apply, refusal=why, disk=disk)

    def picture(self, disk: Disk, path: str, as_of: Position | None = None) -> Picture:
        from flintlog.dialects.mpy6a.upkeep import picture

        return picture.picture(disk, path, as_of)

    def is_member(self, name: str) -> bool:
        from flintlog.dialects.mpy6a.upkeep import picture

        return picture.is_member(name)

    def plan_upgrade(self, disk: Disk, path: str) -> Plan:
        raise refuse_upgrade(self.name, path, editions=False)


DIALECT = Mpy6a()
