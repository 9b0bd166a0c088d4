"""The snapshot is served from where the records stand, and from `data/snapshot` once that is written."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone.store import Datastore, places
from flintlog.dialects.limestone.upkeep.snapshot import plan_snapshot
from flintlog.disk import Disk
from flintlog.errors import UsageError

BOTH = pytest.mark.parametrize("edition", ["designed", "shipped"])
MEMORY = pytest.mark.parametrize("memory_bytes", [1, 64 << 20], ids=["a scratch file", "memory"])
KEYS = 300


def fill(path, edition: str) -> dict[tuple[int, bytes], bytes]:
    """Some history in compacted files, rotated logs and active ones of two channels; gives the state."""
    state = {}
    with Datastore(path, edition=edition) as store:
        channels = [store.channel(), store.channel()]
        for turn in range(4):
            for at, channel in enumerate(channels):
                with channel.session() as session:
                    for number in range(turn * 50 + at, KEYS, 2):
                        storage, key = (1, 256)[number % 3 == 0], b"key %d" % number
                        session.put(storage, key, b"%d of turn %d" % (number, turn) * (number % 5))
                        state[storage, key] = b"%d of turn %d" % (number, turn) * (number % 5)
                    session.remove(1, b"key %d" % (turn * 50 + 1 + at))
                    state.pop((1, b"key %d" % (turn * 50 + 1 + at)), None)
            store.switch_epoch()
            if turn == 1:
                assert store.compact() is not None
            if turn == 2:
                store.rotate()
    return state


def found(shot) -> dict[tuple[int, bytes], bytes]:
    return {(entry.storage, entry.key): entry.value for entry in shot.scan()}


def mapped(path) -> set[str]:
    """The files of a directory that this process maps."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return {line.partition(f"{path}/")[2] for line in lines if f"{path}/" in line}


def check(shot, state) -> None:
    """Every way to read a snapshot gives this state."""
    assert (found(shot), len(shot)) == (state, len(state))
    assert {place: shot.get(*place) for place in state} == state
    assert {place: shot.entry(*place).value for place in state} == state
    assert shot.get(1, b"key") is shot.entry(2, b"key 0") is None
    table = pa.Table.from_batches(shot.batches()).to_pylist()
    assert {(int(row["storage_id"]), row["key"]): row["value"] for row in table} == state
    assert [(int(row["storage_id"]), row["key"]) for row in table] == [
        (entry.storage, entry.key) for entry in shot.scan()
    ]
    for storage in (1, 256):
        keys = sorted(key for of, key in state if of == storage)
        assert [entry.key for entry in shot.scan(storage)] == keys
        assert [entry.key for entry in shot.scan(storage, keys[7], keys[-7])] == keys[7:-7]


@BOTH
@MEMORY
def test_it_is_the_same_from_the_logs_and_from_the_file(memory_bytes, edition, tmp_path):
    state = fill(tmp_path, edition)
    with Datastore(tmp_path, memory_bytes=memory_bytes) as store:
        check(store.snapshot, state)
        for _ in range(2):
            store.write_snapshot()
            assert store.snapshot.is_written
            check(store.snapshot, state)
        assert not list((tmp_path / "sorting").glob("*"))
    check(store.snapshot, state)


@BOTH
@MEMORY
def test_it_stays_while_logs_rotate_and_go(memory_bytes, edition, tmp_path):
    state = fill(tmp_path, edition)
    with Datastore(tmp_path, memory_bytes=memory_bytes) as store:
        begun = store.snapshot.scan()
        first = next(begun)
        for turn in range(3):
            with store.channel().session() as session:
                session.put(1, b"key 7", b"later %d" % turn)
                session.remove(1, b"key 8")
            store.switch_epoch()
            store.rotate()
            check(store.snapshot, state)
            assert store.compact() is not None
            check(store.snapshot, state)
        assert {(entry.storage, entry.key): entry.value for entry in [first, *begun]} == state
    with Datastore(tmp_path) as store:
        assert store.snapshot.get(1, b"key 7") == b"later 2"


def test_what_compaction_removes_leaves_the_disk(tmp_path):
    fill(tmp_path, "designed")
    with Datastore(tmp_path) as store:
        with store.channel().session() as session:
            session.put(1, b"a", b"b")
        store.switch_epoch()
        gc.collect()  # the stores before it
        assert {name.split(".")[0] for name in mapped(tmp_path)} == {"cmpct_0000", "pwal_0000", "pwal_0001"}
        assert store.compact() is not None
        gc.collect()  # what the compaction read
        assert mapped(tmp_path) == {lay.SNAPSHOT_FILE, "cmpct_0001"}


@BOTH
def test_the_file_is_the_state_as_the_verb_writes_it(edition, tmp_path):
    fill(tmp_path, edition)
    plan_snapshot(Disk(), str(tmp_path), None).apply()
    by_verb = (tmp_path / lay.SNAPSHOT_FILE).read_bytes()
    with Datastore(tmp_path) as store:
        assert not (tmp_path / lay.SNAPSHOT_FILE).exists()  # of an earlier start
        store.write_snapshot()
    assert (tmp_path / lay.SNAPSHOT_FILE).read_bytes() == by_verb


@pytest.mark.parametrize("with_snapshot", [True, False])
def test_opening_removes_what_an_earlier_one_left(with_snapshot, tmp_path):
    fill(tmp_path, "designed")
    (tmp_path / "sorting").mkdir(exist_ok=True)
    left = [lay.SNAPSHOT_FILE, f"{lay.SNAPSHOT_FILE}.new", places.PLACES_SCRATCH]
    for name in left:
        (tmp_path / name).write_bytes(b"left over")
    Datastore(tmp_path, snapshot=with_snapshot).close()
    assert not [name for name in left if (tmp_path / name).exists()]


def test_a_store_without_a_snapshot_writes_none(tmp_path):
    with Datastore(tmp_path, snapshot=False) as store:
        with pytest.raises(UsageError, match="without a snapshot"):
            store.write_snapshot()
        assert store.channel() is not None


def test_blobs_and_long_keys_are_found_in_both(tmp_path):
    long = b"k" * 5000
    with Datastore(tmp_path, edition="shipped") as store:
        number = store.blobs.add(b"content")
        with store.channel().session() as session:
            session.put(1, long, b"v", (7, 8), blobs=[number])
            session.put(1, long + b"!", b"w", (7, 9))
        store.switch_epoch()
    with Datastore(tmp_path) as store:
        for _ in range(2):
            entry = store.snapshot.entry(1, long)
            assert (entry.version, entry.blobs, entry.value) == ((7, 8), (number,), b"v")
            assert store.snapshot.get(1, long + b"!") == b"w"
            [batch] = store.snapshot.batches()
            assert [list(map(int, row["blob_ids"])) for row in batch.to_pylist()] == [[number], []]
            store.write_snapshot()


def test_heads_are_read_alike_compiled_and_not(tmp_path, monkeypatch):
    fill(tmp_path, "shipped")
    with Datastore(tmp_path) as store:
        [*read] = store.snapshot._places.mapped(lambda live: live)
        monkeypatch.setattr(places._read_heads, "worth_compiling", lambda size: True)
        read += store.snapshot._places.mapped(lambda live: live)
    for name in read[0].types():
        assert np.array_equal(getattr(read[0], name), getattr(read[1], name)), name


def test_many_keys_that_begin_alike_for_long_are_told_apart(tmp_path):
    keys = sorted(
        [b"a" * 1100 + b"%03d" % number for number in range(200)]
        + [b"a" * size for size in range(1000, 1100)]
    )
    with Datastore(tmp_path) as store:
        with store.channel().session() as session:
            session.put_many(1, keys, keys)
        store.switch_epoch()
    with Datastore(tmp_path) as store:
        assert [store.snapshot.get(1, key) for key in keys] == keys
        assert [store.get(1, key) for key in keys] == keys
        for at, key in enumerate(keys):
            assert store.snapshot.get(1, key + b"!") is None
            assert [entry.key for entry in store.snapshot.scan(1, key)] == keys[at:]
            assert [entry.key for entry in store.snapshot.scan(1, key + b"!")] == keys[at + 1 :]
