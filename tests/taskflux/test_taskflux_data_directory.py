"""Settings that put the data elsewhere: every verb and view follows them, and what was left behind is left alone."""

from __future__ import annotations

import json

import pytest
from tests.golden_cases import snapshot_of

from flintlog import QueueStore
from flintlog.cli.main import main
from flintlog.core.backup import plan_restore, take_backup
from flintlog.core.dialect import EntryQuery, detect
from flintlog.core.log import Log
from flintlog.disk import Disk
from flintlog.errors import NotALogError, SettingsError

DISK = Disk()


@pytest.fixture
def root(tmp_path):
    """A root with data that its settings have abandoned."""
    root = tmp_path / "root"
    with QueueStore(root) as store:
        store.queue().add(b"abandoned")
    (root / "taskflux.settings.json").write_text(json.dumps({"DataDirectory": "../elsewhere"}))
    with QueueStore(root) as store:
        store.queue().add_many([b"one", b"two"])
    return root


def payloads(path):
    log = detect(DISK, str(path))
    return [row["payload"] for batch in Log(log, DISK, str(path)).state() for row in batch.to_pylist()]


def test_every_reading_verb_follows_the_settings(root):
    path = str(root)
    log = detect(DISK, path)
    assert Log(log, DISK, path).root == str(root.parent / "elsewhere" / "data")
    assert payloads(root) == [b"one", b"two"]
    query = EntryQuery()
    splits = Log(log, DISK, path).splits(query)
    rows = [
        row
        for split in splits
        for batch in Log(log, DISK, path).read_split(split, query)
        for row in batch.to_pylist()
    ]
    assert [row["payload"] for row in rows] == [b"one", b"two"]
    assert Log(log, DISK, path).inspect().last == (1,)
    assert Log(log, DISK, path).picture().path == str(root.parent / "elsewhere" / "data")


@pytest.mark.parametrize("verb", ["snapshot", "compact", "repair --apply"])
def test_a_writing_verb_writes_where_the_store_does(root, verb):
    left = snapshot_of(root)
    name, *options = verb.split()
    assert main([name, str(root), *options]) == 0
    assert snapshot_of(root) == left
    assert payloads(root) == [b"one", b"two"]


def test_a_backup_holds_what_the_store_holds_and_is_restored_as_a_root(root, tmp_path):
    taken = take_backup(DISK, str(root), str(tmp_path / "place"))
    new = tmp_path / "inner" / "new"
    plan_restore(DISK, taken.path, str(new)).apply()
    assert sorted(path.name for path in (tmp_path / "inner").iterdir()) == ["new"]
    assert payloads(new) == [b"one", b"two"]
    with QueueStore(new) as store:
        assert [record.payload for record in store.queue().records()] == [b"one", b"two"]


def test_data_that_is_not_where_the_settings_say_is_no_log(root):
    (root / "taskflux.settings.json").write_text(json.dumps({"DataDirectory": "nowhere"}))
    with pytest.raises(NotALogError):
        detect(DISK, str(root))


def test_settings_that_cannot_be_read_are_named(root, capsys):
    (root / "taskflux.settings.json").write_text("{")
    with pytest.raises(SettingsError):
        payloads(root)
    assert main(["verify", str(root)]) != 0
    assert "taskflux.settings.json: this is not JSON" in capsys.readouterr().err


def test_without_a_directory_the_working_directory_is_meant(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with QueueStore() as store:
        store.queue().add(b"here")
    assert payloads(tmp_path) == [b"here"]
    for words in (
        ["inspect"],
        ["verify"],
        ["state"],
        ["dump", "--limit", "1"],
        ["repair"],
        ["snapshot"],
    ):
        assert main(words) == 0, (words, capsys.readouterr().err)
