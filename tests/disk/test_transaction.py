"""Work that is taken back, and the call from which on it can only be finished."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintlog.disk import NOTHING_CHANGED, Disk, TransactionKernel, take_lock
from flintlog.errors import DiskError, LockedError
from flintlog.testing import MemoryKernel

ROOT = "/log"
NAMES = st.sampled_from(["a", "b", "c.new", "inner/d", "inner/e"])
DEEDS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), NAMES),
        st.tuples(st.just("publish"), NAMES),
        st.tuples(st.just("rename"), NAMES, NAMES),
        st.tuples(st.just("unlink"), NAMES),
        st.tuples(st.just("overwrite"), NAMES),
        st.tuples(st.just("folder"), st.sampled_from(["inner", "other", "other/deep"])),
    ),
    max_size=12,
)


def prepared() -> Disk:
    disk = Disk(MemoryKernel())
    disk.make_directory(ROOT)
    for name in ("a", "b"):
        with disk.open(f"{ROOT}/{name}", "create") as file:
            file.pwrite(name.encode() * 10, 0)
    return disk


def contents(disk: Disk, path: str = ROOT) -> dict[str, bytes | None]:
    found: dict[str, bytes | None] = {}
    for name in disk.list(path):
        inner = f"{path}/{name}"
        if disk.is_directory(inner):
            found |= {inner: None, **contents(disk, inner)}
        else:
            found[inner] = disk.read(inner, 1 << 20)
    return found


def do(disk: Disk, deed: tuple[str, ...]) -> None:
    verb, path = deed[0], f"{ROOT}/{deed[1]}"
    if verb == "folder":
        disk.make_passing_directory(path)
    elif verb == "publish":
        disk.publish(path, [b"published"], scratch=f"{ROOT}/scratch.new")
    elif verb == "rename":
        disk.rename(path, f"{ROOT}/{deed[2]}")
    elif verb == "unlink":
        disk.unlink(path)
    else:
        with disk.open(path, "create") as file:
            file.pwrite(b"more", file.size() if verb == "append" else 0)


@settings(derandomize=True, max_examples=600, deadline=None)
@given(DEEDS)
def test_everything_is_as_it_was_unless_something_was_given_up(deeds):
    plain = prepared()
    before = contents(plain)
    kernel = TransactionKernel(plain.kernel)
    disk = Disk(kernel)
    for deed in deeds:
        try:
            do(disk, deed)
        except DiskError:
            continue  # a name that is not there
        if kernel.final:
            break
    if kernel.final:
        assert any(deed[0] in ("publish", "rename", "unlink", "overwrite") for deed in deeds)
    else:
        kernel.take_back()
        assert contents(plain) == before
    assert all(path in contents(plain) for path in before) or kernel.final


@pytest.mark.parametrize(
    ("deed", "final"),
    [
        (("append", "a"), False),
        (("rename", "a", "c"), False),
        (("publish", "c"), False),
        (("folder", "other"), False),
        (("overwrite", "a"), True),
        (("publish", "a"), True),
        (("rename", "a", "b"), True),
        (("unlink", "a"), True),
    ],
)
def test_what_is_final(deed, final):
    told = []
    kernel = TransactionKernel(prepared().kernel, on_final=lambda: told.append(1))
    do(Disk(kernel), deed)
    assert (kernel.final, bool(told)) == (final, final)


def test_a_name_for_others_to_see_is_final_where_it_publishes():
    kernel = TransactionKernel(prepared().kernel, publishes=True)
    do(Disk(kernel), ("publish", "c"))
    assert kernel.final


def test_a_left_over_scratch_file_is_not_missed():
    plain = prepared()
    with plain.open(f"{ROOT}/scratch.new", "create") as file:
        file.pwrite(b"left", 0)
    kernel = TransactionKernel(plain.kernel)
    do(Disk(kernel), ("publish", "c"))
    assert not kernel.final
    kernel.take_back()
    assert sorted(contents(plain)) == [f"{ROOT}/a", f"{ROOT}/b"]


def test_what_others_put_into_a_new_directory_stays():
    plain = prepared()
    kernel = TransactionKernel(plain.kernel)
    do(Disk(kernel), ("folder", "other"))
    with plain.open(f"{ROOT}/other/theirs", "create"):
        pass
    kernel.take_back()
    assert f"{ROOT}/other/theirs" in contents(plain)


def test_the_lock_is_held_until_the_way_back_is_over():
    plain = prepared()
    kernel = TransactionKernel(plain.kernel)
    disk = Disk(kernel)
    take_lock(disk, f"{ROOT}/a", "write", ROOT).close()
    with pytest.raises(LockedError):
        take_lock(plain, f"{ROOT}/a", "write", ROOT)
    take_lock(disk, f"{ROOT}/a", "write", ROOT).close()  # the deed may take it again
    kernel.take_back()
    kernel.release()
    take_lock(plain, f"{ROOT}/a", "write", ROOT).close()


class Copies:
    """Keeps originals in memory."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._contents = {path: data for path, data in contents(disk).items() if data is not None}
        self.kept: set[str] = set()

    def keep(self, path: str):
        inside = [
            each for each in self._contents if each not in self.kept and f"{each}/".startswith(f"{path}/")
        ]
        self.kept.update(inside)
        return [partial(self._put_back, each) for each in inside]

    def _put_back(self, path: str) -> None:
        self._disk.make_passing_directory(path.rpartition("/")[0])
        self._disk.publish(path, [self._contents[path]], scratch=f"{ROOT}/back.new")

    def discard(self) -> str:
        self.kept.clear()
        return NOTHING_CHANGED

    def cannot(self, error: DiskError) -> str:
        return str(error)


@settings(derandomize=True, max_examples=600, deadline=None)
@given(DEEDS)
def test_where_originals_are_kept_everything_is_taken_back(deeds):
    plain = prepared()
    before = {path: data for path, data in contents(plain).items() if data is not None}
    copies = Copies(plain)
    kernel = TransactionKernel(plain.kernel, originals=copies)
    disk = Disk(kernel)
    for deed in deeds:
        with suppress(DiskError):  # a name that is not there
            do(disk, deed)
    after = contents(plain)
    assert not kernel.final
    assert {path for path, data in before.items() if after.get(path) != data} <= copies.kept
    assert kernel.end() == NOTHING_CHANGED
    left = {path: data for path, data in contents(plain).items() if data is not None}
    assert {path: data for path, data in left.items() if not path.endswith(".new")} == before


def test_a_file_that_was_replaced_while_it_was_open_can_still_be_written_to():
    plain = prepared()
    kernel = TransactionKernel(plain.kernel, originals=Copies(plain))
    disk = Disk(kernel)
    with disk.open(f"{ROOT}/a", "write") as file:
        disk.publish(f"{ROOT}/a", [b"new"], scratch=f"{ROOT}/scratch.new")
        file.pwrite(b"late", 0)
        file.truncate(2)
    assert disk.read(f"{ROOT}/a", 10) == b"new"
    kernel.take_back()
    assert plain.read(f"{ROOT}/a", 100) == b"a" * 10
