"""Looking at a directory that is being written: what passes is a note, what stays is a finding."""

from __future__ import annotations

import errno
import os
import threading
import time

import pytest
from tests.damaged_directories import segments, torn
from tests.zmqraft.damaged import lay_out

from flintlog import QueueStore, RaftStore
from flintlog.core import live
from flintlog.core.dialect import detect
from flintlog.core.log import Log, open_log
from flintlog.dialects.zmqraft.layout import Entry
from flintlog.disk import Disk, KernelInFront, LocalKernel
from flintlog.errors import DamageError, DiskError, RefusedError

DISK = Disk()


class Finishing(LocalKernel):
    """A machine on which the writer of a file is done while others wait."""

    def __init__(self, file, content):
        self._file, self._content = file, content

    def pause(self, seconds):
        self._file.write_bytes(self._content)


def looks(path, disk=DISK):
    """What `inspect` and `verify` say: verdict, and severity and code of each finding."""
    log = open_log(str(path), disk=disk)
    for look in (log.inspect, log.verify):
        inventory = look()
        yield inventory.verdict, [(item.severity, item.code) for item in inventory.findings]


def torn_queues(tmp_path):
    """A taskflux directory with a torn tail, the torn file, and what it will hold when its writer is done."""
    torn(tmp_path / "queues")
    file = segments(tmp_path / "queues")[-1]
    half = file.read_bytes()
    with QueueStore(tmp_path / "queues") as store:
        store.queue().add(b"and whole again")
    finished = file.read_bytes()
    file.write_bytes(half)
    return tmp_path / "queues", file, finished, "torn-tail"


def torn_peer(tmp_path):
    peer = lay_out("d32_pers_torn_last", tmp_path)
    whole = lay_out("14_persistence_many", tmp_path / "whole") / "raft.pers"
    return peer, peer / "raft.pers", whole.read_bytes(), "torn-state"


@pytest.mark.parametrize("make", [torn_queues, torn_peer])
def test_a_tail_that_its_writer_finishes_is_a_note(make, tmp_path):
    path, file, finished, code = make(tmp_path)
    before = file.read_bytes()
    for verdict, findings in looks(path, Disk(Finishing(file, finished))):
        assert (verdict, findings) == ("clean", [("note", code)])
        file.write_bytes(before)


@pytest.mark.parametrize("make", [torn_queues, torn_peer])
def test_a_tail_that_stays_is_torn(make, tmp_path):
    path, *_, code = make(tmp_path)
    for verdict, findings in looks(path):
        assert (verdict, findings) == ("repairable", [("repairable", code)])


def test_the_note_says_what_happened(tmp_path):
    path, file, finished, _ = torn_peer(tmp_path)
    (finding,) = Log(detect(DISK, str(path)), Disk(Finishing(file, finished)), str(path)).inspect().findings
    assert finding.message.endswith("gone a moment later, so a store is writing here")


def test_a_look_goes_on_when_a_file_is_removed_and_gives_up_some_time(tmp_path):
    inventory = Log(
        detect(DISK, str(lay_out("01_few", tmp_path))), DISK, str(tmp_path / "01_few" / "dir")
    ).inspect()
    left = [DiskError("open", "/peer/file", OSError(errno.ENOENT, "gone"))]

    def once():
        if left:
            raise left.pop()
        return inventory

    def always():
        raise DiskError("open", "/peer/file", OSError(errno.ENOENT, "gone"))

    def broken():
        raise DiskError("read", "/peer/file", OSError(errno.EIO, "broken"))

    assert live.look(DISK, "/peer", once, once, ()) == inventory
    with pytest.raises(RefusedError, match="the directory changes faster than it can be read"):
        live.look(DISK, "/peer", always, always, ())
    with pytest.raises(DiskError, match="broken"):
        live.look(DISK, "/peer", broken, broken, ())


def queue_writer(path):
    store = QueueStore(path, soft_limit=1 << 16, hard_limit=1 << 17, snapshot_threshold=2)

    def write(number):
        store.queue().add_many([bytes(3000)] * 20)
        for _ in range(20):
            store.queue().take().ack()

    return store, write


def peer_writer(path):
    store = RaftStore(path, capacity=16)

    def write(number):
        store.append([Entry(number, bytes(3000))] * 30)
        store.set_hard_state(term=number, vote="me", applied=store.last_index)
        if number % 3 == 0:
            store.truncate(store.last_index - 20)
        if number % 5 == 0:
            store.snapshot(store.last_index - 5, bytes(50_000))
        if number % 20 == 0:
            store.install_snapshot(store.last_index + 100, number, b"from afar")

    return store, write


@pytest.mark.parametrize("writer", [queue_writer, peer_writer])
def test_a_directory_is_clean_at_every_moment_of_its_store(writer, tmp_path):
    store, write = writer(tmp_path / "log")
    stop = threading.Event()

    def run():
        number = 0
        while not stop.is_set():
            number += 1
            write(number)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        verdicts = {verdict for _ in range(60) for verdict, _ in looks(tmp_path / "log")}
    finally:
        stop.set()
        thread.join()
        store.close()
    assert verdicts == {"clean"}


# Held


def test_a_held_directory_keeps_its_names_and_files_while_they_are_removed_and_replaced(tmp_path):
    for name in ("removed", "replaced", "grown"):
        (tmp_path / name).write_bytes(name.encode())
    with live.holding(DISK, str(tmp_path)) as held:
        (tmp_path / "removed").unlink()
        (tmp_path / "other").write_bytes(b"another file")
        (tmp_path / "other").rename(tmp_path / "replaced")
        (tmp_path / "new").write_bytes(b"new")
        with (tmp_path / "grown").open("ab") as file:
            file.write(b" further")
        assert held.list(str(tmp_path)) == ["grown", "removed", "replaced"]
        for _ in range(2):  # a file that was closed is still held
            assert held.read(str(tmp_path / "removed"), 100) == b"removed"
            assert held.read(str(tmp_path / "replaced"), 100) == b"replaced"
        assert held.read(str(tmp_path / "grown"), 100) == b"grown further"
        found = held.stat(str(tmp_path / "removed"))
        assert found is not None and found.size == len(b"removed")
    assert DISK.read(str(tmp_path / "replaced"), 100) == b"another file"
    with pytest.raises(DiskError):
        held.read(str(tmp_path / "removed"), 100)


def test_a_directory_of_more_files_than_can_be_held_is_read_by_name(tmp_path):
    for number in range(live._HANDLES_MAX + 3):
        (tmp_path / f"{number:04d}").write_bytes(b"%d" % number)
    (tmp_path / "folder").mkdir()
    with live.holding(DISK, str(tmp_path)) as held:
        last = f"{live._HANDLES_MAX + 2:04d}"
        assert held.read(str(tmp_path / last), 10) == b"%d" % (live._HANDLES_MAX + 2)
        assert held.is_directory(str(tmp_path / "folder"))
        (tmp_path / last).unlink()
        with pytest.raises(DiskError):
            held.read(str(tmp_path / last), 10)


class Unhurried(LocalKernel):
    """A machine on which waiting takes no time."""

    def pause(self, seconds):
        pass


def test_what_passes_is_read_again_and_what_stays_is_raised():
    def reading(*outcomes):
        left = list(outcomes)

        def read():
            outcome = left.pop(0)
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        return live.settled(Disk(Unhurried()), "/log", read)

    gone = DiskError("open", "/log/file", OSError(errno.ENOENT, "gone"))
    torn = DamageError("torn", code="cut", file="/log/file", offset=7)
    further = DamageError("torn", code="cut", file="/log/file", offset=9)
    assert reading(gone, torn, further, live.ChangedError("moved"), "read") == "read"
    with pytest.raises(DamageError, match="torn"):
        reading(torn, torn)
    with pytest.raises(RefusedError, match="changes faster than it can be read"):
        reading(gone, torn, further, torn, gone, "never asked for")
    with pytest.raises(DiskError):
        reading(DiskError("open", "/log/file", OSError(errno.EIO, "broken")))


class Counting(KernelInFront):
    """A machine that counts how often a file is opened."""

    def __init__(self, name):
        super().__init__(LocalKernel())
        self._name, self.opened = name, 0

    def open(self, path, flags):
        self.opened += path.endswith(self._name)
        return super().open(path, flags)


@pytest.mark.parametrize("make", [torn_queues, torn_peer])
def test_a_damaged_directory_that_stands_still_is_read_once_to_plan_and_to_apply(make, tmp_path):
    path, file, *_ = make(tmp_path)
    counting = Counting(file.name)
    log = open_log(str(path), disk=Disk(counting))
    fresh, planned = log.plan_repair(), counting.opened
    time.sleep(0.2)  # what was written just now could change once more and show the same time
    counting.opened = 0
    still, read = log.plan_repair(), counting.opened
    assert still.steps == fresh.steps and read * 2 == planned
    assert still.apply() and log.verify().verdict == "clean"


def test_a_moment_is_over_when_anything_in_the_directory_changed(tmp_path):
    (tmp_path / "inside").mkdir()
    file = tmp_path / "inside" / "file"
    file.write_bytes(b"one")
    assert not live.Moment(DISK, str(tmp_path)).lasts(), "too fresh to tell"
    time.sleep(0.2)
    moment = live.Moment(DISK, str(tmp_path))
    assert moment.lasts()
    stamps = file.stat()
    file.write_bytes(b"two")
    os.utime(file, ns=(stamps.st_atime_ns, stamps.st_mtime_ns))
    assert not moment.lasts()
    time.sleep(0.2)
    moment = live.Moment(DISK, str(tmp_path))
    (tmp_path / "inside" / "other").touch()
    assert not moment.lasts()
