"""A directory of version 1 with `pwal_0000.compacted`, which is a log there: it becomes designed once and for all."""

from __future__ import annotations

import pytest
from tests.limestone.directories import Directory, designed, session
from tests.limestone.snippets import Session

from flintlog.core.backup import take_backup
from flintlog.core.log import Log
from flintlog.core.workers import Threads
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone.dialect import DIALECT
from flintlog.dialects.limestone.distributed import Distribution, Looking, Looks
from flintlog.dialects.limestone.layout import Catalog, Manifest
from flintlog.dialects.limestone.store import Datastore, back_up, restore
from flintlog.dialects.limestone.survey import survey
from flintlog.dialects.limestone.upkeep.compact import plan_compact
from flintlog.dialects.limestone.upkeep.migrate import plan_migrate
from flintlog.dialects.limestone.upkeep.repair import plan_repair
from flintlog.disk import Disk
from flintlog.errors import RefusedError

NAMES = pytest.mark.parametrize("name", [lay.COMPACTED_FILE, lay.COMPACTED_PREVIOUS])
EXPECTED = {"higher": b"compacted", "lower": b"log", "alone": b"compacted", "new": b"log"}


def put(key: str, value: str, major: int) -> lay.Entry:
    return lay.put(1, key.encode(), value.encode(), (major, 0))


def first_version(root, name: str = lay.COMPACTED_FILE, version: int = 1) -> Directory:
    """Each of two logs has the higher version of one key; one of them is called compacted."""
    directory = designed(root, 5).write(lay.MANIFEST_FILE, Manifest(version).encode())
    directory.remove(lay.CATALOG_FILE)
    old = Session(
        3, (put("higher", "compacted", 9), put("lower", "compacted", 1), put("alone", "compacted", 2))
    )
    directory.log(old, name=name)
    return directory.log(Session(5, (put("higher", "log", 4), put("lower", "log", 4), put("new", "log", 4))))


def values(path) -> dict[str, bytes]:
    rows = (row for batch in Log(DIALECT, Disk(), str(path)).state() for row in batch.to_pylist())
    return {row["key"].decode(): row["value"] for row in rows}


def edition(path) -> tuple[str, int]:
    found = survey(Disk(), str(path))
    assert found.manifest is not None
    return found.edition, found.manifest.version


@NAMES
@pytest.mark.parametrize("version", [1, 2])
def test_the_higher_version_counts_in_it_as_in_every_log(name, version, tmp_path):
    """Version 2 is what an opening by an earlier release left: it did not rename the file."""
    first_version(tmp_path, name, version)
    assert values(tmp_path) == EXPECTED
    looking = Looking(Looks(Threads(1)), Disk(), str(tmp_path))
    assert sum(part.keys for part in Distribution(looking, 5).facts()) == len(EXPECTED)
    inventory = Log(DIALECT, Disk(), str(tmp_path)).verify()
    assert (inventory.verdict, inventory.edition) == ("clean", "designed")
    assert {item.name: item.role for item in inventory.files}[name] == "rotated"


@NAMES
@pytest.mark.parametrize("version", [1, 2])
def test_every_opening_says_designed_and_keeps_the_state(name, version, tmp_path):
    first_version(tmp_path, name, version)
    for _ in range(3):
        with Datastore(tmp_path) as store:
            assert store.edition == "designed"
            assert {entry.key.decode(): entry.value for entry in store.snapshot.scan()} == EXPECTED
        assert edition(tmp_path) == ("designed", 2)
        assert (tmp_path / "pwal_0000.00000000000000.0").exists() and not (tmp_path / name).exists()
    assert Log(DIALECT, Disk(), str(tmp_path)).verify().findings == ()


@pytest.mark.parametrize("version", [1, 2])
def test_a_compaction_behind_the_upgrade_is_one_of_the_design(version, tmp_path):
    first_version(tmp_path, version=version)
    with Datastore(tmp_path) as store:
        done = store.compact()
        assert done is not None and done.files == ("cmpct_0000",)
        with store.channel().session() as session_:
            session_.put(1, b"lower", b"later")
        store.switch_epoch()
    assert edition(tmp_path) == ("designed", 2)
    assert values(tmp_path) == EXPECTED | {"lower": b"later"}


def test_compacting_it_by_the_command_line_is_one_of_the_design(tmp_path):
    first_version(tmp_path)
    plan_compact(Disk(), str(tmp_path)).apply()
    assert (edition(tmp_path), values(tmp_path)) == (("designed", 2), EXPECTED)


def test_migrate_goes_from_1_to_2_and_no_further(tmp_path):
    first_version(tmp_path)
    plan = plan_migrate(Disk(), str(tmp_path))
    assert lay.COMPACTED_FILE in [step.file for step in plan.steps]
    plan.apply()
    assert (edition(tmp_path), values(tmp_path)) == (("designed", 2), EXPECTED)
    with pytest.raises(RefusedError, match="the newest of the designed edition"):
        plan_migrate(Disk(), str(tmp_path))


def test_a_chain_of_backups_crosses_the_upgrade(tmp_path):
    """Also one that grows further behind it."""
    log, place = tmp_path / "log", tmp_path / "place"
    first_version(log)
    first = place / take_backup(Disk(), str(log), str(place)).name
    with Datastore(log) as store:
        back_up(store, tmp_path / "second", since=[first])
    with Datastore(log) as store:
        with store.channel().session() as session_:
            session_.put(1, b"last", b"log")
        store.switch_epoch()
        back_up(store, tmp_path / "third", since=[first, tmp_path / "second"])
    taken = take_backup(Disk(), str(log), str(place))
    assert taken.new
    restore(first, tmp_path / "old")
    assert (edition(tmp_path / "old"), values(tmp_path / "old")) == (("designed", 1), EXPECTED)
    restore(tmp_path / "third", tmp_path / "new", chain=[first, tmp_path / "second"])
    restore(place / taken.name, tmp_path / "newer", chain=[first])
    for name in ("new", "newer"):
        assert (edition(tmp_path / name), values(tmp_path / name)) == (
            ("designed", 2),
            EXPECTED | {"last": b"log"},
        )


def test_a_manifest_that_is_made_again_leaves_it_a_log(tmp_path):
    """Version 1 has no catalog; no other version is without one."""
    first_version(tmp_path).write(lay.MANIFEST_FILE, b"{")
    plan_repair(Disk(), str(tmp_path)).apply()
    assert (edition(tmp_path), values(tmp_path)) == (("designed", 2), EXPECTED)


@pytest.mark.parametrize("catalog", [lay.CATALOG_FILE, lay.CATALOG_BACK])
def test_version_2_of_the_program_is_told_by_a_catalog_that_names_its_file(catalog, tmp_path):
    directory = designed(tmp_path, 5).compacted("a").log(session(4, "b"))
    directory.remove(lay.CATALOG_FILE)
    directory.catalog(Catalog({lay.COMPACTED_FILE: 1}, max_epoch=3, max_blob=None), catalog)
    for expected in (("shipped", 2), ("shipped", 7)):
        assert edition(tmp_path) == expected
        assert set(values(tmp_path)) == {"a", "b"}
        with Datastore(tmp_path):
            pass


def test_a_torn_catalog_of_the_program_still_shows_it(tmp_path):
    directory = designed(tmp_path, 5).compacted("a").log(session(4, "b"))
    raw = Catalog({lay.COMPACTED_FILE: 1}, max_epoch=3, max_blob=None).encode()
    directory.write(lay.CATALOG_FILE, raw[:-5])
    assert (edition(tmp_path), set(values(tmp_path))) == (("shipped", 2), {"a", "b"})
