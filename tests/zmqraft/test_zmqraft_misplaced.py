"""Index files in wrong places: those that the log needs are named and refused, and put back where that is sure."""

from __future__ import annotations

import shutil
import struct

import pytest
from tests.golden_cases import snapshot_of
from tests.zmqraft.damaged import moved, poke, with_snapshot

from flintlog import RaftStore
from flintlog.core.dialect import dialect
from flintlog.core.log import Log
from flintlog.dialects.zmqraft.layout import Entry, index_path
from flintlog.dialects.zmqraft.store import FileLog
from flintlog.disk import Disk
from flintlog.errors import DamageError

pytestmark = pytest.mark.usefixtures("still")

DISK = Disk()
ZMQRAFT = dialect("zmqraft")
PLACES = [
    "0000000000000c.rlog",
    "00000/0000000000000c.rlog",
    "00000/00/01/0000000000000c.rlog",
    "00000/00/00/0000000000000C.rlog",
    "00000/00/0A/0000000000000c.rlog",
    "00000/00/00/lost/0000000000000c.rlog",
    "aside/00000/00/00/0000000000000c.rlog",
]


def verified(peer):
    found = Log(ZMQRAFT, DISK, str(peer)).verify()
    return found.verdict, [(item.code, item.file) for item in found.findings if item.severity != "note"]


def refused(peer, name):
    """Opening and the state refuse, name the file, and change nothing."""
    before = snapshot_of(peer)
    for call in (
        RaftStore,
        lambda path: FileLog(str(path)),
        lambda path: list(Log(ZMQRAFT, DISK, str(path)).state()),
    ):
        with pytest.raises(DamageError) as caught:
            call(peer)
        assert (caught.value.code, caught.value.file) == ("index-misplaced", str(peer / "log" / name))
        assert "repair" in caught.value.advice
    assert snapshot_of(peer) == before


def repaired(peer, last):
    plan = Log(ZMQRAFT, DISK, str(peer)).plan_repair()
    plan.apply()
    assert verified(peer) == ("clean", [])
    with RaftStore(peer) as store:
        assert store.last_index == last
        assert [entry.term for entry in store.entries(store.first_index)] == [1] * (
            last + 1 - store.first_index
        )
    return plan


@pytest.mark.parametrize("place", PLACES)
def test_a_last_file_in_a_wrong_place_is_refused_named_and_put_back(place, tmp_path):
    moved(12, place)(tmp_path)
    before = snapshot_of(tmp_path)
    verdict, findings = verified(tmp_path)
    assert (verdict, findings[0]) == ("repairable", ("index-misplaced", f"log/{place}"))
    assert Log(ZMQRAFT, DISK, str(tmp_path)).inspect().verdict == "repairable"
    refused(tmp_path, place)
    plan = repaired(tmp_path, 14)
    assert (plan.lost, [step.action for step in plan.steps]) == ((), ["move"])
    assert (tmp_path / index_path(12)).read_bytes() == before[f"log/{place}"]
    assert not (tmp_path / "log" / place).exists()
    Log(ZMQRAFT, DISK, str(tmp_path)).plan_undo().apply()
    now = snapshot_of(tmp_path)
    assert {name: now.get(name) for name in before} == before
    assert index_path(12) not in now


def test_the_only_file_and_one_from_the_middle_are_put_back(tmp_path):
    moved(4, "00000/00/00/lost/00000000000004.rlog")(tmp_path / "middle")
    refused(tmp_path / "middle", "00000/00/00/lost/00000000000004.rlog")
    assert repaired(tmp_path / "middle", 14).lost == ()
    with RaftStore(tmp_path / "only") as store:
        store.append([Entry(1, b"data")])
    (tmp_path / "only" / index_path(1)).rename(tmp_path / "only" / "log" / "00000000000001.rlog")
    refused(tmp_path / "only", "00000000000001.rlog")
    assert repaired(tmp_path / "only", 1).lost == ()


@pytest.mark.parametrize("size", [None, 20], ids=["empty", "torn"])
def test_an_empty_file_that_was_begun_in_its_place_makes_room(size, tmp_path):
    with RaftStore(tmp_path, capacity=4) as store:
        store.append([Entry(1, b"data")] * 14)
    place = tmp_path / index_path(12)
    place.rename(tmp_path / "log" / "0000000000000C.rlog")
    with RaftStore(tmp_path / "new", capacity=4) as store:
        store.install_snapshot(11, 1, b"state")
    place.write_bytes((tmp_path / "new" / index_path(12)).read_bytes()[:size])
    shutil.rmtree(tmp_path / "new")
    refused(tmp_path, "0000000000000C.rlog")
    plan = repaired(tmp_path, 14)
    assert (plan.lost, [step.action for step in plan.steps]) == ((), ["remove", "move"])


def test_several_are_put_back_and_the_log_is_not_taken_for_one_of_an_old_life(tmp_path):
    with_snapshot(tmp_path)  # at index 9
    for first in (8, 12):
        (tmp_path / index_path(first)).rename(tmp_path / "log" / f"{first:014X}.rlog")
    assert verified(tmp_path)[0] == "repairable"
    refused(tmp_path, "00000000000008.rlog")
    plan = repaired(tmp_path, 14)
    assert (plan.lost, [step.action for step in plan.steps]) == ((), ["move", "move"])


@pytest.mark.parametrize(
    "spoil",
    [
        lambda peer: (peer / "log" / "0000000000000c.rlog").rename(peer / "log" / "0000000000000d.rlog"),
        lambda peer: (peer / index_path(8)).unlink(),
        poke("log/0000000000000c.rlog", 24 + 4, b"\x01"),
        poke("log/0000000000000c.rlog", 120, bytes(40)),
        lambda peer: (peer / "log" / "0000000000000C.rlog").write_bytes(
            (peer / "log" / "0000000000000c.rlog").read_bytes()
        ),
    ],
    ids=["another-name", "a-gap-before", "slots", "an-old-term", "two-of-them"],
)
def test_what_does_not_fit_goes_aside_and_the_loss_is_named(spoil, tmp_path):
    moved(12, "0000000000000c.rlog")(tmp_path)
    spoil(tmp_path)
    before = snapshot_of(tmp_path)
    verdict, findings = verified(tmp_path)
    assert (verdict, findings[0][0]) == ("corrupt", "index-misplaced")
    refused(tmp_path, findings[0][1].removeprefix("log/"))
    last = 7 if not (tmp_path / index_path(8)).exists() else 11
    plan = repaired(tmp_path, last)
    assert any("index 12" in text and findings[0][1] in text for text in plan.lost)
    kept = [content for name, content in snapshot_of(tmp_path).items() if name.startswith("kept/")]
    assert before[findings[0][1]] in kept


def test_a_file_behind_damage_goes_aside_with_all_that_stands_behind_it(tmp_path):
    moved(12, "0000000000000c.rlog")(tmp_path)
    poke(index_path(4), 24 + 4, struct.pack("<I", 1))(tmp_path)
    plan = repaired(tmp_path, 4)
    assert plan.lost[0] == "index 5 to 14"


@pytest.mark.parametrize(
    "make",
    [
        lambda peer: None,
        lambda peer: (peer / "log" / "0000000000000D.rlog").write_bytes(b"x"),
        lambda peer: (peer / "log" / "0000000000000D.rlog").write_bytes(b""),
        lambda peer: (peer / "log" / "0000000000000D.rlog").mkdir(),
        lambda peer: (peer / "log" / "00000000000010.rlog").symlink_to(peer / index_path(12)),
        lambda peer: (peer / "log" / "loop").symlink_to(peer / "log"),
        lambda peer: (peer / "log" / "0000000000000C.rlog").write_bytes((peer / index_path(12)).read_bytes()),
        lambda peer: (peer / "log" / "00000000000004.RLOG").write_bytes((peer / index_path(4)).read_bytes()),
        lambda peer: (peer / "log" / "0000000000000F.rlog").write_bytes((peer / index_path(4)).read_bytes()),
    ],
    ids=["none", "text", "empty", "directory", "link", "loop", "copy", "suffix", "name-of-another"],
)
def test_what_the_log_does_not_need_is_foreign_and_does_no_harm(make, tmp_path):
    moved(12, f"../{index_path(12)}")(tmp_path)
    make(tmp_path)
    assert verified(tmp_path) == ("clean", [])
    with RaftStore(tmp_path) as store:
        assert store.last_index == 14
