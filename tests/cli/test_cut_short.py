"""Every writing verb, interrupted and on a disk that fills up, at many places: as before, or complete."""

from __future__ import annotations

import errno
import io
import json
import shutil
import signal

import pytest
from tests.crash.mpy6a_sessions import T0, TOPICS
from tests.every_directory import every_directory
from tests.limestone.directories import Directory, session

from flintlog import QueueStore, RaftStore, SessionStore
from flintlog.cli.main import EXIT_INTERRUPTED, main
from flintlog.core.journal import tree
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone.layout import Manifest
from flintlog.dialects.zmqraft.layout import Entry
from flintlog.disk import Disk, LocalKernel

PLACES = 6
# Verbs by dialect; {log} is the directory, {new} an empty place, {backups} a place with backups of it.
REPAIR = "repair {log} --apply"
UNDO = "repair {log} --undo"
EXPORT = "export {log} {new} --format ndjson"
BACKUP = "backup {log} {new}"
RESTORE = "restore {backups} {new}"
SNAPSHOT = "snapshot {log}"
COMPACT = "compact {log}"
CONVERT = "migrate {log} --edition {other} --to {new}"
UPGRADE = "migrate {log}"
GIVEN = "snapshot {log} --as-of 20 --data {given}"
EVERYWHERE = (COMPACT, EXPORT, BACKUP, RESTORE, REPAIR, UNDO)
COMMANDS = {  # zmqraft and mpy6a have one edition in one version, so there is nothing to migrate
    "taskflux": (SNAPSHOT, CONVERT),
    "zmqraft": (GIVEN,),
    "mpy6a": (SNAPSHOT,),
    "limestone": (SNAPSHOT, CONVERT, UPGRADE),
}
CHANGING = ("pwrite", "truncate", "rename", "unlink", "link", "mkdir", "sync", "sync_directory")


@pytest.fixture(scope="module")
def directories(tmp_path_factory):
    return every_directory(tmp_path_factory.mktemp("golden"))


class Trap:
    """Does something at one of the calls that change a disk; counts them all."""

    def __init__(self, monkeypatch, at, act, calls=CHANGING):
        self.seen = 0
        for name in calls:
            monkeypatch.setattr(LocalKernel, name, self._trapped(getattr(LocalKernel, name), at, act))

    def _trapped(self, call, at, act):
        def trapped(kernel, *arguments):
            self.seen += 1
            if at is not None:
                act(self.seen, at)
            return call(kernel, *arguments)

        return trapped


def interrupt(seen, at):
    if seen == at:
        signal.raise_signal(signal.SIGINT)


def fill_up(seen, at):
    if seen >= at:
        raise OSError(errno.ENOSPC, "No space left on device")


def shown(capsys, path):
    """The verdict and the state of a directory, as an operator sees them."""
    capsys.readouterr()
    verdict = main(["verify", path])
    capsys.readouterr()
    status = main(["state", path, "--json"])
    return verdict, status, capsys.readouterr().out


def contents(path):
    disk = Disk()
    return {name: disk.read(f"{path}/{name}", 1 << 30) for name in tree(disk, path) if "kept/" not in name}


def typed(command, log, other):
    """Type a command that is about a log; what it needs or makes lies beside it."""
    beside = {name: f"{log}-{name}" for name in ("new", "backups", "given")}
    return main(command.format(log=log, other=other, **beside).split())


def prepared(directories, dialect, command, tmp_path, capsys):
    """A directory on which the command does something, what it does there, and in how many calls."""
    wanted = (1, 3) if command in (REPAIR, UNDO) else (0,)
    if (dialect, command) in MADE:
        made = tmp_path / "made"
        MADE[dialect, command](made)
        directories = {f"{dialect}/made": made}
    for case, source in directories.items():
        if not case.startswith(f"{dialect}/") or "shipped" in case:
            continue
        log = tmp_path / "start"
        shutil.copytree(source, log)
        (tmp_path / "start-given").write_bytes(b"the state of an application")
        if main(["verify", str(log)]) in wanted and (
            (command != UNDO or main(["repair", str(log), "--apply"]) == 0)
            and (command != RESTORE or main(["backup", str(log), f"{log}-backups"]) == 0)
        ):
            capsys.readouterr()
            main(["inspect", str(log), "--json"])
            other = "designed" if json.loads(capsys.readouterr().out)["edition"] == "shipped" else "shipped"
            trial = copied(log, tmp_path / "trial")
            with pytest.MonkeyPatch.context() as patch:
                trap = Trap(patch, None, None)
                status = typed(command, trial, other)
            written = contents(trial) != contents(log) or (tmp_path / "trial-new").exists()
            if status == 0 and written and trap.seen > 2:
                return log, trial, trap.seen, other
            remove(trial)
        remove(log)
    raise AssertionError(f"no directory for {command}")


def beside(log):
    """A log directory, and everything that lies beside it."""
    return sorted(log.parent.glob(f"{log.name}*"))


def copied(log, place):
    for path in beside(log):
        target = place.parent / path.name.replace(log.name, place.name)
        shutil.copytree(path, target) if path.is_dir() else shutil.copy(path, target)
    return place


def remove(log):
    for path in beside(log):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def everything(log):
    """Every file and every directory of a log and beside it, but what repairs kept."""
    found = {}
    for path in (inner for outer in beside(log) for inner in (outer, *outer.rglob("*"))):
        name = str(path).removeprefix(str(log))
        if "/kept" not in name:
            found[name] = None if path.is_dir() else path.read_bytes()
    return found


def written_peer(root):
    """A peer with a snapshot, and what it covers still there."""
    with RaftStore(root, capacity=4) as store:
        store.append([Entry(1, b"entry %d" % number) for number in range(40)])
        store.snapshot(10, b"state", prune=False)


def written_sessions(root, then=lambda: None):
    """Two files of sessions; much of the first is read."""
    with SessionStore(root, topics=TOPICS) as store:
        for number in range(6):
            store.put(1, b"session %d" % number, now=T0 + number)
        store.rotate(30, now=T0 + 6)
        store.put(1, b"late", now=T0 + 7)
        for session in store.due(now=T0 + 36, limit=5):
            session.delete()
        then()


def abandoned_sessions(root):
    """The same as a killed process leaves them."""
    live = root.parent / "live"
    written_sessions(live, lambda: shutil.copytree(live, root))


def written_in_version_1(root):
    old = Directory(root, "designed").start(1).log(session(1, "a", "b"))
    old.write(lay.MANIFEST_FILE, Manifest(1).encode())


MADE = {
    ("zmqraft", COMPACT): written_peer,
    ("zmqraft", GIVEN): written_peer,
    ("mpy6a", COMPACT): written_sessions,
    ("mpy6a", SNAPSHOT): abandoned_sessions,
    ("mpy6a", EXPORT): written_sessions,
    ("limestone", UPGRADE): written_in_version_1,
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("dialect", "command"),
    [(dialect, command) for dialect, more in COMMANDS.items() for command in (*more, *EVERYWHERE)],
)
def test_a_verb_that_is_cut_short_leaves_all_or_nothing(dialect, command, directories, tmp_path, capsys):
    log, trial, calls, other = prepared(directories, dialect, command, tmp_path, capsys)
    before, after = shown(capsys, str(log)), shown(capsys, str(trial))
    bytes_before = everything(log)
    for act, calls_trapped, wanted in (
        (interrupt, CHANGING, 130),
        (fill_up, ("pwrite", "mkdir"), 3),
    ):
        failed = reached = 0
        for number in range(1, PLACES + 1):
            place = copied(log, tmp_path / f"{act.__name__}-{number}")
            capsys.readouterr()
            with pytest.MonkeyPatch.context() as patch:
                most = calls if act is interrupt else max(calls // 3, 2)
                trap = Trap(patch, 1 + (number - 1) * most // PLACES, act, calls_trapped)
                status = typed(command, place, other)
            talk = capsys.readouterr().err
            reached += trap.seen
            assert status in (0, wanted), talk
            if status:
                failed += 1
                assert "fault in flintlog" not in talk, talk
                assert talk.count("\n") == 1, talk
                if "othing was changed" in talk:
                    assert everything(place) == bytes_before, (command, act.__name__, number, talk)
                elif "could only be finished" in talk:
                    assert shown(capsys, str(place)) == after
                else:
                    assert "verything is whole" in talk, talk
                    assert command != REPAIR, talk
            assert shown(capsys, str(place)) in (before, after), (command, act.__name__, number, talk)
            capsys.readouterr()
            again = typed(command, place, other)
            talk = capsys.readouterr().err
            assert (
                again == 0
                or (command == UNDO and "no repair" in talk)
                or command == REPAIR
                or "is not an empty directory" in talk
                or "nothing to upgrade" in talk
            ), talk
            assert shown(capsys, str(place)) == after, (command, act.__name__, number, talk)
            remove(place)
        assert failed or not reached, (command, act.__name__)  # what only removes files needs no room


class InterruptedAtTheEnd(io.StringIO):
    """An output where Ctrl-C comes as the line is printed that says what was done."""

    def write(self, text):
        if "done" in text:
            raise KeyboardInterrupt
        return super().write(text)


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_an_interrupt_after_the_work_does_not_say_that_nothing_was_changed(
    options, tmp_path, capsys, monkeypatch
):
    with QueueStore(tmp_path / "log") as store:
        store.queue().add(b"one")
    monkeypatch.setattr("sys.stdout", InterruptedAtTheEnd())
    assert main(["snapshot", str(tmp_path / "log"), *options]) == EXIT_INTERRUPTED
    assert "interrupted; the work was done: " in capsys.readouterr().err
    with QueueStore(tmp_path / "log") as store:
        assert store.snapshot_lsn >= 0
