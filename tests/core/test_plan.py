"""What holds for the plans of every verb and dialect, also without the command line."""

from __future__ import annotations

import contextlib

import pytest
from tests.backup_logs import LOGS, Queues
from tests.crash.taken_back import FillingKernel

from flintlog import QueueStore
from flintlog.core.backup import plan_restore, take_backup
from flintlog.core.dialect import GivenState, detect
from flintlog.core.journal import tree
from flintlog.core.log import Log, open_log
from flintlog.dialects.limestone.store import Datastore
from flintlog.disk import Disk
from flintlog.errors import DiskError, FlintlogError, RefusedError
from flintlog.testing import MemoryKernel

LOG, PLACE, NEW = "/srv/log", "/srv/place", "/far/away/new"


def everything(disk: Disk, folder: str = "/") -> dict[str, bytes | None]:
    found: dict[str, bytes | None] = {}
    for name in disk.list(folder):
        path = f"{folder.rstrip('/')}/{name}"
        if disk.is_directory(path):
            found |= {path: None, **everything(disk, path)}
        else:
            found[path] = disk.read(path, 1 << 22)
    return found


def queues(disk: Disk) -> str:
    with QueueStore(LOG, edition="shipped", disk=disk) as store:
        store.queue().add(b"payload", 1)
    return "designed"


def accounts(disk: Disk) -> str:
    with Datastore(LOG, edition="shipped", disk=disk) as store:
        with store.channel().session() as session:
            session.put(1, b"key", b"value")
        store.switch_epoch()
    return "designed"


def converts(make):
    def plan(disk: Disk):
        found = detect(disk, LOG)
        return Log(found, disk, LOG).plan_migrate("designed", NEW).apply

    return make, plan


def restores(disk: Disk):
    return plan_restore(disk, f"{PLACE}/0001", NEW).apply


def backed_up(disk: Disk) -> None:
    queues(disk)
    take_backup(disk, LOG, PLACE)


def backs_up(disk: Disk):
    return lambda: take_backup(disk, LOG, "/far/away/place")


def torn(kind):
    """A log with a torn tail, and the repair of it."""

    def make(disk: Disk) -> None:
        log = LOGS[kind](LOG, disk)
        for _ in range(3):
            log.add()
            log.added += 1
        log.close()
        path = newest(disk, kind)
        with disk.open(path, "write") as file:
            file.truncate(file.size() - 3)

    return make, lambda disk: open_log(LOG, disk=disk).plan_repair().apply


def newest(disk: Disk, kind: str) -> str:
    """The file that a log of this kind appends to."""
    home = open_log(LOG, disk=disk).root
    endings = {"taskflux": ".log", "zmqraft": ".rlog", "limestone": "pwal_0000"}
    return max(f"{home}/{name}" for name in tree(disk, home) if name.endswith(endings[kind]))


def snapshots(disk: Disk):
    return open_log(LOG, disk=disk).plan_snapshot().apply


WORKS = {
    "repair taskflux": torn("taskflux"),
    "repair zmqraft": torn("zmqraft"),
    "snapshot": (queues, snapshots),
    "convert taskflux": converts(queues),
    "convert limestone": converts(accounts),
    "restore": (backed_up, restores),
    "backup": (queues, backs_up),
}


@pytest.mark.parametrize("name", WORKS)
def test_what_meets_a_full_disk_leaves_nothing_behind(name):
    make, plan = WORKS[name]
    room = 0
    while True:
        disk = Disk(MemoryKernel())
        make(disk)
        before = everything(disk)
        full = Disk(FillingKernel(disk.kernel, room))
        try:
            plan(full)()
        except DiskError:
            assert everything(disk) == before, room
            room += 1
            continue
        break
    assert room > 2
    assert everything(disk) != before


@pytest.mark.parametrize("kind", ["taskflux", "zmqraft"])
def test_a_plan_is_not_carried_out_on_what_a_store_has_healed_and_written_to_since(kind):
    disk = Disk(MemoryKernel())
    torn(kind)[0](disk)
    first = open_log(LOG, disk=disk).plan_repair()
    assert first.steps
    if kind == "zmqraft":  # it is no torn tail there: somebody else repairs it first
        open_log(LOG, disk=disk).plan_repair().apply()
    log = LOGS[kind](LOG, disk)
    for _ in range(5):
        log.add()
    log.close()
    before = everything(disk)
    with pytest.raises(RefusedError, match="changed since the repair was planned"):
        first.apply()
    assert everything(disk) == before


def plans(log, disk, path):
    """Every plan that would change a directory; those that the dialect does not have are left out."""
    state = GivenState("given", 1, lambda: iter([b"s"]))
    makers = (
        lambda: Log(log, disk, path).plan_repair(),
        lambda: Log(log, disk, path).plan_undo(),
        lambda: Log(log, disk, path).plan_snapshot(),
        lambda: Log(log, disk, path).plan_snapshot((1,), state),
        lambda: Log(log, disk, path).plan_compact(),
        lambda: Log(log, disk, path).plan_migrate(),
        lambda: Log(log, disk, path).plan_migrate("shipped", NEW),
    )
    for make in makers:
        with contextlib.suppress(FlintlogError):
            yield make()


@pytest.mark.parametrize("kind", LOGS)
def test_no_plan_changes_a_backup(kind):
    disk = Disk(MemoryKernel())
    log = LOGS[kind](LOG, disk)
    log.add()
    log.close()
    path = take_backup(disk, LOG, PLACE).path
    found = detect(disk, path)
    before = everything(disk)
    seen = set()
    for plan in plans(found, disk, path):
        if plan.refusal is None:
            with pytest.raises(RefusedError, match="this is a backup"):
                plan.apply()
            seen.add(plan.verb)
    assert seen >= {"repair", "snapshot"} or seen >= {"repair", "compact"}
    assert everything(disk) == before


def test_a_plan_that_is_refused_is_not_applied():
    disk = Disk(MemoryKernel())
    log = Queues(LOG, disk)
    log.add()
    log.close()
    plan = open_log(LOG, disk=disk).plan_undo()
    with pytest.raises(RefusedError, match="there is no repair to take back"):
        plan.apply()
