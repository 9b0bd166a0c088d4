"""The designed edition reads and writes as the design note says, so that whoever follows the note sees the same."""

from __future__ import annotations

import pytest
from tests.limestone.directories import ROTATED, designed, session, shipped
from tests.limestone.note_rule import seen_by_the_note
from tests.limestone.original_rule import listed_above_the_epoch, seen_by_the_original

from flintlog.core.log import Log
from flintlog.core.workers import Threads
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone.dialect import DIALECT
from flintlog.dialects.limestone.distributed import Distribution, Looking, Looks
from flintlog.dialects.limestone.layout import Catalog
from flintlog.dialects.limestone.store import Datastore
from flintlog.dialects.limestone.upkeep.migrate import plan_migrate
from flintlog.dialects.limestone.upkeep.repair import plan_repair
from flintlog.disk import Disk


def keys(path) -> str:
    rows = (row for batch in Log(DIALECT, Disk(), str(path)).state() for row in batch.to_pylist())
    return " ".join(row["key"].decode() for row in rows)


def noted(path) -> str:
    return " ".join(sorted(key.decode() for _, key in seen_by_the_note(Disk(), str(path))))


def catalog_of(path) -> Catalog:
    return lay.decode_catalog((path / lay.CATALOG_FILE).read_bytes())


def put(channel, key: bytes) -> None:
    with channel.session() as open_session:
        open_session.put(1, key, b"v")


def compacted(root, *detached: str):
    """Compacted up to epoch 3, with one key."""
    directory = designed(root, 5).compacted("a", epoch=3, name="cmpct_0001").log(session(5, "b"))
    return directory.catalog(Catalog({"cmpct_0001": 1}, frozenset(detached), 3, None))


# What is not processed


@pytest.mark.parametrize("keep_superseded", [False, True])
@pytest.mark.parametrize("detached", [(), (ROTATED,), ("pwal_0001.01600000000000.0",)])
def test_a_log_that_begins_below_the_maximum_epoch_is_not_processed(detached, keep_superseded, tmp_path):
    """Whether the catalog lists it, or others that are gone."""
    compacted(tmp_path, *detached).log(session(1, "removed"), session(3, "since"), name=ROTATED)
    assert (keys(tmp_path), noted(tmp_path)) == ("a b", "a b")
    inventory = Log(DIALECT, Disk(), str(tmp_path)).verify()
    assert inventory.findings == ()
    assert {item.name: item.role for item in inventory.files}[ROTATED] == "superseded"
    spread = Distribution(Looking(Looks(Threads(1)), Disk(), str(tmp_path)), 5)
    assert sum(part.keys for part in spread.facts()) == 2
    with Datastore(tmp_path, keep_superseded=keep_superseded) as store:
        assert (store.findings, len(store.snapshot)) == ((), 2)
        done = store.compact()
        assert done is not None and ROTATED in done.superseded
        assert (ROTATED in catalog_of(tmp_path).detached, keys(tmp_path)) == (True, "a b")


def superseded(root, edition: str):
    """Compacted up to epoch 3; the log that was taken in is still there."""
    directory = {"designed": designed, "shipped": shipped}[edition](root, 5).log(session(5, "b"))
    name, epoch, blob = ("cmpct_0001", 3, None) if edition == "designed" else (lay.COMPACTED_FILE, 0, 0)
    directory.compacted("a", epoch=epoch, name=name)
    return directory.catalog(Catalog({name: 1}, frozenset({ROTATED}), 3, blob))


@pytest.mark.parametrize("keep_superseded", [False, True])
@pytest.mark.parametrize("sessions", [(), (session(1, "a"),)], ids=["first", "second"])
@pytest.mark.parametrize("edition", ["designed", "shipped"])
def test_damage_in_such_a_log_is_healed_by_opening(edition, sessions, keep_superseded, tmp_path):
    made = superseded(tmp_path, edition).log(
        *sessions, name=ROTATED, tail=session(2, "x", "y", closed=False).encode()[:-5]
    )
    spoiled = (made.root / ROTATED).read_bytes()
    log = Log(DIALECT, Disk(), str(tmp_path))
    found = log.verify()
    assert (found.verdict, [item.code for item in found.findings]) == ("repairable", ["entry-cut"])
    assert (log.plan_repair().lost, keys(tmp_path)) == ((), "a b")
    with Datastore(tmp_path, keep_superseded=keep_superseded) as store:
        assert [item.code for item in store.findings] == ["entry-cut"]
    assert (log.verify().verdict, keys(tmp_path)) == ("clean", "a b")
    assert list(log.entries())
    [kept] = (tmp_path / "kept" / "opened").iterdir()
    assert kept.read_bytes() == spoiled
    with Datastore(tmp_path) as store:
        assert store.findings == ()
        store.compact()
    assert (log.verify().verdict, keys(tmp_path)) == ("clean", "a b")


@pytest.mark.parametrize("make", [designed, shipped])
def test_a_log_with_an_odd_name_that_was_compacted_is_not_processed_again(make, tmp_path):
    make(tmp_path, 2).log(session(1, "a"), name="pwal_0000.copy").log(session(2, "b"))
    with Datastore(tmp_path) as store:
        assert store.compact() is not None
        channel = store.channel()
        with channel.session() as open_session:
            open_session.remove(1, b"a")
        store.switch_epoch()
    with Datastore(tmp_path) as store:
        assert store.compact() is not None
    assert keys(tmp_path) == "b"
    if make is shipped:
        assert seen_by_the_original(Disk(), str(tmp_path)).keys() == {(1, b"b")}


@pytest.mark.parametrize("detached", [(), (ROTATED,)])
def test_sessions_above_the_maximum_epoch_count_wherever_they_are_and_opening_parts_them(detached, tmp_path):
    """Earlier releases left a session that was open during a compaction in a log with older ones, and listed it."""
    compacted(tmp_path, *detached).log(session(1, "removed"), session(4, "behind"), name=ROTATED)
    assert keys(tmp_path) == "a b behind"
    with Datastore(tmp_path) as store:
        assert len(store.snapshot) == 3
    assert (keys(tmp_path), noted(tmp_path)) == ("a b behind", "a b behind")
    assert listed_above_the_epoch(Disk(), str(tmp_path)) == []


def test_a_begin_marker_that_arrived_in_part_hides_nothing_behind_it(tmp_path):
    """It is a session without entries, of an older epoch than its own, and new sessions are written behind it."""
    directory = compacted(tmp_path)
    directory.log(tail=lay.encode_begin(6 << 8)[:1] + bytes(8))
    with Datastore(tmp_path) as store:
        put(store.channel(), b"behind")
        store.switch_epoch()
        assert (keys(tmp_path), noted(tmp_path)) == ("a behind", "a behind")


# What a session writes


@pytest.mark.parametrize("edition", ["designed", "shipped"])
def test_a_session_opens_its_log_and_writes_its_begin_marker_when_it_begins(edition, tmp_path):
    with Datastore(tmp_path, edition=edition) as store:
        store.switch_epoch(7)
        channel = store.channel()
        channel.begin()
        assert (tmp_path / "pwal_0000").read_bytes() == lay.encode_begin(7)
        channel.end()
        before = (tmp_path / "pwal_0000").read_bytes()
        channel.begin()
        assert (tmp_path / "pwal_0000").read_bytes() == before + lay.encode_begin(7)
        channel.abort()
        marked = bytes([lay.INVALIDATED]) + lay.encode_begin(7)[1:]
        assert (tmp_path / "pwal_0000").read_bytes() == before + marked
        store.switch_epoch()
        assert Log(DIALECT, Disk(), str(tmp_path)).verify().findings == ()


@pytest.mark.parametrize("edition", ["designed", "shipped"])
def test_the_first_session_of_a_process_ends_in_the_log_that_was_rotated_under_it(edition, tmp_path):
    with Datastore(tmp_path, edition=edition) as store:
        channel = store.channel()
        with channel.session() as open_session:
            [name] = store.rotate()
            open_session.put(1, b"a", b"v")
        assert b"a" in (tmp_path / name).read_bytes() and not (tmp_path / "pwal_0000").exists()
        put(channel, b"b")
        store.switch_epoch()
        assert b"b" in (tmp_path / "pwal_0000").read_bytes()
        assert keys(tmp_path) == "a b"


# What a compaction writes


@pytest.mark.parametrize("flush_bytes", [1, 1 << 20])
@pytest.mark.parametrize("keep_superseded", [False, True])
def test_a_log_with_a_session_that_is_open_is_not_listed(flush_bytes, keep_superseded, tmp_path):
    with Datastore(tmp_path, flush_bytes=flush_bytes, keep_superseded=keep_superseded) as store:
        channel, other = store.channel(), store.channel()
        put(channel, b"a")
        store.switch_epoch()
        put(other, b"b")  # ended, and not durable yet
        with channel.session() as open_session:
            open_session.put(1, b"c", b"v")
            assert store.compact() is not None
            assert (keys(tmp_path), noted(tmp_path)) == ("a", "a")
            open_session.put(1, b"d", b"v")
        store.switch_epoch()
        assert listed_above_the_epoch(Disk(), str(tmp_path)) == []
        assert (keys(tmp_path), noted(tmp_path)) == ("a b c d", "a b c d")
        put(channel, b"e")
        store.switch_epoch()
        assert store.compact() is not None
        assert noted(tmp_path) == "a b c d e"
    with Datastore(tmp_path) as store:
        assert (store.findings, len(store.snapshot)) == ((), 5)


def test_a_catalog_that_is_made_again_does_not_list_it_either(tmp_path):
    directory = compacted(tmp_path).log(session(1, "a"), session(4, "behind"), name=ROTATED)
    directory.log(session(2, "a"), name="pwal_0001.01600000000000.0").remove(lay.CATALOG_FILE)
    plan_repair(Disk(), str(tmp_path)).apply()
    assert catalog_of(tmp_path).detached == {"pwal_0001.01600000000000.0"}
    assert (keys(tmp_path), noted(tmp_path)) == ("a b behind", "a b behind")


def test_the_maximum_epoch_is_the_greatest_in_the_set(tmp_path):
    with Datastore(tmp_path) as store:
        channel = store.channel()
        put(channel, b"a")
        store.switch_epoch(1000)
        [name] = store.compact().files
        assert catalog_of(tmp_path).max_epoch == 1
        assert lay.decode_marker((tmp_path / name).read_bytes(), 0) == 1
        assert store.compact() is None
        with channel.session() as open_session:
            open_session.remove(1, b"a")
        store.switch_epoch()
        [name] = store.compact().files
        assert catalog_of(tmp_path).max_epoch == 1000  # of a session that left nothing but a removal
    with Datastore(tmp_path) as store:
        assert (store.durable_epoch, len(store.snapshot)) == (1000, 0)


def test_by_workers_it_is_too(tmp_path):
    with Datastore(tmp_path, workers=Threads(1)) as store:
        put(store.channel(), b"a")
        store.switch_epoch(1000)
        [name] = store.compact().files
        assert catalog_of(tmp_path).max_epoch == lay.decode_marker((tmp_path / name).read_bytes(), 0) == 1


def test_a_converted_directory_has_it_too(tmp_path):
    shipped(tmp_path / "old", 7).log(session(2, "a"), session(4, "b"))
    plan_migrate(Disk(), str(tmp_path / "old"), "designed", str(tmp_path / "new")).apply()
    assert catalog_of(tmp_path / "new").max_epoch == 4
    with Datastore(tmp_path / "new") as store:
        assert (store.durable_epoch, len(store.snapshot)) == (7, 2)
