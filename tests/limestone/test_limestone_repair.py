"""Every damaged directory through verify, repair and state; what repair saves, gives up, and keeps aside."""

from __future__ import annotations

import shutil

import pytest
from tests.golden_cases import snapshot_of
from tests.limestone.directories import CASES, Directory, designed, session, shipped
from tests.limestone.recorded import every, lay_out, rows_of
from tests.limestone.snippets import Session

from flintlog.core.log import Log
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone.dialect import DIALECT
from flintlog.dialects.limestone.layout import Catalog, Manifest
from flintlog.dialects.limestone.store import Datastore
from flintlog.dialects.limestone.upkeep.repair import plan_repair
from flintlog.dialects.limestone.upkeep.salvage import salvage
from flintlog.disk import Disk
from flintlog.errors import LockedError, RefusedError, UnsupportedError

pytestmark = pytest.mark.usefixtures("still")

KEPT = "kept"


def verdict(path) -> str:
    return Log(DIALECT, Disk(), str(path)).verify().verdict


def state(path) -> dict[tuple[int, bytes], bytes]:
    rows = [row for batch in Log(DIALECT, Disk(), str(path)).state() for row in batch.to_pylist()]
    return {(int(row["storage_id"]), row["key"]): row["value"] for row in rows}


def plan(path):
    return plan_repair(Disk(), str(path), lambda: 1_700_000_000.0)


def keys(path) -> set[bytes]:
    return {key for _, key in state(path)}


def assert_originals_are_there(path, before) -> None:
    """Each file that was changed or removed lies aside with its old bytes; the largest record of rotated epoch
    files stands in the main one."""
    after = snapshot_of(path)
    aside = {
        name.split("/", 2)[2]: raw for name, raw in after.items() if name.count("/") >= 2 and raw is not None
    }
    for name, raw in before.items():
        passing = name.startswith(("data/", "sorting/", ".epoch.tmp", "epoch.")) or name.endswith(
            (".tmp", ".prev")
        )
        if raw is not None and after.get(name) != raw and not passing and name not in aside:
            assert any(raw in other for other in after.values() if other is not None), name
        if name in aside:
            assert aside[name] == raw, name


REFUSED = {"c37_manifest_future/dir", "c38_manifest_missing/dir"}
# Where data was damaged, what is left of it.
SAVED = {
    "c11_truncated_durable_entry/dir": {b"a": b"a2", b"c": b"c1"},
    "c16_unknown_type_in_durable/dir": {b"a": b"a2", b"c": b"c1", b"d": b"d" * 16},
    "c19_entry_without_begin/dir": {b"a": b"a2", b"c": b"c1", b"d": b"d" * 16},
    "c22_epoch_bad_type/dir": {b"a": b"a2", b"c": b"c1", b"d": b"d" * 16},
    "c20_epoch_missing/dir": {b"a": b"a2", b"c": b"c1", b"d": b"d" * 16},
    "c40_manifest_corrupt/dir": {b"a": b"a2", b"c": b"c1", b"d": b"d" * 16},
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("directory", [f"{case}/{variant}" for case, variant in every()])
def test_every_golden_directory_is_whole_after_repair(directory, tmp_path):
    case, variant = directory.split("/")
    path = lay_out(case, variant, tmp_path)
    before = snapshot_of(path)
    told = verdict(path)
    made = plan(path)
    assert snapshot_of(path) == before
    if directory in REFUSED:
        assert made.refusal is not None and made.empty
        with pytest.raises((RefusedError, UnsupportedError)):
            made.apply()
        assert snapshot_of(path) == before
        return
    assert made.refusal is None
    if told == "clean":
        assert made.empty
        return
    if all(item.code == "blob-missing" for item in made.findings):
        assert made.empty  # nothing brings it back
        return
    expected = rows_of(case, variant) if told == "repairable" and directory not in SAVED else None
    made.apply()
    assert verdict(path) == "clean"
    assert_originals_are_there(path, before)
    if expected is not None:
        assert state(path) == expected
        assert not made.lost
    if directory in SAVED:
        assert {key: value for (_, key), value in state(path).items()} == SAVED[directory]
    assert plan(path).empty


@pytest.mark.parametrize(("code", "make"), CASES)
def test_every_finding_has_a_repair_or_a_reason(code, make, tmp_path):
    root = tmp_path / "log"
    make(root)
    before = snapshot_of(root)
    made = plan(root)
    if made.refusal is None and not made.empty:
        made.apply()
        assert verdict(root) == "clean"
        assert_originals_are_there(root, before)
        with Datastore(root) as store:
            assert store.findings == ()
    else:
        assert code in (
            "manifest-missing",
            "manifest-version",
            "manifest-broken",  # of a directory without any session
            "catalog-version",
            "compacted-missing",
            "compacted-other",
            "snippet-old",
            "snippet-open",
            "blob-missing",
            "leftover",
            "odd-name",
            "foreign",
        )
        assert snapshot_of(root) == before


def three(tmp_path, edition="shipped") -> Directory:
    """Sessions of three epochs in one log, all durable."""
    return Directory(tmp_path / "log", edition).start(3)


@pytest.mark.parametrize("edition", ["designed", "shipped"])
def test_damage_in_the_middle_costs_the_bytes_that_cannot_be_read(edition, tmp_path):
    made = three(tmp_path, edition).log(session(1, "a", "b", "c"), session(2, "d"), session(3, "e"))
    log = made.root / "pwal_0000"
    raw = bytearray(log.read_bytes())
    size = len(session(1, "a").entries[0].encode())
    raw[lay.MARKER_SIZE + size] = 0x7F  # b
    log.write_bytes(raw)
    repair = plan(made.root)
    begin = lay.MARKER_SIZE + size
    end = lay.MARKER_SIZE + 3 * size + (lay.END_SIZE if edition == "shipped" else 0)
    assert repair.lost == (f"what stood in pwal_0000 from byte {begin} to byte {end - 1}",)
    repair.apply()
    assert keys(made.root) == {b"a", b"d", b"e"}
    [kept] = (made.root / KEPT).iterdir()
    assert (kept / "pwal_0000").read_bytes() == raw


def test_a_begin_marker_is_made_again_from_the_end_marker(tmp_path):
    made = three(tmp_path).log(session(1, "a"), session(2, "b"), session(3, "c"))
    log = made.root / "pwal_0000"
    raw = log.read_bytes()
    second = len(session(1, "a").encode())
    log.write_bytes(raw[:second] + raw[second + lay.MARKER_SIZE :])
    repair = plan(made.root)
    assert repair.lost == (f"what stood in pwal_0000 before byte {second}, if anything did",)
    repair.apply()
    assert keys(made.root) == {b"a", b"b", b"c"}
    assert log.read_bytes() == raw


def test_salvage_goes_on_behind_each_of_several_damages():
    parts = [session(epoch, f"key {epoch}", f"other {epoch}").encode() for epoch in range(1, 8)]
    raw, at = bytearray(b"".join(parts)), 0
    for number, part in enumerate(parts):
        if number % 2:
            raw[at + lay.MARKER_SIZE] = 0xEE
        at += len(part)
    saved = salvage(memoryview(bytes(raw)), 7, end_markers=True)
    rest = b"".join(
        piece if isinstance(piece, bytes) else bytes(raw[slice(*piece)]) for piece in saved.pieces
    )
    assert len(saved.lost) == 3
    for number, part in enumerate(parts):
        assert (part in rest) == (number % 2 == 0)


def test_sessions_count_again_when_the_epoch_file_is_gone(tmp_path):
    made = three(tmp_path).log(session(1, "a"), session(2, "b")).log(session(2, "c"), name="pwal_0001")
    (made.root / lay.EPOCH_FILE).unlink()
    repair = plan(made.root)
    assert (repair.lost, [step.file for step in repair.steps]) == ((), [lay.EPOCH_FILE])
    repair.apply()
    assert keys(made.root) == {b"a", b"b", b"c"}


def test_a_session_that_is_cut_costs_no_other_when_the_epoch_file_is_gone(tmp_path):
    made = (
        three(tmp_path)
        .log(session(1, "a"), tail=session(2, "b").encode()[:-15])
        .log(session(1, "c"), session(2, "d"), session(3, "e"), name="pwal_0001")
    )
    (made.root / lay.EPOCH_FILE).unlink()
    repair = plan(made.root)
    assert repair.lost == ("what stood in pwal_0000 from byte 63 to byte 92",)
    repair.apply()
    assert keys(made.root) == {b"a", b"c", b"d", b"e"}


def without_catalog(root, *, whole: bool):
    made = designed(root, 3).compacted("a", epoch=2, name="cmpct_0003").remove(lay.CATALOG_FILE)
    if not whole:
        made.write("cmpct_0003", b"other bytes")
    return made.log(session(3, "c"))


def test_a_compacted_file_that_cannot_be_read_goes_with_the_catalog(tmp_path):
    made = without_catalog(tmp_path / "log", whole=False)
    repair = plan(made.root)
    assert "keys in cmpct_0003, which cannot be read" in repair.lost
    repair.apply()
    assert (verdict(made.root), keys(made.root)) == ("clean", {b"c"})


def test_damage_in_a_compacted_file_is_planned_with_the_catalog(tmp_path):
    made = without_catalog(tmp_path / "log", whole=True)
    made.write("cmpct_0003", (made.root / "cmpct_0003").read_bytes() + b"\xff" * 9)
    repair = plan(made.root)
    assert any(line.startswith("all keys behind storage 1, key 61, in cmpct_0003") for line in repair.lost)
    repair.apply()
    assert (verdict(made.root), keys(made.root)) == ("clean", {b"a", b"c"})


def test_a_lost_catalog_is_made_again_from_one_set_of_compacted_files(tmp_path):
    made = (
        designed(tmp_path / "log", 3)
        .compacted("a", epoch=2, name="cmpct_0003")
        .compacted("b", epoch=2, name="cmpct_0004")
    )
    made.log(session(1, "a"), name="pwal_0000.01700000000000.0").log(session(3, "c")).remove(lay.CATALOG_FILE)
    repair = plan(made.root)
    assert repair.lost == ("what the catalog said: it is told again by the files that are there",)
    repair.apply()
    assert keys(made.root) == {b"a", b"b", b"c"}
    catalog = lay.decode_catalog((made.root / lay.CATALOG_FILE).read_bytes())
    assert (set(catalog.compacted), catalog.max_epoch) == ({"cmpct_0003", "cmpct_0004"}, 2)


def test_two_sets_of_compacted_files_without_a_catalog_need_a_person(tmp_path):
    made = (
        designed(tmp_path / "log", 3)
        .compacted("a", epoch=1, name="cmpct_0003")
        .compacted("b", epoch=2, name="cmpct_0004")
    )
    made.remove(lay.CATALOG_FILE)
    assert "several compactions" in plan(made.root).refusal


def test_a_damaged_compacted_file_keeps_what_stands_before(tmp_path):
    made = (
        shipped(tmp_path / "log", 3)
        .compacted("a", "b", "c")
        .catalog(Catalog({lay.COMPACTED_FILE: 1}, max_epoch=2))
    )
    file = made.root / lay.COMPACTED_FILE
    file.write_bytes(file.read_bytes()[:-3])
    repair = plan(made.root)
    assert repair.lost == (
        f"all keys behind storage 1, key {b'b'.hex()}, in {lay.COMPACTED_FILE} that no log has",
    )
    repair.apply()
    assert keys(made.root) == {b"a", b"b"}


def test_a_broken_manifest_is_made_again_where_the_files_show_the_edition(tmp_path):
    for edition, expected in (("designed", 2), ("shipped", 7)):
        made = Directory(tmp_path / edition, edition).start(1).log(session(1, "a"))
        made.write(lay.MANIFEST_FILE, b"{")
        plan(made.root).apply()
        assert lay.decode_manifest((made.root / lay.MANIFEST_FILE).read_bytes()).version == expected
        assert keys(made.root) == {b"a"}


def test_a_broken_manifest_and_more_damage_need_one_repair(tmp_path):
    made = (
        three(tmp_path)
        .log(session(1, "a"), tail=lay.encode_begin(2) + b"\x7f" * 20)
        .log(session(3, "b"), name="pwal_0001")
    )
    made.write(lay.MANIFEST_FILE, b"{")
    plan(made.root).apply()
    assert (verdict(made.root), keys(made.root)) == ("clean", {b"a", b"b"})


def test_repair_needs_the_directory_for_itself(tmp_path):
    made = shipped(tmp_path / "log", 1).log(session(1, "a"), session(2, "b"))
    repair = plan(made.root)
    copy = tmp_path / "copy"
    shutil.copytree(made.root, copy)
    with Datastore(made.root), pytest.raises(LockedError):
        repair.apply()
    plan(copy).apply()
    assert verdict(copy) == "clean"


def test_two_repairs_in_one_second_keep_both_originals(tmp_path):
    made = shipped(tmp_path / "log", 1).log(session(1, "a"), session(2, "b"))
    plan(made.root).apply()
    made.log(session(1, "a"), Session(9, session(9, "c").entries))
    plan(made.root).apply()
    assert len(list((made.root / KEPT).glob("*-not-durable*"))) == 2


def test_version_0_is_no_damage(tmp_path):
    made = shipped(tmp_path / "log", 1).log(session(1, "a")).write(lay.MANIFEST_FILE, Manifest(0).encode())
    assert "not damage" in plan(made.root).refusal
