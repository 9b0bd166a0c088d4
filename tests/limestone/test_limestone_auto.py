"""Epochs that switch by themselves: an application puts from many threads, and waits."""

from __future__ import annotations

import threading

import pytest
from tests.limestone.test_limestone_guard import FailingSync

from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone.store import Datastore
from flintlog.disk import Disk
from flintlog.errors import FlintlogError, RefusedError, StoppedError, UsageError

LATER = 3600.0  # no switch by the clock within a test


@pytest.fixture(params=["designed", "shipped"])
def edition(request):
    return request.param


def state_of(path) -> dict[bytes, bytes]:
    with Datastore(path) as store:
        return {entry.key: entry.value for entry in store.snapshot.scan()}


def test_what_was_waited_for_is_there_whatever_happens_next(tmp_path, edition):
    """The directory is left as a killed process leaves it: nothing is closed."""
    store = Datastore(tmp_path, edition=edition)
    auto = store.automatic(interval=0.001)
    epoch = auto.put(1, b"a", b"1")
    assert auto.wait(epoch)
    assert auto.wait(auto.put_many(1, [b"b", b"c"], [b"2", b"3"]))
    assert auto.wait(auto.remove(1, b"c"))
    assert store.durable_epoch > epoch
    auto._stop.set()
    auto._thread.join()
    store._unlock()
    assert state_of(tmp_path) == {b"a": b"1", b"b": b"2"}


def test_threads_share_sessions_and_each_finds_its_own(tmp_path, edition):
    with Datastore(tmp_path, edition=edition) as store, store.automatic(interval=0.001) as auto:
        failures = []

        def work(number: int) -> None:
            for count in range(100):
                epoch = auto.put(number, b"%d" % count, b"%d" % number)
                if count % 25 == 0 and not auto.wait(epoch):
                    failures.append((number, count))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
    with Datastore(tmp_path) as store:
        found = [(entry.storage, entry.key, entry.value) for entry in store.snapshot.scan()]
    assert sorted(found) == sorted(
        (number, b"%d" % count, b"%d" % number) for number in range(4) for count in range(100)
    )


def test_the_later_put_counts_also_over_the_two_channels(tmp_path, edition):
    with Datastore(tmp_path, edition=edition) as store, store.automatic(interval=LATER) as auto:
        for count in range(9):
            auto.put(1, b"key", b"%d" % count)
            if count % 3 == 0:
                auto._switch()
        assert {name for name in store.disk.list(store.path) if lay.ACTIVE_NAME.fullmatch(name)} == {
            "pwal_0000",
            "pwal_0001",
        }
    assert state_of(tmp_path) == {b"key": b"8"}


def test_an_epoch_is_not_durable_before_its_sessions_have_ended(tmp_path):
    with Datastore(tmp_path) as store, store.automatic(interval=LATER) as auto:
        epoch = auto.put(1, b"a", b"1")
        store.switch_epoch()
        assert not auto.wait(epoch, timeout=0)
        assert auto.put(1, b"b", b"2") == epoch + 1
        auto._switch()
        assert auto.wait(epoch + 1, timeout=0)


def test_epochs_stand_still_while_nothing_is_put_and_nobody_waits(tmp_path, edition):
    """Each would cost a sync and a record."""
    with Datastore(tmp_path, edition=edition) as store, store.automatic(interval=LATER) as auto:
        auto._switch()
        assert store.epoch == 1
        auto.put(1, b"a", b"1")
        for _ in range(3):
            auto._switch()
        assert (store.epoch, store.durable_epoch) == (2, 1)
        with pytest.raises(KeyError), store.channel().session():
            raise KeyError
        auto._switch()  # it was given up, and somebody may wait for its epoch
        assert (store.epoch, store.durable_epoch) == (3, 2)
    with Datastore(tmp_path) as store, store.automatic(interval=0.001) as auto:
        assert auto.wait(store.epoch + 2, timeout=60)


def test_closing_makes_durable_what_was_put_and_takes_no_more(tmp_path, edition):
    with Datastore(tmp_path, edition=edition) as store:
        with store.automatic(interval=LATER) as auto:
            epoch = auto.put(1, b"a", b"1")
        assert store.durable_epoch == epoch
        with pytest.raises(RefusedError, match="closed"):
            auto.put(1, b"b", b"2")
        with store.automatic(interval=LATER) as again:
            again.put(1, b"c", b"3")
    assert state_of(tmp_path) == {b"a": b"1", b"c": b"3"}


def test_a_wrong_value_harms_nobody_else(tmp_path):
    with Datastore(tmp_path) as store, store.automatic(interval=LATER) as auto:
        auto.put(1, b"a", b"1")
        for call in (
            lambda: auto.put(1, "text", b""),
            lambda: auto.put(-1, b"a", b""),
            lambda: auto.put_many(1, [b"x"], [b"1", b"2"]),
            lambda: auto.put_many(1, [b"x", "y"], [b"1", b"2"]),
        ):
            with pytest.raises(FlintlogError):
                call()
        auto.put(1, b"b", b"2")
    assert state_of(tmp_path) == {b"a": b"1", b"b": b"2"}


@pytest.mark.parametrize("interval", [0, -1])
def test_an_interval_that_cannot_be_is_refused(tmp_path, interval):
    with Datastore(tmp_path) as store, pytest.raises(UsageError):
        store.automatic(interval=interval)


def test_whoever_waits_learns_that_epochs_switch_no_more():
    """A sync fails in the thread that switches: no call waits for ever."""
    kernel = FailingSync()
    with Datastore("/srv/log", disk=Disk(kernel)) as store, store.automatic(interval=0.001) as auto:
        kernel.failing = True
        epoch = auto.put(1, b"a", b"1")
        with pytest.raises(StoppedError, match="Input/output error"):
            auto.wait(epoch)
        with pytest.raises(StoppedError):
            auto.put(1, b"a", b"1")
