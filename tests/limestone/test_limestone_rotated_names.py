"""A rotated log gets a name behind all others of its channel, whatever the clock says, and never one that was there."""

from __future__ import annotations

import pytest

from flintlog.dialects.limestone.store import Datastore

EDITIONS = ("designed", "shipped")
LAST = 99_999_999_999_999 / 1000  # the last millisecond that a name can hold


def put(store, channel, key, value=b"1", version=None, between=lambda: None):
    """A session during which something happens; durable on return."""
    session = channel.begin()
    session.put(1, key, value, version)
    between()
    channel.end()
    store.switch_epoch()
    assert store.wait_durable(session.epoch)


@pytest.mark.parametrize("now", [1000.0, LAST, LAST + 1000])
@pytest.mark.parametrize("second", ["rotate", "compact"])
@pytest.mark.parametrize("edition", EDITIONS)
def test_a_channel_that_writes_is_rotated_often_in_one_moment(tmp_path, edition, second, now):
    with Datastore(tmp_path, edition=edition, clock=lambda: now) as store:
        channel = store.channel()
        for key in (b"a", b"b", b"c"):
            put(store, channel, key, between=store.rotate if key == b"a" else getattr(store, second))
        assert [entry.key for entry in store.scan()] == [b"a", b"b", b"c"]
    with Datastore(tmp_path, clock=lambda: now) as store:
        assert store.findings == ()
        assert [entry.key for entry in store.scan()] == [b"a", b"b", b"c"]


@pytest.mark.parametrize("step", [0.0, -3600.0])
@pytest.mark.parametrize("edition", EDITIONS)
def test_files_of_a_channel_stay_in_order_when_the_clock_does_not(tmp_path, edition, step):
    """Of equal versions the later one in its channel counts."""
    now = 2_000_000.0
    for value in (b"1", b"2", b"3"):
        with Datastore(tmp_path, edition=edition, clock=lambda: now) as store:  # noqa: B023
            put(store, store.channel(), b"k", value, (5, 5), between=store.rotate)
            put(store, store.channel(), b"other")
            store.rotate()
            now += step
            assert store.get(1, b"k") == value
    with Datastore(tmp_path, clock=lambda: now) as store:
        assert store.get(1, b"k") == b"3"


@pytest.mark.parametrize("edition", EDITIONS)
def test_a_name_that_the_catalog_lists_does_not_come_again(tmp_path, edition):
    now = 2_000_000.0
    with Datastore(tmp_path, edition=edition, clock=lambda: now) as store:
        put(store, store.channel(), b"a")
        store.compact()
    with Datastore(tmp_path, clock=lambda: now - 3600) as store:
        listed = store._survey().catalog.detached
        put(store, store.channel(), b"b")
        assert not listed & {*store.rotate()}
    with Datastore(tmp_path, clock=lambda: now - 7200) as store:
        assert [entry.key for entry in store.scan()] == [b"a", b"b"]
