"""Columns in, ids out: `add_many`, and the compiled path against the plain one, byte for byte."""

from __future__ import annotations

import random
from array import array
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from flintlog import QueueStore
from flintlog.columns.gather import offsets_of
from flintlog.dialects.taskflux import batch
from flintlog.dialects.taskflux.layout import DESIGNED, SHIPPED, AddRecord, RemoveRecord, encode_delta
from flintlog.dialects.taskflux.store.errors import KeyRangeError
from flintlog.disk import Disk
from flintlog.errors import UsageError
from flintlog.testing import MemoryKernel

ROOT = "/srv/queues"
NAME = f"{ROOT}/data/log/0000000000000000000.log"
PAYLOADS = [b"one", b"", b"three", b"\x00\xff", b"five"]
KEYS = [3, -(2**63), 2**63 - 1, 0, -1]


def stored(kernel: MemoryKernel) -> bytes:
    return Disk(kernel).read(NAME, 1 << 30)


def opened(kernel: MemoryKernel, **options) -> QueueStore:
    return QueueStore(ROOT, disk=Disk(kernel), **options)


def one_by_one(edition: str, payloads, keys) -> bytes:
    kernel = MemoryKernel()
    with opened(kernel, edition=edition) as store:
        for payload, key in zip(payloads, keys, strict=True):
            store.queue().add(payload, key)
    return stored(kernel)


@pytest.mark.parametrize("edition", ["designed", "shipped"])
@pytest.mark.parametrize(
    "keys",
    [
        KEYS,
        tuple(KEYS),
        np.array(KEYS),
        np.array(KEYS, ">i8"),
        np.repeat(np.array(KEYS), 2)[::2],  # a view with a stride
        pa.array(KEYS),
    ],
    ids=["list", "tuple", "numpy", "big-endian", "strided", "arrow"],
)
@pytest.mark.parametrize("payloads", [PAYLOADS, tuple(PAYLOADS), pa.array(PAYLOADS)], ids=["l", "t", "arrow"])
def test_a_batch_is_written_as_single_adds_are_whatever_the_columns_are(edition, keys, payloads):
    kernel = MemoryKernel()
    with opened(kernel, edition=edition) as store:
        ids = store.queue().add_many(payloads, keys)
        assert ids == range(1, 6)
        expected = sorted(zip(ids, KEYS, PAYLOADS, strict=True), key=lambda row: row[1])
        assert [tuple(row) for row in store.queue().records()] == expected
    assert stored(kernel) == one_by_one(edition, PAYLOADS, KEYS)
    with opened(kernel) as store:
        assert [tuple(row) for row in store.queue().records()] == expected


@pytest.mark.parametrize("key", [7, np.int64(7), np.uint8(7)])
def test_one_key_serves_all(key):
    kernel = MemoryKernel()
    with opened(kernel) as store:
        store.queue().add_many(PAYLOADS, key)
        assert [(row.id, row.key) for row in store.queue().records()] == [(at, 7) for at in range(1, 6)]
    assert stored(kernel) == one_by_one("designed", PAYLOADS, [7] * 5)


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "u1", "u2", "u4", "u8"])
def test_keys_of_any_integer_type_keep_their_value(dtype):
    kernel = MemoryKernel()
    with opened(kernel) as store:
        store.queue().add_many([b"a", b"b"], np.array([100, 1], dtype))
        assert [row.key for row in store.queue().records()] == [1, 100]


@pytest.mark.parametrize(
    "keys",
    [
        [1.5, 2.0],
        np.array([1.0, 2.0]),
        ["1", "2"],
        [None, 1],
        [2**63, 0],
        [-(2**63) - 1, 0],
        [2**63, -1],
        [2**64, 0],
        np.array([2**63, 0], np.uint64),
        np.array(["2020-01-01", "2020-01-02"], "datetime64[D]"),
        [True, False],
        1.5,
        2**63,
        None,
    ],
    ids=repr,
)
def test_keys_that_are_no_whole_numbers_of_64_bits_are_refused_not_bent(keys):
    kernel = MemoryKernel()
    with opened(kernel) as store:
        with pytest.raises(KeyRangeError):
            store.queue().add_many([b"a", b"b"], keys)
        assert (store.last_lsn, store.queue().last_id) == (-1, 0)


@pytest.mark.parametrize("keys", [[], [1], [1, 2, 3], np.zeros((2, 1), int), np.zeros((1, 2), int)], ids=repr)
def test_columns_of_different_length_are_refused(keys):
    with opened(MemoryKernel()) as store, pytest.raises(UsageError):
        store.queue().add_many([b"a", b"b"], keys)


@pytest.mark.parametrize(
    "payloads",
    [[b"a", "b"], [b"a", None], [b"a", 5], pa.array([b"a", None])],
    ids=["text", "none", "number", "arrow null"],
)
def test_payloads_that_are_not_bytes_are_refused(payloads):
    with opened(MemoryKernel()) as store:
        with pytest.raises(UsageError):
            store.queue().add_many(payloads)
        assert store.last_lsn == -1


@pytest.mark.parametrize("payloads", [[], (), pa.array([], pa.binary())])
def test_an_empty_batch_gives_no_ids_and_writes_nothing(payloads):
    kernel = MemoryKernel()
    with opened(kernel) as store:
        calls = len(kernel.log)
        assert len(store.queue().add_many(payloads)) == 0
        assert len(store.queue().add_many(payloads, [])) == 0
        assert len(kernel.log) == calls
        assert store.queue().add(b"") == 1


def test_a_batch_is_one_write_and_one_sync():
    kernel = MemoryKernel()
    with opened(kernel) as store:
        before = len(kernel.log)
        store.queue().add_many([b"x" * 100] * 1000)
        calls = [type(call).__name__ for call in kernel.log[before:]]
        assert calls == ["Write", "Sync"]


def test_a_batch_over_several_segments_keeps_its_order():
    kernel = MemoryKernel()
    with opened(kernel, soft_limit=300, hard_limit=300, snapshot_threshold=999) as store:
        ids = store.queue().add_many([b"%03d" % number for number in range(200)], np.arange(200) % 3)
        assert ids == range(1, 201)
    assert len(kernel.list(f"{ROOT}/data/log")) > 10
    with opened(kernel) as store:
        expected = sorted(((number + 1, number % 3) for number in range(200)), key=lambda row: row[1])
        assert [(row.id, row.key) for row in store.queue().records()] == expected


# The compiled path

random_ = random.Random(7)
BATCHES = {
    "one empty": ([b""], [0]),
    "all empty": ([b""] * 50, list(range(50))),
    "extremes": ([b"x"] * 4, [-(2**63), 2**63 - 1, -1, 0]),
    "every length": ([bytes([size % 256]) * size for size in range(70)], list(range(-35, 35))),
    "random": (
        [random_.randbytes(random_.randrange(200)) for _ in range(300)],
        [random_.randrange(-(2**63), 2**63) for _ in range(300)],
    ),
}


@pytest.mark.parametrize("name", ["", "q", "a-longer-name", "n" * 255])
@pytest.mark.parametrize("batch_name", BATCHES)
@pytest.mark.parametrize("layout", [DESIGNED, SHIPPED], ids=["designed", "shipped"])
@pytest.mark.parametrize("compiled", [False, True], ids=["plain", "compiled"])
def test_the_compiled_and_the_plain_path_write_what_single_records_are(
    layout, batch_name, name, compiled, monkeypatch
):
    payloads, keys = BATCHES[batch_name]
    monkeypatch.setattr(batch._fill_adds, "worth_compiling", lambda size: compiled)
    arena, offsets = batch.payload_column(payloads)
    prefix = encode_delta(AddRecord(name, 0, b""))[:-12]
    blob = batch.adds(layout, 3, prefix, np.array(keys, np.int64), arena, offsets)
    single = [
        layout.encode_record(3, encode_delta(AddRecord(name, key, payload)))
        for payload, key in zip(payloads, keys, strict=True)
    ]
    assert bytes(blob.data) == b"".join(single)
    assert blob.count == len(payloads)
    assert blob.ends.tolist() == offsets_of(np.array([len(record) for record in single]))[1:].tolist()


@pytest.mark.parametrize("count", [1, 2, 31, 32, 33, 500])
@pytest.mark.parametrize("layout", [DESIGNED, SHIPPED], ids=["designed", "shipped"])
def test_removals_are_the_same_bytes_in_every_number(layout, count):
    ids = [number * 10**15 + 1 for number in range(count)]
    prefix = encode_delta(RemoveRecord("queue", 0))[:-8]
    blob = batch.removes(layout, 2, prefix, ids)
    single = [layout.encode_record(2, encode_delta(RemoveRecord("queue", id_))) for id_ in ids]
    assert bytes(blob.data) == b"".join(single)
    assert blob.count == count
    if count > 1:
        assert blob.ends.tolist() == offsets_of(np.array([len(record) for record in single]))[1:].tolist()


def test_a_slice_of_an_arrow_column_is_taken_as_it_is():
    column = pa.array([b"no", b"yes", b"", b"yes too", b"no"]).slice(1, 3)
    for sliced in (column, column.cast(pa.large_binary()), pa.chunked_array([column]).combine_chunks()):
        arena, offsets = batch.payload_column(sliced)
        assert [arena[a:b] for a, b in pairwise(offsets)] == [
            b"yes",
            b"",
            b"yes too",
        ]


@pytest.mark.parametrize(
    "view",
    [
        memoryview(array("I", [1, 2, 3])),
        memoryview(b"abcdef")[::2],
        memoryview(bytes(range(12))).cast("B", (3, 4)),
        bytearray(b"mutable"),
        memoryview(b""),
    ],
    ids=["longer items", "with gaps", "two dimensions", "bytearray", "empty"],
)
def test_a_view_counts_with_its_bytes(tmp_path, view):
    with QueueStore(tmp_path) as store:
        store.queue().add_many([view, b"abc", view])
        store.queue().add(view)
    with QueueStore(tmp_path) as store:
        found = [record.payload for record in store.queue().records()]
    assert found == [bytes(view), b"abc", bytes(view), bytes(view)]


@pytest.mark.parametrize("wrong", [[b"a", "b"], [b"a", 3], [b"a", None], [[1, 2]], [array("I", [1])]])
def test_what_is_no_byte_string_is_refused_and_nothing_is_added(tmp_path, wrong):
    with QueueStore(tmp_path) as store:
        with pytest.raises(UsageError):
            store.queue().add_many(wrong)
        assert len(store.queue()) == 0
