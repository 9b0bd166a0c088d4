"""Write a snapshot of a directory that no store has open."""

from __future__ import annotations

from flintlog.core.plan import Plan, Step
from flintlog.core.workers import Workers
from flintlog.dialects.taskflux import layout as lay
from flintlog.dialects.taskflux import rules
from flintlog.dialects.taskflux.settings import Settings
from flintlog.dialects.taskflux.snapshot import state_size
from flintlog.dialects.taskflux.store.engine import Engine
from flintlog.dialects.taskflux.store.opening import Opening
from flintlog.dialects.taskflux.survey import survey
from flintlog.disk import Disk
from flintlog.errors import RefusedError


def plan_snapshot(disk: Disk, data: str, as_of: int | None = None, workers: Workers | None = None) -> Plan:
    """A snapshot at the last LSN, or at `as_of`; every entry up to it counts as committed."""
    found = survey(disk, data)
    found.refuse_damage()
    if as_of is not None:
        found.refuse_missing(as_of)
    index = found.last if as_of is None else as_of
    steps: list[Step] = []
    size = 0
    if index > found.base.index:
        state = found.state(index)
        size = state_size(state)
        reason = f"state at LSN {index}: {state.record_count} records in {size} bytes"
        steps.append(Step("write", lay.SNAPSHOT_FILE, reason))
        firsts = [file.first for file in found.covered] + [segment.first for segment in found.segments]
        steps += [
            Step("remove", f"{lay.LOG_DIRECTORY}/{lay.segment_name(first)}", "the snapshot covers it")
            for first in firsts[: rules.superfluous(firsts, index)]
        ]

    def act(disk: Disk) -> str:
        if not steps:
            return f"the snapshot at LSN {found.base.index} covers LSN {index} already"
        engine = Engine(disk, Opening(data, Settings()))
        try:
            if index > engine.last:
                raise RefusedError(f"LSN {index} is gone since the plan was made", file=data)
            engine.publish_snapshot(engine.state_at(index))
            with engine.failstop.guard():
                removed = engine.log.remove_covered(index)
        finally:
            engine.close()
        return f"snapshot at LSN {index}; {removed} segments removed"

    return Plan("snapshot", "taskflux", data, tuple(steps), act, written_bytes=size, disk=disk)
