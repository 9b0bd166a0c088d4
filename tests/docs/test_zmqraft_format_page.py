"""docs/formats/zmqraft.md has the sizes of the code, and tells of damage that a snapshot covers."""

from __future__ import annotations

import pytest
from scripts.pages.page_blocks import ROOT
from tests.docs.format_page import planned
from tests.zmqraft.damaged import FEW, golden, lay_out, poke, with_snapshot

from flintlog import RaftStore
from flintlog.core.log import Log
from flintlog.dialects.zmqraft import layout
from flintlog.dialects.zmqraft.dialect import DIALECT
from flintlog.disk import Disk

PAGE = ROOT / "docs" / "formats" / "zmqraft.md"

LOST_SNAPSHOT = "the data of the snapshot; the state follows from the log and what takes its place"


def findings_and_plan(root):
    plan = Log(DIALECT, Disk(), str(root)).plan_repair()
    return [(item.code, item.severity) for item in plan.findings if item.severity != "note"], plan


def test_an_empty_file_behind_a_full_one_is_a_note(tmp_path):
    inventory = Log(DIALECT, Disk(), str(lay_out("d20_empty_last_file", tmp_path))).inspect()
    assert [(item.code, item.severity) for item in inventory.findings] == [("empty-file", "note")]


@pytest.mark.parametrize(
    ("offset", "code"), [(0, "index-token"), (24, "index-offsets")], ids=["head", "slots"]
)
def test_damage_below_the_snapshot_is_repairable_and_nothing_is_lost(offset, code, tmp_path):
    with_snapshot(tmp_path)
    poke(layout.index_path(4), offset, b"\xff" * 8)(tmp_path)
    found, plan = findings_and_plan(tmp_path)
    assert (found, plan.lost) == ([(code, "repairable")], ())
    plan.apply()
    assert findings_and_plan(tmp_path)[0] == []
    with RaftStore(tmp_path) as store:
        assert [entry.data for entry in store.entries(10)] == [b"entry %d" % at for at in range(9, 14)]


def test_a_damaged_snapshot_before_a_whole_log_is_replaced_by_an_empty_one(tmp_path):
    golden(FEW, poke("snap", 0, b"none"))(tmp_path / "root")
    found, plan = findings_and_plan(tmp_path / "root")
    assert (found, planned(plan)) == ([("snapshot-marker", "corrupt")], "replace")
    assert plan.lost == (LOST_SNAPSHOT,)


def test_a_damaged_snapshot_is_replaced_by_the_predecessor_that_fits(tmp_path):
    with RaftStore(tmp_path, capacity=4) as store:
        store.append([layout.Entry(1, b"entry %d" % number) for number in range(11)])
        store.snapshot(6, b"six")
        store.snapshot(7, b"seven", prune=False)
    poke("snap", 0, b"none")(tmp_path)
    found, plan = findings_and_plan(tmp_path)
    assert (found, planned(plan), plan.lost) == (
        [("snapshot-marker", "corrupt")],
        "replace",
        (LOST_SNAPSHOT,),
    )
    plan.apply()
    with RaftStore(tmp_path) as store:
        assert (store.snapshot_index, b"".join(store.read_snapshot()), store.last_index) == (6, b"six", 11)


def test_tokens_and_sizes_are_those_of_the_code():
    page = PAGE.read_text()
    for token in ("INDEX", "META", "ENTRIES", "SNAPSHOT", "DATA"):
        assert f"`{getattr(layout, f'{token}_TOKEN').decode()}`" in page
    assert (layout.TABLE_OFFSET, layout.ENTRY_HEADER_SIZE, layout.SNAPSHOT_SEGMENT_SIZES[0]) == (24, 20, 28)
    assert layout.ROLL_BYTES == 512 << 10
    assert layout.CAPACITY_MAX == 1 << 20
