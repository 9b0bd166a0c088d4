"""How a directory finds its dialect."""

from __future__ import annotations

import pytest
from tests.every_directory import every_directory

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


# Names that other programs use too: a file under one of them is evidence by its bytes alone.
COMMON = [
    "data",
    "epoch",
    "exhausted.sessions",
    "kept",
    "lock",
    "log",
    "operations.log",
    "snap",
    "snapshot",
    "state.log",
    "state.snapshot",
    "taskflux.settings.json",
    "temp",
    "temporary",
]
# Names that one dialect alone has: such a file is a log, and what is wrong with its bytes is damage.
OWN = {
    "taskflux": ["tflux.metadata", "data/tflux.snapshot", "data/log/0000000000000000000.log"],
    "zmqraft": ["raft.pers", "state.pers", "log/00000/00/00/00000000000001.rlog"],
    "mpy6a": ["60@0000000001.data"],
    "limestone": ["limestone-manifest.json", "compaction_catalog", "pwal_0000", "pwal_0000.compacted"],
}
INSIDE = ["data/log", "data/temporary", "data/temp", "sorting", "compaction_temp", "blob/dir_00", "ctrl"]


def spoken_by(path) -> list[str]:
    """The dialects that take a directory for theirs."""
    return [name for name in dialect_names() if dialect(name).recognise(Disk(), str(path))]


@pytest.mark.parametrize("name", [*COMMON, *INSIDE, *(name for names in OWN.values() for name in names)])
def test_a_directory_with_nothing_but_directories_is_not_a_log(name, tmp_path):
    (tmp_path / name).mkdir(parents=True)
    assert spoken_by(tmp_path) == []
    with pytest.raises(NotALogError):
        detect(Disk(), str(tmp_path))


@pytest.mark.parametrize(
    "content", [b"", b"dear reader\n", bytes(4096), b"\xff" * 4096], ids=["empty", "text", "zeros", "ones"]
)
@pytest.mark.parametrize("name", COMMON)
def test_a_common_name_with_other_bytes_is_not_a_log(name, content, tmp_path):
    (tmp_path / name).write_bytes(content)
    assert spoken_by(tmp_path) == []
    with pytest.raises(NotALogError):
        detect(Disk(), str(tmp_path))


def test_a_home_full_of_odd_things_is_not_a_log(tmp_path):
    for number, name in enumerate(
        [*COMMON, "snap/bin", "a\nb", "\udcff", "x" * 255, ".hidden", "0.log", "1.rlog", "1.data"]
    ):
        path = tmp_path / ("snap.d/bin" if name == "snap/bin" else name)
        path.parent.mkdir(exist_ok=True)
        if number % 2:
            path.mkdir()
        else:
            path.write_text("dear reader")
    (tmp_path / "dangling").symlink_to("nowhere")
    assert spoken_by(tmp_path) == []


@pytest.mark.parametrize(("owner", "name"), [(owner, name) for owner, names in OWN.items() for name in names])
def test_a_name_of_one_dialect_alone_is_a_log_of_it_whatever_its_bytes(owner, name, tmp_path):
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("dear reader")
    assert spoken_by(tmp_path) == [owner]


def test_every_golden_directory_is_recognised_by_its_own_dialect_and_no_other(tmp_path):
    found = every_directory(tmp_path)
    assert len(found) > 40
    assert {name: spoken_by(path) for name, path in found.items()} == {
        name: [name.split("/")[0]] for name in found
    }
