"""What is no regular file, what leads out of the directory, and whose a file is."""

from __future__ import annotations

import os
import signal
import stat
from pathlib import Path

import pytest
from tests.every_directory import every_directory
from tests.small_logs import keys, peer, queues, sessions

from flintlog import Datastore, QueueStore, RaftStore, SessionStore
from flintlog.core.backup import restore_backup, take_backup
from flintlog.core.dialect import detect
from flintlog.core.log import Log, open_log
from flintlog.disk import Disk
from flintlog.errors import DiskError, FlintlogError, RefusedError

SOMEONE = 65534 if os.geteuid() == 0 else os.geteuid()  # only root can give files away


STORES = {queues: QueueStore, peer: RaftStore, sessions: SessionStore, keys: Datastore}
LOGS = list(STORES)


def files_of(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file())


@pytest.fixture
def umask():
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


# Pipes, directories and links to nothing


def verify(log, root: str) -> None:
    if Log(log, Disk(), root).verify().exit_status:
        raise RefusedError("it is not whole")


def state(log, root: str) -> None:
    list(Log(log, Disk(), root).state())


def repair(log, root: str) -> None:
    plan = Log(log, Disk(), root).plan_repair()
    if plan.refusal or plan.findings:
        raise RefusedError("it is not whole")


def outcome(act, root: str) -> str:
    try:
        act(detect(Disk(), root), root)
    except FlintlogError as error:
        return error.code
    return "read"


ODD = {
    "pipe": os.mkfifo,
    "directory": os.mkdir,
    "link to nothing": lambda path: path.symlink_to("/nowhere/at/all"),
}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("make", LOGS, ids=lambda make: make.__name__)
def test_what_is_no_file_in_the_place_of_any_file_is_refused_and_hangs_nothing(make, odd, tmp_path):
    signal.alarm(120)  # a hang ends the test run
    make(tmp_path / "log")
    for number, path in enumerate(files_of(tmp_path / "log")):
        root = tmp_path / str(number)
        make(root)
        spoiled = root / path.relative_to(tmp_path / "log")
        spoiled.unlink()
        ODD[odd](spoiled)
        kind = stat.S_IFMT(spoiled.lstat().st_mode)
        before = {path: path.read_bytes() for path in files_of(root)}
        told = [outcome(act, str(root)) for act in (verify, state, repair)]
        assert "read" not in told, (spoiled, told)
        with pytest.raises(RefusedError, match="has the name of a file of the log"):
            STORES[make](root)
        assert stat.S_IFMT(spoiled.lstat().st_mode) == kind
        assert {path: path.read_bytes() for path in files_of(root)} == before
    signal.alarm(0)


def test_a_device_is_refused():
    with pytest.raises(RefusedError, match="no regular file"):
        Disk().open("/dev/zero")


# Links


def test_nothing_is_written_through_a_link(tmp_path):
    outside = tmp_path / "outside"
    outside.write_bytes(b"precious")
    (tmp_path / "link").symlink_to(outside)
    for mode in ("write", "create"):
        with pytest.raises(DiskError, match="symbolic link"):
            Disk().open(str(tmp_path / "link"), mode)
    assert outside.read_bytes() == b"precious"


def test_a_directory_is_removed_without_what_its_links_lead_to(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_bytes(b"")
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "link").symlink_to(outside)
    Disk().remove_directory(str(tmp_path / "log"))
    assert (outside / "precious").exists()
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize("make", LOGS, ids=lambda make: make.__name__)
def test_taking_a_repair_back_follows_no_link(make, tmp_path):
    root, outside = tmp_path / "log", tmp_path / "outside"
    make(root)
    newest = max(files_of(root), key=lambda path: path.stat().st_size)
    newest.write_bytes(newest.read_bytes() + b"rubbish" * 100)
    log = detect(Disk(), str(root))
    plan = Log(log, Disk(), str(root)).plan_repair()
    if not plan.steps:
        newest.write_bytes(newest.read_bytes()[:-710])
        plan = Log(log, Disk(), str(root)).plan_repair()
    if plan.steps:
        plan.apply()
    outside.mkdir()
    (outside / "precious").write_bytes(b"do not touch")
    data = root / "data" if (root / "data" / "tflux.metadata").exists() else root
    (data / "linked").symlink_to(outside)
    with pytest.raises(FlintlogError):
        undo = Log(log, Disk(), str(root)).plan_undo(force=True)
        if undo.refusal:
            raise RefusedError(undo.refusal)
        undo.apply()
    assert (outside / "precious").read_bytes() == b"do not touch"


# Owner and mode


def modes(root: Path) -> set[int]:
    return {stat.S_IMODE(path.stat().st_mode) for path in files_of(root)}


@pytest.mark.parametrize("make", LOGS, ids=lambda make: make.__name__)
def test_a_log_of_its_owner_alone_stays_so_in_kept_in_backups_and_when_it_is_restored(make, tmp_path, umask):
    root, place, back = (tmp_path / name for name in ("log", "place", "back"))
    umask(0o077)
    make(root)
    umask(0o022)
    assert modes(root) == {0o600}
    take_backup(Disk(), str(root), str(place))
    restore_backup(Disk(), str(place / "0001"), str(back))
    copied = [path for path in files_of(place) + files_of(back) if path.name != "flintlog-backup.json"]
    made = {path.name for path in copied if stat.S_IMODE(path.stat().st_mode) != 0o600}
    assert made <= {"tflux.metadata"} or not made, made
    newest = max(files_of(root), key=lambda path: path.stat().st_size)
    newest.write_bytes(newest.read_bytes()[:-3])
    plan = open_log(str(root)).plan_repair()
    if plan.steps:
        plan.apply()
        kept = [path for path in files_of(root) if path.name != "flintlog-repair.json"]
        assert {stat.S_IMODE(path.stat().st_mode) for path in kept} == {0o600}


TORN = ("taskflux/damaged-torn-last-record-eof", "mpy6a/s3_torn_tails/data_torn_mid")


@pytest.mark.parametrize("name", TORN)
def test_what_opening_cuts_of_a_log_of_its_owner_alone_stays_so(name, tmp_path):
    """Also in a directory that others may look into."""
    dialect = name.partition("/")[0]
    root = Path(every_directory(tmp_path, dialect)[name])
    for path in files_of(root):
        path.chmod(0o600)
    if dialect == "taskflux":
        QueueStore(root).close()
    else:
        SessionStore(root, strict=True).close()
    kept = [path for path in files_of(root) if "opened" in path.parts]
    assert {stat.S_IMODE(path.stat().st_mode) for path in kept} == {0o600}


@pytest.mark.parametrize("make", LOGS, ids=lambda make: make.__name__)
def test_what_root_repairs_in_a_users_log_is_the_users(make, tmp_path):
    root = tmp_path / "log"
    make(root)
    newest = max(files_of(root), key=lambda path: path.stat().st_size)
    newest.write_bytes(newest.read_bytes()[:-3])
    for path in [root, *root.rglob("*")]:
        os.chown(path, SOMEONE, -1)
    plan = open_log(str(root)).plan_repair()
    if plan.steps:
        plan.apply()
    assert {path.stat().st_uid for path in [root, *root.rglob("*")]} == {SOMEONE}


@pytest.mark.parametrize("make", [queues, sessions, keys], ids=lambda make: make.__name__)
def test_what_is_kept_is_not_written_through_a_link(make, tmp_path):
    root, outside = tmp_path / "log", tmp_path / "outside"
    outside.mkdir()
    make(root)
    log = detect(Disk(), str(root))
    home = Path(Log(log, Disk(), str(root)).root)
    newest = max(files_of(home), key=lambda path: path.stat().st_size)
    newest.write_bytes(newest.read_bytes()[:-3])
    plan = Log(log, Disk(), str(root)).plan_repair()
    assert plan.steps
    (home / "kept").symlink_to(outside)
    with pytest.raises(RefusedError, match="symbolic link"):
        plan.apply()
    assert not list(outside.iterdir())


@pytest.mark.parametrize("make", LOGS, ids=lambda make: make.__name__)
def test_a_store_makes_no_home_in_the_log_of_another_dialect(make, tmp_path):
    make(tmp_path)
    before = files_of(tmp_path)
    for other, store in STORES.items():
        if other is not make:
            with pytest.raises(RefusedError, match="this directory holds a"):
                store(tmp_path)
    assert files_of(tmp_path) == before
    STORES[make](tmp_path).close()
