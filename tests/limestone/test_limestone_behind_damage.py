"""What stands behind a place that cannot be read: it never comes to life, and nothing older wins by it."""

from __future__ import annotations

import pytest
from tests.golden_cases import snapshot_of
from tests.limestone.recorded import lay_out

from flintlog.core.log import open_log
from flintlog.dialects.limestone.store import Datastore
from flintlog.errors import DamageError, UsageError

pytestmark = pytest.mark.usefixtures("still")


def keys(store: Datastore) -> list[bytes]:
    return [entry.key for entry in store.snapshot.scan(1)]


@pytest.mark.parametrize("edition", ["designed", "shipped"])
@pytest.mark.parametrize("rotated", [True, False])
def test_sessions_that_were_never_durable_stay_dead_behind_damage(edition, rotated, tmp_path):
    with Datastore(tmp_path, edition=edition) as store:
        channel, holding = store.channel(), store.channel()
        with channel.session() as session:
            session.put(1, b"acknowledged", b"1")
        store.switch_epoch()
        holding.begin()  # so that nothing of this epoch is ever durable
        for key in (b"second", b"third"):
            with channel.session() as session:
                session.put(1, key, b"2")
        store.switch_epoch()
        if rotated:
            store.rotate()
    (log,) = (path for path in tmp_path.glob("pwal_0000*") if b"third" in path.read_bytes())
    raw = bytearray(log.read_bytes())
    raw[raw.index(b"second") - 17 + 4] = 0xD1  # a key that reaches far behind the end of the file
    log.write_bytes(raw)
    assert open_log(tmp_path).health == "repairable"
    for number in range(3):
        with Datastore(tmp_path) as store:
            assert keys(store) == [b"acknowledged", *(b"new %d" % one for one in range(number))]
            with store.channel().session() as session:
                session.put(1, b"new %d" % number, b"3")
            store.switch_epoch()
            assert store.wait_durable(session.epoch, 10)
    assert open_log(tmp_path).verify().verdict == "clean"


@pytest.mark.parametrize("size", [0, 5, 9, 10, 30, 49])
def test_a_log_that_was_left_out_wins_nothing_where_a_compacted_one_is_not_whole(size, tmp_path):
    root = lay_out("c36_migration_then_compaction_stale", "dir_after", tmp_path)
    log = root / "pwal_0000.01794727613014.0"
    log.write_bytes(log.read_bytes()[:size])
    before = snapshot_of(root)
    found = open_log(root)
    assert found.verify().verdict == found.health == "corrupt"
    with pytest.raises(DamageError) as caught:
        Datastore(root)
    assert caught.value.code in ("left-out-ambiguous", "entry-cut")
    with pytest.raises(DamageError):
        found.state().to_table()
    assert found.plan_repair().lost
    assert snapshot_of(root) == before


def test_a_blob_that_is_no_bytes_is_refused_and_stops_nothing(tmp_path):
    with Datastore(tmp_path, edition="shipped") as store:
        for odd in ([1], ["x"], [None], [memoryview(b"abcdef")[::2]]):
            with pytest.raises(UsageError):
                store.blobs.add(odd)
        number = store.blobs.add([memoryview(b"ab"), bytearray(b"c")])
        assert store.blobs.read(number) == b"abc"
