"""Remove the index files that the snapshot covers, in a directory that no store has open."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from flintlog.core.plan import Plan, Step
from flintlog.core.workers import Workers
from flintlog.dialects.zmqraft.files import IndexName
from flintlog.dialects.zmqraft.store import RaftStore
from flintlog.dialects.zmqraft.survey import Survey, checked_survey
from flintlog.disk import Disk


def plan_compact(disk: Disk, path: str, workers: Workers | None = None) -> Plan:
    """Every file below the one that holds the snapshot's index goes."""
    found = checked_survey(disk, path, workers)
    index = found.snapshot.index if found.snapshot else 0
    covered = covered_files(found, index)
    steps = removals(covered, index)

    def act(disk: Disk) -> str:
        if not steps:
            return "no file is covered by the snapshot"
        with RaftStore(path, disk=disk, snapshot_name=found.listing.snapshot) as store:
            return removed(store.prune())

    facts = {"snapshot": index, "freed_bytes": sum(file.size for file in covered)}
    return Plan("compact", "zmqraft", path, steps, act, facts=facts, disk=disk)


def covered_files(found: Survey, index: int) -> list[IndexName]:
    """The files that a snapshot at `index` does not need: another one holds that index."""
    files = found.range.files
    return [found.reads[first].file for first, following in pairwise(files) if following <= index]


def removals(files: Sequence[IndexName], index: int) -> tuple[Step, ...]:
    """The steps that remove these files."""
    return tuple(Step("remove", file.name, f"the snapshot at index {index} covers it") for file in files)


def removed(count: int) -> str:
    """What was removed, in words."""
    return f"{count} index file{'' if count == 1 else 's'} removed"
