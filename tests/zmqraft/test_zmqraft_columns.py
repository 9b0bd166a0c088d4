"""Columns to entries and back: the same bytes as one by one, and nothing that is not an entry."""

from __future__ import annotations

import os
import random
import threading

import numpy as np
import pytest

from flintlog.dialects.zmqraft import batch
from flintlog.dialects.zmqraft.layout import NUMBER_MAX
from flintlog.dialects.zmqraft.store import Entry, RaftStore
from flintlog.errors import UsageError


def some_entries(count: int, seed: int = 0) -> list[Entry]:
    choice = random.Random(seed)
    return [
        Entry(
            choice.choice([0, 1, 255, 1 << 40, NUMBER_MAX]),
            choice.randbytes(choice.randrange(60)),
            choice.randrange(256),
            choice.choice([bytes(12), choice.randbytes(12), b"\x01" + bytes(11), bytes(11) + b"\x01"]),
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize("count", [0, 1, 7, 8, 100, 3000])
def test_columns_write_the_bytes_that_entries_write_one_by_one(count):
    entries = some_entries(count)
    encoded = [entry.encode() for entry in entries]
    found = batch.of_entries(entries)
    assert found.data == b"".join(encoded)
    assert found.ends.tolist() == np.cumsum([len(one) for one in encoded], dtype=np.int64).tolist()
    assert found.last_term == (entries[-1].term if entries else 0)


def test_a_single_term_and_type_count_for_every_entry():
    found = batch.of_columns(7, [b"a", b"bc"], types=2)
    assert found.data == Entry(7, b"a", 2).encode() + Entry(7, b"bc", 2).encode()
    found = batch.of_columns(np.array([1, 2]), [b"a", b"bc"], request_ids=[b"x" * 12, b"y" * 12])
    assert found.data == Entry(1, b"a", 0, b"x" * 12).encode() + Entry(2, b"bc", 0, b"y" * 12).encode()


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"terms": -1}, "a term is not a whole number"),
        ({"terms": NUMBER_MAX + 1}, "a term is not a whole number"),
        ({"terms": 2**70}, "a term is not a whole number"),
        ({"terms": 1.5}, "a term is not a whole number"),
        ({"terms": True}, "a term is not a whole number"),
        ({"terms": [1]}, "2 entries and 1 of the column term"),
        ({"types": 256}, "a type is not a whole number"),
        ({"types": [0, -1]}, "a type is not a whole number"),
        ({"request_ids": [b"x" * 12]}, "2 entries and 1 request ids"),
        ({"request_ids": [b"x" * 12, b"y" * 11]}, "a request id has 12 bytes, not 11"),
        ({"data": [b"a", "b"]}, "is not bytes"),
        ({"data": [b"a", 5]}, "is not bytes"),
    ],
)
def test_what_is_not_an_entry_is_refused_and_nothing_is_written(tmp_path, columns, message):
    columns = {"terms": 1, "data": [b"a", b"b"], **columns}
    with RaftStore(tmp_path) as store:
        with pytest.raises(UsageError, match=message):
            store.append_columns(columns.pop("terms"), columns.pop("data"), **columns)
        store.append([Entry(1, b"goes on")])
        assert [entry.data for entry in store.entries(1)] == [b"goes on"]


def test_entries_columns_bytes_and_arrow_tell_the_same(tmp_path):
    entries = some_entries(100)
    with RaftStore(tmp_path, capacity=16) as store:
        store.append(entries[:50])
        store.append_columns(
            [entry.term for entry in entries[50:]],
            [entry.data for entry in entries[50:]],
            types=[entry.type for entry in entries[50:]],
            request_ids=[entry.request_id for entry in entries[50:]],
        )
        for first, last in ((1, None), (1, 1), (15, 17), (16, 31), (40, 100), (100, 100), (7, 6)):
            wanted = entries[first - 1 : last]
            assert list(store.entries(first, last)) == wanted
            assert [bytes(raw) for raw in store.log.raw_entries(first, last)] == [
                one.encode() for one in wanted
            ]
            index = [at for _, columns in store.columns(first, last) for at in columns.index.tolist()]
            assert index == list(range(first, first + len(wanted)))
            rows = [row for some in store.record_batches(first, last) for row in some.to_pylist()]
            assert [(row["term"], row["data"], row["request_id"]) for row in rows] == [
                (one.term, one.data, one.request_id) for one in wanted
            ]


def test_readers_and_a_rollback_beside_appending_threads_see_whole_entries(tmp_path):
    stop = threading.Event()
    failures: list[BaseException] = []

    def guarded(work):
        def run():
            try:
                while not stop.is_set():
                    work()
            except BaseException as error:
                failures.append(error)
                stop.set()

        return threading.Thread(target=run)

    with RaftStore(tmp_path, capacity=8) as store:
        store.append([Entry(1, b"kept")] * 20)

        def append():
            store.append([Entry(2, b"same bytes %d" % number) for number in range(3)])

        def read():
            last = store.last_index
            for entry in store.entries(max(1, min(last, 20) - 10), min(last, 20)):
                assert entry == Entry(1, b"kept")

        def roll_back():
            store.truncate(21)
            assert store.last_index >= 20

        threads = [guarded(work) for work in (append, append, read, roll_back)]
        for thread in threads:
            thread.start()
        stop.wait(1.5)
        stop.set()
        for thread in threads:
            thread.join()
        assert failures == []
        store.append([Entry(3, os.urandom(4))])
        tail = [entry.data for entry in store.entries(21, store.last_index - 1)]
        assert tail == [b"same bytes %d" % (at % 3) for at in range(len(tail))]
