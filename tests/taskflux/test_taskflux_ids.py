"""Record ids are unsigned numbers of 64 bits, all of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.damaged_directories import queue, snapshot

from flintlog import QueueStore
from flintlog.cli.main import main
from flintlog.core.dialect import EntryQuery
from flintlog.core.log import Log
from flintlog.core.workers import Threads
from flintlog.dialects.taskflux.dialect import DIALECT
from flintlog.dialects.taskflux.layout import ID_MAX
from flintlog.dialects.taskflux.store.errors import QueueFullError, RecordMissingError
from flintlog.disk import Disk

HALF = 2**63


def one_entry(root: Path) -> None:
    with QueueStore(root) as store:
        store.queue().add(b"covered by the snapshot")


def made(root: Path, *ids: int, last_id: int = 0) -> str:
    """A directory whose state is a snapshot with empty records of these ids in the default queue."""
    snapshot(root, queue(records=ids, last_id=last_id), base=one_entry, index=0)
    return str(root)


def ids(path: str) -> list[int]:
    with QueueStore(path) as store:
        return [record.id for record in store.queue().records()]


@pytest.fixture(params=["python", "compiled"])
def kernels(request, monkeypatch):
    """The same with the compiled steps: there an unsigned number and a signed one make a float."""
    if request.param == "compiled":
        monkeypatch.setattr("flintlog.columns.compile.Kernel.worth_compiling", lambda *_: True)


@pytest.mark.parametrize("last", [HALF - 2, HALF - 1, HALF, HALF + 12345, ID_MAX - 5])
def test_a_store_goes_on_from_any_id(tmp_path, last, kernels):
    path = made(tmp_path, 7, last)
    with QueueStore(path) as store:
        default = store.queue()
        assert default.add(b"one") == last + 1
        assert list(default.add_many([b"two", b"three", b"four"])) == [last + 2, last + 3, last + 4]
        taken = default.take_many(2)
        assert [one.id for one in taken] == [7, last]
        default.ack_many(taken)
        assert default.remove(last + 3).payload == b"three"
    with QueueStore(path) as store:
        assert store.queue().last_id == last + 4
        assert [record.payload for record in store.queue().records()] == [b"one", b"two", b"four"]
        store.queue().ack_many(store.queue().take_many(1))
        store.snapshot()
        assert store.queue().remove(last + 4).payload == b"four"
    assert ids(path) == [last + 2]
    for workers in (None, Threads(2)):
        assert Log(DIALECT, Disk(), path).verify(workers=workers).findings == ()


def test_ids_end_with_the_last_one_of_64_bits(tmp_path, kernels):
    path = made(tmp_path, 1, last_id=ID_MAX - 2)
    with QueueStore(path) as store:
        assert store.queue().add(b"x") == ID_MAX - 1
        with pytest.raises(QueueFullError, match="2 more do not fit"):
            store.queue().add_many([b"x", b"x"])
        assert store.queue().add(b"last") == ID_MAX
        with pytest.raises(QueueFullError, match="ids"):
            store.queue().add(b"x")
        store.create("other").add(b"goes on")
    assert ids(path) == [1, ID_MAX - 1, ID_MAX]


def test_a_record_with_id_0_is_acknowledged_and_the_directory_opens(tmp_path, kernels):
    path = made(tmp_path, 0, 1)
    with QueueStore(path) as store:
        assert store.queue().take().id == 0
        store.queue().take()
    with QueueStore(path) as store:
        taken = store.queue().take()
        assert taken.id == 0
        taken.ack()
    assert ids(path) == [1]
    assert [row["id"] for row in frame(path)] == [1]


def frame(path: str) -> list[dict]:
    return Log(DIALECT, Disk(), path).state(workers=Threads(2)).to_pylist()


@pytest.mark.parametrize("id_", [-1, 0, 5, HALF + 5, ID_MAX + 1])
def test_an_id_that_is_not_there_is_missing(tmp_path, id_):
    with QueueStore(made(tmp_path, 7, HALF + 7)) as store, pytest.raises(RecordMissingError):
        store.queue().remove(id_)


def test_every_view_shows_them_exactly(tmp_path, capsys, kernels):
    path = made(tmp_path, HALF + 1, ID_MAX - 3)
    with QueueStore(path) as store:
        store.queue().add(b"x")
        store.queue().remove(HALF + 1)
    state = Log(DIALECT, Disk(), path).state()
    rows = [int(row["id"]) for batch in state for row in batch.to_pylist()]
    assert rows == [int(row["id"]) for row in frame(path)] == [ID_MAX - 3, ID_MAX - 2]

    assert main(["state", path, "--json"]) == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["id"] for row in printed] == [ID_MAX - 3, ID_MAX - 2]
    assert main(["dump", path, "--json"]) == 0
    assert f"{HALF + 1}" in capsys.readouterr().out

    query = EntryQuery()
    for split in Log(DIALECT, Disk(), path).splits(query):
        for batch in Log(DIALECT, Disk(), path).read_split(split, query):
            assert [row["taskflux"]["id"] for row in batch.to_pylist()] == [None, None, HALF + 1]


def test_a_migrated_directory_keeps_them(tmp_path, capsys):
    path = made(tmp_path / "designed", HALF + 1, ID_MAX - 3)
    with QueueStore(path) as store:
        store.queue().remove(HALF + 1)
    other = str(tmp_path / "shipped")
    assert main(["migrate", path, "--edition", "shipped", "--to", other]) == 0, capsys.readouterr()
    assert ids(other) == [ID_MAX - 3]
