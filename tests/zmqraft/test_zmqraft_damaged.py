"""Damaged and odd directories: what verify says and where, whether they open, what repair makes of them."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from tests.golden_cases import snapshot_of
from tests.zmqraft.damaged import MADE, ONE, lay_out
from tests.zmqraft.recorded import DAMAGED, recorded

from flintlog import RaftStore
from flintlog.core.dialect import dialect
from flintlog.core.log import Log
from flintlog.dialects.zmqraft import layout as lay
from flintlog.dialects.zmqraft import scan
from flintlog.dialects.zmqraft.layout import Entry, index_path
from flintlog.disk import Disk
from flintlog.errors import DamageError, UnsupportedError

pytestmark = pytest.mark.usefixtures("still")

DISK = Disk()
ZMQRAFT = dialect("zmqraft")
FIVE = (1, 5)
FIFTY = (1, 50)


@dataclass(frozen=True)
class Told:
    """The verdict, the gravest finding and its place, the range that opens (None: refused), what repair keeps.

    `repaired` is the last index after the repair; None: there is no repair.
    """

    verdict: str
    code: str | None = None
    file: str | None = None
    offset: int | None = None
    opens: tuple[int, int] | None = None
    repaired: int | None = None


def index(code: str, offset: int, repaired: int | None, file: str = ONE) -> Told:
    return Told("corrupt", code, file, offset, None, repaired)


def snap(code: str, offset: int) -> Told:
    return Told("corrupt", code, "snap", offset)


def clean(first: int, last: int, code: str | None = None, file: str | None = None) -> Told:
    return Told("clean", code, file, None, (first, last))


TABLE = {
    # Cut, poked and missing index files.
    "d01_header_cut": index("index-short", 10, 0),
    "d02_zero_length_index": index("index-short", 0, 0),
    "d03_offset_table_cut": index("index-short", 40, 0),
    "d04_meta_cut": index("index-marker", 0x64, 0),
    "d05_itmz_cut": index("index-marker", 0x94, 0),
    "d06_offsets_non_monotonic": index("index-offsets", 32, 2),
    "d07_offsets_equal": index("index-offsets", 28, 1),
    "d08_offset_huge_last": index("entry-missing", 344, 4),
    "d09_last_entry_data_cut": index("entry-missing", 344, 4),
    "d10_last_entry_header_missing": index("entry-missing", 344, 4),
    "d11_middle_data_missing": index("entry-missing", 120, 0),
    "d12_middle_file_missing": index("log-gap", 16, 23, index_path(0x20)),
    "d13_first_file_missing": index("log-start", 16, None, index_path(8)),
    "d14_middle_file_not_full": index("log-gap", 16, 22, index_path(0x18)),
    # One field of the header: name, size and table say what it was, but not whether the file is of this place.
    "d15_wrong_magic": Told("repairable", "index-token", ONE, 0, None, 5),
    "d16_wrong_version": Told("unsupported", "index-version", ONE, 8),
    "d17_index_mismatch": index("index-first", 16, 0),
    "d18_capacity_mismatch": Told("repairable", "index-capacity", ONE, 4, None, 5),
    "d19_entry_term_too_big": index("entry-term", 357, 4),
    # An empty last file takes nothing with it; the second and third the original opens no more.
    "d20_empty_last_file": clean(1, 47, "empty-file", index_path(0x30)),
    "d21_empty_last_prev_not_full": Told("repairable", "empty-file", index_path(0x30), None, (1, 46), 46),
    "d46_stuck_at_the_size_limit": Told("repairable", "empty-file", index_path(16), None, FIVE, 5),
    # The snapshot.
    "d22_snap_short": snap("snapshot-size", 104),
    "d23_snap_long": snap("snapshot-size", 104),
    "d24_snap_header_cut": snap("snapshot-short", 20),
    "d25_snap_empty": snap("snapshot-short", 0),
    "d26_snap_magic": snap("snapshot-marker", 0),
    "d27_snap_missing_pruned": index("log-start", 16, None, index_path(16)),
    "d28_snap_missing_full_log": Told("repairable", "snapshot-missing", "snap", None, FIVE, 5),
    "d29_snap_covers_log": clean(13, 12),
    # A snapshot that the log does not reach came from another peer: the log goes aside, the peer goes on.
    "d30_snap_beyond_log": Told("repairable", "log-superseded", ONE, None, (501, 500), 500),
    "d47_crash_between_snap_and_log_rename": Told(
        "repairable", "log-superseded", ONE, None, (1001, 1000), 1000
    ),
    "d31_log_missing": Told("repairable", "log-missing", "log", None, (21, 20), 20),
    # State files.
    "d32_pers_torn_last": Told("repairable", "torn-state", "raft.pers", 1457, (1, 0), 0),
    "d33_pers_torn_only_opened": Told("repairable", "torn-state", "raft.pers", 1457, (1, 0), 0),
    "d34_pers_garbage_tail_c1": Told("corrupt", "state-format", "raft.pers", 1468, None, 0),
    "d35_pers_scalar_tail": Told("corrupt", "state-record", "raft.pers", 1468, None, 0),
    "d36_pers_zero_tail": Told("repairable", "torn-state", "raft.pers", 1468, (1, 0), 0),
    "d37_pers_empty": clean(1, 0),
    "d38_pers_bad_type": Told("corrupt", "state-record", "raft.pers", 1468, None, 0),
    "d39_pers_array_tail": clean(1, 0, "state-array", "raft.pers"),
    # Odd, and whole.
    "d40_tmp_leftovers": clean(1, 5, "leftover", "raft.pers.tmp-99-zz"),
    "d41_foreign_names": clean(1, 50, "foreign", "log/00000/00/00/0000000000000A.rlog"),
    "d42_capacity_not_pow2": clean(1, 5),
    "d43_extra_segment": clean(1, 5),
    "d44_no_meta": clean(1, 5),
    "d45_datasize_exhausted": index("entry-missing", 344, 4),
    "d48_near_max_index": clean(9007199254740932, 9007199254740932),
    "d49_last_offset_torn_zero": clean(1, 5),
}
CASES = sorted(TABLE)


def test_the_table_has_every_damage():
    assert set(DAMAGED) | set(MADE) == set(TABLE)
    assert {case[:3] for case in TABLE} == {f"d{number:02d}" for number in range(1, 50)}


@pytest.mark.parametrize("case", CASES)
def test_verify_names_what_is_wrong_and_where(case, tmp_path):
    told = TABLE[case]
    peer = lay_out(case, tmp_path)
    before = snapshot_of(peer)
    inventory = Log(ZMQRAFT, DISK, str(peer)).verify()
    assert inventory.verdict == told.verdict
    places = [(finding.code, finding.file) for finding in inventory.findings]
    if told.code is not None:
        assert (told.code, told.file) in places
        found = inventory.findings[places.index((told.code, told.file))]
        assert found.message
        if told.offset is not None:
            assert found.offset == told.offset
    assert snapshot_of(peer) == before


@pytest.mark.parametrize("case", CASES)
def test_a_directory_opens_when_its_meaning_is_clear_and_stays_as_it_is_when_not(case, tmp_path):
    told = TABLE[case]
    peer = lay_out(case, tmp_path)
    before = snapshot_of(peer)
    if told.opens is None:
        with pytest.raises((DamageError, UnsupportedError)) as raised:
            RaftStore(peer)
        assert told.file is not None
        assert raised.value.file == str(peer / told.file)
        assert snapshot_of(peer) == before
        return
    with RaftStore(peer) as store:
        assert (store.first_index, store.last_index) == told.opens
        store.append([Entry(9, b"one more")])
        assert [entry.data for entry in store.entries(store.last_index)] == [b"one more"]
    with RaftStore(peer) as store:
        assert store.last_index == told.opens[1] + 1
        assert not any(finding.severity == "repairable" for finding in store.findings)
    assert Log(ZMQRAFT, DISK, str(peer)).verify().verdict == "clean"


@pytest.mark.parametrize("case", CASES)
def test_inspect_sees_what_heads_tell(case, tmp_path):
    inventory = Log(ZMQRAFT, DISK, str(lay_out(case, tmp_path))).inspect()
    if TABLE[case].code != "entry-term":  # only reading every entry shows it
        assert inventory.verdict == TABLE[case].verdict


@pytest.mark.parametrize("case", [case for case in CASES if TABLE[case].verdict != "clean"])
def test_repair_keeps_the_originals_and_ends_clean_or_refuses(case, tmp_path):
    told = TABLE[case]
    peer = lay_out(case, tmp_path)
    before = snapshot_of(peer)
    plan = Log(ZMQRAFT, DISK, str(peer)).plan_repair()
    assert snapshot_of(peer) == before
    if told.repaired is None:
        assert plan.refusal
        assert plan.empty
        return
    assert plan.steps
    plan.apply()
    assert Log(ZMQRAFT, DISK, str(peer)).verify().verdict == "clean"
    assert Log(ZMQRAFT, DISK, str(peer)).plan_repair().empty
    with RaftStore(peer) as store:
        assert store.last_index == told.repaired
    after = [content for content in snapshot_of(peer).values() if content]
    for name, content in before.items():
        if content:
            assert content in after, name


@pytest.mark.parametrize(
    ("case", "lost"),
    [
        ("d09_last_entry_data_cut", ("index 5",)),
        ("d06_offsets_non_monotonic", ("index 3 on, to the end of the log",)),
        ("d12_middle_file_missing", ("index 24 to 50",)),
        ("d14_middle_file_not_full", ("index 23 to 50",)),
        ("d15_wrong_magic", ()),
        ("d36_pers_zero_tail", ()),
        ("d47_crash_between_snap_and_log_rename", ()),
        ("d34_pers_garbage_tail_c1", ("terms, votes and peers that raft.pers told behind byte 1468",)),
    ],
)
def test_repair_says_what_is_lost(case, lost, tmp_path):
    assert Log(ZMQRAFT, DISK, str(lay_out(case, tmp_path))).plan_repair().lost == lost


@pytest.mark.parametrize("case", [case for case in DAMAGED if "log" in recorded(case)["openRW"]])
def test_where_the_original_reads_entries_so_does_the_dump(case, tmp_path):
    from flintlog.core.dialect import EntryQuery

    peer = str(lay_out(case, tmp_path))
    log = recorded(case)["openRW"]["log"]
    readable = [one for one in log.get("entries", []) if "data" in one]
    query = EntryQuery()
    found = []
    try:
        for split in Log(ZMQRAFT, DISK, peer).splits(query):
            for batch in Log(ZMQRAFT, DISK, peer).read_split(split, query):
                found += batch.to_pylist()
    except DamageError:
        assert TABLE[case].verdict == "corrupt"
    if Log(ZMQRAFT, DISK, peer).inspect().findings and TABLE[case].code == "log-superseded":
        assert found == []
        return
    shown = {row["position"]: (row["term"], row["payload"]) for row in found}
    for one in readable:
        assert shown[one["index"]] == (one["term"], bytes.fromhex(one["data"]))


def test_a_capacity_beyond_all_measure_in_the_newest_file_is_damage_and_no_fault():
    head = lay.INDEX_HEADER.pack(lay.INDEX_TOKEN, 16 + 4 * 7, lay.VERSION, 0xFF000007, 1)
    slots = b"".join(number.to_bytes(4, "little") for number in range(50, 57))
    found = scan.read_table(memoryview(head + slots + lay.segment(lay.ENTRIES_TOKEN, b"")), 1)
    assert isinstance(found, scan.Damage)
    assert found.code == "index-capacity"


@pytest.mark.parametrize("capacity", [0, lay.CAPACITY_FILE_MAX + 1])
def test_a_capacity_that_cannot_be_is_told_as_such(capacity, tmp_path):
    with RaftStore(tmp_path) as store:
        store.append([Entry(1, b"x")])
    path = tmp_path / ONE
    raw = path.read_bytes()
    path.write_bytes(lay.encode_index_head(capacity, 1) + raw[lay.TABLE_OFFSET :])
    with pytest.raises(DamageError, match=f"the capacity {capacity} is out of range") as caught:
        RaftStore(tmp_path)
    assert (caught.value.code, caught.value.offset) == ("index-capacity", 12)
    assert (caught.value.expected, caught.value.found) == ("1 to 16777215", str(capacity))
