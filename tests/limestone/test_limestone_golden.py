"""Every directory that the original program wrote or was given: what we read and say.

`EXPECTED` holds one row for each directory in which something is found; the others are clean.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from tests.golden_cases import snapshot_of
from tests.limestone.recorded import aborted, cases, errs, every, inspected, lay_out, meta, rows_of

from flintlog.core.dialect import NO_PAYLOAD, EntryQuery
from flintlog.core.log import Log
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone.dialect import DIALECT
from flintlog.dialects.limestone.merge import by_bytes
from flintlog.dialects.limestone.replay import State
from flintlog.dialects.limestone.store.sorted_file import sorted_file
from flintlog.dialects.limestone.survey import survey
from flintlog.disk import Disk
from flintlog.errors import DamageError, FlintlogError, UnsupportedError

pytestmark = pytest.mark.usefixtures("still")

TORN = (
    "Nothing durable stands there. The original aborts at every start until its tool has repaired the file."
)
PREVIOUS = "pwal_0000.compacted.prev"
COMPACTED = "pwal_0000.compacted"
CATALOG = "compaction_catalog"
MANIFEST = "limestone-manifest.json"


@dataclass(frozen=True)
class Row:
    """Our verdict on a directory. `refused` is the code of the error that opening raises; `why` is set where the
    original aborts and we open, or where it opens and verify is graver than a note about its answer."""

    verdict: str = "clean"
    findings: tuple[tuple[str, str, int | None], ...] = ()
    refused: str | None = None
    why: str | None = None


def found(verdict: str, *findings: tuple[str, str, int | None], why: str | None = None) -> Row:
    return Row(verdict, findings, why=why)


def refused(code: str, file: str, offset: int | None) -> Row:
    return Row("corrupt", ((code, file, offset),), refused=code)


LEFTOVER = ("leftover", PREVIOUS, None)
INTERRUPTED = ("catalog-back", CATALOG, None)
EXPECTED = {
    "c07_offline_compaction/dir": found("repairable", ("not-durable", "pwal_0000", 0)),
    "c07_offline_compaction/dir_after_compaction": found(
        "corrupt",
        ("blob-missing", COMPACTED, 1765),
        why="The original's tool has thrown the blob away and says nothing of it.",
    ),
    "c07_offline_compaction/dir_after_compaction_recovered": found(
        "corrupt", ("blob-missing", COMPACTED, 1765), why="The same directory, opened once."
    ),
    "c09_kill_torn_entry/dir": found("repairable", ("torn-tail", "pwal_0000", 13144), why=TORN),
    "c09_kill_torn_entry/dir_after_failed_start": found("repairable", ("torn-tail", "pwal_0000", 13144)),
    "c09_kill_torn_entry/dir_after_repair_mark": found(
        "clean", ("torn-tail", "pwal_0000.01794727594538.0", 13144)
    ),
    "c09_kill_torn_entry/dir_after_repair_mark_recovered": found(
        "clean", ("torn-tail", "pwal_0000.01794727594538.0", 13144)
    ),
    "c10_ended_not_durable/dir": found("repairable", ("not-durable", "pwal_0000", 55)),
    "c10_ended_not_durable/dir_after_repair_epoch2": found(
        "repairable", ("not-durable", "pwal_0000.01794727595890.0", 55)
    ),
    "c11_truncated_durable_entry/dir": refused("entry-cut", "pwal_0000", 166),
    "c11_truncated_durable_entry/dir_after": refused("entry-cut", "pwal_0000", 166),
    "c11_truncated_durable_entry/dir_after_repair_cut": refused(
        "entry-cut", "pwal_0000.01794727596076.0", 166
    ),
    "c11_truncated_durable_entry/dir_after_repair_mark": refused(
        "entry-cut", "pwal_0000.01794727596028.0", 166
    ),
    "c13_truncated_at_boundary/dir": found("clean", ("snippet-open", "pwal_0000", 216)),
    "c13_truncated_at_boundary/dir_after": found("clean", ("snippet-open", "pwal_0000", 216)),
    "c13_truncated_at_boundary/dir_drop_entry": found("clean", ("snippet-open", "pwal_0000", 166)),
    "c14_zero_filled_tail/dir": found("repairable", ("torn-tail", "pwal_0000", 226), why=TORN),
    "c14_zero_filled_tail/dir_after_repair_mark": found(
        "clean", ("torn-tail", "pwal_0000.01794727597557.0", 235)
    ),
    "c16_unknown_type_in_durable/dir": refused("entry-type", "pwal_0000", 45),
    "c16_unknown_type_in_durable/dir_after_repair_cut": refused(
        "entry-type", "pwal_0000.01794727599752.0", 45
    ),
    "c16_unknown_type_in_durable/dir_after_repair_mark": refused(
        "entry-type", "pwal_0000.01794727599626.0", 45
    ),
    "c19_entry_without_begin/dir": refused("entry-outside", "pwal_0001", 0),
    "c19_entry_without_begin/dir_after_repair_cut": refused("entry-outside", "pwal_0001.01794727601530.0", 0),
    "c19_entry_without_begin/dir_after_repair_mark": refused(
        "entry-outside", "pwal_0001.01794727601398.0", 0
    ),
    "c20_epoch_missing/dir": found(
        "repairable",
        ("epoch-missing", "epoch", None),
        ("not-durable", "pwal_0000", 0),
        ("not-durable", "pwal_0001", 0),
    ),
    "c21_epoch_torn/dir": found(
        "repairable",
        ("epoch-torn", "epoch", 9),
        ("not-durable", "pwal_0000", 91),
        why="The record was never acknowledged. The original aborts, and its tool cannot repair it.",
    ),
    "c22_epoch_bad_type/dir": Row(
        "corrupt",
        (("epoch-type", "epoch", 0), ("not-durable", "pwal_0000", 0), ("not-durable", "pwal_0001", 0)),
        refused="epoch-type",
    ),
    "c24_catalog_incomplete_back/dir": found("repairable", INTERRUPTED),
    "c26_catalog_missing_back/dir": found("repairable", INTERRUPTED),
    "c28_tmp_leftovers/dir": found(
        "clean",
        ("leftover", ".epoch.tmp", None),
        ("leftover", "compaction_temp/pwal_0000.compacted", None),
        ("leftover", "epoch.old", None),
        ("leftover", "limestone-manifest.json.back", None),
        ("leftover", "sorting/junk", None),
        ("foreign", "foo.txt", None),
    ),
    "c28_tmp_leftovers/dir_after": found(
        "clean", ("leftover", "compaction_temp/pwal_0000.compacted", None), ("foreign", "foo.txt", None)
    ),
    "c29_prev_before_catalog/dir": found("clean", LEFTOVER),
    "c29_prev_before_catalog/dir_after": found("clean", LEFTOVER),
    "c29_prev_before_catalog/dir_prev_only": found("repairable", ("compacted-previous", PREVIOUS, None)),
    "c34_log05_v1_migration/dir": found("repairable", ("not-durable", "pwal_0001", 83)),
    "c36_migration_then_compaction_stale/dir": found(
        "repairable", ("left-out", "pwal_0000.01794727612979.0", 0)
    ),
    "c36_migration_then_compaction_stale/dir_after": found(
        "repairable", ("left-out", "pwal_0000.01794727612979.0", 0)
    ),
    "c37_manifest_future/dir": Row("unsupported", (("manifest-version", MANIFEST, 0),), "unsupported"),
    "c38_manifest_missing/dir": Row("unsupported", (("manifest-missing", MANIFEST, None),), "unsupported"),
    "c40_manifest_corrupt/dir": refused("manifest-broken", MANIFEST, 0),
    "c41_manifest_missing_back/dir": found(
        "repairable",
        ("manifest-back", MANIFEST, None),
        why="The manifest before the change is whole, and says what it said. The original wants to lock the other.",
    ),
    "c44_second_session_same_epoch/dir": refused("entry-cut", "pwal_0000", 4055),
    "c44_second_session_same_epoch/dir_after_repair_cut": refused(
        "entry-cut", "pwal_0000.01794727616250.0", 4055
    ),
    "c44_second_session_same_epoch/dir_after_repair_mark": refused(
        "entry-cut", "pwal_0000.01794727616167.0", 4055
    ),
    "c45_online_gc_uncommitted_blob/dir": found(
        "corrupt",
        ("blob-missing", "pwal_0000", 9),
        why="The original has removed a blob that an acknowledged entry names, and says nothing of it.",
    ),
    "c45_online_gc_uncommitted_blob/dir_after": found(
        "corrupt", ("blob-missing", "pwal_0000", 9), why="The same directory, opened once."
    ),
    "c46_compaction_killpoints/dir": found("clean", LEFTOVER),
    "c46_compaction_killpoints/dir_after": found("clean", LEFTOVER),
    "c46_compaction_killpoints/dir_catalog_renamed_back": found("repairable", INTERRUPTED, LEFTOVER),
    "c46_compaction_killpoints/dir_catalog_truncated": found("repairable", INTERRUPTED, LEFTOVER),
    "c46_compaction_killpoints/dir_new_in_place": found("clean", LEFTOVER),
    "c46_compaction_killpoints/dir_prev_not_unlinked": found("clean", LEFTOVER),
    "c46_compaction_killpoints/dir_renamed_to_prev": found(
        "repairable",
        ("compacted-previous", PREVIOUS, None),
        ("leftover", "compaction_temp/pwal_0000.compacted", None),
    ),
    "c46_compaction_killpoints/dir_temp_written": found(
        "clean", ("leftover", "compaction_temp/pwal_0000.compacted", None)
    ),
}
# What comes out where the original aborts: that which it returns once its tool has cut the tail, or what the scenario
# wrote up to the durable epoch.
EPOCH_1 = {(1, b"a"): b"a1", (1, b"b"): b"b1", (1, b"c"): b"c1"}
EPOCH_2 = {(1, b"a"): b"a2", (1, b"c"): b"c1", (1, b"d"): b"d" * 16}
ABORTED_AND_OPENED = {
    "c09_kill_torn_entry/dir": rows_of("c09_kill_torn_entry", "dir_repair_cut"),
    "c09_kill_torn_entry/dir_after_failed_start": rows_of("c09_kill_torn_entry", "dir_repair_cut"),
    "c10_ended_not_durable/dir_after_repair_epoch2": rows_of("c10_ended_not_durable", "dir"),
    "c14_zero_filled_tail/dir": rows_of("c14_zero_filled_tail", "dir_repair_cut"),
    "c21_epoch_torn/dir": EPOCH_1,
    "c41_manifest_missing_back/dir": EPOCH_2,
}
EVERY = [f"{case}/{variant}" for case, variant in every()]
GRAVITY = {"clean": 0, "repairable": 1, "corrupt": 2, "unsupported": 64}


def row(directory: str) -> Row:
    return EXPECTED.get(directory, Row())


def state_of(path, as_of=None):
    return [row for batch in Log(DIALECT, Disk(), str(path)).state(as_of) for row in batch.to_pylist()]


def test_the_table_names_directories_that_are_there():
    assert set(EXPECTED) <= set(EVERY)
    assert (len(cases()), len(EVERY)) == (31, 81)


@pytest.mark.parametrize("directory", EVERY)
def test_verify_says_what_is_wrong_and_where_and_changes_nothing(directory, tmp_path):
    path = lay_out(*directory.split("/"), tmp_path)
    before = snapshot_of(path)
    seen = Log(DIALECT, Disk(), str(path)).verify()
    assert (seen.verdict, tuple((item.code, item.file, item.offset) for item in seen.findings)) == (
        row(directory).verdict,
        row(directory).findings,
    )
    looked = Log(DIALECT, Disk(), str(path)).inspect()
    assert {item.code for item in looked.findings} == {code for code, _, _ in row(directory).findings} - {
        "blob-missing"
    }
    assert snapshot_of(path) == before


@pytest.mark.parametrize("directory", EVERY)
def test_the_state_is_the_truth_or_the_refusal_has_the_place(directory, tmp_path):
    case, variant = directory.split("/")
    path = lay_out(case, variant, tmp_path)
    before = snapshot_of(path)
    expected = rows_of(case, variant)
    if row(directory).refused is not None:
        with pytest.raises(FlintlogError) as caught:
            state_of(path)
        assert isinstance(caught.value, DamageError | UnsupportedError)
        _, file, offset = row(directory).findings[0]
        assert (caught.value.code, caught.value.file, caught.value.offset) == (
            row(directory).refused,
            f"{path}/{file}",
            offset,
        )
    else:
        rows = state_of(path)
        shown = {(int(line["storage_id"]), line["key"]): line["value"] for line in rows}
        assert [*shown] == sorted(shown) and len(shown) == len(rows)
        if expected is None:
            expected = ABORTED_AND_OPENED[directory]
        assert shown == expected
    assert snapshot_of(path) == before


def test_our_verdict_is_that_of_the_original_tool_or_the_table_says_why():
    compared = 0
    for case in cases():
        theirs = inspected(case)
        if theirs is None:
            continue
        ours = row(f"{case}/dir")
        if theirs == 64:  # the tool gives up: we refuse as well, or have a reason
            assert ours.refused is not None or ours.why is not None, case
        elif not errs(case, "dir"):
            assert GRAVITY[ours.verdict] == theirs, case
        compared += 1
    assert compared == 20


def test_the_table_gives_a_reason_exactly_where_we_open_and_the_original_aborts_or_sees_no_loss():
    for directory in EVERY:
        case, variant = directory.split("/")
        ours = row(directory)
        differs = aborted(case, variant) and ours.refused is None
        unseen = ours.verdict == "corrupt" and ours.refused is None
        assert (differs or unseen) == (ours.why is not None), directory


@pytest.mark.parametrize("case", cases())
def test_epochs_are_those_that_the_original_reports(case, tmp_path):
    reported = meta(case).get("recovery", {}).get("last_epoch")
    if reported is not None:
        assert survey(Disk(), str(lay_out(case, "dir", tmp_path))).last_epoch == reported


@pytest.mark.parametrize("case", [case for case in cases() if inspected(case) in (0, 1)])
def test_durable_entries_are_as_many_as_the_original_counts(case, tmp_path):
    lines = next(run["stdout"] for run in meta(case)["tglogutil"] if run["args"] == ["inspect"])
    facts = dict(line.split(": ") for line in lines if ": " in line)
    found = survey(Disk(), str(lay_out(case, "dir", tmp_path)))
    assert found.durable == int(facts["durable-epoch"])
    assert found.last_epoch == int(facts["max-appeared-epoch"])
    counted = 0
    for split in Log(DIALECT, Disk(), found.path).splits(EntryQuery()):
        for batch in Log(DIALECT, Disk(), found.path).read_split(split, EntryQuery(skip=NO_PAYLOAD)):
            counted += sum(
                line["operation"] in ("put", "remove")
                and line["limestone"]["status"] in ("durable", "compacted")
                for line in batch.to_pylist()
            )
    assert counted == int(facts["count-durable-wal-entries"])


def sorted_bytes(path, epoch=0, **options) -> bytes:
    state = State(survey(Disk(), str(path)), order=by_bytes)
    return b"".join(sorted_file(state, epoch, **options))


SNAPSHOTS = [
    case
    for case in cases()
    if "dir_after" in [variant for of, variant in every() if of == case]
    and meta(case).get("recovery", {}).get("outcome") == "ok"
    and not errs(case, "dir")
    and case not in ("c06_online_compaction", "c29_prev_before_catalog", "c45_online_gc_uncommitted_blob")
]


@pytest.mark.parametrize("case", SNAPSHOTS)
def test_the_snapshot_file_has_the_bytes_of_the_original(case, tmp_path):
    """Where there is no compacted file: with one, the original leaves its part out of the snapshot."""
    theirs = (lay_out(case, "dir_after", tmp_path) / "data" / "snapshot").read_bytes()
    assert sorted_bytes(lay_out(case, "dir", tmp_path)) == theirs


def test_there_are_snapshots_to_compare():
    assert len(SNAPSHOTS) >= 8


def test_the_compacted_file_has_the_bytes_of_the_original(tmp_path):
    case = "c07_offline_compaction"
    theirs = (lay_out(case, "dir_after_compaction", tmp_path) / COMPACTED).read_bytes()
    assert sorted_bytes(lay_out(case, "dir", tmp_path), zero_versions=True) == theirs


@pytest.mark.parametrize("case", ["c01_basic_multichannel", "c03_storage_ops"])
def test_the_state_as_of_an_epoch_is_what_a_log_cut_there_gives(case, tmp_path):
    path = lay_out(case, "dir", tmp_path)
    durable = survey(Disk(), str(path)).durable
    states = [state_of(path, (epoch,)) for epoch in range(durable + 1)]
    assert states[durable] == state_of(path)
    for epoch in range(durable):
        (path / lay.EPOCH_FILE).write_bytes(lay.encode_durable(epoch))
        assert state_of(path) == states[epoch]
    assert len({str(state) for state in states}) > 2


def test_an_epoch_before_the_compaction_is_no_longer_there(tmp_path):
    path = lay_out("c06_online_compaction", "dir", tmp_path)
    assert len(state_of(path, (6,))) > 0
    with pytest.raises(FlintlogError, match="reaches back to 6") as caught:
        state_of(path, (5,))
    assert caught.value.code == "refused"
