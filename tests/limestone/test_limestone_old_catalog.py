"""Opening removes compacted files that nothing needs, and never the only place of a key."""

from __future__ import annotations

import shutil

import pytest
from tests.golden_cases import snapshot_of

from flintlog.core.log import Log
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone.dialect import DIALECT
from flintlog.dialects.limestone.store import Datastore
from flintlog.dialects.limestone.upkeep.repair import plan_repair
from flintlog.disk import Disk
from flintlog.errors import DamageError

BOTH = pytest.mark.parametrize("edition", ["designed", "shipped"])
EXPECTED = {b"a": b"1", b"b": b"2", b"c": b"3"}


def put(store, key: bytes, value: bytes) -> None:
    with store.channel().session() as session:
        session.put(1, key, value)
    store.switch_epoch()


def catalogs_of_a_life(path, edition) -> list[bytes]:
    """A new store, compacted twice; gives what the catalog was at first, and after each compaction."""
    seen = []
    with Datastore(path, edition=edition) as store:
        for key, value in EXPECTED.items():
            seen.append((path / lay.CATALOG_FILE).read_bytes())
            put(store, key, value)
            if key != b"c":
                store.compact()
    return seen


def state(path) -> dict[bytes, bytes]:
    rows = [row for batch in Log(DIALECT, Disk(), str(path)).state() for row in batch.to_pylist()]
    return {row["key"]: row["value"] for row in rows}


@pytest.mark.parametrize("older", [0, 1])
@pytest.mark.parametrize("name", [lay.CATALOG_FILE, lay.CATALOG_BACK])
@BOTH
def test_an_older_catalog_costs_no_key(older, name, edition, tmp_path):
    path = tmp_path / "log"
    (path / name).parent.mkdir()
    older_one = catalogs_of_a_life(path, edition)[older]
    (path / name).write_bytes(older_one)
    before = snapshot_of(path)
    if edition == "shipped":  # there is one compacted file, and it counts under any catalog
        assert state(path) == EXPECTED
    else:
        seen = Log(DIALECT, Disk(), str(path)).verify()
        assert (seen.verdict, "catalog-old" in {item.code for item in seen.findings}) == ("corrupt", True)
        for act in (lambda: Datastore(path), lambda: state(path)):
            with pytest.raises(DamageError):
                act()
        assert snapshot_of(path) == before
        plan = plan_repair(Disk(), str(path))
        assert plan.refusal is None
        assert plan.lost == ("what the catalog said: it is told again by the files that are there",)
        plan.apply()
        assert Log(DIALECT, Disk(), str(path)).verify().verdict == "clean"
    with Datastore(path) as store:
        assert {entry.key: entry.value for entry in store.snapshot.scan()} == EXPECTED


def test_an_unfinished_switch_is_undone_only_where_the_logs_are_there(tmp_path):
    path, other = tmp_path / "log", tmp_path / "other"
    with Datastore(path, keep_superseded=True) as store:
        put(store, b"a", b"1")
        before = (path / lay.CATALOG_FILE).read_bytes()
        store.compact()
    (path / lay.CATALOG_BACK).write_bytes(before)
    shutil.copytree(path, other)
    with Datastore(path) as store:
        assert store.snapshot.get(1, b"a") == b"1"
    assert not (path / "cmpct_0000").exists()
    [log] = other.glob("pwal_0000.*")
    log.unlink()
    with pytest.raises(DamageError) as caught:
        Datastore(other)
    assert caught.value.code == "catalog-old"
    assert (other / "cmpct_0000").exists()


def test_a_compacted_file_that_cannot_be_read_and_no_catalog_names_stays(tmp_path):
    with Datastore(tmp_path) as store:
        put(store, b"a", b"1")
    (tmp_path / "cmpct_0007").write_bytes(b"a letter")
    with Datastore(tmp_path) as store:
        assert store.snapshot.get(1, b"a") == b"1"
        assert store.compact().files == ("cmpct_0008",)
    assert (tmp_path / "cmpct_0007").read_bytes() == b"a letter"


@BOTH
def test_an_emptied_compacted_file_is_damage(edition, tmp_path):
    catalogs_of_a_life(tmp_path, edition)
    [file] = [*tmp_path.glob("cmpct_*"), *tmp_path.glob("pwal_0000.compacted")]
    file.write_bytes(b"")
    assert Log(DIALECT, Disk(), str(tmp_path)).verify().verdict == "corrupt"
    with pytest.raises(DamageError, match="is empty"):
        Datastore(tmp_path)
    plan = plan_repair(Disk(), str(tmp_path))
    assert plan.lost == (f"all keys in {file.name} that no log has",)
    plan.apply()
    assert Log(DIALECT, Disk(), str(tmp_path)).verify().verdict == "clean"
    assert state(tmp_path) == {b"c": b"3"}
