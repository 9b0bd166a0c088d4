"""Write the durable state to compacted files, in a directory that no store has open."""

from __future__ import annotations

from flintlog.core.plan import Plan, Step
from flintlog.core.workers import Workers
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone.distributed import Looks
from flintlog.dialects.limestone.store import Datastore
from flintlog.dialects.limestone.store.compaction import is_due
from flintlog.dialects.limestone.survey import survey
from flintlog.disk import Disk


def plan_compact(disk: Disk, path: str, workers: Workers | None = None) -> Plan:
    """Write the state at the durable epoch to compacted files, and remove the logs and the older compacted files."""
    looks = None if workers is None else Looks(workers)
    found = survey(disk, path, walker=None if looks is None else looks.walks)
    found.refuse_damage()
    steps: list[Step] = []
    epoch = max(found.durable, found.low)
    logs = [read for read in found.logs if read.file.channel is not None]
    gone = [(read.file.name, read.file.size) for read in logs]
    gone += [(name, size) for name, size in found.listing.compacted.items() if name in found.base]
    due = is_due(found, epoch)
    if due:
        target = lay.COMPACTED_FILE if found.edition == "shipped" else "cmpct_NNNN"
        steps.append(Step("write", target, f"the state at epoch {epoch}, sorted"))
        steps += [Step("remove", name, "the compacted files hold what counts of it") for name, _ in gone]

    def act(disk: Disk) -> str:
        if not steps:
            return f"the compacted files hold epoch {epoch} already"
        with Datastore(path, snapshot=False, workers=looks, disk=disk) as store:
            done = store.compact()
        if done is None:
            return "another process has compacted it meanwhile"
        count = len(done.superseded)
        return f"{', '.join(done.files)} at epoch {done.epoch}; {count} {'file' if count == 1 else 'files'} removed"

    facts = {"epoch": epoch, "compacted_epoch": found.low if found.low >= 0 else None}
    if due:
        facts["read_bytes"] = sum(size for _, size in gone)
    return Plan(
        "compact",
        "limestone",
        path,
        tuple(steps),
        act,
        facts=facts,
        written_bytes=facts.get("read_bytes"),
        disk=disk,
    )
