"""What opening cuts is kept first, durably; the place is bounded."""

from __future__ import annotations

import pytest
from tests.crash import kept_cuts, promises
from tests.crash.promises import test_no_crash_image_breaks_a_promise  # noqa: F401

from flintlog.core.kept import CUT_BYTES_MAX, CUTS_MAX, keep_cut
from flintlog.disk import Disk

SUITES = (kept_cuts.SUITE,)


@pytest.mark.long
def test_the_suite_fails_when_any_one_sync_is_taken_away(record_property):
    promises.assert_every_sync_is_needed(SUITES, [], record_property, kept="elsewhere")


def cut(disk: Disk, root, data: bytes, name: str = "a/b") -> list[bytes]:
    path = root / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"head" + data)
    with disk.open(str(path), "write") as file:
        keep_cut(disk, str(root), file, 4)
    place = root / "kept" / "opened"
    return [each.read_bytes() for each in sorted(place.iterdir())] if place.exists() else []


def test_the_copy_tells_the_file_and_the_place_it_comes_from(tmp_path):
    assert cut(Disk(), tmp_path, b"torn") == [b"torn"]
    assert [each.name for each in (tmp_path / "kept" / "opened").iterdir()] == ["000001-a~b@4"]


def test_zeros_and_what_is_kept_already_are_not_copied(tmp_path):
    assert cut(Disk(), tmp_path, bytes(100)) == []
    assert cut(Disk(), tmp_path, b"") == []
    cut(Disk(), tmp_path, b"torn")
    assert cut(Disk(), tmp_path, b"torn") == [b"torn"]
    assert cut(Disk(), tmp_path, b"other") == [b"torn", b"other"]


def test_the_place_is_bounded(tmp_path):
    for number in range(CUTS_MAX + 5):
        found = cut(Disk(), tmp_path, b"torn %d" % number)
    assert found == [b"torn %d" % number for number in range(5, CUTS_MAX + 5)]
    assert len(cut(Disk(), tmp_path, b"x" * (CUT_BYTES_MAX + 10))[-1]) == CUT_BYTES_MAX
