"""Write `data/snapshot` of a directory that no store has open, without opening it: the logs stay as they are."""

from __future__ import annotations

from flintlog.core.plan import Plan, Step
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone.merge import by_bytes, numeric
from flintlog.dialects.limestone.replay import State
from flintlog.dialects.limestone.store.snapshot import write_snapshot
from flintlog.dialects.limestone.survey import survey
from flintlog.disk import Disk, take_lock


def plan_snapshot(disk: Disk, path: str, as_of: int | None) -> Plan:
    """The state at the durable epoch, or at an earlier one, as a sorted file. The next opening writes it anew."""
    found = survey(disk, path)
    order = numeric if found.edition == "designed" else by_bytes
    epoch = State(found, as_of, order=order).epoch  # refuses damage, and an epoch that is no longer there
    step = Step("write", lay.SNAPSHOT_FILE, f"the state at epoch {epoch}, sorted by storage and key")

    def apply() -> str:
        lock = take_lock(disk, path, "read", path)
        try:
            written = write_snapshot(disk, path, State(survey(disk, path), as_of, order=order), order)
        finally:
            lock.close()
        return f"{lay.SNAPSHOT_FILE} at epoch {epoch}, {len(written)} keys"

    return Plan("snapshot", "limestone", path, (step,), apply, facts={"epoch": epoch})
