"""Write a snapshot of a directory that no store has open, from a state that the application gives."""

from __future__ import annotations

from flintlog.core.dialect import GivenState
from flintlog.core.plan import Plan, Step
from flintlog.core.position import check_reached
from flintlog.core.workers import Workers
from flintlog.dialects.zmqraft.store import RaftStore
from flintlog.dialects.zmqraft.survey import checked_survey
from flintlog.dialects.zmqraft.upkeep.compact import covered_files, removals, removed
from flintlog.disk import Disk
from flintlog.errors import RefusedError, UsageError


def plan_snapshot(
    disk: Disk, path: str, index: int | None, given: GivenState | None, workers: Workers | None = None
) -> Plan:
    """Replace the snapshot by the state after `index`, and remove the files that it covers."""
    if given is None:
        raise UsageError(
            "only the application knows the state of a zmqraft log",
            advice="Give it: --as-of INDEX --data FILE; `flintlog compact` needs none",
        )
    found = checked_survey(disk, path, workers)
    present = found.snapshot.index if found.snapshot else 0
    last = found.range.last
    if not last:
        raise RefusedError("the log has no entry yet that a snapshot could cover", file=path)
    if index is None:
        raise UsageError(
            f"the state in {given.name} does not say which index it is of",
            advice=f"Say it: --as-of INDEX, from {max(present, 1)} to {last}",
        )
    check_reached((index,), (max(present, 1),), (last,), unit="index", path=path)
    covered = covered_files(found, index)
    size = "" if given.size is None else f"{given.size} bytes "
    write = Step("write", found.listing.snapshot, f"the state after index {index}: {size}from {given.name}")

    def act(disk: Disk) -> str:
        with RaftStore(path, disk=disk, snapshot_name=found.listing.snapshot) as store:
            store.snapshot(index, given.chunks(), prune=False)
            return f"snapshot at index {index}, {store.snapshot_size} bytes; {removed(store.prune())}"

    facts = {
        "snapshot": present,
        "last": last,
        "freed_bytes": sum(file.size for file in covered),
    }
    steps = (write, *removals(covered, index))
    return Plan("snapshot", "zmqraft", path, steps, act, facts=facts, written_bytes=given.size, disk=disk)
