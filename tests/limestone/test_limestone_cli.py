"""The command line on real limestone directories."""

from __future__ import annotations

import json

import pytest
from tests.golden_cases import snapshot_of
from tests.limestone.recorded import lay_out, rows_of

from flintlog.cli.main import main


@pytest.fixture
def run(capsys):
    def run(*arguments):
        status = main([str(argument) for argument in arguments])
        out, talk = capsys.readouterr()
        return status, [json.loads(line) for line in out.splitlines() if line.startswith("{")], out + talk

    return run


@pytest.fixture
def log(tmp_path):
    return lambda case, variant="dir": lay_out(case, variant, tmp_path)


def test_inspect_shows_roles_epochs_and_facts(log, run):
    status, (shown,), _ = run("inspect", log("c06_online_compaction"), "--json")
    assert (status, shown["dialect"], shown["edition"], shown["verdict"]) == (
        0,
        "limestone",
        "shipped",
        "clean",
    )
    assert (shown["first"], shown["last"]) == (1, 7)
    assert shown["facts"]["compacted_epoch"] == 6
    roles = {file["name"]: file["role"] for file in shown["files"]}
    assert roles["pwal_0000.compacted"] == "compacted"
    assert roles["pwal_0001"] == "active"
    assert roles["pwal_0000.01794727591910.0"] == "superseded"
    assert "clean" in run("inspect", log("c01_basic_multichannel"))[2]


def test_state_prints_the_contract_fields_with_numbers_of_any_size(log, run):
    status, rows, _ = run("state", log("c01_basic_multichannel"), "--json")
    assert status == 0
    assert {tuple(row) for row in rows} == {("storage_id", "key", "value", "write_version", "blob_ids")}
    shown = {(row["storage_id"], bytes.fromhex(row["key"])): bytes.fromhex(row["value"]) for row in rows}
    assert shown == rows_of("c01_basic_multichannel", "dir")
    assert [*shown] == sorted(shown)
    [long_transaction] = [row for row in rows if row["key"] == b"longtx".hex()]
    assert long_transaction["write_version"] == [2, 2**63]
    assert long_transaction["blob_ids"] == []


def test_state_as_of_an_epoch(log, run):
    path = log("c01_basic_multichannel")
    newest = run("state", path, "--json")[1]
    assert run("state", path, "--as-of", 6, "--json")[1] == newest
    assert run("state", path, "--as-of", 1, "--json")[1] != newest
    assert run("state", path, "--as-of", 0, "--json")[1] == []
    status, _, text = run("state", log("c06_online_compaction"), "--as-of", 2)
    assert (status, "compacted up to epoch 6" in text) == (3, True)
    assert run("state", path, "--as-of", "1,2")[0] == 2


def test_dump_filters_and_shows_blobs(log, run):
    path = log("c07_offline_compaction")
    rows = run("dump", path, "--operation", "put", "--json")[1]
    assert {row["operation"] for row in rows} == {"put"}
    [with_blob] = [row for row in rows if row["limestone"]["blob_ids"]]
    assert with_blob["limestone"]["blob_ids"] == [1]
    assert {row["limestone"]["status"] for row in run("dump", path, "--json")[1]} == {"durable", "pending"}
    assert run("dump", path, "--stream", with_blob["stream"], "--key", with_blob["key"], "--json")[1] == [
        with_blob
    ]
    assert run("dump", path, "--key", "no hex")[0] == 2


def test_dump_hex_explains_every_byte_of_a_log(log, run):
    path = log("c34_log05_v1_migration")
    size = (path / "pwal_0000").stat().st_size
    fields = [row for row in run("dump", path, "--hex", "--json")[1] if row["file"] == "pwal_0000"]
    ends = [field["offset"] + len(field["bytes"]) // 2 for field in fields]
    assert [field["offset"] for field in fields] == [0, *ends[:-1]]
    assert ends[-1] == size
    assert "torn" in run("dump", log("c09_kill_torn_entry"), "--hex")[2]


@pytest.mark.parametrize(
    ("case", "status", "code"),
    [
        ("c01_basic_multichannel", 0, None),
        ("c14_zero_filled_tail", 1, "torn-tail"),
        ("c16_unknown_type_in_durable", 3, "entry-type"),
        ("c37_manifest_future", 4, "manifest-version"),
        ("c38_manifest_missing", 4, "manifest-missing"),
        ("c40_manifest_corrupt", 3, "manifest-broken"),
    ],
)
def test_the_exit_status_of_verify_is_the_verdict(case, status, code, log, run):
    path = log(case)
    before = snapshot_of(path)
    done, (shown,), _ = run("verify", path, "--json")
    assert done == status
    assert [item["code"] for item in shown["findings"]][:1] == ([code] if code else [])
    assert snapshot_of(path) == before


@pytest.mark.parametrize(
    "verb",
    [("repair",), ("snapshot",), ("compact",), ("migrate", "--edition", "designed", "--to", "elsewhere")],
)
def test_a_verb_that_is_not_there_refuses_and_changes_nothing(verb, log, run):
    path = log("c01_basic_multichannel")
    before = snapshot_of(path)
    name, *options = verb
    status, _, text = run(name, path, *options)
    assert (status, f"has no {name}" in text) == (3, True)
    assert snapshot_of(path) == before


def test_a_refusal_names_the_place_and_what_to_do(log, run):
    status, _, text = run("state", log("c11_truncated_durable_entry"))
    assert status == 3
    assert "pwal_0000, byte 166" in text
    assert "Nothing was changed" in text
