"""Every verb on directories that the original program wrote."""

from __future__ import annotations

import json

import pytest
from scripts.pages import contract
from tests.golden_cases import GOLDEN, cases, expected, materialise, snapshot_of

from flintlog.core.dialect import dialect, dialect_names
from flintlog.core.log import Log
from flintlog.disk import Disk
from flintlog.errors import RefusedError

pytestmark = pytest.mark.usefixtures("still")

CLEAN = [
    "cluster-node0",
    "cluster-node2",
    "fresh-init",
    "fresh-init-prealloc",
    "leader-append-never-rolls",
    "odd-queue-names",
    "payload-lengths",
    "single-segment",
    "snapshot-at-log-end",
    "snapshot-every-command",
    "snapshot-only-next-segment",
    "snapshot-plus-suffix",
]
TORN = ["damaged-torn-last-record-eof", "damaged-torn-in-header-eof", "damaged-partial-end-marker"]
CORRUPT = [
    "damaged-crc-in-sealed-segment",
    "damaged-missing-middle-segment",
    "insert-after-gap",
    "log-not-from-zero-no-snapshot",
    "snapshot-behind-log-gap",
]
SINGLE_STATE = [
    {"queue": "", "id": 1, "key": -1, "payload": ""},
    {"queue": "", "id": 2, "key": 7, "payload": "7461696c"},
    {"queue": "orders", "id": 2, "key": 3, "payload": "6669727374"},
    {"queue": "orders", "id": 3, "key": 3, "payload": "7365636f6e64"},
]


def objects(text):
    return [json.loads(line) for line in text.splitlines()]


def names(fields):
    return [name for name, _ in fields]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", cases())
def test_no_read_verb_changes_a_byte_of_any_directory_and_every_error_is_one_line(
    case, tmp_path, check_read_verbs
):
    check_read_verbs(materialise(case, tmp_path), ["snapshot", "--dry-run"])


@pytest.mark.parametrize("case", CLEAN)
def test_a_clean_directory_verifies_with_0_and_its_range(case, tmp_path, typed):
    status, out, talk = typed("verify", materialise(case, tmp_path), "--json")
    assert (status, talk) == (0, "")
    (shown,) = objects(out)
    assert list(shown) == names(contract.INVENTORY_FIELDS)
    assert (shown["dialect"], shown["edition"], shown["verdict"]) == ("taskflux", "shipped", "clean")
    entries = expected(case)["real_code_open"]["entries"]
    if entries:
        assert shown["last"] == entries[-1]["index"]
    sizes = {file["path"]: file["size"] for file in expected(case)["input_files"]}
    assert {file["name"]: file["size"] for file in shown["files"]} == sizes


@pytest.mark.parametrize("case", TORN)
def test_a_torn_tail_is_repairable_and_exits_with_1(case, tmp_path, typed):
    log = materialise(case, tmp_path)
    status, out, _ = typed("verify", log, "--json")
    (shown,) = objects(out)
    assert (status, shown["verdict"]) == (1, "repairable")
    finding = shown["findings"][0]
    assert list(finding) == names(contract.FINDING_FIELDS)
    assert finding["file"] == "log/0000000000000000000.log"
    assert isinstance(finding["offset"], int)
    status, out, _ = typed("verify", log)
    assert status == 1
    assert f"{finding['offset']}" in out
    assert "verdict: repairable" in out


@pytest.mark.parametrize("case", ["damaged-snapshot-crc", "damaged-snapshot-negative-length"])
def test_a_bad_snapshot_costs_nothing_while_the_whole_log_is_there(case, tmp_path, typed):
    log = materialise(case, tmp_path)
    status, out, _ = typed("verify", log, "--json")
    (shown,) = objects(out)
    assert (status, shown["verdict"]) == (1, "repairable")
    assert [finding["file"] for finding in shown["findings"]] == ["tflux.snapshot"]


@pytest.mark.parametrize("case", CORRUPT)
def test_damage_that_needs_a_decision_exits_with_3(case, tmp_path, typed):
    status, out, _ = typed("verify", materialise(case, tmp_path), "--json")
    (shown,) = objects(out)
    assert (status, shown["verdict"]) == (3, "corrupt")
    assert "corrupt" in [finding["severity"] for finding in shown["findings"]]


def test_verify_names_file_byte_expected_and_found_of_a_wrong_checksum(tmp_path, typed):
    _, out, _ = typed("verify", materialise("damaged-crc-in-sealed-segment", tmp_path), "--json")
    (shown,) = objects(out)
    (finding,) = [finding for finding in shown["findings"] if finding["severity"] == "corrupt"]
    assert finding["file"] == "log/0000000000000000002.log"
    assert finding["offset"] is not None
    assert finding["expected"] is not None
    assert finding["found"] is not None


@pytest.mark.parametrize("case", ["single-segment", "cluster-node2", "snapshot-plus-suffix"])
def test_inspect_shows_every_file_with_its_role_and_the_range(case, tmp_path, typed):
    log = materialise(case, tmp_path)
    status, out, talk = typed("inspect", log, "--json")
    assert (status, talk) == (0, "")
    (shown,) = objects(out)
    assert list(shown) == names(contract.INVENTORY_FIELDS)
    assert (shown["dialect"], shown["edition"]) == ("taskflux", "shipped")
    files = {file["name"]: file for file in shown["files"]}
    assert set(files) == {file["path"] for file in expected(case)["input_files"]}
    assert all(file["role"] for file in shown["files"])
    assert shown["last"] == expected(case)["real_code_open"]["log_last_index"]
    status, out, _ = typed("inspect", log)
    assert status == 0
    for name in files:
        assert name in out
    assert out.splitlines()[-1] == "health: clean"


def test_a_directory_may_be_named_by_the_root_above_its_data(tmp_path, typed):
    materialise("single-segment", tmp_path).rename(tmp_path / "data")
    assert typed("verify", tmp_path)[0] == 0
    assert objects(typed("state", tmp_path, "--json")[1]) == SINGLE_STATE


@pytest.mark.parametrize("case", CLEAN)
def test_dump_gives_exactly_the_entries_the_original_read(case, tmp_path, typed):
    log = materialise(case, tmp_path)
    status, out, talk = typed("dump", log, "--json")
    assert (status, talk) == (0, "")
    shown = objects(out)
    recorded = expected(case)["real_code_open"]["entries"]
    assert [(entry["position"], entry["term"]) for entry in shown] == [
        (entry["index"], entry["term"]) for entry in recorded
    ]
    for entry, original in zip(shown, recorded, strict=True):
        assert list(entry) == [*names(contract.ENTRY_FIELDS)[:-1], "taskflux"]
        raw = (log / entry["file"]).read_bytes()[entry["offset"] : entry["offset"] + entry["length"]]
        assert raw.endswith(bytes.fromhex(original["data"]))
        assert entry["stream"] == original["delta"]["queue"]
        assert entry["payload"] == original["delta"].get("payload")


def test_dump_in_a_pipe_is_a_table_with_whole_payloads(tmp_path, typed):
    status, out, _ = typed("dump", materialise("single-segment", tmp_path))
    assert status == 0
    header, *rows = out.splitlines()
    assert header.split()[:4] == ["file", "offset", "length", "term"]
    assert len(rows) == 10
    assert '"hello"' in rows[1]


@pytest.mark.parametrize(
    ("options", "positions"),
    [
        (["--from", "3", "--to", "5"], [3, 4, 5]),
        (["--from", "8"], [8, 9]),
        (["--to", "1"], [0, 1]),
        (["--from", "99"], []),
        (["--limit", "2"], [0, 1]),
        (["--limit", "0"], []),
        (["--from", "4", "--limit", "1"], [4]),
        (["--stream", "tmp"], [5, 6, 7]),
        (["--stream", ""], [2, 9]),
        (["--stream", "tmp", "--stream", "", "--from", "7"], [7, 9]),
        (["--stream", "nobody"], []),
    ],
)
def test_dump_keeps_what_was_asked_for(options, positions, tmp_path, typed):
    status, out, _ = typed("dump", materialise("single-segment", tmp_path), "--json", *options)
    assert status == 0
    assert [entry["position"] for entry in objects(out)] == positions


def test_dump_keeps_the_operations_asked_for(tmp_path, typed):
    log = materialise("single-segment", tmp_path)
    every = objects(typed("dump", log, "--json")[1])
    words = {entry["operation"] for entry in every}
    assert len(words) == 4
    for word in words:
        shown = objects(typed("dump", log, "--json", "--operation", word)[1])
        assert shown == [entry for entry in every if entry["operation"] == word]


def test_dump_limits_over_several_segments(tmp_path, typed):
    log = materialise("snapshot-plus-suffix", tmp_path)
    shown = objects(typed("dump", log, "--json", "--limit", "10")[1])
    assert [entry["position"] for entry in shown] == list(range(15, 25))
    assert len({entry["file"] for entry in shown}) == 2


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_dump_leaves_payloads_out_when_told_to(form, tmp_path, typed):
    status, out, _ = typed("dump", materialise("single-segment", tmp_path), "--no-payload", *form)
    assert status == 0
    assert "payload" not in out
    assert b"hello".hex() not in out
    assert '"hello"' not in out


def test_dump_hex_shows_every_byte_of_the_entries_field_by_field(tmp_path, typed):
    log = materialise("single-segment", tmp_path)
    segment = "log/0000000000000000000.log"
    fields = objects(typed("dump", log, "--hex", "--json", "--file", segment)[1])
    assert all(list(field) == names(contract.BYTE_FIELDS) for field in fields)
    assert all(field["name"] and field["file"] == segment for field in fields)
    raw = (log / segment).read_bytes()
    covered = bytearray(len(raw))
    for field in fields:
        data = bytes.fromhex(field["bytes"])
        assert raw[field["offset"] : field["offset"] + len(data)] == data
        covered[field["offset"] : field["offset"] + len(data)] = b"\x01" * len(data)
    for entry in objects(typed("dump", log, "--json")[1]):
        start, end = entry["offset"], entry["offset"] + entry["length"]
        assert all(covered[start:end]), entry["position"]


def test_dump_hex_of_one_entry_ends_with_that_entry(tmp_path, typed):
    log = materialise("single-segment", tmp_path)
    first, second = objects(typed("dump", log, "--json", "--limit", "2")[1])
    fields = objects(typed("dump", log, "--hex", "--limit", "1", "--json")[1])
    ends = [field["offset"] + len(field["bytes"]) // 2 for field in fields]
    assert max(ends) == first["offset"] + first["length"] == second["offset"]
    assert typed("dump", log, "--hex", "--limit", "0")[:2] == (0, "")
    status, out, _ = typed("dump", log, "--hex", "--from", "1", "--limit", "1")
    assert status == 0
    assert "68 65 6c 6c 6f" in out
    assert "aa f5 34 c4" in out


def test_state_prints_the_contract_fields_in_dequeue_order(tmp_path, typed):
    status, out, talk = typed("state", materialise("single-segment", tmp_path), "--json")
    assert (status, talk) == (0, "")
    assert objects(out) == SINGLE_STATE
    assert [list(record) for record in objects(out)] == [["queue", "id", "key", "payload"]] * 4


def test_state_in_a_pipe_is_a_table(tmp_path, typed):
    status, out, _ = typed("state", materialise("single-segment", tmp_path))
    assert status == 0
    lines = out.splitlines()
    assert lines[0].split() == ["queue", "id", "key", "payload"]
    assert lines[1].split() == ['""', "1", "-1", '""']
    assert lines[3].split() == ["orders", "2", "3", '"first"']
    assert {line.index('"', 3) for line in lines[1:]} == {lines[0].index("payload")}


@pytest.mark.parametrize("case", CLEAN)
def test_state_holds_the_records_the_original_restored(case, tmp_path, typed):
    status, out, _ = typed("state", materialise(case, tmp_path), "--json")
    assert status == 0
    shown = objects(out)
    restored = [
        {"queue": queue["name"], "id": record["id"], "key": record["priority"], "payload": record["payload"]}
        for queue in expected(case)["real_code_open"]["restored_queues"]
        for record in queue["records_dequeue_order"]
    ]
    assert sorted(shown, key=repr) == sorted(restored, key=repr)
    order = [(record["queue"], record["key"]) for record in shown]
    assert order == sorted(order)


@pytest.mark.parametrize(
    ("position", "ids"),
    [
        (0, []),
        (1, [("orders", 1)]),
        (3, [("", 1), ("orders", 2), ("orders", 1)]),
        (4, [("", 1), ("orders", 2)]),
        (6, [("", 1), ("orders", 2), ("tmp", 1)]),
        (7, [("", 1), ("orders", 2)]),
    ],
)
def test_state_as_of_a_position_is_the_state_after_it(position, ids, tmp_path, typed):
    log = materialise("single-segment", tmp_path)
    status, out, _ = typed("state", log, "--as-of", position, "--json")
    assert status == 0
    assert [(record["queue"], record["id"]) for record in objects(out)] == ids


@pytest.mark.parametrize("case", ["single-segment", "cluster-node0", "fresh-init"])
def test_repair_of_a_clean_directory_has_nothing_to_do(case, tmp_path, typed):
    log = materialise(case, tmp_path)
    before = snapshot_of(log)
    for options in ([], ["--apply"]):
        status, out, _ = typed("repair", log, *options)
        assert status == 0
        assert "nothing to do" in out
    assert snapshot_of(log) == before


@pytest.mark.parametrize("case", TORN)
def test_repair_plans_first_and_applies_when_told_to(case, tmp_path, typed):
    log = materialise(case, tmp_path)
    before = snapshot_of(log)
    state = typed("state", log, "--json")[1]
    status, out, _ = typed("repair", log, "--json")
    (plan,) = objects(out)
    assert list(plan) == names(contract.PLAN_FIELDS)
    assert status == 1
    assert plan["steps"]
    assert (plan["applied"], plan["done"], plan["lost"]) == (False, None, [])
    assert snapshot_of(log) == before
    status, out, _ = typed("repair", log, "--apply", "--json")
    (plan,) = objects(out)
    assert (status, plan["applied"]) == (0, True)
    assert plan["done"]
    assert typed("verify", log)[0] == 0
    assert typed("state", log, "--json")[1] == state


def test_repair_of_damage_in_the_middle_names_what_is_lost_and_keeps_the_bytes(tmp_path, typed):
    log = materialise("damaged-crc-in-sealed-segment", tmp_path)
    damaged = (log / "log/0000000000000000002.log").read_bytes()
    status, out, _ = typed("repair", log, "--json")
    (plan,) = objects(out)
    assert status == 3
    assert plan["lost"]
    status, _, _ = typed("repair", log, "--apply")
    assert status == 0
    assert typed("verify", log)[0] == 0
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and path.read_bytes() == damaged]
    assert kept


def test_snapshot_changes_the_files_and_not_the_state(tmp_path, typed):
    log = materialise("single-segment", tmp_path)
    before = snapshot_of(log)
    state = typed("state", log, "--json")[1]
    status, out, _ = typed("snapshot", log, "--dry-run", "--json")
    (plan,) = objects(out)
    assert (status, plan["verb"], plan["applied"]) == (0, "snapshot", False)
    assert plan["steps"]
    assert snapshot_of(log) == before
    status, out, _ = typed("snapshot", log)
    assert status == 0
    assert "done: " in out
    assert (log / "tflux.snapshot").stat().st_size > 0
    assert typed("state", log, "--json")[1] == state
    assert typed("verify", log)[0] == 0


def test_migrate_writes_the_other_edition_and_leaves_the_source_alone(tmp_path, typed):
    log = materialise("single-segment", tmp_path)
    before = snapshot_of(log)
    state = typed("state", log, "--json")[1]
    target = tmp_path / "designed"
    arguments = ("migrate", log, "--edition", "designed", "--to", target)
    status, out, _ = typed(*arguments, "--dry-run", "--json")
    assert (status, objects(out)[0]["applied"]) == (0, False)
    assert not target.exists()
    status, out, _ = typed(*arguments)
    assert status == 0
    assert "done: " in out
    assert typed("state", target, "--json")[1] == state
    assert objects(typed("inspect", target, "--json")[1])[0]["edition"] == "designed"
    assert snapshot_of(log) == before


def test_migrate_refuses_a_place_that_is_not_empty(tmp_path, typed):
    log = materialise("single-segment", tmp_path)
    target = tmp_path / "taken"
    target.mkdir()
    (target / "letter.txt").write_text("dear reader")
    status, _, talk = typed("migrate", log, "--edition", "designed", "--to", target)
    assert status == 3
    assert len(talk.splitlines()) == 1
    assert [path.name for path in target.iterdir()] == ["letter.txt"]


def test_migrate_in_place_is_refused_where_a_dialect_has_no_versions(tmp_path, typed):
    log = materialise("single-segment", tmp_path)
    before = snapshot_of(log)
    status, _, talk = typed("migrate", log)
    assert (status, len(talk.splitlines()), snapshot_of(log)) == (3, 1, before)
    assert "taskflux has no versions" in talk
    for name in dialect_names():
        if name != "limestone":
            with pytest.raises(RefusedError, match=f"{name} has no versions"):
                Log(dialect(name), Disk(), str(log)).plan_migrate()


def test_migrate_to_an_edition_that_does_not_exist_is_wrong_usage(tmp_path, typed):
    log = materialise("single-segment", tmp_path)
    status, _, talk = typed("migrate", log, "--edition", "baroque", "--to", tmp_path / "new")
    assert status == 2
    assert "baroque" in talk
    assert not (tmp_path / "new").exists()


def test_the_golden_directories_themselves_are_never_written():
    for case in cases():
        for file in expected(case)["input_files"]:
            assert (GOLDEN / "taskflux" / case / "dir" / file["path"]).stat().st_size == file["size"]
