"""Many records at once have the bytes that they have one by one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintlog.columns.payloads import Payloads
from flintlog.dialects.mpy6a import batch
from flintlog.dialects.mpy6a import layout as lay
from flintlog.dialects.mpy6a.layout import Record, StateID
from flintlog.errors import UsageError

U64 = st.integers(0, lay.UINT64_MAX)
ROWS = st.lists(
    st.tuples(
        st.integers(1, lay.UINT64_MAX),
        U64,
        st.integers(-(1 << 31), (1 << 31) - 1),
        U64,
        st.binary(max_size=300),
    ),
    max_size=12,
)
ITEMS = [b"", b"a", b"x" * 127, b"y" * 128, b"z" * 20_000, b"", b"\x00\xff"]


def one_by_one(first: StateID, topic: int, items: list[bytes]) -> bytes:
    return b"".join(
        lay.encode_record(Record(77, first.following(at), topic, 0, data)) for at, data in enumerate(items)
    )


@settings(derandomize=True, deadline=None, max_examples=200)
@given(st.integers(1, lay.TIME_MAX), ROWS)
def test_columns_give_the_bytes_of_single_records(due, rows):
    term, index, topic, attempts, data = (
        (list(column) for column in zip(*rows, strict=True)) if rows else [[]] * 5
    )
    expected = b"".join(lay.encode_record(Record(due, StateID(row[0], row[1]), *row[2:])) for row in rows)
    arguments = (
        due,
        np.array(term, np.uint64),
        np.array(index, np.uint64),
        np.array(topic, np.int32),
        np.array(attempts, np.uint64),
        Payloads.of(data),
    )
    assert batch.encode(*arguments) == expected
    assert int(batch.sizes(arguments[4], arguments[5].length).sum()) == len(expected)


def test_compiled_and_uncompiled_write_the_same():
    items = [bytes([number % 256]) * (number % 300) for number in range(3000)]
    first = StateID(3, (1 << 64) - 3000)
    compiled = batch.encode_new(77, first, -9, Payloads.of(items))
    assert len(compiled) > 100_000  # enough for the compiler
    assert compiled == one_by_one(first, -9, items)


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
@pytest.mark.parametrize("cut", [slice(None), slice(2, 5), slice(3, 3), slice(6, None)])
def test_arrow_columns_and_their_slices(kind, cut):
    array = pa.array(ITEMS, kind)[cut]
    assert batch.encode_new(77, StateID(1, 1), 4, Payloads.of(array)) == one_by_one(
        StateID(1, 1), 4, ITEMS[cut]
    )


def test_arrow_columns_in_chunks_and_of_text():
    chunked = pa.chunked_array([pa.array(ITEMS[:3]), pa.array(ITEMS[3:])])
    text = pa.array(["ä", "", "b"])
    assert batch.encode_new(77, StateID(1, 1), 4, Payloads.of(chunked)) == one_by_one(StateID(1, 1), 4, ITEMS)
    assert batch.encode_new(77, StateID(1, 1), 4, Payloads.of(text)) == one_by_one(
        StateID(1, 1), 4, ["ä".encode(), b"", b"b"]
    )


@pytest.mark.parametrize("nothing", [[], pa.array([], pa.binary()), pa.chunked_array([], pa.binary())])
def test_nothing_gives_nothing(nothing):
    assert len(Payloads.of(nothing)) == 0
    assert batch.encode_new(77, StateID(1, 1), 4, Payloads.of(nothing)) == b""


@pytest.mark.parametrize(
    "wrong",
    [
        pa.array([1, 2]),
        pa.array([b"a", None]),
        ["text"],
        [b"a", 5],
        "text",
        b"bytes",
        {b"a": 1},
        7,
        None,
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_are_no_byte_strings_is_refused(wrong):
    with pytest.raises(UsageError):
        Payloads.of(wrong)


def test_parts_are_about_as_long_as_asked_and_lose_nothing():
    payloads = Payloads.of(ITEMS)
    parts = list(batch.split(payloads, 200))
    assert [len(part) for part in parts] == [2, 1, 1, 1, 2]
    assert [len(part) for part in batch.split(payloads, 1)] == [1] * len(ITEMS)
    written = b"".join(
        bytes(part.buffer[part.start[at] :][: part.length[at]]) for part in parts for at in range(len(part))
    )
    assert written == b"".join(ITEMS)
