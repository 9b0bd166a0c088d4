"""The command line on real limestone directories."""

from __future__ import annotations

import pytest
from tests.golden_cases import snapshot_of
from tests.limestone.directories import Directory, session
from tests.limestone.recorded import lay_out, rows_of

from flintlog.core.log import Log, open_log
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone.layout import Manifest
from flintlog.dialects.limestone.store import Datastore
from flintlog.disk import Disk
from flintlog.errors import RefusedError

pytestmark = pytest.mark.usefixtures("still")


@pytest.fixture
def log(tmp_path):
    return lambda case, variant="dir": lay_out(case, variant, tmp_path)


def test_inspect_shows_roles_epochs_and_facts(log, told):
    status, (shown,), _ = told("inspect", log("c06_online_compaction"), "--json")
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
    assert "clean" in told("inspect", log("c01_basic_multichannel"))[2]


def test_state_prints_the_contract_fields_with_numbers_of_any_size(log, told):
    status, rows, _ = told("state", log("c01_basic_multichannel"), "--json")
    assert status == 0
    assert {tuple(row) for row in rows} == {("storage_id", "key", "value", "write_version", "blob_ids")}
    shown = {(row["storage_id"], bytes.fromhex(row["key"])): bytes.fromhex(row["value"]) for row in rows}
    assert shown == rows_of("c01_basic_multichannel", "dir")
    assert [*shown] == sorted(shown)
    [long_transaction] = [row for row in rows if row["key"] == b"longtx".hex()]
    assert long_transaction["write_version"] == [2, 2**63]
    assert long_transaction["blob_ids"] == []


def test_state_as_of_an_epoch(log, told):
    path = log("c01_basic_multichannel")
    newest = told("state", path, "--json")[1]
    assert told("state", path, "--as-of", 6, "--json")[1] == newest
    assert told("state", path, "--as-of", 1, "--json")[1] != newest
    assert told("state", path, "--as-of", 0, "--json")[1] == []
    status, _, text = told("state", log("c06_online_compaction"), "--as-of", 2)
    assert (status, "reaches back to 6" in text) == (3, True)
    assert told("state", path, "--as-of", "1,2")[0] == 2


def test_dump_filters_and_shows_blobs(log, told):
    path = log("c07_offline_compaction")
    rows = told("dump", path, "--operation", "put", "--json")[1]
    assert {row["operation"] for row in rows} == {"put"}
    [with_blob] = [row for row in rows if row["limestone"]["blob_ids"]]
    assert with_blob["limestone"]["blob_ids"] == [1]
    assert {row["limestone"]["status"] for row in told("dump", path, "--json")[1]} == {"durable", "pending"}
    assert told("dump", path, "--stream", with_blob["stream"], "--key", with_blob["key"], "--json")[1] == [
        with_blob
    ]
    assert told("dump", path, "--key", "nobody's key")[0] == 0


def test_dump_hex_explains_every_byte_of_a_log(log, told):
    path = log("c34_log05_v1_migration")
    size = (path / "pwal_0000").stat().st_size
    fields = [row for row in told("dump", path, "--hex", "--json")[1] if row["file"] == "pwal_0000"]
    ends = [field["offset"] + len(field["bytes"]) // 2 for field in fields]
    assert [field["offset"] for field in fields] == [0, *ends[:-1]]
    assert ends[-1] == size
    assert "torn" in told("dump", log("c09_kill_torn_entry"), "--hex")[2]


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
def test_the_exit_status_of_verify_is_the_verdict(case, status, code, log, told):
    path = log(case)
    before = snapshot_of(path)
    done, (shown,), _ = told("verify", path, "--json")
    assert done == status
    assert [item["code"] for item in shown["findings"]][:1] == ([code] if code else [])
    assert snapshot_of(path) == before


def test_repair_plans_first_and_applies_when_asked(log, told):
    path = log("c14_zero_filled_tail")
    before = snapshot_of(path)
    status, (shown,), _ = told("repair", path, "--json")
    assert (status, [step["action"] for step in shown["steps"]], shown["lost"]) == (1, ["cut"], [])
    assert snapshot_of(path) == before
    assert told("repair", path, "--apply")[0] == 0
    assert told("verify", path)[0] == 0
    assert (told("repair", path)[0], len(told("state", path, "--json")[1])) == (0, 3)
    [kept] = (path / "kept").iterdir()
    assert (kept / "pwal_0000").read_bytes() == before["pwal_0000"]


def test_repair_of_durable_data_says_what_is_lost(log, told):
    path = log("c11_truncated_durable_entry")
    status, _, text = told("repair", path)
    assert (status, "what stood in pwal_0000 from byte 166 to byte 208" in text) == (3, True)
    assert told("state", path)[0] == 3
    assert told("repair", path, "--apply")[0] == 0
    assert (told("verify", path)[0], len(told("state", path, "--json")[1])) == (0, 2)


def test_repair_refuses_what_is_not_damage(log, told):
    path = log("c37_manifest_future")
    before = snapshot_of(path)
    assert told("repair", path, "--apply")[0] == 4
    assert snapshot_of(path) == before


def test_compact_writes_the_state_and_drops_the_logs(log, told):
    path = log("c01_basic_multichannel")
    before, rows = snapshot_of(path), told("state", path, "--json")[1]
    status, (shown,), _ = told("compact", path, "--dry-run", "--json")
    assert (status, [step["action"] for step in shown["steps"]]) == (0, ["write", *["remove"] * 3])
    assert snapshot_of(path) == before
    status, _, text = told("compact", path)
    assert (status, "pwal_0000.compacted at epoch 6; 3 files removed" in text) == (0, True)
    assert not list(path.glob("pwal_000?"))
    after = told("state", path, "--json")[1]
    plain = [(row["storage_id"], row["key"], row["value"]) for row in rows]
    assert [(row["storage_id"], row["key"], row["value"]) for row in after] == plain
    assert told("verify", path)[0] == 0
    assert (told("compact", path)[0], told("compact", path, "--json")[1][0]["steps"]) == (0, [])


def test_snapshot_writes_the_sorted_state_and_leaves_the_logs(log, told):
    path = log("c01_basic_multichannel")
    logs = {name: raw for name, raw in snapshot_of(path).items() if not name.startswith("data")}
    status, _, text = told("snapshot", path)
    assert (status, "data/snapshot at epoch 6" in text) == (0, True)
    theirs = lay_out("c01_basic_multichannel", "dir_after", path.parent)
    assert (path / "data/snapshot").read_bytes() == (theirs / "data/snapshot").read_bytes()
    assert "at epoch 1" in told("snapshot", path, "--as-of", 1)[2]
    assert {name: raw for name, raw in snapshot_of(path).items() if not name.startswith("data")} == logs
    assert told("snapshot", path, "--data", path / "epoch")[0] == 2
    assert told("snapshot", log("c06_online_compaction"), "--as-of", 2)[0] == 3


@pytest.mark.parametrize(
    "case", ["c01_basic_multichannel", "c06_online_compaction", "c34_log05_v1_migration"]
)
def test_migrate_there_and_back_keeps_the_state(case, log, told, tmp_path):
    path = log(case)
    before = snapshot_of(path)
    rows = [(row["storage_id"], row["key"], row["value"]) for row in told("state", path, "--json")[1]]
    there, back = tmp_path / "there", tmp_path / "back"
    assert told("migrate", path, "--edition", "designed", "--to", there, "--dry-run")[0] == 0
    assert not there.exists()
    for source, edition, target in ((path, "designed", there), (there, "shipped", back)):
        status, _, text = told("migrate", source, "--edition", edition, "--to", target)
        assert (status, "holds the same state" in text) == (0, True)
        shown = [(row["storage_id"], row["key"], row["value"]) for row in told("state", target, "--json")[1]]
        assert shown == rows
        status, (seen,), _ = told("verify", target, "--json")
        assert (status, seen["edition"]) == (0, edition)
    with Datastore(back) as store:
        with store.channel().session() as session:
            session.put(7, b"goes", b"on")
        store.switch_epoch()
    assert len(told("state", back, "--json")[1]) == len(rows) + 1
    assert snapshot_of(path) == before


def test_migrate_refuses_before_it_writes(log, told, tmp_path):
    path, target = log("c07_offline_compaction"), tmp_path / "target"
    for source, edition, text in (
        (path, "designed", "1 blobs are named"),
        (path, "shipped", "of the shipped edition already"),
        (path, "other", "not an edition"),
        (log("c16_unknown_type_in_durable"), "designed", "no record begins here"),
    ):
        assert text in told("migrate", source, "--edition", edition, "--to", target)[2]
        assert not target.exists()
    assert told("migrate", log("c01_basic_multichannel"), "--edition", "designed", "--to", path)[0] == 3


@pytest.mark.parametrize(
    ("edition", "version", "steps"),
    [
        ("designed", 1, ["rename", "write", "remove"]),
        ("shipped", 6, ["write"]),
        ("shipped", 5, ["write", "rename"]),
    ],
)
def test_migrate_upgrades_a_directory_in_its_place(edition, version, steps, told, tmp_path):
    path = tmp_path / "log"
    old = Directory(path, edition).start(1).log(session(1, "a", "b"))
    old.write(lay.MANIFEST_FILE, (Manifest(1) if version == 1 else Manifest(version, "1.1", "u")).encode())
    before = snapshot_of(path)
    status, (plan,), _ = told("migrate", path, "--dry-run", "--json")
    assert (status, [step["action"] for step in plan["steps"]]) == (0, steps)
    assert plan["facts"] == {"edition": edition, "from": version, "to": lay.VERSION_OF[edition]}
    assert snapshot_of(path) == before
    status, _, text = told("migrate", path)
    assert (status, f"version {version} became version {lay.VERSION_OF[edition]}" in text) == (0, True)
    assert lay.decode_manifest((path / lay.MANIFEST_FILE).read_bytes()).version == lay.VERSION_OF[edition]
    assert len(told("state", path, "--json")[1]) == 2
    status, _, text = told("migrate", path)
    assert (status, "nothing to upgrade" in text) == (3, True)


def test_migrate_needs_both_words_or_none(log, told, tmp_path):
    path = log("c01_basic_multichannel")
    for words in (("--edition", "designed"), ("--to", tmp_path / "new")):
        status, _, text = told("migrate", path, *words)
        assert (status, "both --edition and --to" in text) == (2, True)
    assert told("migrate", log("c11_truncated_durable_entry"))[0] == 3


def test_verify_of_a_live_directory_looks_again(tmp_path, monkeypatch):
    """A session that ended and whose epoch is about to be durable, and an epoch record that is half there."""
    with Datastore(tmp_path) as store:
        with store.channel().session() as session:
            session.put(1, b"a", b"1")
        epoch = tmp_path / lay.EPOCH_FILE
        epoch.write_bytes(lay.encode_durable(1)[:4])
        for look in (Log.inspect, Log.verify):
            stays = look(open_log(tmp_path))
            assert {item.code for item in stays.findings} == {"not-durable", "epoch-torn"}
            assert stays.verdict == "repairable"
            disk = Disk()
            monkeypatch.setattr(disk, "pause", lambda _: epoch.write_bytes(lay.encode_durable(1)))
            passes = look(open_log(str(tmp_path), disk=disk))
            assert (passes.verdict, {item.severity for item in passes.findings}) == ("clean", {"note"})
            epoch.write_bytes(lay.encode_durable(1)[:4])


def test_without_its_epoch_file_a_directory_is_not_forgotten(log, told):
    """A store that opens would mark every session; reading shows what the original shows: nothing."""
    path = log("c20_epoch_missing")
    before = snapshot_of(path)
    for _ in range(2):
        with pytest.raises(RefusedError, match="flintlog repair"):
            Datastore(path)
    assert snapshot_of(path) == before
    assert told("state", path, "--json")[1] == []
    assert told("repair", path, "--apply")[0] == 0
    assert len(told("state", path, "--json")[1]) == 3


def test_the_upkeep_verbs_need_the_directory_for_themselves(log, told, tmp_path):
    path = log("c10_ended_not_durable")
    with Datastore(path) as store:
        with store.channel().session() as session:
            session.put(1, b"k", b"v")
        store.switch_epoch()
        for verb in (("compact",), ("snapshot",)):
            assert told(verb[0], path)[0] == 3


def test_a_refusal_names_the_place_and_what_to_do(log, told):
    status, _, text = told("state", log("c11_truncated_durable_entry"))
    assert status == 3
    assert "pwal_0000, byte 166" in text
    assert "Nothing was changed" in text
