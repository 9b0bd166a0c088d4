"""A fault of the disk stops the store, whatever it was writing; a fault of the application does not."""

from __future__ import annotations

import errno
import logging

import pytest
from tests.golden_cases import snapshot_of

from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone.store import Datastore, back_up, restore
from flintlog.disk import Disk
from flintlog.errors import DiskError, RefusedError, StoppedError
from flintlog.testing import MemoryKernel

BOTH = pytest.mark.parametrize("edition", ["designed", "shipped"])


class FailingSync(MemoryKernel):
    """A device whose syncs fail once it is told so."""

    failing = False

    def sync(self, handle: int) -> None:
        if self.failing:
            raise OSError(errno.EIO, "Input/output error")
        super().sync(handle)


def test_a_blob_that_cannot_be_synced_stops_the_store():
    kernel = FailingSync()
    with Datastore("/srv/log", edition="shipped", disk=Disk(kernel)) as store:
        channel = store.channel()
        first = store.blobs.add(b"one")
        kernel.failing = True
        with pytest.raises(DiskError):
            store.blobs.add(b"two")
        kernel.failing = False
        for act in (lambda: store.blobs.add(b"three"), channel.begin, store.switch_epoch, store.compact):
            with pytest.raises(StoppedError):
                act()
        assert store.blobs.read(first) == b"one"


def test_chunks_that_fail_are_the_callers_own(tmp_path):
    def chunks():
        yield b"a part"
        raise KeyError("no more")

    with Datastore(tmp_path, edition="shipped") as store:
        with pytest.raises(KeyError):
            store.blobs.add(chunks())
        number = store.blobs.add([b"a ", b"whole"])
        with store.channel().session() as session:
            session.put(1, b"a", b"", blobs=[number])
        store.switch_epoch()
        assert store.blobs.read(number) == b"a whole"
    with Datastore(tmp_path) as store:
        assert store.blobs.read(number) == b"a whole"
        assert [path.name for path in tmp_path.rglob("*.blob")] == [f"{number:016x}.blob"]


@BOTH
@pytest.mark.parametrize("ends", [False, True])
def test_a_callback_that_fails_is_logged_and_changes_nothing(edition, ends, tmp_path, caplog):
    """Also when it is the end of a session that makes the epoch durable."""
    told = []

    def tell(epoch: int) -> None:
        told.append(epoch)
        raise ValueError("of the application")

    with (
        Datastore(tmp_path, edition=edition, on_durable=tell) as store,
        caplog.at_level(logging.ERROR, logger="flintlog.limestone"),
    ):
        channel = store.channel()
        session = channel.begin()
        session.put(1, b"a", b"1")
        if ends:
            store.switch_epoch()
            channel.end()
        else:
            channel.end()
            store.switch_epoch()
        assert store.wait_durable(session.epoch, 0)
        with channel.session() as session:
            session.put(1, b"b", b"2")
        store.switch_epoch()
        assert store.durable_epoch == session.epoch
    assert told == [1, 2]
    assert [record.name for record in caplog.records] == ["flintlog.limestone"] * 2
    assert "of the application" in caplog.text


def test_epochs_that_switch_by_themselves_go_on_behind_a_callback_that_fails(tmp_path):
    def tell(epoch: int) -> None:
        raise ValueError

    with Datastore(tmp_path, on_durable=tell) as store, store.automatic(interval=0.001) as auto:
        for number in range(5):
            assert auto.wait(auto.put(1, b"a", b"%d" % number))
    with Datastore(tmp_path) as store:
        assert store.snapshot.get(1, b"a") == b"4"


@BOTH
def test_a_session_ends_once(edition, tmp_path):
    with Datastore(tmp_path, edition=edition) as store:
        channel = store.channel()
        with channel.session() as session:
            session.put(1, b"a", b"1")
        raw = (tmp_path / "pwal_0000").read_bytes()
        for act in (channel.end, channel.abort, lambda: session.put(1, b"b", b"2")):
            with pytest.raises(RefusedError):
                act()
        given_up = channel.begin()
        given_up.put(1, b"c", b"3")
        channel.abort()
        for act in (channel.end, channel.abort, lambda: given_up.put(1, b"d", b"4")):
            with pytest.raises(RefusedError):
                act()
        marked = bytes([lay.INVALIDATED]) + lay.encode_begin(given_up.epoch)[1:]
        assert (tmp_path / "pwal_0000").read_bytes() == raw + marked
        store.switch_epoch()
        assert store.durable_epoch == session.epoch
    with Datastore(tmp_path) as store:
        assert [entry.key for entry in store.snapshot.scan()] == [b"a"]


def test_a_restore_into_the_same_place_is_refused_the_second_time(tmp_path):
    with Datastore(tmp_path / "log") as store:
        with store.channel().session() as session:
            session.put(1, b"a", b"1")
        store.switch_epoch()
        back_up(store, tmp_path / "backup")
    restore(tmp_path / "backup", tmp_path / "again")
    before = snapshot_of(tmp_path / "again")
    with pytest.raises(RefusedError):
        restore(tmp_path / "backup", tmp_path / "again")
    assert snapshot_of(tmp_path / "again") == before


def test_a_blob_that_is_added_again_is_another_one(tmp_path):
    with Datastore(tmp_path, edition="shipped") as store:
        first, second = store.blobs.add(b"one"), store.blobs.add(b"one")
        assert first != second
        with store.channel().session() as session:
            session.put(1, b"a", b"", blobs=[second])
        store.switch_epoch()
    with Datastore(tmp_path) as store:
        assert store.blobs.read(second) == b"one"
        with pytest.raises(RefusedError):  # the one that no entry names is gone
            store.blobs.read(first)
