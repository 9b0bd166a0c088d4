"""zmqraft as the command line and Spark see it."""

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
from flintlog.core.position import Position, one_number
from flintlog.core.workers import Workers
from flintlog.dialects.zmqraft import files
from flintlog.disk import Disk
from flintlog.errors import NotALogError, RefusedError

if TYPE_CHECKING:
    import pyarrow as pa

    from flintlog.core.backup.picture import Picture
    from flintlog.core.follow import Follower


class Zmqraft:
    """A Raft peer's storage: index files, a snapshot, state files."""

    name = "zmqraft"
    stream: str | None = None

    def home(self, disk: Disk, path: str) -> str:
        return _peer(disk, path)

    def operations(self) -> tuple[str, ...]:
        from flintlog.dialects.zmqraft.tables import WORDS

        return tuple(WORDS)

    def recognise(self, disk: Disk, path: str) -> bool:
        return files.locate(disk, path) is not None

    def edition(self, disk: Disk, path: str) -> str | None:
        return None

    def inspect(self, disk: Disk, path: str) -> Inventory:
        from flintlog.core.verdict import judged
        from flintlog.dialects.zmqraft.upkeep import verify

        return judged(self, disk, path, verify.inspect(disk, _peer(disk, path)))

    def verify(self, disk: Disk, path: str, progress: Progress, workers: Workers | None = None) -> Inventory:
        from flintlog.core.verdict import judged
        from flintlog.dialects.zmqraft.upkeep import verify

        return judged(self, disk, path, verify.verify(disk, _peer(disk, path), progress, workers))

    def entry_schema(self) -> pa.Schema:
        from flintlog.dialects.zmqraft.tables import ENTRY_SCHEMA

        return ENTRY_SCHEMA

    def splits(self, disk: Disk, path: str, query: EntryQuery) -> list[Split]:
        from flintlog.dialects.zmqraft import entries

        return entries.splits(disk, _peer(disk, path), _check(query))

    def read_split(self, disk: Disk, path: str, split: Split, query: EntryQuery) -> Iterator[pa.RecordBatch]:
        from flintlog.dialects.zmqraft import entries

        return entries.read_split(disk, _peer(disk, path), split, query)

    def follower(self) -> Follower:
        from flintlog.core.numbered import Numbered

        return Numbered(self, _peer, "index")

    def explain(
        self, disk: Disk, path: str, query: EntryQuery | None = None, where: ByteRange | None = None
    ) -> Iterator[ByteField]:
        from flintlog.dialects.zmqraft import entries

        if query is None:
            return entries.explain_files(disk, _peer(disk, path), where)
        return entries.explain(disk, _peer(disk, path), _check(query), where)

    def state_schema(self) -> pa.Schema:
        from flintlog.dialects.zmqraft.tables import STATE_SCHEMA

        return STATE_SCHEMA

    def state(self, disk: Disk, path: str, as_of: Position | None) -> Iterator[pa.RecordBatch]:
        from flintlog.dialects.zmqraft import entries

        return entries.state(disk, _peer(disk, path), _index(as_of))

    def state_frame(self, disk: Disk, path: str, as_of: Position | None, workers: Workers) -> Any:
        from flintlog.dialects.zmqraft import entries

        return entries.state_frame(workers, disk, _peer(disk, path), _index(as_of))

    def plan_repair(self, disk: Disk, path: str) -> Plan:
        from flintlog.core.verdict import judged_plan
        from flintlog.dialects.zmqraft.upkeep.repair import plan_repair

        return judged_plan(disk, path, lambda: plan_repair(disk, _peer(disk, path)))

    def plan_undo(self, disk: Disk, path: str, name: str | None = None, *, force: bool = False) -> Plan:
        from flintlog.core.undo import plan_undo

        root = _peer(disk, path)
        return plan_undo(disk, root, self.name, name, force=force, lock=root, lock_mode="read")

    def plan_snapshot(
        self,
        disk: Disk,
        path: str,
        as_of: Position | None = None,
        given: GivenState | None = None,
        workers: Workers | None = None,
    ) -> Plan:
        from flintlog.dialects.zmqraft.upkeep.snapshot import plan_snapshot

        return plan_snapshot(disk, _peer(disk, path), _index(as_of), given, workers)

    def plan_compact(self, disk: Disk, path: str, workers: Workers | None = None) -> Plan:
        from flintlog.dialects.zmqraft.upkeep.compact import plan_compact

        return plan_compact(disk, _peer(disk, path), workers)

    def plan_convert(self, disk: Disk, path: str, edition: str, target: str) -> Plan:
        why = "zmqraft has one edition only"

        def apply() -> str:
            raise RefusedError(why, file=path)

        return Plan("migrate", self.name, _peer(disk, path), (), apply, refusal=why, disk=disk)

    def picture(self, disk: Disk, path: str, as_of: Position | None = None) -> Picture:
        from flintlog.dialects.zmqraft.upkeep import picture

        return picture.picture(disk, _peer(disk, path), _index(as_of))

    def is_member(self, name: str) -> bool:
        from flintlog.dialects.zmqraft.upkeep import picture

        return picture.is_member(name)

    def plan_upgrade(self, disk: Disk, path: str) -> Plan:
        raise refuse_upgrade(self.name, path, editions=False)


def _index(position: Position | None) -> int | None:
    return None if position is None else one_number(position, "zmqraft", "index")


def _check(query: EntryQuery) -> EntryQuery:
    _index(query.first)
    _index(query.last)
    return query


def _peer(disk: Disk, path: str) -> str:
    found = files.locate(disk, path)
    if found is None:
        raise NotALogError(
            "this is not a zmqraft directory", file=path, advice="Name the directory that holds log and snap"
        )
    return found


DIALECT = Zmqraft()
