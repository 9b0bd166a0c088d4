"""How a directory finds its dialect."""

from __future__ import annotations

import pytest

from flintlog.core.dialect import detect, dialect, dialect_names
from flintlog.disk import Disk
from flintlog.errors import NotALogError, UsageError


def test_every_registered_dialect_loads_under_its_own_name():
    assert dialect_names()
    for name in dialect_names():
        assert dialect(name).name == name


def test_a_name_that_is_no_dialect_is_wrong_usage_and_lists_those_there_are():
    with pytest.raises(UsageError) as caught:
        dialect("leveldb")
    assert "taskflux" in str(caught.value)


def test_a_missing_directory_is_not_a_log(tmp_path):
    with pytest.raises(NotALogError, match="there is no such directory"):
        detect(Disk(), str(tmp_path / "missing"))


def test_a_file_is_not_a_log_directory(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"")
    with pytest.raises(NotALogError, match="this is a file"):
        detect(Disk(), str(path))


def test_a_directory_of_something_else_is_not_a_log_and_stays_as_it_is(tmp_path):
    (tmp_path / "letter.txt").write_text("dear reader")
    with pytest.raises(NotALogError, match="no dialect recognises this directory") as caught:
        detect(Disk(), str(tmp_path))
    assert caught.value.exit_status == 4
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


@pytest.mark.parametrize(
    "name",
    [
        "temporary",
        "temp",
        "data/temporary",
        "sorting",
        "compaction_temp",
        "blob/dir_00",
        "kept",
        "pwal_0000",
        "compaction_catalog",
        "limestone-manifest.json",
        "epoch",
    ],
)
def test_a_directory_with_nothing_but_directories_is_not_a_log(name, tmp_path):
    (tmp_path / name).mkdir(parents=True)
    with pytest.raises(NotALogError):
        detect(Disk(), str(tmp_path))
