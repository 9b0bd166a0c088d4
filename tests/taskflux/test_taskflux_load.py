"""Loading queues from many tasks: all records are added by one new segment, or none."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.independent.pieces import files_of
from tests.independent.views import queues_in, queues_of
from tests.loading import Loading

import flintlog
from flintlog import QueueStore
from flintlog.core.load import Batch
from flintlog.dialects.taskflux.store import load
from flintlog.dialects.taskflux.store.errors import (
    KeyRangeError,
    PayloadSizeError,
    QueueFullError,
    QueueMissingError,
)
from flintlog.errors import LockedError, RefusedError, UsageError

EDITIONS = pytest.mark.parametrize("edition", ["designed", "shipped"])


def waiting(path, name=""):
    with QueueStore(path) as store:
        return [(record.id, record.key, record.payload) for record in store.queue(name).records()]


@EDITIONS
def test_records_are_added_in_the_order_of_a_column(edition, tmp_path):
    path = tmp_path / "spool"
    loading = Loading(load, path, edition, create_queues=True)
    assert loading.all(
        {"queue": ["a", "b", "a"], "payload": ["5", "3", "1"], "order": [5, 3, 1]},
        {"queue": ["", "a", "b"], "payload": ["0", "4", "2"], "order": [0, 4, 2], "key": [9, 0, -7]},
    )
    assert waiting(path, "a") == [(1, 0, b"1"), (2, 0, b"4"), (3, 0, b"5")]
    assert waiting(path, "b") == [(1, -7, b"2"), (2, 0, b"3")]
    assert waiting(path) == [(1, 9, b"0")]
    found = flintlog.open(path).verify()
    assert (found.edition, found.verdict) == (edition, "clean") and not found.findings


@EDITIONS
def test_without_an_order_task_follows_task(edition, tmp_path):
    Loading(load, tmp_path, edition).all({"payload": ["a", "b"]}, {"payload": ["c", "d"]})
    assert [payload for _, _, payload in waiting(tmp_path)] == [b"a", b"b", b"c", b"d"]


@EDITIONS
def test_what_is_loaded_follows_what_is_there_and_work_goes_on_behind_it(edition, tmp_path, monkeypatch):
    monkeypatch.setattr(load, "_CHUNK_BYTES", 1000)  # the records of one load come in several pieces
    with QueueStore(tmp_path, edition=edition) as store:
        store.queue().add_many([b"first", b"second"])
        store.queue().take().ack()
    payloads = [b"%d" % at * at for at in range(200)]
    Loading(load, tmp_path).all({"payload": payloads[:150]}, {"payload": payloads[150:]})
    with QueueStore(tmp_path) as store:
        assert store.queue().add(b"last") == 203
        assert [record.payload for record in store.queue().records()] == [b"second", *payloads, b"last"]
        store.snapshot()
        store.queue().take().ack()
        assert queues_in(files_of(tmp_path / "data")) == queues_of(store)


def test_a_load_takes_the_place_of_an_empty_segment(tmp_path):
    Loading(load, tmp_path).all({"payload": ["a"]})
    names = sorted(path.name for path in (tmp_path / "data" / "log").iterdir())
    assert names == ["0000000000000000000.log"]
    Loading(load, tmp_path).all({"payload": ["b"]})
    assert len(list((tmp_path / "data" / "log").iterdir())) == 2
    assert [payload for _, _, payload in waiting(tmp_path)] == [b"a", b"b"]


@EDITIONS
def test_a_batch_that_comes_again_counts_once(edition, tmp_path):
    loading = Loading(load, tmp_path, edition)
    assert loading.all({"payload": ["a"]}, batch=Batch("s", 0))
    assert not loading.all({"payload": ["a"]}, batch=Batch("s", 0))
    assert loading.all({"payload": ["b"]}, batch=Batch("other", 0))
    assert loading.all({"payload": ["c"]}, batch=Batch("s", 1))
    with QueueStore(tmp_path) as store:
        store.snapshot()
    assert not loading.all({"payload": ["d"]}, batch=Batch("s", 1))
    assert not loading.all({"payload": ["d"]}, batch=Batch("s", 0))
    assert [payload for _, _, payload in waiting(tmp_path)] == [b"a", b"b", b"c"]
    assert len(waiting(tmp_path, load.BATCHES)) == 2


def test_a_mark_that_is_none_is_passed_over(tmp_path):
    with QueueStore(tmp_path) as store:
        store.create(load.BATCHES).add_many(
            [b"what", b"[" * 100_000, b'{"stream": 1}', b'{"stream": "s", "batch": 1e999}']
        )
    assert Loading(load, tmp_path).all({"payload": ["a"]}, batch=Batch("s", 0))


@pytest.mark.parametrize(
    ("limits", "columns", "error"),
    [
        ({"max_size": 3}, {"payload": ["a", "b"]}, QueueFullError),
        ({"key_range": (0, 5)}, {"payload": ["a", "b"], "key": [5, 6]}, KeyRangeError),
        ({"max_payload": 2}, {"payload": ["ab", "abc"]}, PayloadSizeError),
    ],
)
def test_a_limit_of_a_queue_refuses_the_whole_load(limits, columns, error, tmp_path):
    with QueueStore(tmp_path) as store:
        store.create("mail", **limits).add_many([b"a", b"b"])
    loading = Loading(load, tmp_path)
    with pytest.raises(error):
        loading.all({"queue": ["mail"] * 2, **columns})
    assert [payload for _, _, payload in waiting(tmp_path, "mail")] == [b"a", b"b"]
    assert flintlog.open(tmp_path).verify().exit_status == 0


def test_a_queue_that_is_not_there_refuses_the_load_unless_it_is_to_be_made(tmp_path):
    rows = {"queue": ["mail", "other"], "payload": ["a", "b"]}
    with pytest.raises(QueueMissingError, match="create_queues"):
        Loading(load, tmp_path).all(rows)
    with QueueStore(tmp_path) as store:
        assert [spec.name for spec in store.list()] == [""]
    Loading(load, tmp_path, create_queues=True).all(rows)
    assert waiting(tmp_path, "mail") == [(1, 0, b"a")]


def test_the_queue_of_the_marks_is_no_target(tmp_path):
    with pytest.raises(UsageError, match="marks"):
        Loading(load, tmp_path, create_queues=True).all({"queue": [load.BATCHES], "payload": ["a"]})


@pytest.mark.parametrize("name", ["with space", "käse", "x" * 256])
def test_a_name_that_no_queue_can_have_stages_nothing(name, tmp_path):
    loading = Loading(load, tmp_path, create_queues=True)
    with pytest.raises(UsageError):
        loading.all({"queue": [name], "payload": ["a"]})
    assert loading.disk.list(loading.plan.scratch) == []


@pytest.mark.parametrize(
    "columns", [{"payload": [None]}, {"payload": ["a"], "queue": [None]}, {"payload": ["a"], "key": [1.5]}]
)
def test_rows_that_do_not_fit_stage_nothing(columns, tmp_path):
    loading = Loading(load, tmp_path)
    with pytest.raises(UsageError):
        loading.all(columns)
    assert loading.disk.list(loading.plan.scratch) == []


def test_a_staged_file_that_is_gone_is_refused(tmp_path):
    loading = Loading(load, tmp_path)
    piece = loading.stage(0, {"payload": ["a"]})
    Path(piece.place).unlink()
    with pytest.raises(RefusedError, match="is gone"):
        loading.commit([piece])
    assert waiting(tmp_path) == []


@pytest.mark.parametrize("byte", [b"\xff", b"\0"])
def test_a_staged_file_with_other_bytes_is_refused(byte, tmp_path):
    loading = Loading(load, tmp_path)
    pieces = [loading.stage(0, {"payload": ["a", "b"]})]
    place = Path(pieces[0].place)
    place.write_bytes(byte * place.stat().st_size)
    with pytest.raises(RefusedError, match="not what its task wrote"):
        loading.commit(pieces)
    assert waiting(tmp_path) == []


def test_nothing_is_staged_or_taken_through_a_link(tmp_path):
    loading = Loading(load, tmp_path / "spool")
    piece = loading.stage(0, {"payload": ["a"]})
    place = Path(piece.place)
    place.rename(tmp_path / "elsewhere")
    place.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RefusedError, match="symbolic link"):
        loading.commit([piece])
    place.unlink()
    place.parent.rmdir()
    place.parent.symlink_to(tmp_path)
    with pytest.raises(RefusedError, match="symbolic link"):
        Loading(load, tmp_path / "spool")


def test_an_open_store_and_another_edition_are_refused_before_any_task(tmp_path, monkeypatch):
    monkeypatch.setattr(load, "PLAN_WAIT_SECONDS", 0.1)
    with QueueStore(tmp_path), pytest.raises(LockedError):
        Loading(load, tmp_path)
    with pytest.raises(RefusedError, match="designed edition, not shipped"):
        Loading(load, tmp_path, "shipped")


def test_the_segment_of_a_private_log_is_private(tmp_path):
    loading = Loading(load, tmp_path)
    for path in (tmp_path / "data").iterdir():
        if path.is_file():
            path.chmod(0o600)
    (tmp_path / "data" / "log" / "0000000000000000000.log").chmod(0o600)
    piece = loading.stage(0, {"payload": ["a"]})
    assert Path(piece.place).stat().st_mode & 0o077 == 0
    loading.commit([piece])
    assert {path.stat().st_mode & 0o077 for path in (tmp_path / "data" / "log").iterdir()} == {0}


def test_the_term_of_the_directory_is_that_of_loaded_records(tmp_path):
    with flintlog.ReplicaLog(tmp_path) as log:
        log.set_term(7, None)
    Loading(load, tmp_path).all({"payload": ["a"]})
    with flintlog.ReplicaLog(tmp_path) as log:
        assert [entry.term for entry in log.entries(0)] == [7]
