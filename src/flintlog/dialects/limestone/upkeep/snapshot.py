"""Write `data/snapshot` in a directory that no store has open; the logs stay as they are."""

from __future__ import annotations

import posixpath

from flintlog.core.plan import Plan, Step
from flintlog.core.workers import Workers
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone.distributed import Distribution, Looking, Looks, write_files
from flintlog.dialects.limestone.replay import State, epoch_of
from flintlog.dialects.limestone.store.compaction import order_of
from flintlog.dialects.limestone.store.snapshot import write_snapshot
from flintlog.dialects.limestone.survey import survey
from flintlog.disk import Disk, take_lock


def plan_snapshot(disk: Disk, path: str, as_of: int | None, workers: Workers | None = None) -> Plan:
    """Write the state at the durable epoch, or at an earlier one, as a sorted file. The next opening removes it."""
    looks = None if workers is None else Looks(workers)
    found = survey(disk, path, walker=None if looks is None else looks.walks)
    found.refuse_damage()
    epoch = epoch_of(found, as_of)
    step = Step("write", lay.SNAPSHOT_FILE, f"the state at epoch {epoch}, sorted by storage and key")

    def act(disk: Disk) -> str:
        lock = take_lock(disk, path, "read", path)
        try:
            order = order_of(found.edition)
            if looks is None:
                write_snapshot(disk, path, State(survey(disk, path), as_of, order=order))
            else:
                looking = Looking(looks, disk, path)
                _write(Distribution(looking, epoch_of(looking.survey, as_of), order=order), path)
        finally:
            lock.close()
        return f"{lay.SNAPSHOT_FILE} at epoch {epoch}"

    return Plan(
        "snapshot",
        "limestone",
        path,
        (step,),
        act,
        facts={"epoch": epoch},
        written_bytes=found.size,
        disk=disk,
    )


def _write(distribution: Distribution, path: str) -> None:
    """Have the workers write the file, and put it in its place."""
    target = posixpath.join(path, lay.SNAPSHOT_FILE)
    distribution.disk.make_passing_directory(posixpath.dirname(target))
    [scratch] = write_files(
        distribution,
        lambda number: target + lay.COMPACTED_SCRATCH,
        lay.encode_begin(0),
        file_bytes=None,
        zero_versions=False,
    )
    distribution.disk.rename(scratch, target)
