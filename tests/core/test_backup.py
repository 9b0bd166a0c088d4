"""Backups of every dialect: chains, positions, live writers, full disks, what is not trusted."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from tests.backup_logs import LOGS, rows_of

from flintlog.core.backup import (
    BACKUP_FILE,
    backups_in,
    check_backup,
    check_place,
    choose,
    plan_restore,
    take_backup,
)
from flintlog.core.backup.copying import identities
from flintlog.core.log import Log, open_log
from flintlog.disk import Disk
from flintlog.errors import DamageError, DiskError, FlintlogError, LockedError, RefusedError, UsageError
from flintlog.testing import MemoryKernel

ROUNDS = 4  # of backups beside a writer
PLACE, LOG, NEW = "/backups/place", "/srv/log", "/srv/new"


@pytest.fixture(params=LOGS)
def kind(request):
    return LOGS[request.param]


@pytest.fixture
def disk():
    return Disk(MemoryKernel())


def filled(kind, disk, items=12, removed=3):
    log = kind(LOG, disk)
    for _ in range(items):
        log.add()
        log.added += 1
    for _ in range(removed if log.removes else 0):
        log.remove()
        log.removed += 1
    return log


def contents(disk, path):
    return {name: disk.read(f"{path}/{name}", 1 << 30) for name in identities(disk, path)}


def restored(disk, name="0001", to=None, target=NEW):
    plan_restore(disk, f"{PLACE}/{name}", target, to=to).apply()
    return target


def test_a_second_backup_copies_what_is_new_and_both_restore_to_their_time(kind, disk):
    log = filled(kind, disk)
    first = take_backup(disk, LOG, PLACE)
    expected = kind.items(disk, LOG) if log.removes else list(range(12))
    for _ in range(9):
        log.add()
        log.added += 1
    log.churn()
    log.add()
    log.added += 1
    second = take_backup(disk, LOG, PLACE)
    third = take_backup(disk, LOG, PLACE)
    full = take_backup(disk, LOG, PLACE, full=True)
    log.close()
    assert [taken.name for taken in (first, second, third, full)] == ["0001", "0002", "0002", "0003"]
    assert [taken.new for taken in (first, second, third, full)] == [True, True, False, True]
    assert (third.applied, third.backup) == (False, second.backup)
    assert (first.backup.kind, full.backup.kind) == ("full", "full")
    assert full.backup.copied_bytes == second.backup.held_bytes + second.backup.copied_bytes
    assert first.backup.last < second.backup.last == third.backup.last == full.backup.last
    assert kind.items(disk, restored(disk, "0001", target="/one")) == expected
    for name in ("0002", "0003"):
        path = restored(disk, name, target=f"/{name}")
        assert open_log(path, disk=disk).verify().verdict == "clean"
        assert kind.items(disk, path) == list(range(log.removed, 22))


def test_a_restored_log_goes_on(kind, disk):
    filled(kind, disk).close()
    take_backup(disk, LOG, PLACE)
    log = kind(restored(disk), disk)
    log.added = 12
    for _ in range(3):
        log.add()
        log.added += 1
    log.close()
    assert kind.items(disk, NEW)[-4:] == [11, 12, 13, 14]


def test_restore_to_every_position_is_the_state_of_that_position(kind, disk):
    log = filled(kind, disk, items=5, removed=1)
    log.churn()
    for _ in range(4):
        log.add()
        log.added += 1
    if log.removes:
        log.remove()
    taken = take_backup(disk, LOG, PLACE)
    log.close()
    first, last = taken.backup.first, taken.backup.last
    reached = []
    for number in range(first[-1], last[-1] + 1):
        position = (*first[:-1], number)
        target = f"/to/{number}"
        plan_restore(disk, taken.path, target, to=position).apply()
        assert rows_of(disk, target) == rows_of(disk, taken_state(disk, taken), position)
        reached.append(len(rows_of(disk, target)))
    assert kind is LOGS["mpy6a-strict"] or len(set(reached)) > 3
    beyond, before = (*last[:-1], last[-1] + 1), (*first[:-1], first[-1] - 1)
    with pytest.raises(FlintlogError):
        plan_restore(disk, taken.path, NEW, to=beyond)
    with pytest.raises(FlintlogError):
        plan_restore(disk, taken.path, NEW, to=before)
    assert disk.stat(NEW) is None


def taken_state(disk, taken):
    """The whole backup restored once: what `state --as-of` is asked of."""
    target = "/whole"
    if disk.stat(target) is None:
        plan_restore(disk, taken.path, target).apply()
    return target


def test_the_newest_backup_that_holds_a_position_is_chosen(disk):
    log = filled(LOGS["taskflux"], disk, removed=0)
    take_backup(disk, LOG, PLACE)
    log.add()
    log.churn()  # the snapshot takes the history away
    take_backup(disk, LOG, PLACE)
    log.close()
    there = check_place(disk, PLACE)
    assert choose(PLACE, there, None) == "0002"
    assert choose(PLACE, there, (5,)) == "0001"
    assert choose(PLACE, there, (12,)) == "0002"
    with pytest.raises(RefusedError, match="no backup here holds position 99"):
        choose(PLACE, there, (99,))


# A live directory


def test_every_backup_under_a_writer_is_a_prefix_that_has_all_that_was_acknowledged(kind, tmp_path):
    """The writer rotates, takes snapshots, compacts and removes files all the time."""
    disk, path, place = Disk(), str(tmp_path / "log"), str(tmp_path / "place")
    log = kind(path)
    log.add()
    log.added += 1
    stop = threading.Event()
    problems: list[BaseException] = []

    def write():
        try:
            turn = 0
            while not stop.is_set():
                turn += 1
                log.add()
                log.added += 1
                if log.removes and log.added - log.removed > 20:
                    log.remove()
                    log.removed += 1
                if turn % 7 == 0:
                    log.churn()
                    stop.wait(0.01)  # a hundred snapshots a second are many
        except BaseException as error:
            problems.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    marks = []
    try:
        for _ in range(ROUNDS):
            before = log.added, log.removed
            taken = take_backup(disk, path, place)
            marks.append((taken, before, (log.added + 1, log.removed + 1)))
    finally:
        stop.set()
        writer.join()
        log.close()
    assert not problems
    for number, (taken, before, after) in enumerate(marks):
        target = str(tmp_path / f"new-{number}")
        plan_restore(disk, taken.path, target).apply()
        items = kind.items(disk, target)
        assert items == list(range(items[0], items[-1] + 1))
        assert before[0] <= items[-1] + 1 <= after[0]
        assert before[1] <= items[0] <= after[1] if log.removes else items[0] == 0


def test_a_file_that_is_replaced_while_it_is_copied_is_copied_again(disk, monkeypatch):
    log = filled(LOGS["taskflux"], disk)
    real = Log.picture
    calls = []

    def picture(self, as_of=None):
        found = real(self, as_of)
        calls.append(self.path)
        if len(calls) == 1:
            log.add()
            log.churn()  # segments go that the picture has
        return found

    monkeypatch.setattr(Log, "picture", picture)
    taken = take_backup(disk, LOG, PLACE)
    log.close()
    assert calls.count(LOG) == 2
    assert taken.backup.last == (15,)


def test_a_directory_that_never_stands_still_is_refused(disk, monkeypatch):
    log = filled(LOGS["taskflux"], disk)
    real = Log.picture

    def picture(self, as_of=None):
        found = real(self, as_of)
        log.add()
        log.churn()
        return found

    monkeypatch.setattr(Log, "picture", picture)
    with pytest.raises(RefusedError, match="changes faster than it can be copied"):
        take_backup(disk, LOG, PLACE)
    log.close()
    assert disk.stat(PLACE) is None


# What goes wrong


def test_a_full_disk_leaves_nothing(kind, disk, monkeypatch):
    filled(kind, disk).close()
    take_backup(disk, LOG, PLACE)
    before = contents(disk, "/")

    def full(*_):
        raise OSError(28, "No space left on device")

    for call in ("pwrite", "sync", "mkdir"):
        with monkeypatch.context() as patch:
            patch.setattr(disk.kernel, call, full)
            with pytest.raises(DiskError) as caught:
                take_backup(disk, LOG, PLACE, full=True)
            assert caught.value.code == "disk-full"
            with pytest.raises(DiskError):
                plan_restore(disk, f"{PLACE}/0001", NEW).apply()
        assert contents(disk, "/") == before
        assert disk.stat(f"{NEW}.new") is None and disk.list(PLACE) == ["0001"]


def test_what_an_interrupted_backup_left_is_no_backup_and_goes(disk):
    filled(LOGS["taskflux"], disk).close()
    disk.make_directory(f"{PLACE}/0001.new/log")
    with disk.open(f"{PLACE}/0001.new/log/torn", "create") as file:
        file.pwrite(b"half", 0)
    assert backups_in(disk, PLACE) == []
    assert take_backup(disk, LOG, PLACE).name == "0001"
    assert disk.list(PLACE) == ["0001"]


def test_two_backups_to_one_place_at_the_same_time_are_refused(tmp_path):
    disk = Disk()
    LOGS["taskflux"](tmp_path / "log").close()
    place = str(tmp_path / "place")
    disk.make_directory(place)
    with disk.open(place) as file:
        assert file.lock()
        with pytest.raises(LockedError):
            take_backup(disk, str(tmp_path / "log"), place)


@pytest.mark.parametrize("where", [LOG, f"{LOG}/backups"])
def test_a_place_inside_the_log_is_refused(disk, where):
    filled(LOGS["taskflux"], disk).close()
    with pytest.raises(UsageError, match="inside the log directory"):
        take_backup(disk, LOG, where)


def test_a_place_is_of_one_dialect(disk):
    filled(LOGS["taskflux"], disk).close()
    take_backup(disk, LOG, PLACE)
    LOGS["zmqraft"]("/srv/peer", disk).close()
    with pytest.raises(RefusedError, match="backup of a taskflux log"):
        take_backup(disk, "/srv/peer", PLACE, full=True)


def test_a_held_file_that_rotted_is_copied_again(kind, disk):
    filled(kind, disk).close()
    taken = take_backup(disk, LOG, PLACE)
    name = max(taken.backup.files, key=lambda item: item.size).name
    with disk.open(f"{PLACE}/0001/{name}", "write") as file:
        file.pwrite(b"\xff\xfe", file.size() // 2)
    with pytest.raises(DamageError) as caught:
        plan_restore(disk, taken.path, NEW)
    assert (caught.value.code, caught.value.file) == ("backup-file", f"{PLACE}/0001/{name}")
    again = take_backup(disk, LOG, PLACE)
    assert [item.name for item in again.backup.files if item.held_by is None] == [name]
    assert kind.items(disk, restored(disk, "0002"))


def test_a_missing_member_of_the_chain_is_named(kind, disk):
    log = filled(kind, disk)
    take_backup(disk, LOG, PLACE)
    log.add()
    log.close()
    take_backup(disk, LOG, PLACE)
    disk.rename(f"{PLACE}/0001", "/elsewhere")
    with pytest.raises(RefusedError, match="there is no backup here") as caught:
        plan_restore(disk, f"{PLACE}/0002", NEW)
    assert caught.value.file == f"{PLACE}/0001"
    assert disk.stat(NEW) is None and disk.stat(f"{NEW}.new") is None
    checked = check_backup(disk, f"{PLACE}/0002", chain=["/elsewhere"])
    held = [item.name for item in checked.backup.files if item.held_by is not None]
    assert held and all(checked.files[name] == f"/elsewhere/{name}" for name in held)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda listing: listing.update(format=2),
        lambda listing: listing.update(dialect="unknown"),
        lambda listing: listing.update(first="early"),
        lambda listing: listing.update(last=[True]),
        lambda listing: listing.pop("source"),
        lambda listing: listing["files"][0].update(name="../escape"),
        lambda listing: listing["files"][0].update(name="/etc/passwd"),
        lambda listing: listing["files"][0].update(name="foreign.txt"),
        lambda listing: listing["files"][0].update(size=-1),
        lambda listing: listing["files"][0].update(sha256="f" * 63),
        lambda listing: listing["files"][0].update(held_by=".."),
        lambda listing: listing["files"][0].update(held_by=7),
        lambda listing: listing["files"][0].update(name="pwal_\ud800"),
        lambda listing: listing["files"].append(dict(listing["files"][0])),
        lambda listing: listing["files"].append("a file"),
        lambda listing: listing.update(files=7),
    ],
)
def test_a_list_is_not_trusted(kind, disk, spoil):
    filled(kind, disk, items=2, removed=0).close()
    taken = take_backup(disk, LOG, PLACE)
    listing = json.loads(disk.read(f"{taken.path}/{BACKUP_FILE}", 1 << 20))
    spoil(listing)
    disk.publish(f"{taken.path}/{BACKUP_FILE}", [json.dumps(listing).encode()], scratch=f"{PLACE}/x")
    with pytest.raises(DamageError) as caught:
        plan_restore(disk, taken.path, NEW)
    assert caught.value.code == "backup-list"
    with pytest.raises(DamageError, match="not the list of a backup"):
        take_backup(disk, LOG, PLACE)
    assert take_backup(disk, LOG, PLACE, full=True).name == "0002"
    assert disk.stat(NEW) is None


def test_a_backup_is_no_store(kind, disk):
    filled(kind, disk).close()
    path = take_backup(disk, LOG, PLACE).path
    before = contents(disk, path)
    with pytest.raises(RefusedError, match="this is a backup"):
        kind(path, disk)
    assert contents(disk, path) == before


def test_a_dry_run_writes_nothing(kind, tmp_path):
    disk = Disk()
    log = kind(tmp_path / "log")
    log.add()
    log.close()
    would = take_backup(disk, str(tmp_path / "log"), str(tmp_path / "place"), dry_run=True)
    assert not would.applied and would.backup.copied_bytes > 0
    assert [path.name for path in Path(tmp_path).iterdir()] == ["log"]
