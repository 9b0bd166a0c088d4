"""`get`, `scan` and `in` see what is durable now: the same that an opening would."""

from __future__ import annotations

import logging
import random
import threading

import pytest
from tests.limestone.directories import session

from flintlog.core.log import Log
from flintlog.dialects.limestone.dialect import DIALECT
from flintlog.dialects.limestone.store import Datastore
from flintlog.disk import Disk
from flintlog.errors import ClosedError, UsageError

BOTH = pytest.mark.parametrize("edition", ["designed", "shipped"])


def state_of(path) -> dict[tuple[int, bytes], tuple[bytes, tuple[int, int]]]:
    """By reading the whole directory."""
    return {
        (int(row["storage_id"]), row["key"]): (row["value"], tuple(map(int, row["write_version"])))
        for batch in Log(DIALECT, Disk(), str(path)).state()
        for row in batch.to_pylist()
    }


def check(store) -> None:
    """Every way to read gives the state that the directory has."""
    state = state_of(store.path)
    entries = list(store.scan())
    assert {(entry.storage, entry.key): (entry.value, entry.version) for entry in entries} == state
    assert len(entries) == len(state)
    by_storage = (lambda number: number) if store.edition == "designed" else lambda n: n.to_bytes(8, "little")
    places = [(by_storage(entry.storage), entry.key) for entry in entries]
    assert places == sorted(places)
    for storage, key in [
        *state,
        *((storage, b"%d" % number) for storage in (1, 256) for number in range(30)),
    ]:
        value, _ = state.get((storage, key), (None, None))
        assert store.get(storage, key) == value
        assert ((storage, key) in store) == ((storage, key) in state)
    for storage in (1, 256):
        keys = sorted(key for of, key in state if of == storage)
        assert [entry.key for entry in store.scan(storage)] == keys
        assert [entry.key for entry in store.scan(storage, b"12", b"25")] == [
            k for k in keys if b"12" <= k < b"25"
        ]


@BOTH
def test_what_is_durable_is_seen_and_nothing_else(edition, tmp_path):
    with Datastore(tmp_path, edition=edition) as store:
        channel = store.channel()
        with channel.session() as session:
            session.put(1, b"a", b"1")
            assert store.get(1, b"a") is None
        assert (1, b"a") not in store
        store.switch_epoch()
        assert (store.get(1, b"a"), store.get(2, b"a"), (1, b"a") in store) == (b"1", None, True)
        with channel.session() as session:
            session.put(1, b"a", b"2")
            session.put(1, b"b", b"3")
            session.remove(1, b"a")
        assert [entry.value for entry in store.scan(1)] == [b"1"]
        store.switch_epoch()
        assert [entry.value for entry in store.scan(1)] == [b"3"]
        with pytest.raises(KeyError), channel.session() as session:
            session.put(1, b"c", b"given up")
            raise KeyError
        store.switch_epoch()
        check(store)
        assert store.snapshot.get(1, b"b") is None


@BOTH
@pytest.mark.parametrize("seed", range(6))
def test_a_random_history_is_seen_as_an_opening_sees_it(seed, edition, tmp_path):
    draw = random.Random(seed)
    store = Datastore(tmp_path, edition=edition, flush_bytes=64, memory_bytes=draw.choice([1, 1 << 26]))
    channels = [store.channel() for _ in range(3)]
    open_ = {}
    for _ in range(120):
        step = draw.random()
        at = draw.randrange(3)
        if step < 0.6:
            session = open_.get(at) or channels[at].begin()
            open_[at] = session
            for _ in range(draw.randrange(4)):
                storage, key = draw.choice([1, 256]), b"%d" % draw.randrange(30)
                version = draw.choice([None, None, (draw.randrange(3), draw.randrange(3))])
                if edition == "shipped" and draw.random() < 0.05:
                    draw.choice([session.clear_storage, session.remove_storage])(storage, version)
                elif draw.random() < 0.3:
                    session.remove(storage, key, version)
                else:
                    session.put(storage, key, b"%d" % draw.randrange(10**6), version)
            if draw.random() < 0.7:
                del open_[at]
                (channels[at].end if draw.random() < 0.85 else channels[at].abort)()
        elif step < 0.85:
            store.switch_epoch()
        elif step < 0.9:
            store.rotate()
        elif step < 0.95:
            store.compact()
        elif not open_:
            store.close()
            store = Datastore(tmp_path, flush_bytes=64)
            channels = [store.channel() for _ in range(3)]
        if draw.random() < 0.5:
            check(store)
    check(store)
    for at in open_:
        channels[at].end()
    store.switch_epoch()
    check(store)
    store.close()
    with pytest.raises(ClosedError):
        store.get(1, b"1")


@BOTH
def test_a_scan_shows_one_moment_while_others_write_and_compact(edition, tmp_path):
    with Datastore(tmp_path, edition=edition) as store:
        channel = store.channel()
        for turn in range(4):
            begun = store.scan()
            seen = [next(begun)] if turn else []
            with channel.session() as session:
                for number in range(100):
                    session.put(1, b"%03d" % number, b"%d" % turn)
            store.switch_epoch()
            if turn == 2:
                store.rotate()
            assert store.compact() is not None
            seen += begun
            assert {entry.value for entry in seen} == ({b"%d" % (turn - 1)} if turn else {b"0"})


@BOTH
def test_threads_read_what_they_wrote_while_logs_rotate_and_go(edition, tmp_path):
    stop = threading.Event()
    wrong = []

    def work(name: bytes) -> None:
        number = 0
        while not stop.is_set():
            number += 1
            epoch = auto.put(1, name, b"%d" % number)
            auto.wait(epoch)
            if store.get(1, name) != b"%d" % number:
                wrong.append((name, number, store.get(1, name)))

    with Datastore(tmp_path, edition=edition) as store, store.automatic(interval=0.001) as auto:
        workers = [threading.Thread(target=work, args=(b"%d" % at,)) for at in range(3)]
        for worker in workers:
            worker.start()
        for _ in range(12):
            store.rotate()
            store.compact()
            keys = [entry.key for entry in store.scan(1)]
            assert keys == sorted(keys)
        stop.set()
        for worker in workers:
            worker.join()
    assert not wrong


def test_taken_in_sessions_are_seen(tmp_path):
    with Datastore(tmp_path) as store:
        assert store.get(1, b"a") is None
        staged_at = f"{store.path}/staged"
        with store.disk.create_scratch(staged_at) as file:
            file.pwrite(session(1, "a").encode(), 0)
        store.load([staged_at])
        assert (1, b"a") in store
        check(store)


def test_a_version_that_is_lower_loses_to_a_log_and_wins_over_a_compacted_file(tmp_path):
    with Datastore(tmp_path) as store:
        with store.channel().session() as session:
            session.put(1, b"a", b"log", (7, 7))
        store.switch_epoch()
    with Datastore(tmp_path) as store:
        channel = store.channel()
        for compacts, expected in ((False, b"log"), (True, b"low")):
            if compacts:
                assert store.compact() is not None
            with channel.session() as session:
                session.put(1, b"a", b"low", (2, 2))
            store.switch_epoch()
            assert store.get(1, b"a") == expected
            check(store)


def test_without_a_snapshot_nothing_is_read(tmp_path):
    with Datastore(tmp_path, snapshot=False) as store:
        for read in (lambda: store.get(1, b"a"), lambda: (1, b"a") in store, store.scan):
            with pytest.raises(UsageError, match="without a snapshot"):
                read()


@pytest.mark.parametrize("switched", [True, False])
def test_closing_says_what_is_not_durable(switched, tmp_path, caplog):
    with caplog.at_level(logging.WARNING, "flintlog.limestone"), Datastore(tmp_path) as store:
        with store.channel().session() as session:
            session.put(1, b"a", b"1")
        if switched:
            store.switch_epoch()
        else:
            with store.channel().session() as session:
                session.put(1, b"b", b"2")
    messages = [record.getMessage() for record in caplog.records]
    assert ["switch_epoch()" in message for message in messages] == ([] if switched else [True])


def durably(store, write):
    with store.channel().session() as session:
        write(session)
    store.wait_durable(store.switch_epoch() - 1)


@pytest.mark.parametrize("again", ["opened", "written", "rotated", "compacted"])
@pytest.mark.parametrize("edition", ["designed", "shipped"])
def test_a_removal_with_a_high_version_counts_after_a_restart(tmp_path, edition, again):
    """An entry that comes later with a lower version does not bring the key back."""
    with Datastore(tmp_path, edition=edition) as store:
        durably(store, lambda session: session.put(1, b"other", b"there"))
        durably(store, lambda session: session.remove(1, b"k", (1000, 0)))
    with Datastore(tmp_path) as store:
        if again == "written":
            store.write_snapshot()
        if again == "rotated":
            store.rotate()
        durably(store, lambda session: session.put(1, b"k", b"low", (5, 5)))
        seen = store.get(1, b"k"), [entry.key for entry in store.scan()]
        if again == "compacted":
            store.compact()
            assert store.get(1, b"k") == seen[0]
        durably(store, lambda session: session.put(1, b"k", b"high", (1001, 0)))
        assert store.get(1, b"k") == b"high"
    assert seen == (None, [b"other"])
    with Datastore(tmp_path) as store:
        assert store.get(1, b"k") == b"high"


@pytest.mark.parametrize("way", ["open", "automatic", "empty"])
def test_closing_says_so_of_sessions_that_are_open(way, tmp_path, caplog):
    with caplog.at_level(logging.WARNING, "flintlog.limestone"), Datastore(tmp_path) as store:
        if way == "automatic":
            store.automatic().put(1, b"k", b"v")
        else:
            session = store.channel().begin()
            if way == "open":
                session.put(1, b"k", b"v")
    messages = [record.getMessage() for record in caplog.records]
    assert ["the next opening forgets them" in message for message in messages] == [True] * (way != "empty")


def test_a_snapshot_is_written_by_its_store_only(tmp_path):
    with Datastore(tmp_path) as store:
        durably(store, lambda session: session.put(1, b"k", b"v"))
    with Datastore(tmp_path) as store:
        snapshot = store.snapshot
    assert snapshot.get(1, b"k") == b"v"  # it still shows its moment
    with pytest.raises(ClosedError):
        snapshot.write()
    assert not (tmp_path / "data/snapshot").exists()
