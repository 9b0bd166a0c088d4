"""Write the descriptors of a directory that no store has open to its snapshot, and begin the logs anew."""

from __future__ import annotations

from flintlog.core.plan import Plan, Step
from flintlog.core.workers import Workers
from flintlog.dialects.mpy6a import layout as lay
from flintlog.dialects.mpy6a.authority import ByNote
from flintlog.dialects.mpy6a.examine import EXAMINE_BYTES
from flintlog.dialects.mpy6a.layout import StateID
from flintlog.dialects.mpy6a.seen import Survey
from flintlog.dialects.mpy6a.store import SessionStore
from flintlog.dialects.mpy6a.survey import survey
from flintlog.disk import Disk
from flintlog.errors import UsageError


def plan_snapshot(
    disk: Disk, path: str, as_of: StateID | None = None, workers: Workers | None = None
) -> Plan:
    """The plan is empty when the logs hold nothing behind the last snapshot."""
    if as_of is not None:
        raise UsageError(
            "a snapshot of an mpy6a log is of the newest state, because files hold no older one",
            advice="Leave --as-of out",
        )
    found = survey(disk, path, examine_bytes=EXAMINE_BYTES)
    found.refuse_damage()
    events = _events(found)
    count = len(found.machine.files)
    steps: list[Step] = []
    if events:
        reason = f"the descriptors of {count} file{'' if count == 1 else 's'} at {found.machine.last}"
        steps.append(Step("write", lay.SNAPSHOT_FILE, reason))
        for name, number in events.items():
            steps.append(Step("begin", name, f"it holds {number} operation{'' if number == 1 else 's'}"))

    def act(disk: Disk) -> str:
        if not steps:
            return f"the snapshot is at {found.machine.last} already"
        with SessionStore(path, strict=not found.has_operation_log, disk=disk) as store:
            store.snapshot()
            return f"snapshot at {store.last}; the logs begin anew"

    return Plan("snapshot", "mpy6a", path, tuple(steps), act, disk=disk)


def _events(found: Survey) -> dict[str, int]:
    """How many operations each log holds behind the last snapshot."""
    log = found.authority
    if isinstance(log, ByNote):
        count = len(found.log.events) if found.log is not None else 0
        return {lay.CHANGES_FILE: count} if count else {}
    assert found.log is not None
    checkpoint = 1 + log.opened
    count = len(found.log.events) - checkpoint
    if not count:
        return {}
    changes = len(log.changes)
    return ({lay.CHANGES_FILE: changes} if changes else {}) | {lay.OPERATIONS_FILE: count}
