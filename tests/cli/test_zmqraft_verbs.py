"""The command line on real directories of a peer."""

from __future__ import annotations

import pytest
from tests.golden_cases import materialise, snapshot_of
from tests.zmqraft.damaged import MADE, lay_out
from tests.zmqraft.recorded import ALL, recorded

from flintlog import RaftStore
from flintlog.dialects.zmqraft.layout import Entry, index_path

pytestmark = pytest.mark.usefixtures("still")


@pytest.fixture
def peer(tmp_path):
    return lambda case: materialise(case, tmp_path, dialect="zmqraft")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", sorted({*ALL, *MADE}))
def test_no_read_verb_changes_a_byte_and_every_error_is_one_line(case, tmp_path, check_read_verbs):
    check_read_verbs(lay_out(case, tmp_path), ["compact", "--dry-run"])


def test_inspect_shows_roles_ranges_and_facts(peer, told):
    status, (shown,), _ = told("inspect", peer("11_snapshot_pruned"), "--json")
    assert (status, shown["dialect"], shown["edition"], shown["verdict"]) == (0, "zmqraft", None, "clean")
    assert (shown["first"], shown["last"], shown["facts"]["snapshot"]) == (21, 33, 20)
    assert [file["role"] for file in shown["files"]] == [
        "closed",
        "closed",
        "active",
        "snapshot",
        "predecessor",
    ]


def test_state_prints_the_contract_fields(peer, told):
    status, rows, _ = told("state", peer("01_few"), "--json")
    assert status == 0
    assert [list(row) for row in rows] == [["index", "term", "type", "request_id", "data"]] * 5
    assert [row["type"] for row in rows] == ["checkpoint", "state", "state", "config", "state"]
    assert rows[1]["data"] == b"foo".hex()
    assert len(told("state", peer("03_multi_files"), "--as-of", 9, "--json")[1]) == 9


def test_dump_filters_by_position_operation_and_request_id(peer, told):
    path = peer("01_few")
    wanted = recorded("01_few")["log"]["entries"][2]["requestId"]
    assert [row["position"] for row in told("dump", path, "--from", 2, "--to", 3, "--json")[1]] == [2, 3]
    assert [row["position"] for row in told("dump", path, "--operation", "config", "--json")[1]] == [4]
    assert [row["position"] for row in told("dump", path, "--key", wanted, "--json")[1]] == [3]
    assert told("dump", path, "--key", "short")[0] == 2


def test_dump_hex_names_every_byte_of_the_file(peer, told):
    path = peer("01_few")
    _, fields, _ = told("dump", path, "--hex", "--json", "--file", index_path(1))
    raw = (path / index_path(1)).read_bytes()
    covered = bytearray(len(raw))
    for field in fields:
        data = bytes.fromhex(field["bytes"])
        assert raw[field["offset"] : field["offset"] + len(data)] == data
        covered[field["offset"] : field["offset"] + len(data)] = b"\x01" * len(data)
    assert all(covered)


@pytest.mark.parametrize(
    ("case", "status"),
    [
        ("d12_middle_file_missing", 3),
        ("d36_pers_zero_tail", 1),
        ("d16_wrong_version", 4),
        ("d37_pers_empty", 0),
    ],
)
def test_verify_exits_with_the_verdict(case, status, tmp_path, told):
    assert told("verify", lay_out(case, tmp_path))[0] == status


def test_repair_plans_first_and_applies_when_told_to(tmp_path, told):
    path = lay_out("d12_middle_file_missing", tmp_path)
    before = snapshot_of(path)
    status, (plan,), _ = told("repair", path, "--json")
    assert (status, plan["lost"]) == (3, ["index 24 to 50"])
    assert snapshot_of(path) == before
    assert told("repair", path, "--apply")[0] == 0
    assert told("verify", path)[0] == 0


def test_dump_shows_the_entries_before_the_damage_and_then_the_error(peer, told):
    status, rows, text = told("dump", peer("d09_last_entry_data_cut"), "--json")
    assert (status, [row["position"] for row in rows]) == (3, [1, 2, 3, 4])
    assert "index 5: the file ends inside the entry" in text


def test_repair_says_of_each_file_why_it_goes_and_where_the_originals_are(peer, told):
    path = peer("d12_middle_file_missing")
    _, (plan,), _ = told("repair", path, "--json")
    assert [step["reason"] for step in plan["steps"]] == [
        "missing before this file: index 24 to 31",
        *[f"stands behind {index_path(0x20)}"] * 2,
    ]
    text = told("repair", path, "--apply")[2]
    (kept,) = (path / "kept").iterdir()
    assert f"the original files are in {kept}" in text
    superseded = peer("d30_snap_beyond_log")
    assert "done: repaired; the original files are in " in told("repair", superseded, "--apply")[2]
    assert len(list(superseded.glob("log-*"))) == 1


def test_compact_removes_what_the_snapshot_covers(tmp_path, told):
    path = tmp_path / "peer"
    with RaftStore(path, capacity=4) as store:
        store.append([Entry(1, b"entry %d" % number) for number in range(11)])
        store.snapshot(9, b"state", prune=False)
    state = told("state", path, "--json")[1]
    before = snapshot_of(path)
    status, (plan,), _ = told("compact", path, "--dry-run", "--json")
    assert (status, plan["verb"], plan["applied"]) == (0, "compact", False)
    assert [step["file"] for step in plan["steps"]] == [index_path(1), index_path(4)]
    assert snapshot_of(path) == before
    assert told("compact", path)[0] == 0
    assert not (path / index_path(4)).exists()
    assert told("state", path, "--json")[1] == state
    assert "nothing to do" in told("compact", path)[2]


def test_migrate_is_refused_with_a_reason(peer, tmp_path, told):
    path = peer("01_few")
    before = snapshot_of(path)
    assert told("migrate", path, "--edition", "designed", "--to", tmp_path / "new")[0] == 3
    assert snapshot_of(path) == before
