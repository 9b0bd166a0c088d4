"""`taskflux.settings.json`: what it may say, and who wins."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flintlog.dialects.taskflux.rules import Limits
from flintlog.dialects.taskflux.settings import Settings, load_settings
from flintlog.dialects.taskflux.store import QueueStore, ReplicaLog
from flintlog.disk import Disk
from flintlog.errors import SettingsError, UsageError


def write(root: Path, content: object) -> Path:
    path = root / "taskflux.settings.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def load(root: Path, **explicit: object) -> Settings:
    return load_settings(Disk(), str(root), **explicit)


def test_no_file_means_defaults(tmp_path):
    assert load(tmp_path) == Settings(Limits(), None)


def test_an_empty_file_means_defaults(tmp_path):
    write(tmp_path, "")
    assert load(tmp_path) == Settings(Limits(), None)


def test_the_known_keys_are_read_in_any_case(tmp_path):
    write(
        tmp_path,
        {
            "LogFileSoftLimit": 1000,
            "logfilehardlimit": 2000,
            "SNAPSHOTCREATIONSEGMENTSTHRESHOLD": 0,
            "DataDirectory": "elsewhere",
        },
    )
    assert load(tmp_path) == Settings(Limits(1000, 2000, 0), f"{tmp_path}/elsewhere")


def test_keys_of_other_parts_of_the_original_are_left_alone(tmp_path):
    write(tmp_path, {"ClusterPeers": "a b", "HttpEnabled": "?", "LogFileSoftLimit": 7, "": None})
    assert load(tmp_path).limits == Limits(soft=7)


def test_explicit_arguments_win_over_the_file_one_by_one(tmp_path):
    write(tmp_path, {"LogFileSoftLimit": 1000, "LogFileHardLimit": 2000, "DataDirectory": "elsewhere"})
    found = load(tmp_path, soft_limit=1, snapshot_threshold=9, data_directory="here")
    assert found == Settings(Limits(1, 2000, 9), f"{tmp_path}/here")


def test_zero_is_an_argument_too(tmp_path):
    write(tmp_path, {"LogFileSoftLimit": 1000, "SnapshotCreationSegmentsThreshold": 3})
    assert load(tmp_path, soft_limit=0, snapshot_threshold=0).limits == Limits(soft=0, threshold=0)


@pytest.mark.parametrize("value", ["1000", 1000.0, 1.5, True, False, None, [1], {}])
@pytest.mark.parametrize("key", ["LogFileSoftLimit", "LogFileHardLimit", "SnapshotCreationSegmentsThreshold"])
def test_a_limit_of_the_wrong_type_is_refused_and_named(key, value, tmp_path):
    path = write(tmp_path, {key: value})
    with pytest.raises(SettingsError, match=key) as caught:
        load(tmp_path)
    assert caught.value.file == str(path)


@pytest.mark.parametrize("value", ["", 5, None, ["x"]])
def test_a_data_directory_that_is_no_path_is_refused(value, tmp_path):
    write(tmp_path, {"DataDirectory": value})
    with pytest.raises(SettingsError, match="DataDirectory"):
        load(tmp_path)


@pytest.mark.parametrize("content", ["{", "[]", "7", '"x"', "null", "{'a': 1}", "\x00\x00", "{} {}"])
def test_what_is_no_json_object_is_refused(content, tmp_path):
    path = write(tmp_path, content)
    with pytest.raises(SettingsError) as caught:
        load(tmp_path)
    assert caught.value.file == str(path)


def test_bytes_that_are_no_text_are_refused(tmp_path):
    (tmp_path / "taskflux.settings.json").write_bytes(b'{"LogFileSoftLimit": "\xff\xfe\xfa"}')
    with pytest.raises(SettingsError):
        load(tmp_path)


def test_deeply_nested_json_is_refused_and_does_not_crash(tmp_path):
    write(tmp_path, "[" * 100_000)
    with pytest.raises(SettingsError):
        load(tmp_path)


def test_a_hard_limit_below_the_soft_limit_is_refused(tmp_path):
    write(tmp_path, {"LogFileSoftLimit": 2000, "LogFileHardLimit": 1999})
    with pytest.raises(SettingsError, match=r"1999.*2000"):
        load(tmp_path)
    assert load(tmp_path, hard_limit=2000).limits == Limits(2000, 2000)
    with pytest.raises(SettingsError):
        load(tmp_path, soft_limit=1, hard_limit=0)


@pytest.mark.parametrize("name", ["soft_limit", "snapshot_threshold"])
def test_negative_numbers_are_refused(name, tmp_path):
    with pytest.raises(SettingsError, match="negative"):
        load(tmp_path, **{name: -1})


def test_a_store_obeys_the_file_in_its_root(tmp_path):
    write(
        tmp_path,
        {"LogFileSoftLimit": 60, "LogFileHardLimit": 60, "DataDirectory": "state", "ClusterNodeId": "x"},
    )
    with QueueStore(tmp_path) as store:
        store.queue().add_many([b"x" * 60] * 3)
    assert len(list((tmp_path / "state" / "data" / "log").iterdir())) == 3
    assert not (tmp_path / "data").exists()
    with ReplicaLog(tmp_path) as log:
        assert log.last_lsn == 2


def test_a_store_with_wrong_settings_makes_nothing(tmp_path):
    write(tmp_path, {"LogFileSoftLimit": "many"})
    with pytest.raises(SettingsError):
        QueueStore(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["taskflux.settings.json"]


def test_settings_stand_beside_a_data_directory_that_is_named_itself(tmp_path):
    with QueueStore(tmp_path):
        pass
    write(tmp_path, {"LogFileSoftLimit": 60, "LogFileHardLimit": 60})
    with QueueStore(tmp_path / "data") as store:
        store.queue().add_many([b"x" * 60] * 3)
    assert len(list((tmp_path / "data" / "log").iterdir())) == 3


def test_an_absolute_data_directory_is_taken_as_it_is(tmp_path):
    root, state = tmp_path / "root", tmp_path / "state"
    root.mkdir()
    write(root, {"DataDirectory": str(state)})
    with QueueStore(root) as store:
        store.queue().add(b"x")
    assert (state / "data" / "tflux.metadata").is_file()
    assert [path.name for path in root.iterdir()] == ["taskflux.settings.json"]


@pytest.mark.parametrize("store", [QueueStore, ReplicaLog])
@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("soft_limt", "soft_limit"),
        ("hardlimit", "hard_limit"),
        ("snapshot_treshold", "snapshot_threshold"),
        ("data_dir", "data_directory"),
        ("preallocated", "preallocate"),
        ("editon", "edition"),
    ],
)
def test_an_argument_that_does_not_exist_is_refused_with_the_nearest_and_makes_nothing(
    store, wrong, meant, tmp_path
):
    with pytest.raises(UsageError) as told:
        store(tmp_path / "log", **{wrong: 5})
    assert f"there is no argument {wrong!r}. Did you mean {meant}? Known: data_directory" in str(told.value)
    assert not (tmp_path / "log").exists()


def test_an_argument_that_resembles_none_is_refused_with_all_there_are(tmp_path):
    with pytest.raises(UsageError) as told:
        QueueStore(tmp_path, colour="blue")
    assert "Did you mean" not in str(told.value)
    for name in ("soft_limit", "snapshot_in_background", "reserve_bytes", "disk"):
        assert name in str(told.value)


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("LogFileSoftLimt", "LogFileSoftLimit"),
        ("logfile_hard_limit", "LogFileHardLimit"),
        ("SnapshotCreationSegmentThreshold", "SnapshotCreationSegmentsThreshold"),
        ("DataDirectroy", "DataDirectory"),
    ],
)
def test_a_key_that_looks_like_a_known_one_is_warned_of(key, meant, tmp_path, caplog):
    (tmp_path / "taskflux.settings.json").write_text(json.dumps({key: 5}))
    assert load_settings(Disk(), str(tmp_path)) == Settings()
    (record,) = caplog.records
    assert (record.levelname, record.name) == ("WARNING", "flintlog.taskflux")
    assert repr(key) in record.getMessage() and f"is {meant} meant?" in record.getMessage()


def test_keys_of_others_are_left_alone_without_a_word(tmp_path, caplog):
    (tmp_path / "taskflux.settings.json").write_text(json.dumps({"NodeId": 1, "Peers": [], "x" * 100_000: 2}))
    assert load_settings(Disk(), str(tmp_path)) == Settings()
    assert caplog.records == []
