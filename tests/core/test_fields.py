"""A table encodes what it decodes, tells every byte of it once, and takes nothing that is cut."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.field_values import values

from flintlog.core.fields import Field, MalformedError, Span, Table
from flintlog.dialects.limestone import layout as limestone
from flintlog.dialects.mpy6a import layout as mpy6a
from flintlog.dialects.mpy6a import operations
from flintlog.dialects.taskflux import layout as taskflux
from flintlog.dialects.zmqraft import layout as zmqraft

STATE_IDS = st.builds(mpy6a.StateID, st.integers(1, 9), st.integers(0, 9))
LIMITS = st.none() | st.integers(0, taskflux.INT32_MAX)
GIVEN = {
    "session id": STATE_IDS,
    "last change": STATE_IDS,
    "state id": STATE_IDS,
    "id": STATE_IDS,
    "last id": STATE_IDS,
    "name": st.just("60@2023111422.data"),
    "number": st.just(1),
    "record": st.binary(min_size=30, max_size=60),
    "records": st.binary(min_size=30, max_size=60),
}
QUEUES = {
    "queue": st.text("ab!~", max_size=9),
    "maximum size": LIMITS,
    "maximum payload": LIMITS,
    "vote": LIMITS,
}
BLOBS = {"blob count": st.just(2), "blobs": st.binary(min_size=16, max_size=16)}
TABLES = {
    **{f"mpy6a-{kind.word}": (kind.payload, GIVEN) for kind in operations.OPERATIONS},
    "mpy6a-record": (mpy6a.RECORD, GIVEN),
    "mpy6a-descriptor": (mpy6a.DESCRIPTOR, GIVEN),
    "mpy6a-header": (mpy6a.LOG_HEADER, {}),
    "mpy6a-event": (mpy6a.EVENT, GIVEN),
    **{f"taskflux-{chr(code)}": (table, QUEUES) for code, table in taskflux.DELTAS.items()},
    **{
        f"taskflux-{edition}-{word}": (getattr(layout, word), QUEUES)
        for edition, layout in taskflux.LAYOUTS.items()
        for word in ("record", "snapshot_header", "metadata")
    },
    "taskflux-queue": (taskflux.QUEUE + taskflux.KEY_RANGE + taskflux.RECORDS, QUEUES),
    "taskflux-record-of-a-state": (taskflux.STATE_RECORD, {}),
    "zmqraft-index": (zmqraft.INDEX, {}),
    "zmqraft-segment": (zmqraft.SEGMENT, {}),
    "zmqraft-entry": (zmqraft.ENTRY, {"term": st.integers(0, zmqraft.NUMBER_MAX)}),
    "zmqraft-snapshot": (zmqraft.SNAPSHOT, {}),
    **{f"limestone-{code}": (table, BLOBS) for code, table in limestone.TABLES.items()},
}


@pytest.mark.parametrize("name", TABLES)
@settings(derandomize=True, deadline=None, max_examples=30)
@given(st.data())
def test_every_table_decodes_what_it_encodes(name, data):
    table, given = TABLES[name]
    plain = Table(table.order, *table.fields)
    chosen = data.draw(values(plain, given))
    raw = plain.encode(*chosen)
    assert b"".join(plain.parts(*chosen)) == raw
    assert plain.decode(b"before" + raw, 6) == (chosen, 6 + len(raw))
    walked = [(begin, end) for _, begin, end, _ in table.walk(raw)]
    assert [begin for begin, _ in walked] == [0, *(end for _, end in walked)][:-1]
    assert walked[-1][1] == len(raw) >= table.size >= table.head.size
    for end in range(table.head.size):
        with pytest.raises(MalformedError):
            plain.decode(raw[:end])
        with pytest.raises(MalformedError):
            list(table.walk(raw[:end]))


TABLE = Table(
    "big",
    Field("mark", "2B", "it begins", value=b"!!"),
    Field("size", "u32 n", "{} bytes"),
    Field("parts", "[n]", of=Table("big", Field("part", "u8 k", "part of {}"), Field("text", "[k]"))),
    Field("padding", "[-n%4]", "zeros"),
    Field("rest", "*"),
    Field("end", "u8", lambda value: "good" if value == 7 else "bad"),
)


def test_spans_say_what_stands_where():
    raw = b"...!!" + bytes([0, 0, 0, 5, 1]) + b"a" + bytes([2]) + b"bc" + bytes(3) + b"xyz\7"
    assert TABLE.encode(b"\1a\2bc", b"xyz", 7) == raw[3:]
    assert list(TABLE.spans(raw, 3, 100, {"mark": "number 1"})) == [
        Span(103, 105, "mark", "number 1"),
        Span(105, 109, "size", "5 bytes"),
        Span(109, 110, "part", "part of 1"),
        Span(110, 111, "text", "'a'"),
        Span(111, 112, "part", "part of 2"),
        Span(112, 114, "text", "'bc'"),
        Span(114, 117, "padding", "zeros"),
        Span(117, 120, "rest", "'xyz'"),
        Span(120, 121, "end", "good"),
    ]
    assert (TABLE.head.size, TABLE.size, TABLE.offset("parts")) == (6, 7, 6)


@pytest.mark.parametrize(
    ("cut", "field", "message"),
    [
        (4, "mark", "the bytes end inside mark"),
        (6, "size", "the bytes end inside a number of four bytes"),
        (12, "parts", "5 bytes are announced, 3 follow"),
    ],
)
def test_an_error_names_the_field_in_which_the_bytes_end(cut, field, message):
    raw = b"...!!" + bytes([0, 0, 0, 5, 1]) + b"abcd"
    for read in (TABLE.decode, lambda raw, at: list(TABLE.walk(raw, at))):
        with pytest.raises(MalformedError) as caught:
            read(raw[:cut], 3)
        assert (caught.value.code, caught.value.field, caught.value.message) == ("cut", field, message)


def test_a_length_that_lies_takes_no_memory():
    with pytest.raises(MalformedError, match="4294967295 bytes are announced"):
        TABLE.decode(b"!!" + b"\xff" * 4)
