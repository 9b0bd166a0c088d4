"""Merge the unread remains of files that are no longer written, in a directory that no store has open."""

from __future__ import annotations

from flintlog.core.plan import Plan, Step
from flintlog.core.workers import Workers
from flintlog.dialects.mpy6a import compaction
from flintlog.dialects.mpy6a.compaction import Merge
from flintlog.dialects.mpy6a.examine import EXAMINE_BYTES
from flintlog.dialects.mpy6a.store import SessionStore
from flintlog.dialects.mpy6a.store.session_store import FILE_BYTES
from flintlog.dialects.mpy6a.survey import survey
from flintlog.disk import Disk


def plan_compact(disk: Disk, path: str, workers: Workers | None = None) -> Plan:
    """Neighbouring files of one delay become one that holds what is not read."""
    found = survey(disk, path, examine_bytes=EXAMINE_BYTES)
    found.refuse_damage()
    merges = compaction.plan(found.machine, FILE_BYTES)
    steps = tuple(Step("merge", file.name, _reason(merge)) for merge in merges for file in merge.files)

    def act(disk: Disk) -> str:
        if not steps:
            return "no file is worth merging"
        with SessionStore(path, strict=not found.has_operation_log, disk=disk) as store:
            freed = store.compact(workers)
        return f"{len(steps)} file{'' if len(steps) == 1 else 's'} merged into {len(merges)}; {freed} bytes freed"

    facts = {
        "unread_bytes": sum(merge.live_bytes for merge in merges),
        "freed_bytes": sum(merge.dead_bytes for merge in merges),
    }
    return Plan(
        "compact", "mpy6a", path, steps, act, facts=facts, written_bytes=facts["unread_bytes"], disk=disk
    )


def _reason(merge: Merge) -> str:
    if len(merge.files) == 1:
        return f"{merge.dead_bytes} of its {merge.live_bytes + merge.dead_bytes} bytes are read"
    return (
        f"with {len(merge.files) - 1} neighbour{'' if len(merge.files) == 2 else 's'}: {merge.live_bytes} unread"
        f" bytes in one file, {merge.dead_bytes} read ones go"
    )
