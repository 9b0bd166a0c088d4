"""Reading a directory while its store appends, rolls back, takes snapshots and removes files."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager

import pytest

from flintlog import RaftStore
from flintlog.core.dialect import EntryQuery
from flintlog.core.log import Log
from flintlog.dialects.zmqraft.dialect import DIALECT
from flintlog.dialects.zmqraft.layout import Entry
from flintlog.disk import Disk, LocalKernel
from flintlog.errors import RefusedError

ROUNDS = 40


def named(term, first, count):
    """Entries that say which they are, of many sizes."""
    return [Entry(term, b"%d:%d:" % (term, first + at) + bytes(37 * at % 90)) for at in range(count)]


def live(store, number):
    """One more term in the life of a store."""
    store.set_hard_state(term=number, vote="me")
    store.append(named(number, store.last_index + 1, 1 + number % 30))
    store.set_hard_state(applied=store.last_index)
    if number % 3 == 0:
        store.truncate(max(store.first_index, store.last_index - 20))
    if number % 7 == 0:
        index = max(store.first_index, store.last_index - 5)
        store.append_at(index, named(number, index, 3))
    if number % 5 == 0:
        store.snapshot(max(store.last_index - 5, store.snapshot_index), bytes(500))
    if number % 40 == 0:
        store.install_snapshot(store.last_index + 100, number, b"from afar")


@contextmanager
def writing(path, disk=None):
    """A store that lives in a thread."""
    store = RaftStore(path, capacity=16, disk=disk)
    live(store, 1)
    stop = threading.Event()

    def run():
        number = 1
        while not stop.is_set():
            number += 1
            live(store, number)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        store.close()


def entries_of(path):
    query = EntryQuery()
    for split in Log(DIALECT, Disk(), path).splits(query):
        for batch in Log(DIALECT, Disk(), path).read_split(split, query):
            yield from ((row["position"], row["term"], row["payload"]) for row in batch.to_pylist())


def state_of(path):
    for batch in Log(DIALECT, Disk(), path).state():
        yield from ((row["index"], row["term"], row["data"]) for row in batch.to_pylist())


@pytest.mark.parametrize("read", [entries_of, state_of])
def test_what_is_read_was_true_at_a_moment_or_is_refused_with_advice(read, tmp_path):
    whole = 0
    with writing(tmp_path):
        for _ in range(ROUNDS):
            try:
                rows = list(read(str(tmp_path)))
            except RefusedError as error:
                assert error.advice
                continue
            whole += 1
            indexes = [index for index, _, _ in rows]
            assert indexes == list(range(indexes[0], indexes[0] + len(rows))) if rows else True
            assert [term for _, term, _ in rows] == sorted(term for _, term, _ in rows)
            assert all(data.startswith(b"%d:%d:" % (term, index)) for index, term, data in rows)
    assert whole


def test_verify_inspect_and_repair_find_nothing_wrong(tmp_path):
    with writing(tmp_path):
        for _ in range(ROUNDS):
            path = str(tmp_path)
            for inventory in (Log(DIALECT, Disk(), path).verify(), Log(DIALECT, Disk(), path).inspect()):
                assert inventory.verdict == "clean", inventory.findings
            for _ in Log(DIALECT, Disk(), path).fields():
                pass


class Watching(LocalKernel):
    """Remembers which files were made shorter."""

    def __init__(self):
        self.cut = []

    def truncate(self, handle, size):
        if os.fstat(handle).st_size > size:
            self.cut.append(os.readlink(f"/proc/self/fd/{handle}"))
        super().truncate(handle, size)


def test_no_file_that_readers_map_is_ever_made_shorter(tmp_path):
    kernel = Watching()
    disk = Disk(kernel)
    with RaftStore(tmp_path, capacity=16, disk=disk, data_size_max=900) as store:
        for number in range(1, 130):
            live(store, number)
    with (tmp_path / "raft.pers").open("ab") as file:
        file.write(b"\x82")
    RaftStore(tmp_path, disk=disk).close()
    assert kernel.cut == [str(tmp_path / "raft.pers")]  # which is read, never mapped


@pytest.mark.parametrize("look", ["verify", "inspect", "state", "entries"])
def test_an_entry_that_comes_between_the_size_and_the_slots_is_not_missing(look, tmp_path):
    with RaftStore(tmp_path, capacity=256) as store:
        store.append(named(1, 1, 3))

        class AppendingKernel(LocalKernel):
            """A store appends after each look at a size."""

            def stat_handle(self, handle):
                found = super().stat_handle(handle)
                if store.last_index < 200:
                    store.append(named(1, store.last_index + 1, 1))
                return found

        log = Log(DIALECT, Disk(AppendingKernel()), str(tmp_path))
        if look in ("verify", "inspect"):
            assert getattr(log, look)().verdict == "clean"
        else:
            assert len(getattr(log, look)().to_table()) >= 3
