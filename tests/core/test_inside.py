"""Directories inside a log that are links, or no directories: every verb and store refuses, and changes nothing."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.small_logs import keys, peer, queues, sessions

from flintlog import Datastore, QueueStore, RaftStore, SessionStore
from flintlog.cli.main import main
from flintlog.core.backup import take_backup
from flintlog.core.dialect import GivenState
from flintlog.core.follow import Limits, beginning
from flintlog.core.log import Log, open_log
from flintlog.dialects.limestone.layout import encode_begin
from flintlog.disk import Disk
from flintlog.errors import FlintlogError, NotALogError, RefusedError

pytestmark = pytest.mark.usefixtures("still")


def shipped_queues(root: Path) -> None:
    with QueueStore(root, edition="shipped") as store:
        store.queue().add_many([b"a", b"b"])


def blobs(root: Path) -> None:
    with Datastore(root, edition="shipped") as store:
        number = store.blobs.add(b"large")
        with store.channel().session() as session:
            session.put(1, b"k", b"v", blobs=[number])
        store.switch_epoch()


STORES = {
    queues: QueueStore,
    shipped_queues: QueueStore,
    peer: RaftStore,
    sessions: SessionStore,
    keys: Datastore,
    blobs: Datastore,
}
KEPT = ("kept", "kept/opened")
IN_QUEUES = ("data", *(f"data/{name}" for name in ("log", "temp", "temporary", *KEPT)))
IN_KEYS = ("data", "blob", "blob/dir_01", "compaction_temp", "sorting", "ctrl", *KEPT)
INNER = {
    queues: IN_QUEUES,
    shipped_queues: IN_QUEUES,
    peer: ("log", "log/00000", "log/00000/00", "log/00000/00/00", *KEPT),
    sessions: KEPT,
    keys: IN_KEYS,
    blobs: IN_KEYS,
}
CASES = [
    pytest.param(make, inner, id=f"{make.__name__}-{inner}") for make, some in INNER.items() for inner in some
]


def link(place: Path, outside: Path) -> None:
    place.symlink_to(outside)


def dangling_link(place: Path, outside: Path) -> None:
    place.symlink_to(outside / "not-mounted")


def pipe(place: Path, outside: Path) -> None:
    os.mkfifo(place)


def file(place: Path, outside: Path) -> None:
    place.write_bytes(b"?")


def directory(place: Path, outside: Path) -> None:
    place.mkdir()


def _snapshot(log: Log, _: Path) -> None:
    given = GivenState("state.bin", 1, lambda: iter([b"s"])) if log.dialect == "zmqraft" else None
    log.plan_snapshot(1 if given else None, given).apply()


def _migrate(log: Log, new: Path) -> None:
    if log.dialect == "limestone":
        log.plan_migrate("designed", str(new)).apply()
    log.plan_migrate("shipped", str(new)).apply()


VERBS: dict[str, Callable[[Log, Path], object]] = {
    "inspect": lambda log, _: log.inspect(),
    "verify": lambda log, _: log.verify(),
    "state": lambda log, _: list(log.state()),
    "dump": lambda log, _: list(log.entries()),
    "dump --hex": lambda log, _: list(log.fields()),
    "tail": lambda log, _: log.follower().advance(beginning(), Limits(), "fail"),
    "repair": lambda log, _: log.plan_repair().apply(),
    "snapshot": _snapshot,
    "compact": lambda log, _: log.plan_compact().apply(),
    "backup": lambda log, new: take_backup(log.disk, log.path, str(new)),
}
# These say so too, where they do not refuse for another reason.
UNSURE: dict[str, Callable[[Log, Path], object]] = {
    "migrate": _migrate,
    "upgrade": lambda log, _: log.plan_migrate().apply(),
    "undo": lambda log, _: log.plan_undo(force=True).apply(),
}


@pytest.fixture(autouse=True)
def bounded() -> Iterator[None]:
    """A hang ends the test run."""
    signal.alarm(120)
    yield
    signal.alarm(0)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of each kind."""
    home = tmp_path_factory.mktemp("made")
    for make in STORES:
        make(home / make.__name__)
    return home


# A file that is written, how many bytes of its end did not arrive, and what arrived behind it.
TORN = {
    queues: ("data/log/*.log", 3, b""),
    shipped_queues: ("data/log/*.log", 3, b""),
    peer: ("raft.pers", 0, b"\x81\xab"),
    sessions: ("operations.log", 0, b"\x09\x05\x05"),
    keys: ("pwal_0000", 0, encode_begin(9)[:5]),
    blobs: ("pwal_0000", 0, encode_begin(9)[:5]),
}


@pytest.fixture(scope="module")
def torn(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same logs as a crash may leave them: a store that opens one changes files of it."""
    home = tmp_path_factory.mktemp("torn")
    for make, (name, cut, more) in TORN.items():
        shutil.copytree(made / make.__name__, home / make.__name__)
        (path,) = (home / make.__name__).glob(name)
        content = path.read_bytes()
        path.write_bytes(content[: len(content) - cut] + more)
    return home


def tree(root: Path) -> dict[str, tuple[int, bytes]]:
    """Everything below a directory: what it is, and its bytes; of a link where it leads to."""
    found = {}
    for path in root.rglob("*"):
        content = b""
        if path.is_symlink():
            content = os.fsencode(path.readlink())
        elif path.is_file():
            content = path.read_bytes()
        found[str(path.relative_to(root))] = (path.lstat().st_mode, content)
    return found


def spoil(log: Path, inner: str, kind: Callable[[Path, Path], None], home: Path) -> Path:
    """A log in which something else has the name of an inner directory; the directory itself is outside."""
    root, outside = home / "log", home / "outside"
    shutil.copytree(log, root)
    (root / inner).mkdir(parents=True, exist_ok=True)
    (root / inner).rename(outside)
    (outside / "precious").write_bytes(b"do not touch")
    kind(root / inner, outside)
    return root


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", [link, dangling_link, pipe, file], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize(("make", "inner"), CASES)
def test_what_is_no_directory_of_the_log_is_refused_by_every_verb_and_store(
    make, inner, kind, torn, tmp_path
):
    root = spoil(torn / make.__name__, inner, kind, tmp_path)
    before = tree(tmp_path)
    with pytest.raises(RefusedError, match="has the name of a directory of the log") as refused:
        STORES[make](root)
    assert refused.value.file == str(root / inner)
    assert tree(tmp_path) == before
    if inner == "data" and STORES[make] is QueueStore and kind is not link:
        with pytest.raises(NotALogError):  # a root without data is of nobody
            open_log(root)
        return
    log = open_log(root)
    for verb, act in (VERBS | UNSURE).items():
        with pytest.raises(FlintlogError) as told:
            act(log, tmp_path / "new")
        assert told.value.exit_status == 3, verb
        assert str(told.value) == str(refused.value) or verb in UNSURE, verb
    assert tree(tmp_path) == before


@pytest.mark.parametrize("kind", [link, dangling_link, pipe, directory], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize(
    "name",
    ["compaction_catalog.back", "limestone-manifest.json.back", "blob/dir_02/0000000000000002.blob"],
)
def test_what_is_no_file_under_a_name_that_limestone_uses_at_times_is_refused(name, kind, torn, tmp_path):
    root = tmp_path / "log"
    shutil.copytree(torn / "blobs", root)
    (root / name).parent.mkdir(exist_ok=True)
    kind(root / name, tmp_path / "outside")
    before = tree(tmp_path)
    for act in (open_log(root).verify, lambda: Datastore(root)):
        with pytest.raises(RefusedError) as refused:
            act()
        assert refused.value.file == str(root / name)
    assert tree(tmp_path) == before


@pytest.mark.parametrize(("make", "inner"), CASES)
def test_no_repair_is_taken_back_through_a_link(make, inner, torn, tmp_path):
    repaired = tmp_path / "repaired"
    shutil.copytree(torn / make.__name__, repaired)
    open_log(repaired).plan_repair().apply()
    log = open_log(spoil(repaired, inner, link, tmp_path))
    before = tree(tmp_path)
    with pytest.raises(RefusedError, match="symbolic link"):
        log.plan_undo(force=True).apply()
    assert tree(tmp_path) == before


@pytest.mark.parametrize("make", STORES, ids=lambda make: make.__name__)
def test_the_command_line_says_what_is_wrong_and_where(make, made, tmp_path, capsys):
    inner = INNER[make][-2]
    root = spoil(made / make.__name__, inner, link, tmp_path)
    for verb in ("verify", "repair"):
        assert main([verb, str(root)]) == 3
        told = capsys.readouterr().err
        assert f"{root / inner}: a symbolic link has the name of a directory of the log. Nothing was" in told


@pytest.mark.parametrize("make", STORES, ids=lambda make: make.__name__)
def test_a_root_that_is_a_link_is_what_the_user_named(make, made, tmp_path):
    shutil.copytree(made / make.__name__, tmp_path / "disk" / "log")
    (tmp_path / "log").symlink_to(tmp_path / "disk" / "log")
    STORES[make](tmp_path / "log").close()
    assert open_log(tmp_path / "log").verify().verdict == "clean"


def test_data_elsewhere_is_named_by_its_own_path_or_by_the_settings(made, tmp_path):
    shutil.copytree(made / "queues", tmp_path / "disk" / "log")
    (tmp_path / "data").symlink_to(tmp_path / "disk" / "log" / "data")
    QueueStore(tmp_path / "data").close()
    assert open_log(tmp_path / "data").verify().verdict == "clean"
    (tmp_path / "root").mkdir()
    (tmp_path / "linked").symlink_to(tmp_path / "disk" / "log")
    (tmp_path / "root" / "taskflux.settings.json").write_text('{"DataDirectory": "../linked"}')
    QueueStore(tmp_path / "root").close()
    assert open_log(tmp_path / "root").verify().verdict == "clean"


@pytest.mark.parametrize("make", STORES, ids=lambda make: make.__name__)
def test_links_of_others_are_not_followed(make, made, tmp_path):
    shutil.copytree(made / make.__name__, tmp_path / "log")
    log = open_log(tmp_path / "log")
    for name in ("one", "two"):  # which double the way at every step
        (Path(log.root) / name).symlink_to(".")
    for verb in ("inspect", "verify", "state", "dump", "dump --hex", "tail", "backup"):
        VERBS[verb](log, tmp_path / "new")
    assert log.verify().verdict == "clean"


@pytest.mark.parametrize("make", STORES, ids=lambda make: make.__name__)
def test_what_a_backup_was_to_be_written_to_is_removed_without_what_it_leads_to(make, made, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_bytes(b"do not touch")
    (tmp_path / "place").mkdir()
    (tmp_path / "place" / "0001.new").symlink_to(outside)
    take_backup(Disk(), str(made / make.__name__), str(tmp_path / "place"))
    assert os.listdir(tmp_path / "place") == ["0001"]
    assert (outside / "precious").read_bytes() == b"do not touch"


@pytest.mark.parametrize("leads_to", ["empty", "nothing"])
def test_a_link_is_no_place_for_a_restored_log(leads_to, made, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    (tmp_path / "new").symlink_to(leads_to)
    take_backup(Disk(), str(made / "queues"), str(tmp_path / "place"))
    assert main(["restore", str(tmp_path / "place"), str(tmp_path / "new")]) == 3
    assert f"{tmp_path / 'new'}: this path exists and is not an empty directory" in capsys.readouterr().err
    assert (tmp_path / "new").is_symlink()
