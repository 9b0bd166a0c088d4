"""The images are those that a power failure can leave: all of them, and no others."""

from __future__ import annotations

import pytest
from tests.testing.toy import SUITE

from flintlog.disk import Disk
from flintlog.errors import UsageError
from flintlog.testing import MemoryKernel, Recording, Scenario, image, images, record


def recorded(run, prepare=None) -> Recording[None]:
    ready = None if prepare is None else lambda disk, history: prepare(disk)
    return record(Scenario("s", lambda disk, history: run(disk), prepare=ready))


def put(disk: Disk, path: str, data: bytes, offset: int = 0, *, sync: bool = False) -> None:
    with disk.open(path, "create") as file:
        file.pwrite(data, offset)
        if sync:
            file.sync()


def trees(recording, call=None) -> list[dict[str, bytes | None]]:
    """What a power failure may leave, at the end or after some call."""
    call = len(recording.log) if call is None else call
    return [dict(one.state.tree()) for one in images(recording) if one.call == call and not one.pending]


def contents(recording, path="/f") -> set[bytes | None]:
    return {tree.get(path) for tree in trees(recording)}


def test_a_pending_write_is_lost_kept_torn_at_every_byte_or_zero():
    recording = recorded(lambda disk: put(disk, "/f", b"abcd"), lambda disk: put(disk, "/f", b""))
    assert contents(recording) == {b"", b"a", b"ab", b"abc", b"abcd", bytes(4)}


def test_an_overwrite_leaves_old_bytes_where_it_did_not_arrive():
    recording = recorded(lambda disk: put(disk, "/f", b"NEWS", 1), lambda disk: put(disk, "/f", b"olds"))
    assert contents(recording) == {b"olds", b"oNds", b"oNEs", b"oNEW", b"oNEWS", b"olds\0"}


def test_synced_bytes_are_in_every_image():
    def run(disk):
        put(disk, "/f", b"abcd", sync=True)
        put(disk, "/f", b"efgh", 4)

    recording = recorded(run, lambda disk: put(disk, "/f", b""))
    assert all(content.startswith(b"abcd") for content in contents(recording))


def test_two_pending_writes_arrive_in_any_order_also_across_files():
    def run(disk):
        put(disk, "/f", b"1")
        put(disk, "/g", b"2")

    def prepare(disk):
        put(disk, "/f", b"")
        put(disk, "/g", b"")

    found = {(tree["/f"], tree["/g"]) for tree in trees(recorded(run, prepare))}
    assert {(b"", b""), (b"1", b""), (b"", b"2"), (b"1", b"2")} <= found


def test_a_large_write_is_torn_at_sectors_of_the_file_and_misses_pages():
    data = bytes([1 + i % 255 for i in range(10_000)])
    recording = recorded(lambda disk: put(disk, "/f", data, 100), lambda disk: put(disk, "/f", b"y" * 100))
    found = contents(recording)
    lengths = {len(content) for content in found}
    assert lengths >= {100 + n for n in range(4096)}
    assert {n for n in lengths if 4300 < n < 10_100} == set(range(4608, 10_100, 512))
    whole = b"y" * 100 + data
    assert whole[:4096] + bytes(4096) + whole[8192:] in found
    assert whole[:100] + bytes(3996) + whole[4096:] in found
    assert whole[:1024] + bytes(len(whole) - 1024) in found


def test_a_truncate_is_lost_or_kept_apart_from_the_write_behind_it():
    def run(disk):
        with disk.open("/f", "write") as file:
            file.truncate(0)
            file.pwrite(b"xy", 0)

    found = contents(recorded(run, lambda disk: put(disk, "/f", b"abcd")))
    assert {b"abcd", b"", b"xy", b"xycd"} <= found


def test_names_survive_only_with_their_directory_and_bytes_only_with_their_file():
    def run(disk):
        put(disk, "/f", b"abc", sync=True)

    assert contents(recorded(run)) == {None, b"abc"}

    def run_names(disk):
        put(disk, "/f", b"abc")
        disk.sync_directory("/")

    assert contents(recorded(run_names)) == {b"", b"a", b"ab", b"abc", bytes(3)}


def test_a_file_in_a_directory_whose_name_was_lost_is_lost():
    def run(disk):
        disk.kernel.mkdir("/d")
        put(disk, "/d/f", b"abc", sync=True)
        disk.sync_directory("/d")

    recording = recorded(run)
    assert {frozenset(tree.items()) for tree in trees(recording)} == {
        frozenset(),
        frozenset({("/d", None), ("/d/f", b"abc")}),
    }


def test_a_rename_in_one_directory_shows_the_old_or_the_new_name():
    def prepare(disk):
        put(disk, "/f", b"old")
        put(disk, "/g", b"new")

    recording = recorded(lambda disk: disk.rename("/g", "/f"), prepare)
    assert {tuple(sorted(tree.items())) for tree in trees(recording)} == {
        (("/f", b"old"), ("/g", b"new")),
        (("/f", b"new"),),
    }


def across(*synced):
    def prepare(disk):
        disk.make_directory("/a")
        disk.make_directory("/b")
        put(disk, "/a/f", b"x")

    def run(disk):
        disk.rename("/a/f", "/b/f")
        for directory in synced:
            disk.sync_directory(directory)

    return {frozenset(path for path in tree if path[2:]) for tree in trees(recorded(run, prepare))}


OLD, NEW = frozenset({"/a/f"}), frozenset({"/b/f"})


def test_a_rename_across_directories_shows_one_name_or_both_but_never_neither():
    assert across() == {OLD, NEW, OLD | NEW}
    assert across("/b") == {NEW, OLD | NEW}
    assert across("/a") == {OLD, NEW, OLD | NEW}
    assert across("/b", "/a") == {NEW}
    assert across("/a", "/b") == {NEW}


def test_unlinks_are_lost_independently():
    def prepare(disk):
        for name in "fgh":
            put(disk, f"/{name}", b"")

    def run(disk):
        for name in "fgh":
            disk.unlink(f"/{name}")

    found = {"".join(sorted(path[1:] for path in tree)) for tree in trees(recorded(run, prepare))}
    assert found == {"fgh", "", "f", "g", "h", "gh", "fh", "fg"}


def test_a_process_crash_shows_everything_and_made_nothing_durable():
    recording = recorded(lambda disk: put(disk, "/f", b"abc"))
    (last,) = [one for one in images(recording) if one.pending and one.call == len(recording.log)]
    kernel = MemoryKernel(last.state, last.pending)
    assert dict(kernel.visible().tree()) == {"/f": b"abc"}
    assert dict(kernel.device().durable().tree()) == {}
    with Disk(kernel).open("/f", "write") as file:
        file.sync()
    Disk(kernel).sync_directory("/")
    assert dict(kernel.device().durable().tree()) == {"/f": b"abc"}


def test_bytes_synced_before_a_process_crash_stay_durable_behind_a_pending_name():
    recording = recorded(lambda disk: put(disk, "/f", b"abc", sync=True))
    (last,) = [one for one in images(recording) if one.pending and one.call == len(recording.log)]
    kernel = MemoryKernel(last.state, last.pending)
    Disk(kernel).sync_directory("/")
    assert dict(kernel.device().durable().tree()) == {"/f": b"abc"}


def test_every_call_boundary_has_images():
    recording = record(SUITE.scenario("append"))
    assert {one.call for one in images(recording)} == set(range(len(recording.log) + 1))


@pytest.mark.parametrize("name", ["append", "batch", "reopen"])
def test_the_line_of_an_image_makes_the_same_image(name):
    recording = record(SUITE.scenario(name))
    lines = set()
    for one in images(recording):
        again = image(recording, str(one))
        assert again.state.digest() == one.state.digest()
        assert again.pending == one.pending
        assert str(again) == str(one)
        lines.add(str(one))
    assert len(lines) == sum(1 for _ in images(recording))


@pytest.mark.parametrize(
    "line",
    [
        "nonsense",
        "append:call=999:process",
        "append:call=12:data=torn[3]@5:names=kept",
        "append:call=12:data=kept:names=lost[12]",
        "other:call=1:process",
        "append:call=12:data=torn[12]:names=kept",
    ],
)
def test_a_line_that_names_no_image_is_refused(line):
    with pytest.raises(UsageError):
        image(record(SUITE.scenario("append")), line)
