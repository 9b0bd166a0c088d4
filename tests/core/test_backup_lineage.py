"""A place is of one log: a stranger is refused, and the log goes on in it from wherever it stands."""

from __future__ import annotations

import json

import pytest
from tests.backup_logs import LOGS, Log

from flintlog import QueueStore
from flintlog.core.backup import BACKUP_FILE, plan_restore, take_backup
from flintlog.disk import Disk
from flintlog.errors import RefusedError
from flintlog.testing import MemoryKernel

LOG, OTHER, PLACE, NEW = "/srv/log", "/srv/other", "/backups/place", "/srv/new"
NUMBERED_OR_NAMED = ["taskflux", "zmqraft", "limestone-shipped"]


@pytest.fixture
def disk():
    return Disk(MemoryKernel())


def filled(kind: str, disk: Disk, path: str, begin: int = 0, items: int = 6) -> Log:
    log = LOGS[kind](path, disk)
    log.added = begin
    for _ in range(items):
        log.add()
        log.added += 1
    return log


@pytest.mark.parametrize("kind", LOGS)
def test_another_log_is_no_increment(kind, disk):
    filled(kind, disk, LOG).close()
    take_backup(disk, LOG, PLACE)
    filled(kind, disk, OTHER, begin=100).close()
    with pytest.raises(RefusedError, match="another log") as caught:
        take_backup(disk, OTHER, PLACE)
    assert LOG in str(caught.value) and OTHER in str(caught.value) and "another place" in str(caught.value)
    assert sorted(disk.list(PLACE)) == ["0001"]


@pytest.mark.parametrize("kind", NUMBERED_OR_NAMED)
def test_a_log_that_is_proved_to_be_another_is_refused_whatever_is_said(kind, disk):
    filled(kind, disk, LOG).close()
    take_backup(disk, LOG, PLACE)
    disk.rename(LOG, "/srv/away")
    filled(kind, disk, LOG, begin=100).close()
    for full in (False, True):
        with pytest.raises(RefusedError, match="is another log"):
            take_backup(disk, LOG, PLACE, full=full)
    assert sorted(disk.list(PLACE)) == ["0001"]


@pytest.mark.parametrize("kind", LOGS)
@pytest.mark.parametrize("told", [True, False], ids=["", "by an old list"])
def test_a_log_that_was_restored_elsewhere_goes_on_in_its_place(kind, told, disk):
    filled(kind, disk, LOG).close()
    taken = take_backup(disk, LOG, PLACE)
    plan_restore(disk, taken.path, NEW).apply()
    if not told:
        listing = json.loads(disk.read(f"{taken.path}/{BACKUP_FILE}", 1 << 20))
        for name in ("inside", "identity"):
            del listing[name]
        disk.publish(f"{taken.path}/{BACKUP_FILE}", [json.dumps(listing).encode()], scratch="/backups/x")
    log = LOGS[kind](NEW, disk)
    log.added = 6
    log.add()
    log.close()
    again = take_backup(disk, NEW, PLACE)
    assert (again.name, again.new, again.backup.source) == ("0002", True, NEW)


def test_a_root_is_restored_as_a_root(disk):
    with QueueStore(LOG, disk=disk) as store:
        store.queue().add(b"payload", 1)
    plan_restore(disk, take_backup(disk, LOG, PLACE).path, NEW).apply()
    assert disk.list(NEW) == ["data"]
    with QueueStore(NEW, disk=disk) as store:
        assert store.queue().take().payload == b"payload"


def test_a_data_directory_is_restored_as_one(disk):
    with QueueStore(LOG, disk=disk) as store:
        store.queue().add(b"payload", 1)
    plan_restore(disk, take_backup(disk, f"{LOG}/data", PLACE).path, NEW).apply()
    assert "log" in disk.list(NEW) and "data" not in disk.list(NEW)
