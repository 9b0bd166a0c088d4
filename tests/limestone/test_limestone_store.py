"""The store as its user sees it: sessions, epochs, rotation, compaction, the snapshot, opening again."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest
from tests.golden_cases import snapshot_of
from tests.limestone.directories import Directory, session

from flintlog.core.log import Log
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone.dialect import DIALECT
from flintlog.dialects.limestone.layout import Catalog, Manifest
from flintlog.dialects.limestone.store import Datastore
from flintlog.dialects.limestone.store.creation import MANIFEST_SCRATCH
from flintlog.dialects.limestone.survey import survey
from flintlog.disk import Disk
from flintlog.errors import (
    ClosedError,
    DamageError,
    DiskError,
    FlintlogError,
    LockedError,
    RefusedError,
    StoppedError,
    UnsupportedError,
    UsageError,
)
from flintlog.testing import MemoryKernel

UUID = "f71dffa3-e8a9-4833-ab36-191b88d518e9"


@pytest.fixture(params=["designed", "shipped"])
def edition(request):
    return request.param


@pytest.fixture
def opened(tmp_path):
    """Opens the store of this test; every one is closed at the end."""
    stores = []

    def opened(**options):
        stores.append(Datastore(tmp_path / "log", **options))
        return stores[-1]

    yield opened
    for store in stores:
        store.close()


def rows(store) -> dict[tuple[int, bytes], bytes]:
    return {(entry.storage, entry.key): entry.value for entry in store.snapshot.scan()}


def write(store_or_channel, *items, switch=True):
    """A session with puts (storage, key, value), and removals where the value is None."""
    channel = store_or_channel.channel() if isinstance(store_or_channel, Datastore) else store_or_channel
    with channel.session() as session:
        for storage, key, value in items:
            if value is None:
                session.remove(storage, key)
            else:
                session.put(storage, key, value)
    if switch:
        channel.store.switch_epoch()


def reopened(store, **options):
    """The same directory, opened again."""
    store.close()
    return Datastore(store.path, **options)


def names(store) -> set[str]:
    return set(Disk().list(store.path))


# Sessions


def test_what_a_session_wrote_is_there_when_its_epoch_is_durable(opened, edition):
    store = opened(edition=edition)
    assert (rows(store), len(store.snapshot), store.findings) == ({}, 0, ())
    write(store, (1, b"a", b"one"), (2, b"", b""), (1, b"\0\xff", b"two"), (1, b"a", None), (3, b"a", b"x"))
    with reopened(store) as store:
        assert rows(store) == {(2, b""): b"", (1, b"\0\xff"): b"two", (3, b"a"): b"x"}
        assert (store.edition, store.findings) == (edition, ())


def test_the_newest_version_counts_whatever_the_order_of_writing(opened, edition):
    store = opened(edition=edition)
    with store.channel().session() as session:
        session.put(1, b"k", b"high", (7, 2**63))
        session.put(1, b"k", b"low", (7, 5))
        session.remove(1, b"gone", (9, 1))
        session.put(1, b"gone", b"older", (9, 0))
    store.switch_epoch()
    with reopened(store) as store:
        assert rows(store) == {(1, b"k"): b"high"}
        entry = store.snapshot.entry(1, b"k")
        assert (entry.version, entry.blobs) == ((7, 2**63), ())


def test_versions_are_counted_within_an_epoch_over_all_channels(opened, edition):
    store = opened(edition=edition)
    first, second = store.channel(), store.channel()
    write(first, (1, b"k", b"1"), switch=False)
    write(second, (1, b"k", b"2"), switch=False)
    write(first, (1, b"k", b"3"), (1, b"other", b"4"))
    write(second, (2, b"k", b"5"))
    with reopened(store) as store:
        assert rows(store) == {(1, b"k"): b"3", (1, b"other"): b"4", (2, b"k"): b"5"}
        assert store.snapshot.entry(1, b"other").version == (1, 3)
        assert store.snapshot.entry(2, b"k").version == (2, 4)


def test_a_session_counts_on_when_its_epoch_is_over(opened, edition):
    store = opened(edition=edition)
    channel = store.channel()
    with channel.session() as session:
        for number in range(3):
            session.put(1, b"k", b"%d" % number)
        store.switch_epoch()
        session.put(1, b"k", b"last")
    with reopened(store) as store:
        assert rows(store) == {(1, b"k"): b"last"}


@pytest.mark.parametrize("column", [list, pa.array, lambda some: pa.chunked_array([some[:1], some[1:]])])
def test_put_many_takes_lists_and_arrow_columns(opened, edition, column):
    store = opened(edition=edition)
    keys, values = [b"a", b"", b"long" * 50], [b"", b"one", b"x" * 1000]
    with store.channel().session() as session:
        session.put_many(4, column(keys), column(values))
        session.put_many(5, column(keys), column(values), (2, 2**63))
        session.put_many(6, column(keys)[:0], column(values)[:0])
    store.switch_epoch()
    with reopened(store) as store:
        expected = {
            (storage, key): value for storage in (4, 5) for key, value in zip(keys, values, strict=True)
        }
        assert rows(store) == expected
        assert [store.snapshot.entry(4, key).version for key in keys] == [(1, 0), (1, 1), (1, 2)]
        assert store.snapshot.entry(5, keys[2]).version == (2, 2**63 + 2)


def test_put_many_goes_over_several_writes(opened, edition):
    store = opened(edition=edition, flush_bytes=1000)
    keys = [b"%06d" % number for number in range(70_000)]
    with store.channel().session() as session:
        session.put_many(1, keys, keys)
    store.switch_epoch()
    with reopened(store) as store:
        assert [entry.key for entry in store.snapshot.scan()] == keys
        assert store.snapshot.entry(1, keys[-1]).version == (1, 69_999)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda session: session.put(-1, b"k", b"v"),
        lambda session: session.put(2**64, b"k", b"v"),
        lambda session: session.put("1", b"k", b"v"),
        lambda session: session.put(1, "k", b"v"),
        lambda session: session.put(1, b"k", 7),
        lambda session: session.put(1, 7, b"v"),
        lambda session: session.remove(1, 7),
        lambda session: session.put(1, b"k", b"v", (1, -1)),
        lambda session: session.put(1, b"k", b"v", (1,)),
        lambda session: session.put(1, b"k", b"v", 5),
        lambda session: session.put_many(1, [b"k"], []),
        lambda session: session.put_many(1, [b"k"], ["v"]),
        lambda session: session.put_many(1, ["k"], [b"v"]),
        lambda session: session.put_many(1, [1], [b"v"]),
        lambda session: session.put_many(1, pa.array([1]), pa.array([b"v"])),
        lambda session: session.put_many(1, pa.array([None], pa.binary()), [b"v"]),
        lambda session: session.put_many(1, [b"k"], [b"v"], (-1, 0)),
        lambda session: session.put_many(1, [b"k", b"l"], [b"v", b"w"], (1, 2**64 - 1)),
    ],
)
def test_what_can_never_be_right_is_refused_and_stops_nothing(opened, wrong):
    store = opened()
    with store.channel().session() as session:
        session.put(1, b"before", b"1")
        with pytest.raises(UsageError):
            wrong(session)
        session.put(1, b"behind", b"2")
    store.switch_epoch()
    with reopened(store) as store:
        assert rows(store) == {(1, b"before"): b"1", (1, b"behind"): b"2"}


def test_a_session_that_raises_never_was(opened, edition):
    store = opened(edition=edition, flush_bytes=50)
    channel = store.channel()
    write(channel, (1, b"kept", b"1"), switch=False)
    with pytest.raises(KeyError), channel.session() as session:
        session.put(1, b"given up", b"x" * 100)
        raise KeyError
    write(channel, (1, b"also", b"2"))
    with reopened(store) as store:
        assert rows(store) == {(1, b"kept"): b"1", (1, b"also"): b"2"}
        assert store.findings == ()


def test_a_session_does_not_outlive_its_end(opened):
    store = opened()
    channel = store.channel()
    with channel.session() as ended:
        ended.put(1, b"k", b"v")
    for call in (lambda: ended.put(1, b"k", b"v"), channel.end, channel.abort):
        with pytest.raises(RefusedError):
            call()
    channel.begin()
    with pytest.raises(RefusedError, match="open session"):
        channel.begin()
    with pytest.raises(RefusedError, match="ended"):
        ended.remove(1, b"k")
    channel.abort()


def test_an_empty_session_is_one(opened, edition):
    store = opened(edition=edition)
    with store.channel().session():
        pass
    assert store.switch_epoch() == 2
    assert store.durable_epoch == 1
    with reopened(store) as store:
        assert (rows(store), store.durable_epoch) == ({}, 1)


# Storages and blobs


def test_storage_operations_and_blobs_are_of_the_shipped_edition_only(opened):
    store = opened(edition="designed")
    with store.channel().session() as session:
        for call in (
            lambda: session.clear_storage(1),
            lambda: session.add_storage(1),
            lambda: session.remove_storage(1),
            lambda: session.put(1, b"k", b"v", blobs=[1]),
        ):
            with pytest.raises(RefusedError, match="designed edition has no"):
                call()
    with pytest.raises(RefusedError, match="designed edition has no"):
        store.blobs.add(b"large")


def test_clearing_and_removing_a_storage(opened):
    store = opened(edition="shipped")
    channel = store.channel()
    write(channel, *((storage, b"old", b"1") for storage in (1, 2, 3)))
    with channel.session() as session:
        session.add_storage(1)
        session.clear_storage(1)
        session.remove_storage(2)
        session.put(1, b"new", b"2")
        session.put(2, b"older", b"3", (1, 0))
    store.switch_epoch()
    expected = {(1, b"new"): b"2", (3, b"old"): b"1"}
    with reopened(store) as store:
        assert rows(store) == expected
        assert store.compact() is not None
        with reopened(store) as store:
            assert rows(store) == expected


def test_clearing_a_storage_reaches_what_was_compacted(opened):
    store = opened(edition="shipped")
    write(store, (1, b"old", b"1"), (2, b"old", b"1"))
    store.compact()
    with store.channel().session() as session:
        session.clear_storage(1)
        session.put(1, b"new", b"2")
    store.switch_epoch()
    with reopened(store) as store:
        assert rows(store) == {(1, b"new"): b"2", (2, b"old"): b"1"}


def test_blobs_are_kept_while_an_entry_names_them(opened):
    store = opened(edition="shipped")
    kept, dropped = store.blobs.add(b"large"), store.blobs.add([b"never ", b"named"])
    assert (kept, dropped) == (1, 2)
    assert (store.blobs.read(kept), store.blobs.read(dropped)) == (b"large", b"never named")
    with store.channel().session() as session:
        session.put(1, b"k", b"v", blobs=[kept])
    store.switch_epoch()
    with reopened(store) as store:
        assert store.snapshot.entry(1, b"k").blobs == (kept,)
        assert store.blobs.read(kept) == b"large"
        with pytest.raises(RefusedError, match=f"no blob {dropped}"):
            store.blobs.read(dropped)
        assert store.blobs.add(b"next") > dropped


def test_the_number_of_a_blob_that_an_entry_named_is_not_given_out_again(opened):
    store = opened(edition="shipped")
    number = store.blobs.add(b"one")
    with store.channel().session() as session:
        session.put(1, b"k", b"v", blobs=[number])
    store.switch_epoch()
    write(store, (1, b"k", None))
    store.compact()
    with reopened(store) as store, reopened(store) as store:
        assert not Disk().list(f"{store.path}/blob/dir_01")
        assert store.blobs.add(b"two") > number


# Epochs


def test_an_epoch_is_durable_when_its_sessions_ended_and_a_later_one_began(opened, edition):
    told = []
    store = opened(edition=edition, on_durable=told.append)
    first, second = store.channel(), store.channel()
    one = first.begin()
    one.put(1, b"a", b"1")
    write(second, (1, b"b", b"2"), switch=False)
    assert (store.epoch, store.durable_epoch) == (1, 0)
    assert store.switch_epoch() == 2
    assert (store.epoch, store.durable_epoch, told) == (2, 0, [])
    write(second, (1, b"c", b"3"), switch=False)
    first.end()
    assert (store.durable_epoch, told) == (1, [1])
    store.switch_epoch()
    assert (store.durable_epoch, told) == (2, [1, 2])
    store.switch_epoch(9)
    assert (store.epoch, store.durable_epoch, told) == (9, 8, [1, 2, 8])
    with pytest.raises(UsageError, match="Epochs only grow"):
        store.switch_epoch(8)
    assert store.switch_epoch(9) == 9
    assert told == [1, 2, 8]


def test_closing_makes_nothing_durable(opened, edition):
    store = opened(edition=edition)
    channel = store.channel()
    write(channel, (1, b"a", b"1"))
    write(channel, (1, b"a", b"2"), (1, b"b", b"2"), switch=False)
    with reopened(store) as store:
        assert rows(store) == {(1, b"a"): b"1"}
        assert [finding.code for finding in store.findings] == ["not-durable"]
        write(store, (1, b"c", b"3"))
        with reopened(store) as store:
            assert rows(store) == {(1, b"a"): b"1", (1, b"c"): b"3"}
            assert store.findings == ()


def test_a_second_session_of_the_same_epoch_keeps_it_open(opened, edition):
    store = opened(edition=edition)
    channel = store.channel()
    write(channel, (1, b"a", b"1"), switch=False)
    channel.begin().put(1, b"b", b"2")
    store.switch_epoch()
    assert store.durable_epoch == 0
    channel.end()
    assert store.durable_epoch == 1
    with reopened(store) as store:
        assert rows(store) == {(1, b"a"): b"1", (1, b"b"): b"2"}


def test_an_aborted_session_holds_its_epoch_no_longer(opened, edition):
    store = opened(edition=edition)
    channel = store.channel()
    write(store, (1, b"a", b"1"), switch=False)
    channel.begin()
    store.switch_epoch()
    assert store.durable_epoch == 0
    channel.abort()
    assert store.durable_epoch == 1


def test_wait_durable_waits_for_another_thread_or_for_its_time(opened):
    store = opened()
    write(store, (1, b"a", b"1"), switch=False)
    assert not store.wait_durable(1, timeout=0)
    assert store.wait_durable(0)
    switching = threading.Thread(target=store.switch_epoch)
    switching.start()
    assert store.wait_durable(1, timeout=60)
    switching.join()


@pytest.mark.parametrize("how", ["closed", "stopped"])
def test_whoever_waits_for_an_epoch_learns_that_it_will_not_come(how):
    kernel = MemoryKernel()
    store = Datastore("/log", disk=Disk(kernel))
    channel = store.channel()
    channel.begin().put(1, b"a", b"1")
    caught = []

    def wait():
        try:
            store.wait_durable(1)
        except FlintlogError as error:
            caught.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    while not store._changed._bells:
        time.sleep(0.001)
    if how == "closed":
        store.close()
    else:
        kernel.sync = _fails
        with pytest.raises(DiskError):
            channel.end()
    waiting.join(60)
    assert [type(error) for error in caught] == [ClosedError if how == "closed" else StoppedError]


def _fails(*arguments):
    raise OSError(5, "Input/output error")


def test_channels_write_from_their_own_threads(opened, edition):
    store = opened(edition=edition, flush_bytes=200)
    done = threading.Event()

    def work(number):
        channel = store.channel()
        for turn in range(30):
            with channel.session() as session:
                session.put(number, b"%d" % turn, b"x" * 50)
                session.put(9, b"shared", b"%d" % number)

    def switch():
        while not done.is_set():
            store.switch_epoch()

    workers = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    switching = threading.Thread(target=switch)
    for thread in (*workers, switching):
        thread.start()
    for thread in workers:
        thread.join()
    done.set()
    switching.join()
    last = store.switch_epoch() - 1
    assert store.wait_durable(last, timeout=60)
    with reopened(store) as store:
        found = rows(store)
        assert {key for key in found if key[0] < 9} == {(n, b"%d" % t) for n in range(4) for t in range(30)}
        assert store.durable_epoch >= 1


def test_an_epoch_has_eight_bytes(opened):
    store = opened()
    store.switch_epoch(2**64 - 1)
    for wrong in (None, 2**64, -1, "5"):
        with pytest.raises(UsageError):
            store.switch_epoch(wrong)
    write(store, (1, b"a", b"1"), switch=False)


# Rotation and compaction


def test_rotation_with_an_open_session(opened, edition):
    store = opened(edition=edition, clock=lambda: 1_700_000_000.5)
    first, second = store.channel(), store.channel()
    write(first, (1, b"a", b"1"))
    open_session = second.begin()
    open_session.put(1, b"b", b"2")
    rotated = store.rotate()
    assert "pwal_0000.01700000000500.0" in rotated
    assert ("epoch.01700000000500.2" in rotated) == (edition == "designed")
    open_session.put(1, b"c", b"3")
    write(first, (1, b"d", b"4"), switch=False)
    second.end()
    store.switch_epoch()
    write(second, (1, b"e", b"5"))
    with reopened(store) as store:
        assert [(entry.key, entry.value) for entry in store.snapshot.scan()] == [
            (b"a", b"1"),
            (b"b", b"2"),
            (b"c", b"3"),
            (b"d", b"4"),
            (b"e", b"5"),
        ]
        assert {"pwal_0000", "pwal_0001"} <= names(store)


def test_two_rotations_in_one_millisecond_keep_both_files(opened, edition):
    store = opened(edition=edition, clock=lambda: 1_700_000_000.5)
    channel = store.channel()
    for number in range(3):
        write(channel, (1, b"%d" % number, b""))
        assert f"pwal_0000.0170000000050{number}.0" in store.rotate()
    with reopened(store) as store:
        assert len(rows(store)) == 3


def test_compaction_while_channels_write(opened, edition):
    store = opened(edition=edition)
    first, second = store.channel(), store.channel()
    write(first, (1, b"a", b"1"), (1, b"b", b"1"))
    open_session = second.begin()
    open_session.put(1, b"b", b"2")
    done = store.compact()
    assert done.epoch == 1
    open_session.put(1, b"c", b"2")
    write(first, (1, b"a", None), switch=False)
    second.end()
    store.switch_epoch()
    expected = {(1, b"b"): b"2", (1, b"c"): b"2"}
    assert survey(Disk(), store.path).findings == []
    with reopened(store) as store:
        assert (rows(store), store.findings) == (expected, ())
        assert store.compact() is not None
        with reopened(store) as store:
            assert (rows(store), store.findings) == (expected, ())


def test_compaction_does_nothing_without_anything_new(opened, edition):
    store = opened(edition=edition)
    assert store.compact() is None
    write(store, (1, b"a", b"1"), switch=False)
    assert store.compact() is None  # the epoch is not durable yet
    store.switch_epoch()
    assert store.compact() is not None
    assert store.compact() is None
    write(store, (1, b"b", b"1"))
    assert store.compact() is not None
    with reopened(store) as store:
        assert rows(store) == {(1, b"a"): b"1", (1, b"b"): b"1"}
        assert store.compact() is None


def test_superseded_files_go_only_when_nothing_needs_them(opened, edition):
    store = opened(edition=edition)
    first, second = store.channel(), store.channel()
    write(first, (1, b"a", b"1"))
    open_session = second.begin()
    open_session.put(1, b"b", b"2")
    done = store.compact()
    assert not set(done.superseded) & names(store)
    kept = names(store)
    second.end()
    store.switch_epoch()
    write(first, (1, b"c", b"3"))
    again = store.compact()
    assert not set(again.superseded) & names(store)
    assert set(again.files) <= names(store)
    assert len(names(store)) <= len(kept) + 2
    with reopened(store) as store:
        assert len(rows(store)) == 3


def test_superseded_files_stay_when_they_are_to_be_kept(opened, edition):
    store = opened(edition=edition, keep_superseded=True)
    write(store, (1, b"a", b"1"))
    done = store.compact()
    assert done.superseded and set(done.superseded) <= names(store)
    write(store, (1, b"a", None))
    with reopened(store, keep_superseded=True) as store:
        assert rows(store) == {}
        store.compact()
        with reopened(store) as store:
            assert rows(store) == {}


def test_compacted_files_of_the_designed_edition_are_a_set_with_new_names(opened):
    store = opened(compacted_bytes=1 << 20, memory_bytes=1 << 20)
    with store.channel().session() as session:
        session.put_many(1, [b"%06d" % number for number in range(200_000)], [b"x"] * 200_000)
    store.switch_epoch()
    first = store.compact()
    assert len(first.files) > 1
    write(store, (1, b"more", b""))
    second = store.compact()
    assert not set(first.files) & set(second.files)
    assert {name for name in names(store) if name.startswith("cmpct_")} == set(second.files)
    with reopened(store) as store:
        assert len(rows(store)) == 200_001


def test_compacted_files_that_no_catalog_names_go_when_the_directory_is_opened(opened):
    """A crash came before they counted, or before they were removed."""
    store = opened()
    write(store, (1, b"a", b"1"))
    [counts] = store.compact().files
    store.close()
    raw = Path(store.path, counts).read_bytes()
    for name in ("cmpct_0007", "cmpct_0008.tmp"):
        Path(store.path, name).write_bytes(raw)
    with opened() as store:
        assert [(item.code, item.file) for item in store.findings] == [("compacted-unnamed", "cmpct_0007")]
        assert {name for name in names(store) if name.startswith("cmpct_")} == {counts}
        assert rows(store) == {(1, b"a"): b"1"}


def test_sessions_behind_a_compaction_are_above_its_epoch(opened, edition):
    """Also when the epochs before it were empty, and the logs that it took in are gone."""
    store = opened(edition=edition)
    write(store, (1, b"a", b"1"))
    store.switch_epoch(50)
    store.compact()
    with reopened(store) as store:
        write(store, (1, b"b", b"2"))
        with reopened(store) as store:
            assert (rows(store), store.findings) == ({(1, b"a"): b"1", (1, b"b"): b"2"}, ())


@pytest.mark.parametrize("compacts", [False, True])
def test_an_epoch_that_was_durable_without_sessions_stays_over(opened, compacts):
    """Whoever was told of it never sees it again."""
    told = []
    store = opened(on_durable=told.append)
    write(store, (1, b"a", b"1"))
    store.switch_epoch(1000)
    if compacts:
        store.compact()
    assert told[-1] == store.durable_epoch == 999
    with reopened(store) as store:
        assert (store.durable_epoch, store.epoch) == (999, 1000)
        assert survey(Disk(), store.path).durable == 999
        store.switch_epoch()
        with reopened(store) as store:
            assert (store.durable_epoch, store.epoch, rows(store)) == (1000, 1001, {(1, b"a"): b"1"})


def test_a_directory_of_the_original_whose_last_epochs_were_empty_goes_on(tmp_path):
    """Its catalog may name an epoch above every session and every record of the epoch file."""
    Directory(tmp_path / "log", "shipped").start(3).compacted("a").catalog(
        Catalog({lay.COMPACTED_FILE: 1}, frozenset({"pwal_0000.01700000000000.0"}), 9)
    )
    with Datastore(tmp_path / "log") as store:
        assert store.epoch == 10
        write(store, (1, b"b", b"2"))
        with reopened(store) as store:
            assert (rows(store), store.findings) == ({(1, b"a"): b"v", (1, b"b"): b"2"}, ())


# The snapshot


def test_the_snapshot_is_scanned_looked_up_and_read_as_arrow(opened, edition):
    store = opened(edition=edition)
    with store.channel().session() as session:
        for storage in (1, 256, 2):
            session.put_many(storage, [b"%04d" % n for n in range(1000)], [b"%d" % n for n in range(1000)])
    store.switch_epoch()
    with reopened(store) as store:
        shot = store.snapshot
        assert (len(shot), shot.epoch) == (3000, 1)
        assert [entry.storage for entry in shot.scan()][::1000] == (
            [1, 2, 256] if edition == "designed" else [256, 1, 2]
        )
        assert [entry.value for entry in shot.scan(2)] == [b"%d" % n for n in range(1000)]
        assert [entry.value for entry in shot.scan(256, b"0998")] == [b"998", b"999"]
        assert [entry.value for entry in shot.scan(1, b"00085", b"0010")] == [b"9"]
        assert list(shot.scan(3)) == list(shot.scan(0)) == []
        assert (shot.get(1, b"0500"), shot.get(1, b"05"), shot.get(7, b"0500")) == (b"500", None, None)
        table = pa.Table.from_batches(shot.batches())
        assert table.num_rows == 3000
        assert set(table.column_names) == {"storage_id", "key", "value", "write_version", "blob_ids"}
        write(store, (1, b"0500", b"later"))
        assert store.snapshot.get(1, b"0500") == b"500"


def test_the_snapshot_may_be_left_out(opened):
    store = opened(snapshot=False)
    assert store.snapshot is None
    write(store, (1, b"a", b"1"))
    assert not (Path(store.path) / lay.SNAPSHOT_FILE).exists()


def test_a_log_larger_than_the_memory_opens(opened, edition):
    store = opened(edition=edition)
    keys = [b"%08d" % (number * 7919 % 100_000) for number in range(100_000)]
    channel = store.channel()
    for turn in range(3):
        with channel.session() as session:
            session.put_many(1, keys, [b"turn %d" % turn] * len(keys))
        store.switch_epoch()
    with reopened(store, memory_bytes=1 << 20) as store:
        found = list(store.snapshot.scan())
        assert [entry.key for entry in found] == sorted(keys)
        assert {entry.value for entry in found} == {b"turn 2"}
        assert store.compact() is not None


# Opening


def test_a_second_writer_is_refused(opened, edition, tmp_path):
    store = opened(edition=edition)
    with pytest.raises(LockedError):
        opened()
    write(store, (1, b"a", b"1"))
    with reopened(store) as store:
        assert len(rows(store)) == 1


def test_the_original_would_be_refused_too(opened):
    """It locks the manifest, not the directory."""
    store = opened(edition="shipped")
    with Disk().open(f"{store.path}/{lay.MANIFEST_FILE}", "write") as file:
        assert not file.lock()
    store.close()
    with Disk().open(f"{store.path}/{lay.MANIFEST_FILE}", "write") as file:
        assert file.lock()
        with pytest.raises(LockedError):
            opened()


def test_a_closed_store_does_nothing(opened):
    store = opened()
    channel = store.channel()
    write(channel, (1, b"a", b"1"))
    store.close()
    store.close()
    for call in (store.channel, channel.begin, store.switch_epoch, store.rotate, store.compact):
        with pytest.raises(ClosedError):
            call()


def test_a_store_that_failed_refuses_until_it_is_opened_again():
    kernel = MemoryKernel()
    store = Datastore("/log", disk=Disk(kernel))
    channel = store.channel()
    write(channel, (1, b"a", b"1"))
    good, kernel.sync = kernel.sync, _fails
    with pytest.raises(DiskError):
        write(channel, (1, b"b", b"2"))
    kernel.sync = good
    for call in (store.channel, channel.end, store.switch_epoch, store.rotate, store.compact):
        with pytest.raises(StoppedError):
            call()
    store.close()
    with Datastore("/log", disk=Disk(kernel)) as store:
        assert rows(store) == {(1, b"a"): b"1"}
        write(store, (1, b"c", b"3"))


def test_the_edition_is_recognised_and_insisted_upon(opened, edition):
    other = "shipped" if edition == "designed" else "designed"
    store = opened(edition=edition)
    write(store, (1, b"a", b"1"))
    store.close()
    before = snapshot_of(Path(store.path))
    with pytest.raises(RefusedError, match=f"of the {edition} edition, not {other}"):
        opened(edition=other)
    assert snapshot_of(Path(store.path)) == before
    with opened() as store:
        assert store.edition == edition
    with pytest.raises(UsageError, match="not an edition"):
        opened(edition="other")


def manifest(path) -> Manifest:
    return lay.decode_manifest(Disk().read(f"{path}/{lay.MANIFEST_FILE}", 1 << 16))


def old_directory(root, version):
    """What a release of the original with this version left: sessions without end markers."""
    new = Manifest(version, "1.1", UUID) if version >= 5 else Manifest(version)
    closed = version >= lay.VERSION_OF_END_MARKERS
    Directory(root, "shipped").start(2).write(lay.MANIFEST_FILE, new.encode()).log(
        session(1, "a", closed=closed), session(2, "b", closed=closed), session(3, "lost", closed=closed)
    )
    if version < 2:
        (root / lay.CATALOG_FILE).unlink()
    return root


def test_version_1_becomes_2_by_opening(tmp_path, opened):
    old_directory(tmp_path / "log", 1)
    store = opened()
    assert (store.edition, set(rows(store))) == ("designed", {(1, b"a"), (1, b"b")})
    assert manifest(store.path) == Manifest(2)
    assert not {lay.MANIFEST_BACK, lay.CATALOG_BACK} & names(store)
    write(store, (1, b"c", b""))
    store.compact()
    with reopened(store) as store:
        assert len(rows(store)) == 3


@pytest.mark.parametrize("version", [3, 4, 5, 6])
def test_versions_3_to_6_become_7_by_opening(version, tmp_path, opened):
    old_directory(tmp_path / "log", version)
    store = opened(instance=lambda: "a new one")
    assert (store.edition, set(rows(store))) == ("shipped", {(1, b"a"), (1, b"b")})
    assert manifest(store.path) == Manifest(7, "1.1", UUID if version >= 5 else "a new one")
    rotated = [name for name in names(store) if name.startswith("pwal_0000.")]
    assert len(rotated) == (version < lay.VERSION_OF_END_MARKERS)
    write(store, (1, b"c", b""))
    store.compact()
    with reopened(store) as store:
        assert (len(rows(store)), store.findings) == (3, ())


@pytest.mark.parametrize(
    ("name", "raw", "error", "advice"),
    [
        ("version 0", Manifest(0).encode(), UnsupportedError, "newer release"),
        ("version 8", Manifest(8, "1.1", UUID).encode(), UnsupportedError, "newer release"),
        ("broken", b'{"format_version": "1.', DamageError, "flintlog repair"),
        ("not ours", b"[]", DamageError, "flintlog repair"),
        ("none", None, UnsupportedError, "manifest"),
    ],
)
def test_a_manifest_that_is_not_known_is_refused_with_advice_and_nothing_changes(
    name, raw, error, advice, tmp_path
):
    root = old_directory(tmp_path / "log", 7)
    if raw is None:
        (root / lay.MANIFEST_FILE).unlink()
    else:
        (root / lay.MANIFEST_FILE).write_bytes(raw)
    before = snapshot_of(root)
    with pytest.raises(error) as caught:
        Datastore(root)
    assert advice in str(caught.value)
    assert snapshot_of(root) == before


def test_a_creation_that_a_crash_ended_begins_again(tmp_path):
    root = tmp_path / "log"
    root.mkdir()
    (root / MANIFEST_SCRATCH).write_bytes(b'{"format')
    with Datastore(root, edition="shipped", instance=lambda: UUID) as store:
        write(store, (1, b"a", b"1"))
    assert manifest(root) == Manifest(7, "1.1", UUID)
    assert not (root / MANIFEST_SCRATCH).exists()


def test_a_directory_with_only_a_manifest_is_finished(tmp_path, edition):
    root = tmp_path / "log"
    Directory(root, edition).start().remove(lay.CATALOG_FILE).remove(lay.EPOCH_FILE)
    with Datastore(root) as store:
        assert store.edition == edition
        write(store, (1, b"a", b"1"))
        assert {lay.CATALOG_FILE, lay.EPOCH_FILE} <= names(store)


def test_a_directory_of_somebody_else_is_not_made_ours(tmp_path):
    root = tmp_path / "log"
    root.mkdir()
    (root / "letter.txt").write_text("dear")
    before = snapshot_of(root)
    with pytest.raises(FlintlogError):
        Datastore(root)
    assert snapshot_of(root) == before


def test_damage_is_refused_with_its_place_and_nothing_changes(opened, edition):
    store = opened(edition=edition)
    write(store, (1, b"a", b"1"), (1, b"b", b"2"))
    store.close()
    log = Disk().read(f"{store.path}/pwal_0000", 1 << 16)
    with Disk().open(f"{store.path}/pwal_0000", "write") as file:
        file.pwrite(b"\x7f", 9)
    before = snapshot_of(Path(store.path))
    with pytest.raises(DamageError) as caught:
        opened()
    assert (caught.value.file, caught.value.offset) == (f"{store.path}/pwal_0000", 9)
    assert snapshot_of(Path(store.path)) == before
    with Disk().open(f"{store.path}/pwal_0000", "write") as file:
        file.pwrite(log, 0)
    with opened() as store:
        assert len(rows(store)) == 2


def test_what_a_store_leaves_is_clean(opened, edition):
    store = opened(edition=edition)
    for turn in range(3):
        write(store, (1, b"%d" % turn, b"x"))
        store.rotate()
    store.compact()
    write(store, (1, b"last", b"x"))
    store.close()
    seen = Log(DIALECT, Disk(), store.path).verify()
    assert (seen.verdict, seen.edition, seen.findings) == ("clean", edition, ())
    assert seen.facts["keys"] == 4
