"""Every golden directory there and back: what a store opens can be backed up, and is the same when it is restored."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.every_directory import every_directory

from flintlog.core.backup import check_backup, plan_restore, take_backup
from flintlog.core.backup.copying import identities
from flintlog.core.log import open_log
from flintlog.disk import Disk
from flintlog.errors import FlintlogError, NotALogError
from flintlog.testing import MemoryKernel


@pytest.fixture(scope="module")
def directories(tmp_path_factory):
    return every_directory(tmp_path_factory.mktemp("golden"))


def in_memory(path: str) -> Disk:
    """The directory on a disk that is quick to sync."""
    disk = Disk(MemoryKernel())
    for file in Path(path).rglob("*"):
        if file.is_dir():
            disk.make_passing_directory(str(file))
            continue
        disk.make_passing_directory(str(file.parent))
        with disk.open(str(file), "create") as copy:
            copy.pwrite(file.read_bytes(), 0)
    return disk


def state_of(disk: Disk, path: str) -> list[dict]:
    return [row for batch in open_log(path, disk=disk).state() for row in batch.to_pylist()]


def contents(disk: Disk, path: str) -> dict[str, bytes]:
    return {name: disk.read(f"{path}/{name}", 1 << 30) for name in identities(disk, path)}


@pytest.mark.long
def test_every_directory_there_and_back_or_refused_with_nothing_written(directories):
    kept = refused = 0
    for name, path in directories.items():
        disk = in_memory(path)
        place, target = "/backups", "/restored"
        before = contents(disk, path)
        try:
            taken = take_backup(disk, path, place)
        except NotALogError:
            continue
        except FlintlogError:
            refused += 1
            assert disk.stat(place) is None, name
            assert open_log(path, disk=disk).verify().verdict != "clean", name
            continue
        kept += 1
        assert contents(disk, path) == before, name
        assert check_backup(disk, taken.path).backup == taken.backup, name
        plan_restore(disk, taken.path, target).apply()
        assert state_of(disk, target) == state_of(disk, path), name
        again = take_backup(disk, path, place)
        assert (again.name, again.new, again.backup) == ("0001", False, taken.backup), name
    assert kept > 60 and refused > 60, (kept, refused)
