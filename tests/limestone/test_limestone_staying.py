"""A compaction beside sessions that are open or not durable yet: their logs stay, for us and for the original."""

from __future__ import annotations

import threading

import pytest
from tests.limestone.original_rule import listed_above_the_epoch, seen_by_the_original

from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone.store import Datastore, back_up, restore
from flintlog.dialects.limestone.survey import survey
from flintlog.disk import Disk

BOTH = pytest.mark.parametrize("edition", ["designed", "shipped"])


def state_of(path) -> dict[tuple[int, bytes], bytes]:
    with Datastore(path) as store:
        return {(entry.storage, entry.key): entry.value for entry in store.snapshot.scan()}


def put(channel, key: bytes, value: bytes | None) -> None:
    with channel.session() as session:
        if value is None:
            session.remove(1, key)
        else:
            session.put(1, key, value)


@BOTH
@pytest.mark.parametrize("flush_bytes", [1, 1 << 20])
@pytest.mark.parametrize("rotates", [False, True])
def test_a_session_that_is_open_on_a_used_channel_is_not_lost(edition, flush_bytes, rotates, tmp_path):
    """Its log was rotated under it and holds nothing newer than the compaction, as far as can be read."""
    with Datastore(tmp_path, edition=edition, flush_bytes=flush_bytes) as store:
        channel = store.channel()
        put(channel, b"a", b"1")
        store.switch_epoch()
        with channel.session() as session:
            session.put(1, b"b", b"2")
            if rotates:
                store.rotate()
            done = store.compact()
            session.put(1, b"c", b"3")
        assert len(done.superseded) == 1  # the log was parted: what is compacted goes, the open session stays
        store.switch_epoch()
        assert store.durable_epoch == session.epoch
        assert survey(Disk(), store.path).findings == []
    assert state_of(tmp_path) == {(1, b"a"): b"1", (1, b"b"): b"2", (1, b"c"): b"3"}


@pytest.mark.parametrize("open_", [False, True])
def test_the_original_sees_sessions_behind_a_compaction_in_a_log_that_it_rotated(open_, tmp_path):
    """And nothing old of that log, which would beat what is newer in the compacted file."""
    with Datastore(tmp_path, edition="shipped") as store:
        mixed, other = store.channel(), store.channel()
        put(mixed, b"removed", b"old")
        put(mixed, b"changed", b"old")
        store.switch_epoch()
        put(other, b"removed", None)
        put(other, b"changed", b"new")
        store.switch_epoch()
        with mixed.session() as session:
            session.put(1, b"behind", b"1")
            session.remove(1, b"gone")
            if open_:
                store.compact()
        if not open_:
            store.compact()
        put(other, b"later", b"1")
        store.switch_epoch()
        assert listed_above_the_epoch(Disk(), str(tmp_path)) == []
        expected = {(1, b"changed"): b"new", (1, b"behind"): b"1", (1, b"later"): b"1"}
        assert seen_by_the_original(Disk(), str(tmp_path)) == expected
        assert survey(Disk(), store.path).findings == []
    assert state_of(tmp_path) == expected
    with Datastore(tmp_path) as store:
        assert store.compact() is not None
    assert seen_by_the_original(Disk(), str(tmp_path)) == state_of(tmp_path) == expected


def test_opening_takes_a_log_with_newer_sessions_out_of_the_catalog(tmp_path):
    """A crash came before it, or the original listed the log: a session that raced its rotation."""
    with Datastore(tmp_path, edition="shipped") as store:
        channel = store.channel()
        put(channel, b"a", b"1")
        store.switch_epoch()
        with channel.session() as session:
            session.put(1, b"b", b"2")
            store.compact()
        store.switch_epoch()
    path = tmp_path / lay.CATALOG_FILE
    [log] = tmp_path.glob("pwal_0000.0*.1")
    catalog = lay.decode_catalog(path.read_bytes())
    path.write_bytes(lay.Catalog(catalog.compacted, frozenset({log.name}), 1, 0).encode())
    log.write_bytes(bytes([lay.BEGIN]) + log.read_bytes()[1:])
    assert seen_by_the_original(Disk(), str(tmp_path)) == {(1, b"a"): b"1"}
    expected = {(1, b"a"): b"1", (1, b"b"): b"2"}
    assert state_of(tmp_path) == expected
    assert seen_by_the_original(Disk(), str(tmp_path)) == expected
    assert lay.decode_catalog(path.read_bytes()).detached == frozenset()


@BOTH
def test_nothing_is_lost_while_threads_write_and_others_compact_and_copy(edition, tmp_path):
    path = tmp_path / "log"
    with Datastore(path, edition=edition, snapshot=False, flush_bytes=64) as store:

        def work(number: int) -> None:
            channel = store.channel()
            for count in range(60):
                with channel.session() as session:
                    session.put(number, b"%d" % count, b"x" * 40)
                    session.put(number, b"last", b"%d" % count)
                store.switch_epoch()

        threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        copies = 0
        while any(thread.is_alive() for thread in threads):
            store.compact()
            back_up(store, tmp_path / f"backup {copies}")
            copies += 1
        store.switch_epoch()
    expected = {(number, b"%d" % count): b"x" * 40 for number in range(3) for count in range(60)}
    expected |= {(number, b"last"): b"59" for number in range(3)}
    assert state_of(path) == expected
    if edition == "shipped":
        assert seen_by_the_original(Disk(), str(path)) == expected
    restore(tmp_path / f"backup {copies - 1}", tmp_path / "restored")
    for number in range(3):  # of each thread a beginning, without a hole
        mine = {
            key: value
            for (storage, key), value in state_of(tmp_path / "restored").items()
            if storage == number
        }
        count = int(mine.pop(b"last", b"-1")) + 1
        assert set(mine) == {b"%d" % at for at in range(count)}
