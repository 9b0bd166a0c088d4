"""The disk on real files: whole writes, whole files, durable names, one lock, errors with a place."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from flintlog.disk import Disk, LocalKernel, give_back, write_all
from flintlog.disk.disk import COPY_BYTES_MAX
from flintlog.errors import ClosedError, DiskError


class ListeningKernel(LocalKernel):
    """The real system, with a list of the calls that change or sync something."""

    def __init__(self):
        self.calls = []

    def pwrite(self, handle, data, offset):
        self.calls.append("pwrite")
        return super().pwrite(handle, data, offset)

    def sync(self, handle):
        self.calls.append("sync")
        super().sync(handle)

    def mkdir(self, path):
        self.calls.append(("mkdir", path))
        super().mkdir(path)

    def rename(self, source, target):
        self.calls.append(("rename", source, target))
        super().rename(source, target)

    def sync_directory(self, path):
        self.calls.append(("sync_directory", path))
        super().sync_directory(path)


class HesitantKernel(LocalKernel):
    """The real system on a bad day: each call is interrupted once, reads and writes do three bytes."""

    def __init__(self):
        self._interrupted = set()

    def _interrupt_once(self, call):
        if call not in self._interrupted:
            self._interrupted.add(call)
            raise InterruptedError(errno.EINTR, "interrupted")

    def open(self, path, flags):
        self._interrupt_once("open")
        return super().open(path, flags)

    def pread(self, handle, size, offset):
        self._interrupt_once("pread")
        return super().pread(handle, min(size, 3), offset)

    def pwrite(self, handle, data, offset):
        self._interrupt_once("pwrite")
        return super().pwrite(handle, data[:3], offset)

    def sync(self, handle):
        self._interrupt_once("sync")
        super().sync(handle)

    def rename(self, source, target):
        self._interrupt_once("rename")
        super().rename(source, target)

    def sync_directory(self, path):
        self._interrupt_once("sync_directory")
        super().sync_directory(path)


@pytest.fixture
def disk():
    return Disk()


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "file")


def content(path):
    with open(path, "rb") as file:
        return file.read()


def test_bytes_are_read_where_they_were_written(disk, path):
    with disk.open(path, "create") as file:
        file.pwrite(b"hello", 3)
        file.pwrite(b"J", 3)
        assert file.size() == 8
        assert file.pread(5, 3) == b"Jello"
        assert file.pread(100, 6) == b"lo"
        assert file.pread(1, 8) == b""
    assert content(path) == b"\0\0\0Jello"


def test_interrupted_and_short_calls_still_write_and_read_everything(path):
    disk = Disk(HesitantKernel())
    data = bytes(range(256)) * 3
    disk.publish(path, [data[:100], data[100:]], scratch=path + ".new")
    assert content(path) == data
    with disk.open(path) as file:
        assert file.pread(1000, 0) == data
        assert file.pread(10, 5) == data[5:15]


def test_opening_to_read_never_creates_and_opening_to_write_never_cuts(disk, path):
    for mode in ("read", "write"):
        with pytest.raises(DiskError) as caught:
            disk.open(path, mode)
        assert caught.value.errno == errno.ENOENT
    with disk.open(path, "create") as file:
        file.pwrite(b"kept", 0)
    for mode in ("read", "write", "create"):
        disk.open(path, mode).close()
    assert content(path) == b"kept"


def test_a_file_opened_to_read_cannot_be_written(disk, path):
    disk.open(path, "create").close()
    with disk.open(path) as file, pytest.raises(DiskError):
        file.pwrite(b"x", 0)
    assert content(path) == b""


def test_truncate_cuts_and_grows_with_zeros(disk, path):
    with disk.open(path, "create") as file:
        file.pwrite(b"abcdef", 0)
        file.truncate(2)
        file.truncate(4)
        file.sync()
    assert content(path) == b"ab\0\0"


def test_read_takes_no_more_than_it_is_allowed(disk, path):
    with disk.open(path, "create") as file:
        file.pwrite(b"abcdef", 0)
    assert disk.read(path, 4) == b"abcd"
    assert disk.read(path, 1 << 62) == b"abcdef"


def test_write_all_replaces_a_longer_content(disk, path):
    with disk.open(path, "create") as file:
        file.pwrite(b"something longer", 0)
        assert write_all(file, [b"a", bytearray(b"bc"), memoryview(b"d")]) == 4
    assert content(path) == b"abcd"


def test_a_view_is_the_whole_file_and_read_only(disk, path):
    with disk.open(path, "create") as file:
        assert bytes(file.view()) == b""
        file.pwrite(b"abc", 0)
        for view in (file.view(), file.view(copy=True)):
            assert view == b"abc"
            assert view.readonly


def test_a_copied_view_survives_that_the_file_is_cut(disk, path):
    with disk.open(path, "create") as file:
        file.pwrite(b"a" * 10000, 0)
        view = file.view(copy=True)
        file.truncate(0)
        assert view == b"a" * 10000


def test_a_view_too_large_to_copy_is_mapped(disk, path):
    with disk.open(path, "create") as file:
        file.truncate(COPY_BYTES_MAX + 1)
        view = file.view(copy=True)
        assert len(view) == COPY_BYTES_MAX + 1
        file.pwrite(b"x", 7)
        assert view[7:8] == b"x"


def resident(view: memoryview) -> int:
    """How many bytes of a mapped file are in this process."""
    address = f"{np.frombuffer(view, np.uint8).ctypes.data:x}-"
    with open("/proc/self/smaps") as file:
        lines = iter(file)
        next(line for line in lines if line.startswith(address))
        return int(next(line for line in lines if line.startswith("Rss:")).split()[1]) << 10


def test_pages_that_are_given_back_hold_the_same_bytes_when_they_are_read_again(disk, path):
    with disk.open(path, "create") as file:
        file.pwrite(b"abcd" * 250_000, 0)
        view = file.view()
        assert bytes(view) == b"abcd" * 250_000
        assert resident(view) >= len(view)
        give_back(view, 5000, len(view))
        assert resident(view) < 500_000
        assert bytes(view) == b"abcd" * 250_000
        file.pwrite(b"x", 7000)
        give_back(view, 0, len(view))
        assert (resident(view), view[7000:7001]) == (0, b"x")
        for other in (file.view(copy=True), view[10:], memoryview(b""), file.view(copy=True, begin=5, end=9)):
            before = bytes(other)
            give_back(other, 0, len(other))
            assert other == before


def test_closing_twice_is_harmless(disk, path):
    file = disk.open(path, "create")
    file.close()
    file.close()


def test_a_closed_file_refuses_and_does_not_touch_whoever_got_its_number(disk, path, tmp_path):
    closed = disk.open(path, "create")
    closed.close()
    with disk.open(str(tmp_path / "other"), "create") as other:
        with pytest.raises(ClosedError, match="this file is closed"):
            closed.pwrite(b"x", 0)
        assert other.size() == 0


def test_publish_puts_a_whole_file_in_place_and_leaves_no_scratch(disk, tmp_path):
    target, scratch = str(tmp_path / "snapshot"), str(tmp_path / "scratch")
    disk.publish(target, [b"first"], scratch=scratch)
    with open(scratch, "wb") as stale:
        stale.write(b"what a crash left behind, longer than the next")
    disk.publish(target, [b"sec", b"ond"], scratch=scratch)
    assert content(target) == b"second"
    assert os.listdir(tmp_path) == ["snapshot"]


def test_publish_leaves_what_was_there_when_the_content_cannot_be_made(disk, tmp_path):
    target = str(tmp_path / "snapshot")
    disk.publish(target, [b"old"], scratch=target + ".new")

    def content_that_fails():
        yield b"ne"
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError):
        disk.publish(target, content_that_fails(), scratch=target + ".new")
    assert content(target) == b"old"


def test_a_reader_sees_the_old_file_or_the_new_one_and_never_a_part(disk, tmp_path):
    target = str(tmp_path / "snapshot")
    versions = [bytes([number]) * 50_000 for number in range(40)]
    disk.publish(target, [versions[0]], scratch=target + ".new")
    seen = []
    stop = threading.Event()

    def read():
        while not stop.is_set():
            seen.append(disk.read(target, 1 << 20))

    reader = threading.Thread(target=read)
    reader.start()
    for version in versions:
        disk.publish(target, [version[:20_000], version[20_000:]], scratch=target + ".new")
    stop.set()
    reader.join()
    assert seen
    assert set(seen) <= set(versions)


def test_an_open_reader_keeps_the_file_that_was_replaced(disk, tmp_path):
    target = str(tmp_path / "snapshot")
    disk.publish(target, [b"old"], scratch=target + ".new")
    with disk.open(target) as reader:
        before = reader.stat().identity
        disk.publish(target, [b"newer"], scratch=target + ".new")
        assert reader.pread(10, 0) == b"old"
        found = disk.stat(target)
        assert found is not None
        assert found.identity != before


def test_publish_syncs_the_bytes_before_the_name_and_the_name_before_it_returns(tmp_path):
    kernel = ListeningKernel()
    target, scratch = str(tmp_path / "snapshot"), str(tmp_path / "scratch")
    Disk(kernel).publish(target, [b"a", b"b"], scratch=scratch)
    assert kernel.calls == [
        "pwrite",
        "pwrite",
        "sync",
        ("rename", scratch, target),
        ("sync_directory", str(tmp_path)),
    ]


def test_a_directory_is_made_with_its_ancestors_and_every_new_name_is_synced(tmp_path):
    kernel = ListeningKernel()
    top = str(tmp_path)
    Disk(kernel).make_directory(f"{top}/a/b/c")
    assert os.path.isdir(f"{top}/a/b/c")
    made = [call[1] for call in kernel.calls if call[0] == "mkdir"]
    assert made == [f"{top}/a", f"{top}/a/b", f"{top}/a/b/c"]
    for parent, child in ((top, f"{top}/a"), (f"{top}/a", f"{top}/a/b"), (f"{top}/a/b", f"{top}/a/b/c")):
        assert kernel.calls.index(("sync_directory", parent)) > kernel.calls.index(("mkdir", child))


def test_a_directory_that_is_there_is_synced_again_because_its_maker_may_have_died(tmp_path):
    top = str(tmp_path)
    os.makedirs(f"{top}/a/b")
    kernel = ListeningKernel()
    Disk(kernel).make_directory(f"{top}/a/b")
    assert not [call for call in kernel.calls if call[0] == "mkdir"]
    assert ("sync_directory", f"{top}/a") in kernel.calls
    assert ("sync_directory", top) in kernel.calls


def test_two_makers_of_one_directory_both_succeed(tmp_path):
    top = str(tmp_path)

    class Rival(LocalKernel):
        def mkdir(self, path):
            os.mkdir(path)
            super().mkdir(path)

    Disk(Rival()).make_directory(f"{top}/a/b")
    assert os.path.isdir(f"{top}/a/b")


def test_a_file_in_the_way_of_a_directory_is_an_error_that_names_it(disk, path):
    disk.open(path, "create").close()
    with pytest.raises(DiskError) as caught:
        disk.make_directory(f"{path}/below")
    assert caught.value.file in (path, f"{path}/below")
    assert caught.value.errno == errno.ENOTDIR


def test_names_come_sorted_and_a_missing_directory_is_empty(disk, tmp_path):
    for name in ("b", "a", "c"):
        disk.open(str(tmp_path / name), "create").close()
    assert disk.list(str(tmp_path)) == ["a", "b", "c"]
    assert disk.list(str(tmp_path / "missing")) == []
    with pytest.raises(DiskError):
        disk.list(str(tmp_path / "a"))


def test_stat_tells_files_from_directories_and_from_nothing(disk, tmp_path, path):
    with disk.open(path, "create") as file:
        file.pwrite(b"abc", 0)
    found = disk.stat(path)
    assert found is not None
    assert (found.is_directory, found.size) == (False, 3)
    assert disk.is_directory(str(tmp_path))
    assert not disk.is_directory(path)
    assert disk.stat(path + "missing") is None
    assert disk.stat(path + "/below-a-file") is None


def test_names_can_be_moved_and_removed(disk, tmp_path):
    source, target = str(tmp_path / "a"), str(tmp_path / "b")
    disk.open(source, "create").close()
    disk.rename(source, target)
    assert disk.list(str(tmp_path)) == ["b"]
    disk.unlink(target)
    assert disk.list(str(tmp_path)) == []


def test_one_lock_for_two_handles_and_it_ends_with_its_file(disk, path):
    first = disk.open(path, "create")
    second = disk.open(path, "write")
    assert first.lock()
    assert not second.lock()
    first.close()
    assert second.lock()
    second.close()


HOLD_THE_LOCK = """
import sys
from flintlog.disk import Disk
file = Disk().open(sys.argv[1], "create")
print(file.lock(), flush=True)
sys.stdin.read()
"""


def test_one_lock_for_two_processes_and_a_killed_one_loses_it(disk, path):
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD_THE_LOCK, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with other:
        assert other.stdout is not None
        assert other.stdout.readline() == "True\n"
        with disk.open(path, "create") as mine:
            assert not mine.lock()
            other.kill()
            other.wait()
            assert mine.lock()


def test_an_error_names_the_call_the_path_and_what_to_do(disk, tmp_path):
    missing = str(tmp_path / "missing")
    with pytest.raises(DiskError) as caught:
        disk.open(missing)
    error = caught.value
    assert (error.call, error.file, error.errno) == ("open", missing, errno.ENOENT)
    assert str(error) == f"{missing}: open failed: No such file or directory. Check the spelling of the path"
    assert isinstance(error.__cause__, FileNotFoundError)


@pytest.mark.parametrize(
    ("number", "code", "advice"),
    [
        (errno.ENOSPC, "disk-full", "Free space"),
        (errno.EDQUOT, "disk-full", "Raise the quota"),
        (errno.EIO, "disk", "Check the device"),
        (errno.EROFS, "disk", "read-only"),
    ],
)
@pytest.mark.parametrize("call", ["pwrite", "sync", "rename", "sync_directory"])
def test_publish_reports_the_failure_of_any_call(tmp_path, call, number, code, advice):
    class FailingKernel(LocalKernel):
        pass

    def fail(self, *arguments):
        raise OSError(number, os.strerror(number))

    setattr(FailingKernel, call, fail)
    target = str(tmp_path / "snapshot")
    Disk().publish(target, [b"old"], scratch=target + ".new")
    with pytest.raises(DiskError) as caught:
        Disk(FailingKernel()).publish(target, [b"newer"], scratch=target + ".new")
    assert (caught.value.errno, caught.value.code) == (number, code)
    assert advice in str(caught.value)
    if call != "sync_directory":
        assert content(target) == b"old"


def test_a_relative_path_is_pinned_to_the_directory_of_now(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert Disk.resolve("queues/../logs") == str(tmp_path / "logs")


def test_more_open_files_than_the_soft_limit_are_allowed_up_to_the_hard_one(tmp_path):
    script = """
import resource, sys
from flintlog.disk import Disk
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
disk, root = Disk(), sys.argv[1]
files = [disk.open(f"{root}/{number}", "create") for number in range(200)]
print(len(files))
resource.setrlimit(resource.RLIMIT_NOFILE, (220, 220))
try:
    files += [disk.open(f"{root}/{number}", "create") for number in range(200, 400)]
except OSError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True)
    assert done.stdout.splitlines()[0] == "200", done.stderr
    assert "Too many open files. Raise the limit of open files" in done.stdout
