"""Remove the index files that the snapshot covers, in a directory that no store has open."""

from __future__ import annotations

from flintlog.core.plan import Plan, Step
from flintlog.dialects.zmqraft.store import RaftStore
from flintlog.dialects.zmqraft.survey import survey
from flintlog.disk import Disk


def plan_compact(disk: Disk, path: str) -> Plan:
    """Every file below the one that holds the snapshot's index goes."""
    found = survey(disk, path)
    found.refuse_damage()
    index = found.snapshot.index if found.snapshot else 0
    files = found.range.files
    covered = [first for at, first in enumerate(files[:-1]) if files[at + 1] <= index]
    steps = tuple(
        Step("remove", found.reads[first].file.name, f"the snapshot at index {index} covers it")
        for first in covered
    )
    freed = sum(found.reads[first].file.size for first in covered)

    def apply() -> str:
        if not steps:
            return "no file is covered by the snapshot"
        with RaftStore(path, disk=disk) as store:
            removed = store.prune()
        return f"{removed} index files removed"

    return Plan("compact", "zmqraft", path, steps, apply, facts={"snapshot": index, "freed_bytes": freed})
