"""Backups of a live directory, chains of them, and the way back: whole, at an epoch, or from plain files."""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path

import pytest
from tests.limestone.directories import Directory, session

from flintlog.core.backup import BACKUP_FILE, take_backup
from flintlog.core.log import Log
from flintlog.dialects.limestone import epochs, survey
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone.dialect import DIALECT
from flintlog.dialects.limestone.layout import Manifest
from flintlog.dialects.limestone.store import Datastore, back_up, backup, restore, restore_files
from flintlog.disk import Disk
from flintlog.errors import DamageError, FlintlogError, RefusedError, UnsupportedError, UsageError


@pytest.fixture(params=["designed", "shipped"])
def edition(request):
    return request.param


@pytest.fixture
def store(tmp_path, edition):
    with Datastore(tmp_path / "log", edition=edition) as store:
        yield store


def put(store, *keys: str, value: bytes = b"v", switch: bool = True) -> None:
    with store.channel().session() as session:
        for key in keys:
            session.put(1, key.encode(), value)
    if switch:
        store.switch_epoch()


def keys_of(path) -> set[str]:
    with Datastore(path) as store:
        return {entry.key.decode() for entry in store.snapshot.scan()}


def contents(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def test_a_restored_directory_is_what_the_backup_says(store, tmp_path):
    put(store, "a", "b")
    store.compact()
    put(store, "c")
    done = back_up(store, tmp_path / "backup")
    put(store, "later")
    assert (done.edition, done.last, done.version) == (store.edition, (2,), lay.VERSION_OF[store.edition])
    assert restore(tmp_path / "backup", tmp_path / "new") == done
    assert Log(DIALECT, Disk(), str(tmp_path / "new")).verify().verdict == "clean"
    assert keys_of(tmp_path / "new") == {"a", "b", "c"}
    with Datastore(tmp_path / "new") as again:
        assert again.epoch > done.last[0]
        put(again, "more")
    assert keys_of(tmp_path / "new") == {"a", "b", "c", "more"}


def test_what_was_not_durable_at_the_backup_does_not_come_to_life(store, tmp_path):
    """Sessions that ended and one that is open, in logs that the backup copies; their epochs come again later."""
    channel = store.channel()
    store.flush_bytes = 16
    put(store, "a")
    put(store, "ended", switch=False)
    with channel.session() as session:
        session.put(1, b"open", b"x" * 50)
        back_up(store, tmp_path / "backup")
    store.switch_epoch()
    restore(tmp_path / "backup", tmp_path / "new")
    with Datastore(tmp_path / "new") as new:
        assert [entry.key for entry in new.snapshot.scan()] == [b"a"]
        for _ in range(5):
            put(new, "b")
    assert keys_of(tmp_path / "new") == {"a", "b"}


def test_the_epoch_is_that_of_the_files_and_not_of_a_moment_later(store, tmp_path, monkeypatch):
    """An epoch becomes durable before files are copied; its session is in a log that is not."""
    put(store, "a")
    real = backup._names

    def names(disk, path):
        put(store, "meanwhile")
        return real(disk, path)

    monkeypatch.setattr(backup, "_names", names)
    assert back_up(store, tmp_path / "backup").last == (1,)
    assert store.durable_epoch == 2
    restore(tmp_path / "backup", tmp_path / "new")
    assert keys_of(tmp_path / "new") == {"a"}


def test_an_epoch_file_that_is_rotated_while_it_is_read_is_read_again(store, tmp_path, monkeypatch):
    """Between its listing and its reading the name `epoch` becomes that of an empty file."""
    put(store, "a")
    real = epochs.read_durable
    rotated = []

    def read_durable(found, listing):
        if not rotated:
            rotated.append(store.rotate())
        real(found, listing)

    monkeypatch.setattr(epochs, "read_durable", read_durable)
    assert survey.survey(Disk(), str(tmp_path / "log")).durable == 1
    assert rotated


def test_a_log_that_is_rotated_while_it_is_read_is_not_taken_for_an_empty_one(store, tmp_path, monkeypatch):
    """The name of the log is that of a new one when it is read, in which nothing is durable."""
    channel = store.channel()
    real = survey._walk_all
    rotated = []

    def put_again(key):
        with channel.session() as session:
            session.put(1, key, b"v")
        store.switch_epoch()

    def walk_all(*arguments):
        if not rotated:
            rotated.append(store.rotate())
            put_again(b"later")
        real(*arguments)

    put_again(b"a")

    monkeypatch.setattr(survey, "_walk_all", walk_all)
    take_backup(Disk(), str(tmp_path / "log"), str(tmp_path / "place"))
    assert rotated
    restore(tmp_path / "place" / "0001", tmp_path / "new")
    assert "a" in keys_of(tmp_path / "new")


def test_a_compaction_waits_for_the_copy_and_channels_do_not(store, tmp_path):
    put(store, "a")
    done = []
    with store.held():
        there = set(contents(tmp_path / "log"))
        thread = threading.Thread(target=lambda: done.append(store.compact()))
        thread.start()
        put(store, "b")
        assert there <= set(contents(tmp_path / "log"))
        assert not done
    thread.join()
    assert done[0] is not None


def test_a_chain_copies_what_is_new_and_needs_what_is_not(store, tmp_path):
    put(store, "a", value=b"x" * 10_000)
    full = back_up(store, tmp_path / "full")
    put(store, "b")
    second = back_up(store, tmp_path / "second", since=[tmp_path / "full"])
    put(store, "c")
    third = back_up(store, tmp_path / "third", since=[tmp_path / "full", tmp_path / "second"])
    assert full.copied_bytes > 10_000 > second.copied_bytes
    assert [item.held_by for item in third.files].count("second") >= 1
    with pytest.raises(RefusedError, match="in the backup second") as caught:
        restore(tmp_path / "third", tmp_path / "new", chain=[tmp_path / "full"])
    assert "chain" in str(caught.value)
    assert not (tmp_path / "new").exists() and not (tmp_path / "new.new").exists()
    (tmp_path / "second").rename(tmp_path / "moved")  # a name is a hint only, the content counts
    restore(tmp_path / "third", tmp_path / "new", chain=[tmp_path / "full", tmp_path / "moved"])
    assert keys_of(tmp_path / "new") == {"a", "b", "c"}


def test_a_file_that_changed_without_growing_is_copied_again(tmp_path, edition):
    """A session that was never durable is in the first backup; then it is marked, byte for byte as long."""
    path = tmp_path / "log"
    with Datastore(path, edition=edition, flush_bytes=16) as store:
        put(store, "a")
        channel = store.channel()
        with pytest.raises(KeyError), channel.session() as session:
            session.put(1, b"given up", b"x" * 50)
            back_up(store, tmp_path / "full")
            raise KeyError
        put(store, "b")
        back_up(store, tmp_path / "second", since=[tmp_path / "full"])
    restore(tmp_path / "second", tmp_path / "new", chain=[tmp_path / "full"])
    assert keys_of(tmp_path / "new") == {"a", "b"}


def test_blobs_go_with_their_entries_and_a_number_that_came_again_is_not_mixed_up(tmp_path):
    path = tmp_path / "log"
    with Datastore(path, edition="shipped") as store:
        put(store, "a")
        store.blobs.add(b"never named")
        back_up(store, tmp_path / "full")
    with Datastore(path) as store:
        number = store.blobs.add(b"named now!!")
        with store.channel().session() as session:
            session.put(1, b"blob", b"", blobs=[number])
        store.switch_epoch()
        back_up(store, tmp_path / "second", since=[tmp_path / "full"])
    restore(tmp_path / "second", tmp_path / "new", chain=[tmp_path / "full"])
    with Datastore(tmp_path / "new") as store:
        assert store.blobs.read(number) == b"named now!!"
    assert Log(DIALECT, Disk(), str(tmp_path / "new")).verify().verdict == "clean"


@pytest.mark.parametrize("epoch", [0, 1, 2, 3])
def test_restore_to_an_epoch(store, tmp_path, epoch):
    for key in ("a", "b", "c"):
        put(store, key)
    back_up(store, tmp_path / "backup")
    restore(tmp_path / "backup", tmp_path / "new", epoch=epoch)
    assert keys_of(tmp_path / "new") == {"a", "b", "c"} - set("abc"[epoch:])
    with Datastore(tmp_path / "new") as new:
        for _ in range(3):
            put(new, "d")  # what was left behind does not come to life with its epoch
    assert keys_of(tmp_path / "new") == {"d", *"abc"[:epoch]}


def test_an_epoch_that_is_not_there_is_refused(store, tmp_path):
    put(store, "a")
    put(store, "b")
    store.compact()
    back_up(store, tmp_path / "backup")
    for epoch, error in ((1, RefusedError), (3, RefusedError), (-1, UsageError), ("2", UsageError)):
        with pytest.raises(error):
            restore(tmp_path / "backup", tmp_path / "new", epoch=epoch)
    assert [path.name for path in tmp_path.glob("new*")] == []


@pytest.mark.parametrize("what", ["directory", "file", "unfinished"])
def test_only_an_empty_place_is_taken(store, tmp_path, what):
    put(store, "a")
    back_up(store, tmp_path / "backup")
    if what == "directory":
        (tmp_path / "new").mkdir()
        (tmp_path / "new" / "letter.txt").write_text("mine")
    elif what == "file":
        (tmp_path / "new").write_text("mine")
    else:
        (tmp_path / "new.new").mkdir()
    before = contents(tmp_path)
    for call in (
        lambda: restore(tmp_path / "backup", tmp_path / "new"),
        lambda: restore_files(tmp_path / "log", tmp_path / "new"),
        lambda: back_up(store, tmp_path / "new"),
    ):
        with pytest.raises(RefusedError) as caught:
            call()
        assert str(tmp_path / "new") in str(caught.value)
    assert contents(tmp_path) == before


def test_an_empty_directory_is_as_good_as_none(store, tmp_path):
    put(store, "a")
    for name in ("backup", "new"):
        (tmp_path / name).mkdir()
    back_up(store, tmp_path / "backup")
    restore(tmp_path / "backup", tmp_path / "new")
    assert keys_of(tmp_path / "new") == {"a"}


def test_any_damage_of_a_backup_is_refused_before_anything_is_written(store, tmp_path):
    put(store, "a")
    store.compact()
    put(store, "b")
    back_up(store, tmp_path / "backup")
    for file in sorted(file for file in (tmp_path / "backup").rglob("*") if file.is_file()):
        raw = file.read_bytes()
        for spoiled in (raw[:-1], raw + b"\0", bytes([raw[0] ^ 1]) + raw[1:], None):
            if spoiled == raw[:-1] == b"" or (spoiled is None and file.name == BACKUP_FILE):
                continue
            file.unlink() if spoiled is None else file.write_bytes(spoiled)
            with pytest.raises(DamageError):
                restore(tmp_path / "backup", tmp_path / "new")
            assert [path.name for path in tmp_path.glob("new*")] == []
            file.write_bytes(raw)
    restore(tmp_path / "backup", tmp_path / "new")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda items: items[0].update(name="../pwal_0000"),
        lambda items: items[0].update(name="/etc/passwd"),
        lambda items: items[0].update(name="blob/dir_01/../../../pwal_0000"),
        lambda items: items[0].update(name="data"),
        lambda items: items[0].update(name="pwal_0000\0"),
        lambda items: items[0].update(name=7),
        lambda items: items[0].update(size="many"),
        lambda items: items[0].update(more=1),
        lambda items: items.append(None),
    ],
)
def test_a_list_from_outside_is_not_trusted(tmp_path, spoil):
    with Datastore(tmp_path / "log") as store:
        put(store, "a")
        back_up(store, tmp_path / "backup")
        place = tmp_path / "backup" / BACKUP_FILE
        content = json.loads(place.read_text())
        spoil(content["files"])
        place.write_text(json.dumps(content))
        for call in (
            lambda: restore(tmp_path / "backup", tmp_path / "new"),
            lambda: back_up(store, tmp_path / "other", since=[tmp_path / "backup"]),
        ):
            with pytest.raises(DamageError) as caught:
                call()
            assert (caught.value.code, caught.value.file) == ("backup-list", str(place))


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"\xff", b"[" * 100_000, b'{"format": 2}'])
def test_what_is_no_list_is_refused(tmp_path, raw):
    (tmp_path / "backup").mkdir()
    (tmp_path / "backup" / BACKUP_FILE).write_bytes(raw)
    with pytest.raises(DamageError):
        restore(tmp_path / "backup", tmp_path / "new")
    with pytest.raises(RefusedError):
        restore(tmp_path / "nowhere", tmp_path / "new")


def test_a_backup_is_no_store(store, tmp_path):
    """Opened for writing it would be another; a later one of a chain would even lack most of its logs."""
    put(store, "a")
    back_up(store, tmp_path / "backup")
    before = contents(tmp_path / "backup")
    with pytest.raises(RefusedError, match="this is a backup"):
        Datastore(tmp_path / "backup")
    assert contents(tmp_path / "backup") == before


# Chains over an upgrade and over editions


@pytest.mark.parametrize(("edition", "version"), [("designed", 1), ("shipped", 6), ("shipped", 5)])
def test_a_chain_may_cross_an_upgrade_of_the_format(tmp_path, edition, version):
    """The full backup is of the old version, as a release that wrote it would have left it."""
    old = Directory(tmp_path / "log", edition).start(1).log(session(1, "a", "b"))
    manifest = Manifest(1) if version == 1 else Manifest(version, "1.1", "u")
    old.write(lay.MANIFEST_FILE, manifest.encode())
    _list_by_hand(tmp_path / "log", tmp_path / "full", edition, version)
    with Datastore(tmp_path / "log") as store:
        put(store, "c")
        done = back_up(store, tmp_path / "second", since=[tmp_path / "full"])
    assert done.version == lay.VERSION_OF[edition]
    restore(tmp_path / "second", tmp_path / "new", chain=[tmp_path / "full"])
    assert keys_of(tmp_path / "new") == {"a", "b", "c"}
    restore(
        tmp_path / "full", tmp_path / "older"
    )  # alone it is what it was, and is upgraded when it is opened
    assert lay.decode_manifest((tmp_path / "older" / lay.MANIFEST_FILE).read_bytes()).version == version
    assert keys_of(tmp_path / "older") == {"a", "b"}


def _list_by_hand(log: Path, target: Path, edition: str, version: int) -> None:
    import hashlib

    shutil.copytree(log, target)
    (target / "pwal_0000").rename(target / "pwal_0000.01700000000000.0")
    items = [
        {"name": name, "size": len(raw), "sha256": hashlib.sha256(raw).hexdigest(), "held_by": None}
        for name, raw in contents(target).items()
    ]
    content = {"format": 1, "dialect": "limestone", "edition": edition, "version": version}
    content |= {"created": "2024-01-01T00:00:00+00:00", "source": str(log), "first": 0, "last": 1}
    (target / BACKUP_FILE).write_text(json.dumps({**content, "files": items}))


def test_a_chain_does_not_cross_editions(tmp_path):
    for edition in ("designed", "shipped"):
        with Datastore(tmp_path / edition, edition=edition) as store:
            put(store, "a")
            back_up(store, tmp_path / f"{edition}-full")
    with Datastore(tmp_path / "shipped") as store:
        there = contents(tmp_path)
        with pytest.raises(RefusedError, match="designed edition"):
            back_up(store, tmp_path / "next", since=[tmp_path / "designed-full"])
        with pytest.raises(RefusedError, match="designed edition"):
            restore(tmp_path / "shipped-full", tmp_path / "new", chain=[tmp_path / "designed-full"])
        assert contents(tmp_path) == there


# Plain files


def test_plain_copies_make_a_directory(store, tmp_path):
    """All files of a place, with blobs that lie flat as the original copies them; what is foreign stays behind."""
    put(store, "a")
    if store.edition == "shipped":
        number = store.blobs.add(b"large")
        with store.channel().session() as session:
            session.put(1, b"blob", b"", blobs=[number])
        store.switch_epoch()
    store.close()
    flat = tmp_path / "flat"
    flat.mkdir()
    for name, raw in contents(tmp_path / "log").items():
        if not name.startswith("data/"):
            (flat / Path(name).name).write_bytes(raw)
    (flat / "letter.txt").write_text("mine")
    restore_files(flat, tmp_path / "new")
    assert not (tmp_path / "new" / "letter.txt").exists()
    assert Log(DIALECT, Disk(), str(tmp_path / "new")).verify().verdict == "clean"
    assert "a" in keys_of(tmp_path / "new")


def test_entries_say_where_files_come_from_and_what_they_become(store, tmp_path):
    put(store, "a")
    store.close()
    log = tmp_path / "log"
    (log / "pwal_0000").rename(log / "copy-1")
    entries = {name: name for name in (lay.MANIFEST_FILE, lay.EPOCH_FILE, lay.CATALOG_FILE)}
    restore_files(log, tmp_path / "new", {**entries, "copy-1": "pwal_0000.01700000000000.0"})
    assert keys_of(tmp_path / "new") == {"a"}


@pytest.mark.parametrize(
    ("entries", "error"),
    [
        ({"epoch": "epoch"}, RefusedError),
        ({"limestone-manifest.json": "limestone-manifest.json", "gone": "pwal_0000"}, RefusedError),
        ({"limestone-manifest.json": "limestone-manifest.json", "epoch": "../epoch"}, RefusedError),
        ({"limestone-manifest.json": "limestone-manifest.json", "epoch": "letter.txt"}, RefusedError),
        ({"limestone-manifest.json": "limestone-manifest.json", "../log/epoch": "epoch"}, None),
        ({"limestone-manifest.json": "limestone-manifest.json", "../other": "epoch"}, UsageError),
        ({"limestone-manifest.json": "epoch", "epoch": "epoch"}, UsageError),
    ],
)
def test_entries_that_cannot_be_are_refused(entries, error, tmp_path):
    with Datastore(tmp_path / "log") as store:
        put(store, "a")
    if error is None:
        restore_files(tmp_path / "log", tmp_path / "new", entries)
        return
    with pytest.raises(error):
        restore_files(tmp_path / "log", tmp_path / "new", entries)
    assert [path.name for path in tmp_path.glob("new*")] == []


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (lambda root: root.joinpath(lay.MANIFEST_FILE).write_bytes(Manifest(8).encode()), UnsupportedError),
        (lambda root: root.joinpath(lay.MANIFEST_FILE).write_bytes(b"{"), DamageError),
        (
            lambda root: root.joinpath("pwal_0000").write_bytes(b"\x7f" * 40 + session(1, "a").encode()),
            DamageError,
        ),
        (lambda root: root.joinpath(BACKUP_FILE).write_bytes(b"{}"), RefusedError),
    ],
)
def test_plain_files_that_would_not_open_are_not_restored(spoil, error, tmp_path):
    with Datastore(tmp_path / "log", edition="shipped") as store:
        put(store, "a")
    spoil(tmp_path / "log")
    with pytest.raises(error) as caught:
        restore_files(tmp_path / "log", tmp_path / "new")
    assert isinstance(caught.value, FlintlogError)
    assert not (tmp_path / "new").exists()
