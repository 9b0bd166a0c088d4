"""limestone as the command line and Spark see it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from flintlog.core.dialect import ByteField, ByteRange, EntryQuery, GivenState, Progress, Split
from flintlog.core.inventory import Inventory
from flintlog.core.plan import Plan
from flintlog.core.position import Position
from flintlog.core.workers import Workers
from flintlog.disk import Disk
from flintlog.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from flintlog.core.backup.picture import Picture
    from flintlog.core.follow import Follower


class Limestone:
    """A key-value log with parallel channels, epochs and group commit."""

    name = "limestone"
    stream: str | None = "storage"

    def home(self, disk: Disk, path: str) -> str:
        return path

    def operations(self) -> tuple[str, ...]:
        from flintlog.dialects.limestone import layout as lay

        return tuple(lay.OPERATIONS.values())

    def recognise(self, disk: Disk, path: str) -> bool:
        from flintlog.dialects.limestone import files

        return files.recognise(disk, path)

    def edition(self, disk: Disk, path: str) -> str | None:
        from flintlog.dialects.limestone.survey import survey

        found = survey(disk, path, walk=False)
        return None if found.manifest is None else found.edition

    def inspect(self, disk: Disk, path: str) -> Inventory:
        from flintlog.core.verdict import judged
        from flintlog.dialects.limestone.upkeep import verify

        return judged(self, disk, path, verify.inspect(disk, path))

    def verify(self, disk: Disk, path: str, progress: Progress, workers: Workers | None = None) -> Inventory:
        from flintlog.core.verdict import judged
        from flintlog.dialects.limestone.upkeep import verify

        return judged(self, disk, path, verify.verify(disk, path, progress, workers))

    def entry_schema(self) -> pa.Schema:
        from flintlog.dialects.limestone.tables import ENTRY_SCHEMA

        return ENTRY_SCHEMA

    def splits(self, disk: Disk, path: str, query: EntryQuery) -> list[Split]:
        from flintlog.dialects.limestone import entries

        return entries.splits(disk, path, query)

    def read_split(self, disk: Disk, path: str, split: Split, query: EntryQuery) -> Iterator[pa.RecordBatch]:
        from flintlog.dialects.limestone import entries

        return entries.read_split(disk, path, split, query)

    def follower(self) -> Follower:
        from flintlog.dialects.limestone.follow import EpochFollower

        return EpochFollower()

    def explain(
        self, disk: Disk, path: str, query: EntryQuery | None = None, where: ByteRange | None = None
    ) -> Iterator[ByteField]:
        from flintlog.dialects.limestone import entries

        if query is None:
            return entries.explain_files(disk, path, where)
        return entries.explain(disk, path, query, where)

    def state_schema(self) -> pa.Schema:
        from flintlog.dialects.limestone.tables import STATE_SCHEMA

        return STATE_SCHEMA

    def state(self, disk: Disk, path: str, as_of: Position | None) -> Iterator[pa.RecordBatch]:
        from flintlog.dialects.limestone import entries
        from flintlog.dialects.limestone.replay import parse_epoch

        return entries.state(disk, path, parse_epoch(as_of))

    def state_frame(self, disk: Disk, path: str, as_of: Position | None, workers: Workers) -> Any:
        from flintlog.dialects.limestone.replay import parse_epoch
        from flintlog.dialects.limestone.spread import state_frame

        return state_frame(workers, disk, path, parse_epoch(as_of))

    def plan_repair(self, disk: Disk, path: str) -> Plan:
        from flintlog.core.verdict import judged_plan
        from flintlog.dialects.limestone.upkeep.repair import plan_repair

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
        from flintlog.dialects.limestone.replay import parse_epoch
        from flintlog.dialects.limestone.upkeep.snapshot import plan_snapshot

        if given is not None:
            raise UsageError(
                "the state of a limestone log follows from its entries", advice="Leave --data out"
            )
        return plan_snapshot(disk, path, parse_epoch(as_of), workers)

    def plan_compact(self, disk: Disk, path: str, workers: Workers | None = None) -> Plan:
        from flintlog.dialects.limestone.upkeep.compact import plan_compact

        return plan_compact(disk, path, workers)

    def plan_convert(self, disk: Disk, path: str, edition: str, target: str) -> Plan:
        from flintlog.dialects.limestone.upkeep.convert import plan_convert

        return plan_convert(disk, path, edition, target)

    def picture(self, disk: Disk, path: str, as_of: Position | None = None) -> Picture:
        from flintlog.dialects.limestone.upkeep import picture

        return picture.picture(disk, path, as_of)

    def is_member(self, name: str) -> bool:
        from flintlog.dialects.limestone.upkeep import picture

        return picture.is_member(name)

    def plan_upgrade(self, disk: Disk, path: str) -> Plan:
        from flintlog.dialects.limestone.upkeep.upgrade import plan_upgrade

        return plan_upgrade(disk, path)


DIALECT = Limestone()
