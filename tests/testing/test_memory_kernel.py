"""The kernel in memory behaves as the system does."""

from __future__ import annotations

import errno
import random

import pytest

from flintlog.disk import Disk, LocalKernel
from flintlog.errors import DiskError
from flintlog.testing import MemoryKernel, State


class Machine:
    """Random calls on one kernel under one root; each answers with a value or an error number."""

    def __init__(self, kernel, root):
        self.kernel = kernel
        self.disk = Disk(kernel)
        self.root = root
        self.files = {}

    def do(self, step):
        try:
            return getattr(self, step[0])(*step[1:])
        except DiskError as error:
            return errno.errorcode[error.errno]

    def open(self, name, mode):
        key = len(self.files)
        self.files[key] = None
        self.files[key] = self.disk.open(self.root + name, mode)

    def close(self, key):
        if self.files.get(key) is not None:
            self.files.pop(key).close()
            self.files[key] = None

    def on_file(self, key, method, *arguments):
        file = self.files.get(key)
        if file is None:
            return None
        if method in ("size", "view") and file.stat().is_directory:
            return "as the file system likes"
        result = getattr(file, method)(*arguments)
        return bytes(result) if isinstance(result, memoryview) else result

    def mkdir(self, name):
        try:
            self.kernel.mkdir(self.root + name)
        except OSError as error:
            raise DiskError("mkdir", name, error) from error

    def rename(self, source, target):
        self.disk.rename(self.root + source, self.root + target)

    def unlink(self, name):
        self.disk.unlink(self.root + name)

    def sync_directory(self, name):
        self.disk.sync_directory(self.root + name)

    def list(self, name):
        return self.disk.list(self.root + name)

    def stat(self, name):
        found = self.disk.stat(self.root + name)
        return found and (found.is_directory, found.is_directory or found.size)

    def tree(self, name=""):
        found = {}
        for entry in self.disk.list(self.root + name):
            path = f"{name}/{entry}"
            found[path] = (
                self.tree(path)
                if self.disk.is_directory(self.root + path)
                else self.disk.read(self.root + path, 1 << 20)
            )
        return found


def random_step(chance):
    names = ["/a", "/b", "/d", "/e", "/d/a", "/d/b", "/e/a", "/a/x", "/d/x/y"]
    name, key = chance.choice(names), chance.randrange(12)
    steps = [
        ("open", name, chance.choice(["read", "write", "create", "create"])),
        ("on_file", key, "pwrite", chance.randbytes(chance.randrange(40)), chance.randrange(60)),
        ("on_file", key, "pread", chance.randrange(60), chance.randrange(60)),
        ("on_file", key, "truncate", chance.randrange(50)),
        ("on_file", key, "size"),
        ("on_file", key, "view"),
        ("on_file", key, "sync"),
        ("on_file", key, "lock"),
        ("close", key),
        ("mkdir", chance.choice(["/d", "/e", "/d/x", "/a", "/q/r"])),
        ("rename", name, chance.choice(names)),
        ("unlink", name),
        ("sync_directory", chance.choice(["", "/d", "/e", "/a"])),
        ("list", chance.choice(["", "/d", "/e"])),
        ("stat", name),
    ]
    return chance.choice(steps)


@pytest.mark.parametrize("seed", range(60))
def test_random_calls_give_what_the_system_gives(seed, tmp_path):
    chance = random.Random(seed)
    real, memory = Machine(LocalKernel(), str(tmp_path)), Machine(MemoryKernel(), "")
    for _ in range(120):
        step = random_step(chance)
        if step[0] == "rename" and step[2].startswith(step[1] + "/"):
            continue  # a directory into itself: no store does that, and the kernel in memory does not ask
        if step[:1] == ("list",) and real.do(("stat", step[1])) == (False, 0):
            continue
        assert memory.do(step) == real.do(step), step
    assert memory.tree() == real.tree()
    for key in list(real.files):
        real.close(key)


def test_the_device_after_all_calls_shows_what_the_process_saw():
    chance = random.Random(7)
    memory = Machine(MemoryKernel(), "")
    for _ in range(400):
        memory.do(random_step(chance))
        assert memory.kernel.device().visible().digest() == memory.kernel.visible().digest()


def test_the_lock_belongs_to_a_handle_until_it_closes_or_its_process_dies():
    kernel = MemoryKernel()
    disk = Disk(kernel)
    first, second = disk.open("/lock", "create"), disk.open("/lock", "create")
    assert first.lock()
    assert first.lock()
    assert not second.lock()
    first.close()
    assert second.lock()
    kernel.kill_processes()
    assert disk.open("/lock", "create").lock()


def test_a_read_only_handle_writes_nothing():
    disk = Disk(MemoryKernel())
    disk.open("/f", "create").close()
    file = disk.open("/f")
    with pytest.raises(DiskError):
        file.pwrite(b"x", 0)
    with pytest.raises(DiskError):
        file.truncate(0)
    assert file.size() == 0


def test_a_view_is_read_only_and_does_not_change_with_the_file():
    disk = Disk(MemoryKernel())
    file = disk.open("/f", "create")
    file.pwrite(b"before", 0)
    view = file.view()
    file.pwrite(b"behind", 0)
    assert bytes(view) == b"before"
    assert view.readonly


def test_two_files_of_one_name_differ_in_identity():
    disk = Disk(MemoryKernel())
    first, _ = disk.open("/f", "create"), disk.open("/g", "create")
    disk.rename("/g", "/f")
    found = disk.stat("/f")
    assert found is not None
    assert found.identity != first.stat().identity


def test_a_machine_shares_its_state_with_nobody():
    state = State({2: b"old"}, {1: {"f": 2}})
    disk = Disk(MemoryKernel(state))
    with disk.open("/f", "write") as file:
        file.pwrite(b"new", 0)
    disk.unlink("/f")
    assert list(state.tree()) == [("/f", b"old")]


def test_a_sync_names_the_lines_that_asked_for_it():
    kernel = MemoryKernel()
    Disk(kernel).publish("/f", [b"x"], scratch="/g")
    sites = [call.site for call in kernel.log if hasattr(call, "site")]
    assert len(sites) == 2
    assert sites[0] != sites[1]
    for site in sites:
        assert site.startswith("disk/disk.py:")
        assert ":publish:" in site
