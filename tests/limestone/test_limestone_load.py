"""Loading a limestone directory from many tasks: all rows count in one epoch, or none."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from tests.independent.pieces import files_of
from tests.independent.views import keys_in
from tests.loading import Loading

import flintlog
from flintlog import Datastore
from flintlog.core.load import Batch, check_columns, staged_name, sweep
from flintlog.dialects.limestone.store import load, staged
from flintlog.errors import DamageError, LockedError, RefusedError, UsageError

EDITIONS = pytest.mark.parametrize("edition", ["designed", "shipped"])


def frame(keys, values, storage=1, **columns):
    return {"storage_id": [storage] * len(keys), "key": keys, "value": values, **columns}


def state(path, storage=1):
    rows = flintlog.open(path).state().to_table().to_pylist()
    return {row["key"]: row["value"] for row in rows if row["storage_id"] == storage}


@EDITIONS
def test_the_rows_of_all_tasks_count_with_one_epoch(edition, tmp_path):
    assert Loading(load, tmp_path / "log", edition).all(
        frame(["a", "b"], ["1", "2"]), frame([b"c"], [b"3"]), frame([], pa.array([], pa.binary()))
    )
    assert state(tmp_path / "log") == {b"a": b"1", b"b": b"2", b"c": b"3"}
    log = flintlog.open(tmp_path / "log")
    assert log.edition == edition
    assert log.verify().verdict == "clean" and not log.verify().findings
    entries = log.entries().to_table().to_pylist()
    assert {row["position"] for row in entries} == {2}


@EDITIONS
def test_what_is_loaded_wins_over_what_was_there_and_loses_to_what_comes(edition, tmp_path):
    path = tmp_path / "log"
    with Datastore(path, edition=edition) as store:
        with store.channel().session() as session:
            session.put_many(1, [b"a", b"b", b"c"], [b"old"] * 3)
        store.switch_epoch()
    Loading(load, path).all(frame(["a", "b"], ["new", None]))
    assert state(path) == {b"a": b"new", b"c": b"old"}
    with Datastore(path) as store:
        with store.channel().session() as session:
            session.put(1, b"a", b"newer")
        store.switch_epoch()
    assert state(path) == {b"a": b"newer", b"c": b"old"}


def test_of_rows_with_one_key_the_last_of_the_last_task_counts(tmp_path):
    Loading(load, tmp_path / "log").all(frame(["a", "a"], ["1", "2"]), frame(["a", "a"], ["3", "4"]))
    assert state(tmp_path / "log") == {b"a": b"4"}


def test_of_rows_with_one_key_the_highest_order_counts(tmp_path):
    Loading(load, tmp_path / "log").all(
        frame(["a", "b", "c"], ["1", "2", "3"], order=[7, 1, 9]),
        frame(["a", "b", "c"], ["4", "5", None], order=[5, 2, 10]),
    )
    assert state(tmp_path / "log") == {b"a": b"1", b"b": b"5"}


@EDITIONS
def test_a_log_that_moved_on_since_the_plan_is_loaded_on_top(edition, tmp_path, monkeypatch):
    monkeypatch.setattr(staged, "_CHUNK", 100)  # entries lie across the pieces, and one is larger
    path = tmp_path / "log"
    loading = Loading(load, path, edition)
    rows = frame(
        [f"k{at}" for at in range(50)], [None if at % 5 == 4 else "x" * (at * 7) for at in range(50)]
    )
    pieces = [loading.stage(0, rows)]
    with Datastore(path) as store:
        for _ in range(6):
            with store.channel().session() as session:
                session.put_many(1, [b"k0", b"k1", b"k4", b"mine"], [b"between"] * 4)
            store.switch_epoch()
    loading.commit(pieces)
    expected = {
        key.encode(): value.encode()
        for key, value in zip(rows["key"], rows["value"], strict=True)
        if value is not None
    }
    assert state(path) == {**expected, b"mine": b"between"}
    assert flintlog.open(path).verify().verdict == "clean"


def test_a_second_decoder_reads_what_was_loaded(tmp_path):
    Loading(load, tmp_path / "log").all(frame(["a", "b"], ["1", "2"]), frame(["a"], [None]))
    assert keys_in(files_of(tmp_path / "log")) == {(1, b"b"): (b"2", ())}


@EDITIONS
def test_small_sessions_and_the_mark_share_a_file(edition, tmp_path, monkeypatch):
    monkeypatch.setattr(load, "_SMALL_BYTES", 200)
    path = tmp_path / "log"
    rows = [frame([f"k{at}"], ["x" * (1000 if at == 3 else 10)]) for at in range(6)]
    Loading(load, path, edition).all(*rows, batch=Batch("s", 0))
    assert len(list(path.glob("pwal_*"))) == 2
    assert len(state(path)) == 6 and len(state(path, load.BATCHES)) == 1
    assert not list((path / "compaction_temp").iterdir())


def test_rows_of_the_storage_of_the_marks_are_refused(tmp_path):
    with pytest.raises(UsageError, match="holds the marks of loads"):
        Loading(load, tmp_path / "log").all(frame(["s"], ["{}"], storage=load.BATCHES))


def test_a_manifest_under_the_name_of_before_is_put_back(tmp_path):
    path = tmp_path / "log"
    Loading(load, path).all(frame(["a"], ["1"]))
    (path / "limestone-manifest.json").rename(path / "limestone-manifest.json.back")
    Loading(load, path).all(frame(["b"], ["2"]))
    assert sorted(state(path)) == [b"a", b"b"]


@EDITIONS
def test_a_batch_that_comes_again_counts_once(edition, tmp_path):
    path = tmp_path / "log"
    loading = Loading(load, path, edition)
    assert loading.all(frame(["a"], ["1"]), batch=Batch("s", 4))
    assert not loading.all(frame(["a"], ["2"]), batch=Batch("s", 4))
    assert not loading.all(frame(["a"], ["2"]), batch=Batch("s", 3))
    assert state(path) == {b"a": b"1"}
    assert loading.all(frame(["a"], ["3"]), batch=Batch("other", 4))
    assert loading.all(frame(["a"], ["4"]), batch=Batch("s", 5))
    assert state(path) == {b"a": b"4"}


def test_a_mark_outlives_compaction(tmp_path):
    path = tmp_path / "log"
    Loading(load, path).all(frame(["a"], ["1"]), batch=Batch("s", 4))
    flintlog.open(path).plan_compact().apply()
    assert not Loading(load, path).all(frame(["a"], ["2"]), batch=Batch("s", 4))
    assert Loading(load, path).all(frame(["a"], ["3"]), batch=Batch("s", 5))
    assert state(path) == {b"a": b"3"}


def test_a_mark_that_is_none_is_passed_over(tmp_path):
    path = tmp_path / "log"
    with Datastore(path) as store:
        with store.channel().session() as session:
            session.put(load.BATCHES, b"s", b"[" * 100_000)
            session.put(load.BATCHES, b"t", b'{"batch": 1e999}')
        store.switch_epoch()
    assert Loading(load, path).all(frame(["a"], ["1"]), batch=Batch("s", 0))
    assert Loading(load, path).all(frame(["a"], ["1"]), batch=Batch("t", 0))


@pytest.mark.parametrize("spoil", [lambda place: place.unlink(), lambda place: place.write_bytes(b"")])
def test_a_staged_file_that_is_gone_or_shorter_is_refused_and_nothing_counts(spoil, tmp_path):
    loading = Loading(load, tmp_path / "log")
    pieces = [loading.stage(part, frame([str(part)], ["x"])) for part in range(2)]
    spoil(Path(pieces[1].place))
    with pytest.raises(RefusedError, match="staged"):
        loading.commit(pieces)
    assert state(tmp_path / "log") == {}


def test_nothing_is_staged_or_taken_through_a_link(tmp_path):
    loading = Loading(load, tmp_path / "log")
    piece = loading.stage(0, frame(["a"], ["1"]))
    place = Path(piece.place)
    place.rename(tmp_path / "elsewhere")
    place.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RefusedError, match="symbolic link"):
        loading.commit([piece])
    place.unlink()
    place.parent.rmdir()
    place.parent.symlink_to(tmp_path)
    with pytest.raises(RefusedError, match="symbolic link"):
        Loading(load, tmp_path / "log")
    place.parent.unlink()
    assert state(tmp_path / "log") == {}


def test_what_no_commit_names_does_not_count_and_is_swept(tmp_path):
    loading = Loading(load, tmp_path / "log")
    lost = loading.stage(0, frame(["lost"], ["x"]))
    loading.all(frame(["a"], ["1"]))
    assert state(tmp_path / "log") == {b"a": b"1"}
    assert loading.disk.stat(lost.place) is None


def test_files_of_another_job_are_swept_a_day_later(tmp_path):
    loading, other = Loading(load, tmp_path / "log"), Loading(load, tmp_path / "log")
    young, old = (Path(other.stage(0, frame(["x"], ["x"])).place) for _ in range(2))
    os.utime(old, (0, 0))
    (young.parent / "load.directory").mkdir()
    sweep(loading.disk, loading.plan.scratch, loading.job)
    assert young.exists() and not old.exists()


def test_an_open_store_and_another_edition_are_refused_before_any_task(tmp_path, monkeypatch):
    monkeypatch.setattr(load, "PLAN_WAIT_SECONDS", 0.1)
    with Datastore(tmp_path / "log"), pytest.raises(LockedError, match="open for writing"):
        Loading(load, tmp_path / "log")
    with pytest.raises(RefusedError, match="designed edition, not shipped"):
        Loading(load, tmp_path / "log", "shipped")


def test_a_store_that_is_opened_meanwhile_refuses_the_commit_and_the_rows_can_be_committed_later(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(load, "WAIT_SECONDS", 0.1)
    loading = Loading(load, tmp_path / "log")
    pieces = [loading.stage(0, frame(["a"], ["1"]))]
    with Datastore(tmp_path / "log"), pytest.raises(LockedError):
        loading.room.commit(loading.disk, loading.plan, pieces, None)
    assert loading.commit(pieces)
    assert state(tmp_path / "log") == {b"a": b"1"}


def test_a_damaged_log_is_refused(tmp_path):
    Loading(load, tmp_path / "log").all(frame(["a"], ["1"]))
    (tmp_path / "log" / "compaction_catalog").write_bytes(b"what")
    (tmp_path / "log" / "epoch").write_bytes(b"what is that, an epoch?")
    with pytest.raises(DamageError):
        Loading(load, tmp_path / "log").all(frame(["a"], ["1"]))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"key": ["a"], "value": ["b"]}, "no column 'storage_id'"),
        (frame(["a"], ["b"], colour=["red"]), "no column 'colour'"),
        (frame([[1]], ["b"]), "cannot be binary"),
    ],
)
def test_columns_that_do_not_fit_are_refused_by_their_names(columns, message):
    with pytest.raises(UsageError, match=message):
        check_columns(pa.record_batch(columns).schema, load.COLUMNS, "limestone")


def test_two_columns_of_one_name_are_refused():
    columns = pa.schema(
        [("storage_id", pa.int64()), ("key", pa.string()), ("key", pa.string()), ("value", pa.string())]
    )
    with pytest.raises(UsageError, match="two columns 'key'"):
        check_columns(columns, load.COLUMNS, "limestone")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (frame([None], ["x"]), "a row has no key"),
        (frame(["a"], ["x"], storage=-1), "cannot be uint64"),
        (frame(["a"], ["x"], order=[-1]), "negative"),
        (frame(["a"], ["x"], order=["now"]), "cannot be int64"),
        (frame(["a"], ["x"], order=[None]), "a row has no order"),
    ],
)
def test_rows_that_do_not_fit_stage_nothing(columns, message, tmp_path):
    loading = Loading(load, tmp_path / "log")
    with pytest.raises(UsageError, match=message):
        loading.stage(0, columns)
    assert loading.disk.list(loading.plan.scratch) == []


def test_storages_and_keys_of_any_size_arrive(tmp_path):
    keys = [b"", b"\0" * 300, b"k"]
    storages = pa.array([0, 2**64 - 1, 2**63], pa.uint64())
    values = [b"", b"v" * 3_000_000, b"x"]
    Loading(load, tmp_path / "log").all({"storage_id": storages, "key": keys, "value": values})
    rows = flintlog.open(tmp_path / "log").state().to_table().to_pylist()
    assert [(int(row["storage_id"]), row["key"], row["value"]) for row in rows] == sorted(
        zip([0, 2**64 - 1, 2**63], keys, values, strict=True)
    )


def test_the_session_of_a_private_log_is_private(tmp_path):
    loading = Loading(load, tmp_path / "log")
    (tmp_path / "log" / "limestone-manifest.json").chmod(0o600)
    loading.commit([loading.stage(0, frame(["a"], ["1"]))])
    assert {path.stat().st_mode & 0o077 for path in Path(tmp_path / "log").glob("pwal_*")} == {0}


def test_a_live_store_takes_sessions_in_beside_its_channels(tmp_path):
    path = tmp_path / "log"
    loading = Loading(load, path)
    pieces = [loading.stage(part, frame([f"loaded {part}"], ["x"])) for part in range(20)]
    with Datastore(path) as store:
        wrote, stop = [], threading.Event()

        def write() -> None:
            channel = store.channel()
            while not stop.is_set():
                with channel.session() as session:
                    session.put(1, b"written %d" % len(wrote), b"y")
                wrote.append(session.epoch)
                store.switch_epoch()

        thread = threading.Thread(target=write)
        thread.start()
        epochs = [store.load([piece.place]) for piece in pieces]
        stop.set()
        thread.join()
        assert store.wait_durable(epochs[-1], timeout=10)
        assert epochs == sorted(set(epochs)) and not set(epochs) & set(wrote)
    found = state(path)
    assert sum(key.startswith(b"loaded") for key in found) == 20
    assert sum(key.startswith(b"written") for key in found) >= len(wrote) - 1


def test_a_session_that_is_open_holds_a_load_back_until_it_ends(tmp_path):
    path = tmp_path / "log"
    loading = Loading(load, path)
    piece = loading.stage(0, frame(["a"], ["loaded"]))
    with Datastore(path) as store:
        session = (channel := store.channel()).begin()
        session.put(1, b"a", b"open")
        epoch = store.load([piece.place])
        assert not store.wait_durable(epoch, timeout=0.05)
        channel.end()
        assert store.wait_durable(epoch, timeout=5)
    assert state(path) == {b"a": b"loaded"}


def test_names_of_staged_files_are_their_own(tmp_path):
    loading = Loading(load, tmp_path / "log")
    assert len({staged_name(loading.plan, loading.job) for _ in range(100)}) == 100
