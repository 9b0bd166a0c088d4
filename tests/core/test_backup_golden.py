"""Every golden directory there and back: what a store opens can be backed up, and is the same when it is restored."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.every_directory import every_directory

from flintlog.core.backup import check_backup, plan_restore, take_backup
from flintlog.core.dialect import detect, no_progress
from flintlog.disk import Disk
from flintlog.errors import FlintlogError, NotALogError


@pytest.fixture(scope="module")
def directories(tmp_path_factory):
    return every_directory(tmp_path_factory.mktemp("golden"))


def state_of(path: str) -> list[dict]:
    disk = Disk()
    return [row for batch in detect(disk, path).state(disk, path, None) for row in batch.to_pylist()]


def contents(path: str) -> dict[str, bytes]:
    root = Path(path)
    return {str(file.relative_to(root)): file.read_bytes() for file in root.rglob("*") if file.is_file()}


def test_every_directory_there_and_back_or_refused_with_nothing_written(directories, tmp_path):
    disk = Disk()
    kept = refused = 0
    for number, (name, path) in enumerate(directories.items()):
        place, target = f"{tmp_path}/{number}", f"{tmp_path}/{number}-restored"
        before = contents(path)
        try:
            taken = take_backup(disk, path, place)
        except NotALogError:
            continue
        except FlintlogError as error:
            refused += 1
            assert not Path(place).exists(), name
            with pytest.raises(FlintlogError):  # nobody else reads it either
                inventory = detect(disk, path).verify(disk, path, no_progress)
                if inventory.verdict != "clean":
                    raise error
            continue
        kept += 1
        assert contents(path) == before, name
        assert check_backup(disk, taken.path).backup == taken.backup, name
        plan_restore(disk, taken.path, target).apply()
        assert state_of(target) == state_of(path), name
        again = take_backup(disk, path, place)
        assert (again.name, again.backup.copied_bytes) == ("0002", 0), name
        plan_restore(disk, again.path, f"{target}-again").apply()
        assert contents(f"{target}-again") == contents(target), name
    assert kept > 60 and refused > 60, (kept, refused)
