"""taskflux as the command line and Spark see it."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import replace
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
from flintlog.core.position import Position, one_number
from flintlog.core.workers import Workers
from flintlog.dialects.taskflux import files, layout
from flintlog.disk import Disk
from flintlog.errors import NotALogError, RefusedError, SettingsError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from flintlog.core.backup.picture import Picture
    from flintlog.core.follow import Follower
    from flintlog.dialects.taskflux.state import State


class Taskflux:
    """Durable priority queues: a segmented Raft log of deltas, a snapshot, metadata."""

    name = "taskflux"
    stream: str | None = "queue"

    def home(self, disk: Disk, path: str) -> str:
        return _data(disk, path)

    def operations(self) -> tuple[str, ...]:
        from flintlog.dialects.taskflux.tables import WORDS

        return tuple(WORDS)

    def recognise(self, disk: Disk, path: str) -> bool:
        found = _located(disk, path)
        # A scratch directory alone is no evidence; a store that is told to use it may find it all the same.
        return found is not None and disk.list(found) != [layout.SHIPPED.scratch]

    def edition(self, disk: Disk, path: str) -> str | None:
        data = _data(disk, path)
        found = files.detect_layout(disk, files.list_files(disk, data))
        return None if found is None else found.edition

    def inspect(self, disk: Disk, path: str) -> Inventory:
        from flintlog.core.verdict import judged
        from flintlog.dialects.taskflux.upkeep import verify

        return judged(self, disk, path, verify.inspect(disk, _data(disk, path)))

    def verify(self, disk: Disk, path: str, progress: Progress, workers: Workers | None = None) -> Inventory:
        from flintlog.core.verdict import judged
        from flintlog.dialects.taskflux.upkeep import verify

        return judged(self, disk, path, verify.verify(disk, _data(disk, path), progress, workers))

    def entry_schema(self) -> pa.Schema:
        from flintlog.dialects.taskflux.tables import ENTRY_SCHEMA

        return ENTRY_SCHEMA

    def splits(self, disk: Disk, path: str, query: EntryQuery) -> list[Split]:
        from flintlog.dialects.taskflux import entries

        return entries.splits(disk, _data(disk, path), _check(query))

    def read_split(self, disk: Disk, path: str, split: Split, query: EntryQuery) -> Iterator[pa.RecordBatch]:
        from flintlog.dialects.taskflux import entries

        return entries.read_split(disk, _data(disk, path), split, query)

    def follower(self) -> Follower:
        from flintlog.core.numbered import Numbered

        return Numbered(self, _data, "LSN")

    def explain(
        self, disk: Disk, path: str, query: EntryQuery | None = None, where: ByteRange | None = None
    ) -> Iterator[ByteField]:
        from flintlog.dialects.taskflux import entries

        if query is None:
            return entries.explain_files(disk, _data(disk, path), where)
        return entries.explain(disk, _data(disk, path), _check(query), where)

    def state_schema(self) -> pa.Schema:
        from flintlog.dialects.taskflux.tables import STATE_SCHEMA

        return STATE_SCHEMA

    def state(self, disk: Disk, path: str, as_of: Position | None) -> Iterator[pa.RecordBatch]:
        from flintlog.core.live import settled
        from flintlog.dialects.taskflux.survey import survey
        from flintlog.dialects.taskflux.tables import state_batches

        lsn, data = _lsn(as_of), _data(disk, path)

        def read() -> State:
            found = survey(disk, data)
            found.refuse_damage()
            return found.state(lsn)

        return state_batches(settled(disk, data, read))

    def state_frame(self, disk: Disk, path: str, as_of: Position | None, workers: Workers) -> Any:
        from flintlog.dialects.taskflux.spread import state_frame

        return state_frame(workers, disk, _data(disk, path), _lsn(as_of))

    def plan_repair(self, disk: Disk, path: str) -> Plan:
        from flintlog.core.verdict import judged_plan
        from flintlog.dialects.taskflux.upkeep.repair import plan_repair

        return judged_plan(disk, path, lambda: plan_repair(disk, _data(disk, path)))

    def plan_undo(self, disk: Disk, path: str, name: str | None = None, *, force: bool = False) -> Plan:
        from flintlog.core.undo import plan_undo

        data = _data(disk, path)
        lock = posixpath.join(data, layout.METADATA_FILE)
        return plan_undo(disk, data, self.name, name, force=force, lock=lock, lock_mode="create")

    def plan_snapshot(
        self,
        disk: Disk,
        path: str,
        as_of: Position | None = None,
        given: GivenState | None = None,
        workers: Workers | None = None,
    ) -> Plan:
        from flintlog.dialects.taskflux.upkeep.snapshot import plan_snapshot

        if given is not None:
            raise UsageError(
                "the state of a taskflux log follows from its entries", advice="Leave --data out"
            )
        return plan_snapshot(disk, _data(disk, path), _lsn(as_of), workers)

    def plan_compact(self, disk: Disk, path: str, workers: Workers | None = None) -> Plan:
        return replace(
            self.plan_snapshot(disk, path, workers=workers), verb="compact"
        )  # its snapshot is its compaction

    def plan_convert(self, disk: Disk, path: str, edition: str, target: str) -> Plan:
        from flintlog.dialects.taskflux.upkeep.convert import plan_convert

        return plan_convert(disk, _data(disk, path), edition, target)

    def picture(self, disk: Disk, path: str, as_of: Position | None = None) -> Picture:
        from flintlog.dialects.taskflux.upkeep import picture

        return picture.picture(disk, _data(disk, path), as_of)

    def is_member(self, name: str) -> bool:
        from flintlog.dialects.taskflux.upkeep import picture

        return picture.is_member(name)

    def plan_upgrade(self, disk: Disk, path: str) -> Plan:
        raise refuse_upgrade(self.name, path, editions=True)


def _lsn(position: Position | None) -> int | None:
    return None if position is None else one_number(position, "taskflux", "LSN")


def _check(query: EntryQuery) -> EntryQuery:
    _lsn(query.first)
    _lsn(query.last)
    return query


def _data(disk: Disk, path: str) -> str:
    from flintlog.dialects.taskflux.settings import locate

    found = locate(disk, path)
    if found is None:
        raise NotALogError(
            "this is not a taskflux directory", file=path, advice="Name its root or its data directory"
        )
    return found


def _located(disk: Disk, path: str) -> str | None:
    """The same for whoever does not know the dialect yet: settings that cannot be read are told later."""
    from flintlog.dialects.taskflux.settings import locate

    try:
        return locate(disk, path)
    except (SettingsError, RefusedError):
        data = posixpath.join(path, "data")
        return data if files.is_data(disk, data) else None


DIALECT = Taskflux()
