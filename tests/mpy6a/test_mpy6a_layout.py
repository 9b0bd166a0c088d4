"""Bytes and back: numbers, names, records, descriptors, the two kinds of operations."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.field_values import values

from flintlog.dialects.mpy6a import layout as lay
from flintlog.dialects.mpy6a import operations as ops
from flintlog.dialects.mpy6a.layout import Descriptor, MalformedError, Record, StateID
from flintlog.dialects.mpy6a.operations import Base, Place
from flintlog.errors import DamageError

HOUR = 1651165230  # 2022-04-28 17:00:30 UTC
U64 = st.integers(0, lay.UINT64_MAX)
STATE_IDS = st.builds(StateID, st.integers(1, lay.UINT64_MAX), U64)
NAMES = st.builds(
    lambda delay, now, taken: lay.data_name(delay, now, {f"{delay}@2022042817.data"} if taken else ()),
    st.integers(1, lay.DELAY_MAX),
    st.integers(HOUR - 30, HOUR),
    st.booleans(),
)
RECORDS = st.binary(min_size=lay.RECORD_SIZE_MIN, max_size=100)  # bytes where records stand
DELAYS = st.integers(1, lay.DELAY_MAX)
GIVEN = {
    "session id": STATE_IDS,
    "last change": STATE_IDS,
    "name": NAMES,
    "delay": DELAYS,
    "now": st.integers(0, lay.TIME_MAX - lay.DELAY_MAX),
    "number": st.just(1),
    "record": RECORDS,
    "records": RECORDS,
}
OPERATIONS = st.one_of([values(kind.payload, GIVEN) for kind in ops.OPERATIONS])
EVERY = [
    lay.Create(30, HOUR),
    lay.StopWriting("30@2022042817.data"),
    lay.Delete("30@2022042817-1.data"),
    lay.OpenToRead("30@2022042817.data"),
    lay.Shift("30@2022042817.data", 300),
    ops.New(-5, b"hello"),
    ops.Append(StateID(1, 2), b"more"),
    ops.Replace(StateID(1, 2), b""),
    ops.Drop(StateID(1, 2)),
    ops.Store(StateID(1, 2), 30, HOUR),
    ops.Put(30, 2, b"r" * 60),
    ops.Take(Place("30@2022042817.data", 5, 40), b"r" * 30),
    ops.Finish(Place("30@2022042817.data", 500, 40)),
    ops.Again(Place("30@2022042817.data", 5, 40), 60, b"r" * 31),
    ops.Exhaust(Place("30@2022042817.data", 5, 40), b"r" * 32),
]


# Numbers


@settings(derandomize=True, deadline=None)
@given(U64, st.binary(max_size=5))
def test_a_uvarint_comes_back_and_ends_where_it_should(value, behind):
    assert lay.read_uvarint(lay.uvarint(value) + behind, 0) == (value, len(lay.uvarint(value)))


def test_longer_forms_than_needed_are_read():
    assert lay.read_uvarint(bytes.fromhex("8080808000"), 0) == (0, 5)
    assert lay.read_uvarint(bytes.fromhex("ffffffffffffffffff01"), 0) == (lay.UINT64_MAX, 10)


@pytest.mark.parametrize(
    ("raw", "code"), [("", "cut"), ("80", "cut"), ("ff" * 9 + "02", "number"), ("80" * 10 + "01", "number")]
)
def test_numbers_that_end_early_or_are_too_large_are_malformed(raw, code):
    with pytest.raises(MalformedError) as caught:
        lay.read_uvarint(bytes.fromhex(raw), 0)
    assert caught.value.code == code


def test_a_length_that_lies_takes_no_memory():
    with pytest.raises(MalformedError, match="9223372036854775808 bytes are announced, 2 follow"):
        ops.PLACE.decode(lay.uvarint(1 << 63) + b"ab")


def test_state_ids_compare_by_term_first():
    assert StateID(1, 300) < StateID(2, 0) < StateID(2, 1)
    assert StateID(1, 5).following(3) == StateID(1, 8)
    assert str(StateID(3, 4)) == "(3, 4)"


# Names


def test_a_name_is_delay_and_utc_hour_and_a_suffix_behind_all_living_ones():
    taken: set[str] = set()
    found = []
    for _ in range(4):
        found.append(lay.data_name(30, HOUR, taken))
        taken.add(found[-1])
    stem = "30@2022042817"
    assert found == [f"{stem}.data", f"{stem}-1.data", f"{stem}-2.data", f"{stem}-3.data"]
    taken.remove(f"{stem}-1.data")
    assert lay.data_name(30, HOUR, taken) == f"{stem}-4.data"
    assert lay.name_behind(f"{stem}.data", taken) == f"{stem}-4.data"
    assert lay.name_behind(f"{stem}-7.data", taken) == f"{stem}-8.data"
    assert lay.data_name(60, HOUR, taken) == "60@2022042817.data"
    assert lay.data_name(30, HOUR + 3600, taken) == "30@2022042818.data"


@pytest.mark.parametrize(
    "name",
    [
        "0@2022042817.data",
        "030@2022042817.data",
        "-30@2022042817.data",
        "30@202204281.data",
        "30@20220428170.data",
        "30@2022042817-0.data",
        "30@2022042817-01.data",
        "30@2022042817-.data",
        "30@2022042817.data.new",
        "30@2022042817.dat",
        "30@2022042817.data\n",
        "../30@2022042817.data",
        "x/30@2022042817.data",
        "4294967296@2022042817.data",
        "\u0663\u0660@2022042817.data",
        "30@202204281\u0667.data",
        "",
        "..",
        "state.log",
    ],
)
def test_what_is_no_name_of_a_data_file_is_refused_everywhere(name):
    assert lay.parse_name(name) is None
    raw = bytes([len(name.encode())]) + name.encode()
    with pytest.raises(MalformedError, match="is not the name of a data file"):
        lay.read_change((2).to_bytes(4, "little") + raw)
    with pytest.raises(MalformedError, match="is not the name of a data file"):
        lay.read_descriptor(raw + bytes(60), 0)
    if name:  # an empty name in a place means: none
        event = ops.encode(StateID(1, 1), ops.Finish(Place(name, 1, 1)))
        with pytest.raises(MalformedError, match="is not the name of a data file"):
            ops.decode(payload_of(event))


def test_the_names_in_the_note_are_names_of_that_delay_and_hour():
    assert lay.data_name(30, HOUR, ()) == "30@2022042817.data"
    assert lay.data_name(60, 1651276800, ()) == "60@2022043000.data"  # 2022-04-30 00:00:00 UTC
    assert [lay.parse_name(name) for name in ("30@2022042817.data", "60@2022043000.data")] == [30, 60]


def test_the_delay_of_a_name():
    assert lay.parse_name("4294967295@2022042817-12.data") == lay.DELAY_MAX


# Records


def test_the_record_of_the_format_page():
    record = Record(HOUR, StateID(1, 2), -5, 0, b"hi")
    raw = bytes.fromhex("2ec86a6200000000 0100000000000000 0200000000000000 fbffffff 00 02 6869")
    assert lay.encode_record(record) == raw
    assert lay.read_record(raw, 0) == (record, 32)


@settings(derandomize=True, deadline=None)
@given(values(lay.RECORD, GIVEN))
def test_a_record_comes_back_and_every_cut_is_malformed(record):
    raw = lay.encode_record(record)
    assert lay.read_record(b"\x00" + raw + b"\x01", 1) == (record, 1 + len(raw))
    for end in range(len(raw)):
        with pytest.raises(MalformedError):
            lay.read_record(raw[:end], 0)


# Descriptors


DESCRIPTOR = Descriptor("30@2022042817.data", StateID(1, 1), StateID(1, 7), 3, 32, 96, HOUR)


def test_the_descriptor_of_the_format_page():
    raw = DESCRIPTOR.encode()
    assert len(raw) == 62
    assert raw == bytes.fromhex(
        "12 33304032303232303432383137 2e64617461 0100000000000000 0100000000000000"
        "0100000000000000 0700000000000000 03 20 60 2ec86a6200000000"
    )
    assert lay.read_descriptor(raw, 0) == (DESCRIPTOR, 62)
    assert DESCRIPTOR.delay == 30


def test_a_snapshot_is_in_the_order_of_creation_and_every_cut_is_damage_with_its_place():
    later = Descriptor("60@2022042817.data", StateID(1, 2), StateID(1, 2), 1, 0, 0, HOUR)
    raw = lay.encode_snapshot([later, DESCRIPTOR])
    assert list(lay.read_snapshot(raw)) == [(0, DESCRIPTOR), (62, later)]
    for end in set(range(len(raw))) - {0, 62}:
        with pytest.raises(DamageError) as caught:
            list(lay.read_snapshot(raw[:end]))
        assert (caught.value.file, caught.value.offset) == ("state.snapshot", 0 if end < 62 else 62)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"flags": 4}, "flags"),
        ({"id": StateID(0, 1)}, "term"),
        ({"last_id": StateID(0, 9)}, "term"),
        ({"last_id": StateID(1, 0)}, "order"),
        ({"offset": 97}, "offset"),
    ],
)
def test_a_descriptor_that_contradicts_itself_is_malformed(change, code):
    fields = {name: getattr(DESCRIPTOR, name) for name in Descriptor.__dataclass_fields__} | change
    with pytest.raises(MalformedError) as caught:
        lay.read_descriptor(Descriptor(**fields).encode(), 0)
    assert caught.value.code == code


# Operations


def payload_of(event: bytes | bytearray) -> memoryview:
    view = memoryview(event)
    size, at = lay.read_uvarint(view, 16)
    assert at + size == len(view)
    return view[at:]


def test_the_create_of_the_format_page():
    assert lay.encode_change(lay.Create(30, 1651165200)) == bytes.fromhex(
        "01000000 1e000000 10c86a6200000000"
    )


@settings(derandomize=True, deadline=None, max_examples=300)
@given(STATE_IDS, OPERATIONS)
def test_every_operation_comes_back(state_id, operation):
    event = ops.encode(state_id, operation)
    assert lay.read_state_id(event, 0) == state_id
    assert ops.is_whole(memoryview(event))
    assert ops.decode(payload_of(event)) == operation


def test_the_list_of_operations_is_complete():
    assert {type(operation) for operation in EVERY} == set(ops.Operation.__args__)


@pytest.mark.parametrize("operation", EVERY, ids=lambda operation: type(operation).__name__)
def test_no_changed_bit_and_no_cut_of_an_event_is_taken_for_whole(operation):
    event = ops.encode(StateID(1, 9), operation)
    for bit in range(len(event) * 8):
        changed = bytearray(event)
        changed[bit // 8] ^= 1 << bit % 8
        assert not ops.is_whole(memoryview(changed))
    for end in range(len(event)):
        assert not ops.is_whole(memoryview(event)[:end])


@pytest.mark.parametrize(
    "operation",
    [item for item in EVERY if not hasattr(item, "data") and not hasattr(item, "records")],
    ids=lambda operation: type(operation).__name__,
)
def test_a_payload_that_is_cut_or_has_bytes_behind_it_is_malformed(operation):
    payload = payload_of(ops.encode(StateID(1, 9), operation))
    body, checksum = bytes(payload[:-4]), bytes(4)
    with_rest = isinstance(operation, ops.Take)
    if not with_rest:
        with pytest.raises(MalformedError) as caught:
            ops.decode(memoryview(body + b"\x00" + checksum))
        assert caught.value.code == "trailing"
    for end in range(len(body) - (len(operation.record) if with_rest else 0)):
        with pytest.raises(MalformedError):
            ops.decode(memoryview(body[:end] + checksum))


@pytest.mark.parametrize("code", [0, 16, 31, 34, 0xFFFFFFFF, ops.BASE, ops.OPEN])
def test_codes_that_are_none_are_malformed(code):
    with pytest.raises(MalformedError, match=f"{code} is not the code of an operation"):
        ops.decode(memoryview(code.to_bytes(4, "little") + bytes(30)))


@pytest.mark.parametrize(
    ("payload", "code"),
    [
        ("", "cut"),
        ("010000", "cut"),
        ("06000000", "unknown"),
        ("01000000 00000000 10c86a6200000000", "delay"),
        ("01000000 1e000000 ffffffffffffffff", "time"),
        ("01000000 1e000000 10c86a620000", "cut"),
        ("02000000 05", "cut"),
        ("02000000 00", "name"),
        ("05000000 12 33304032303232303432383137 2e64617461", "cut"),
        ("05000000 12 33304032303232303432383137 2e64617461" + "ff" * 10, "number"),
        ("02000000 12 33304032303232303432383137 2e64617461 00", "trailing"),
    ],
)
def test_changes_that_mean_nothing_are_malformed(payload, code):
    with pytest.raises(MalformedError) as caught:
        lay.read_change(bytes.fromhex(payload))
    assert caught.value.code == code


# The checkpoint


@settings(derandomize=True, deadline=None)
@given(
    U64,
    st.lists(values(ops.KINDS[ops.OPEN].payload, GIVEN | {"name": st.just("") | NAMES}), max_size=3),
    st.lists(values(ops.PLACE, GIVEN), max_size=4),
)
def test_a_checkpoint_comes_back(exhausted, sessions, finished):
    base = Base(len(sessions), exhausted, (DESCRIPTOR,), tuple(finished))
    assert ops.decode_base(payload_of(ops.encode_base(StateID(1, 9), base))) == base
    for session in sessions:
        assert ops.decode_open(payload_of(ops.encode_open(StateID(1, 9), session))) == session


def test_a_checkpoint_that_announces_more_than_it_has_is_malformed_at_once():
    base = bytearray(ops.encode_base(StateID(1, 9), Base(0, 0, (), ())))
    payload = bytes(payload_of(base))
    lying = payload[:5] + lay.uvarint(1 << 62) + payload[6:]
    with pytest.raises(MalformedError):
        ops.decode_base(memoryview(lying))
    with pytest.raises(MalformedError, match="does not begin with a checkpoint"):
        ops.decode_base(payload_of(ops.encode(StateID(1, 1), EVERY[5])))
    with pytest.raises(MalformedError, match="more open sessions than it has"):
        ops.decode_open(payload_of(ops.encode(StateID(1, 1), EVERY[5])))
