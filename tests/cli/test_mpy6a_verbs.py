"""Every verb on directories of sessions, good and damaged, as they are typed."""

from __future__ import annotations

import pytest
from scripts.pages import contract
from tests.damaged_directories import numbered
from tests.golden_cases import snapshot_of
from tests.mpy6a.damaged import BY_CODE, FIRST, SECOND, T0, TOPICS, aside, but, in_record, logged, noted
from tests.mpy6a.recorded import DAMAGED, GOOD, TOLD, TORN, WHOLE, lay_out
from tests.mpy6a.test_mpy6a_golden import ERRORS, HEALED_BY_REPAIR

from flintlog.dialects.mpy6a.store import SessionStore

pytestmark = pytest.mark.usefixtures("still")

MORE_VERBS = (
    ["dump", "--hex", "--limit", "2", "--json"],
    ["state", "--as-of", "3,6"],
    ["snapshot", "--dry-run"],
    ["compact", "--dry-run"],
)
STATE_FIELDS = ["replay_time", "delay", "file", "offset", "id", "topic", "attempts", "data"]


@pytest.fixture
def root(tmp_path):
    return tmp_path / "root"


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", list(TOLD))
def test_no_read_verb_changes_a_byte_and_every_error_is_one_line(name, tmp_path, check_read_verbs):
    check_read_verbs(lay_out(name, tmp_path), *MORE_VERBS)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("make", [pytest.param(make, id=name) for name, _, make in numbered(BY_CODE)])
def test_nor_of_any_other_damaged_directory(make, root, check_read_verbs):
    make(root)
    check_read_verbs(root, *MORE_VERBS)


@pytest.mark.parametrize("name", GOOD)
def test_state_prints_the_fields_of_the_contract_in_the_order_of_replay(name, tmp_path, told):
    status, rows, _ = told("state", lay_out(name, tmp_path), "--json")
    assert status == 0
    assert all(list(row) == STATE_FIELDS for row in rows)
    told = [dict(row) for row in TOLD[name]["replay_order"]]
    for row in told:
        row["data"] = row.pop("data_hex")
        row["delay"] = int(row["file"].partition("@")[0])
    assert rows == [{field: row[field] for field in STATE_FIELDS} for row in told]


@pytest.mark.parametrize(
    ("name", "status"),
    [
        *((name, 0) for name in WHOLE),
        *((name, 1) for name in TORN),
        *((name, 1 if ERRORS[name][0] in HEALED_BY_REPAIR else 3) for name in DAMAGED),
    ],
)
def test_verify_and_inspect_exit_with_the_verdict(name, status, tmp_path, told):
    path = lay_out(name, tmp_path)
    word = {0: "clean", 1: "repairable", 3: "corrupt"}[status]
    for verb in ("verify", "inspect"):
        exited, (shown,), _ = told(verb, path, "--json")
        assert (exited, shown["verdict"], shown["dialect"], shown["edition"]) == (status, word, "mpy6a", None)
        assert list(shown) == [field for field, _ in contract.INVENTORY_FIELDS]
        assert all(list(file) == [field for field, _ in contract.FILE_FIELDS] for file in shown["files"])


@pytest.mark.parametrize("name", DAMAGED)
def test_what_refuses_to_open_is_refused_by_the_verbs_that_need_the_state(name, tmp_path, told):
    path = lay_out(name, tmp_path)
    for verb in ("state", "snapshot", "compact"):
        status, rows, text = told(verb, path)
        assert (status, rows) == (3, []), verb
        assert "`flintlog repair" in text


@pytest.mark.parametrize("name", TORN + DAMAGED)
def test_repair_plans_first_and_applies_when_told_to(name, tmp_path, told):
    path = lay_out(name, tmp_path)
    before = snapshot_of(path)
    status, (plan,), _ = told("repair", path, "--json")
    assert status == told("verify", path)[0]
    assert status == 3 or not plan["lost"]
    assert (plan["refusal"], plan["applied"], snapshot_of(path)) == (None, False, before)
    status, _, text = told("repair", path, "--apply")
    assert status == 0
    assert "done: repaired" in text
    assert told("verify", path)[0] == 0
    assert told("state", path)[0] == 0
    assert told("repair", path)[2].endswith("nothing to do\n")


def test_inspect_shows_roles_ranges_and_facts(root, told):
    logged(root)
    (root / "notes.txt").write_text("mine")
    status, (shown,), _ = told("inspect", root, "--json")
    assert status == 0
    assert {file["name"]: file["role"] for file in shown["files"]} == {
        FIRST: "reading",
        SECOND: "writing",
        "90@2023111422.data": "writing",
        "600@2023111422.data": "writing",
        "state.snapshot": "snapshot",
        "state.log": "changes",
        "operations.log": "operations",
        "exhausted.sessions": "exhausted",
        "notes.txt": "foreign",
    }
    assert (shown["first"], shown["last"]) == ([1, 20], [1, 32])
    assert shown["facts"] == {
        "sessions": 8,
        "open_sessions": 1,
        "changed_sessions": 1,
        "exhausted_sessions": 1,
        "delays": [30, 90, 600],
        "next_replay": T0 + 32,
        "unread_bytes": 289,
        "read_bytes": 201,
        "operations_log": True,
    }


def test_inspect_of_the_notes_files_alone_and_of_a_closed_file(root, told):
    noted(root)
    with SessionStore(root, topics=TOPICS, strict=True, on_exhausted=print) as store:
        store.rotate(600, now=T0 + 60)
    (root / "30@2022042817.data").write_bytes(b"")
    _, (shown,), _ = told("inspect", root, "--json")
    roles = {file["name"]: file["role"] for file in shown["files"]}
    assert (roles["600@2023111422.data"], roles["30@2022042817.data"]) == ("closed", "leftover")
    assert shown["facts"]["operations_log"] is False


def test_numbers_beyond_63_bits_are_numbers_in_json_and_in_text(tmp_path, told):
    path = lay_out("s1_multi_delay", tmp_path)
    (row,) = [row for row in told("state", path, "--json")[1] if row["data"] == b"max".hex()]
    assert (row["id"], row["attempts"]) == ([2**64 - 1, 2**64 - 1], 2**64 - 1)
    (entry,) = told("dump", path, "--key", f"{2**64 - 1},{2**64 - 1}", "--json")[1]
    assert (entry["term"], entry["position"]) == (2**63 - 1, 2**63 - 1)
    assert (entry["mpy6a"]["term"], entry["mpy6a"]["attempts"]) == (2**64 - 1, 2**64 - 1)
    assert str(2**64 - 1) in told("dump", path)[2]


def test_dump_filters(root, told):
    logged(root)
    assert [
        row["operation"] for row in told("dump", root, "--from", "1,28", "--to", "1,29", "--json")[1]
    ] == [
        "new",
        "append",
    ]
    topics = told("dump", root, "--stream", 2, "--operation", "session", "--json")[1]
    assert [bytes.fromhex(row["payload"]) for row in topics] == [b"long", b"longer"]
    assert list(topics[0]) == [*(field for field, _ in contract.ENTRY_FIELDS[:-1]), "mpy6a"]
    assert "payload" not in told("dump", root, "--no-payload", "--limit", 1, "--json")[1][0]
    assert told("dump", root, "--key", "short")[0] == 2
    assert told("dump", root, "--from", "1,2,3")[0] == 2
    assert told("dump", root, "--from", 1 << 70)[0] == 2


def test_dump_shows_the_entries_before_the_damage_and_then_the_error(root, told):
    but(noted, in_record(SECOND, 1, 8, bytes(8)))(root)
    status, rows, text = told("dump", root, "--json", "--operation", "session")
    assert (status, [row["offset"] for row in rows if row["file"] == SECOND]) == (3, [0])
    assert "byte 37: the session's term is 0" in text
    status, fields, _ = told("dump", root, "--json", "--hex")
    assert (status, [field["offset"] for field in fields if field["name"] == "damage"]) == (0, [37])


def test_the_state_at_a_position(root, told):
    logged(root)
    newest = told("state", root, "--json")[1]
    last = ",".join(map(str, told("inspect", root, "--json")[1][0]["last"]))
    assert told("state", root, "--as-of", last, "--json")[1] == newest
    earlier = told("state", root, "--as-of", "1,20", "--json")[1]
    assert [bytes.fromhex(row["data"]) for row in earlier][:2] == [b"short 0", b"short 1"]
    assert len(earlier) == 9
    status, rows, text = told("state", root, "--as-of", "1,19")
    assert (status, rows) == (3, [])
    assert "Choose a position from 1,20 to" in text
    assert told("state", root, "--as-of", "20")[0] == 2


@pytest.mark.parametrize("make", [noted, logged], ids=["note", "operations"])
def test_snapshot_begins_the_logs_anew(make, root, told):
    make(root)
    state = told("state", root, "--json")[1]
    before = snapshot_of(root)
    status, (plan,), _ = told("snapshot", root, "--dry-run", "--json")
    assert (status, plan["steps"][0]["file"]) == (0, "state.snapshot")
    assert snapshot_of(root) == before
    assert told("snapshot", root)[0] == 0
    assert (root / "state.log").stat().st_size == 16
    assert (root / "operations.log").exists() == (make is logged)
    assert told("state", root, "--json")[1] == state
    assert told("snapshot", root)[2].endswith("nothing to do\n")
    assert told("verify", root)[0] == 0
    assert told("snapshot", root, "--as-of", "1,5")[0] == 2
    assert told("snapshot", root, "--data", root / "state.log")[0] == 2


@pytest.mark.parametrize("strict", [True, False], ids=["note", "operations"])
def test_compact_merges_the_unread_remains(strict, root, told):
    with SessionStore(root, topics=TOPICS, strict=strict, on_exhausted=print) as store:
        for number in range(9):
            store.put(1, b"session %d" % number, now=T0 + number)
            if number % 3 == 2:
                store.rotate(30, now=T0 + number)
        for session in store.due(now=T0 + 34, limit=5):
            session.delete()
    state = [(row["replay_time"], row["data"]) for row in told("state", root, "--json")[1]]
    before = snapshot_of(root)
    status, (plan,), _ = told("compact", root, "--dry-run", "--json")
    assert (status, [step["action"] for step in plan["steps"]]) == (0, ["merge", "merge"])
    assert snapshot_of(root) == before
    status, (done,), _ = told("compact", root, "--json")
    assert (status, done["done"]) == (0, f"2 files merged into 1; {plan['facts']['freed_bytes']} bytes freed")
    assert [(row["replay_time"], row["data"]) for row in told("state", root, "--json")[1]] == state
    assert told("verify", root)[0] == 0
    assert told("compact", root)[2].endswith("nothing to do\n")


def test_migrate_is_refused_with_a_reason(root, tmp_path, told):
    aside(root)
    before = snapshot_of(root)
    status, _, text = told("migrate", root, "--edition", "designed", "--to", tmp_path / "new")
    assert (status, snapshot_of(root)) == (3, before)
    assert "mpy6a has one edition only" in text


def test_a_directory_that_a_store_has_open_is_read_and_not_written(root, told):
    with SessionStore(root, topics=TOPICS) as store:
        store.put(1, b"here", now=T0)
        assert told("verify", root)[0] == 0
        assert [bytes.fromhex(row["data"]) for row in told("state", root, "--json")[1]] == [b"here"]
        status, _, text = told("snapshot", root)
        assert status == 3
        assert "has this directory open for writing" in text
