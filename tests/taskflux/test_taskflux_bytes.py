"""The layout pinned by hand: each literal is worked out from the note's tables, byte by byte."""

from __future__ import annotations

import pytest
from tests.golden_cases import snapshot_of

from flintlog.columns.checksum import crc32_mpeg2
from flintlog.dialects.taskflux.layout import (
    DESIGNED,
    LAYOUTS,
    SHIPPED,
    AddRecord,
    CreateQueue,
    DeleteQueue,
    QueueSpec,
    RemoveRecord,
    encode_delta,
    parse_segment_name,
    segment_name,
)
from flintlog.dialects.taskflux.store import QueueStore, ReplicaLog
from flintlog.errors import UsageError


def pinned(text: str) -> bytes:
    """Hex with blanks, one field to a line, a comment behind it."""
    return bytes.fromhex("".join(line.split("#")[0] for line in text.splitlines()))


DESIGNED_SEGMENT = pinned("""
    1276AD55                 # file marker
    00000002                 # version: designed
    AAF534C4                 # record marker: LSN 0
    00000001                 # term, Int32
    36AD9F68                 # checksum of the data (format page, section 5)
    00000015                 # length 21, padding left out
    43                       #   C
    06 6F7264657273          #   orders
    00000001                 #   heap
    FFFFFFFF                 #   maximum size: none
    FFFFFFFF                 #   maximum payload: none
    00                       #   no key range
    000000                   # padding: 21 up to 24
    AAF534C4                 # LSN 1
    00000001
    16BB3419
    00000019                 # 25
    41 06 6F7264657273       #   A orders
    0000000000000005         #   key 5
    00000005 68656C6C6F      #   hello
    000000                   # padding: 25 up to 28
    AAF534C4                 # LSN 2
    00000001
    8E2D754A
    0000000E                 # 14
    41 00                    #   A, default queue
    FFFFFFFFFFFFFFFF         #   key -1
    00000000                 #   empty payload
    0000                     # padding: 14 up to 16
    AAF534C4                 # LSN 3
    00000001
    F6AA1075
    00000010                 # 16
    52 06 6F7264657273       #   R orders
    0000000000000001         #   id 1
                             # no padding: 16
    00000000                 # end marker
""")

DESIGNED_SNAPSHOT_STATE = pinned("""
    00000002                 # two queues
    00                       # name: default queue
    00000001                 # heap
    0000000000000001         # last id 1
    FFFFFFFF FFFFFFFF 00     # no limits, no range
    00000001                 # one record
    0000000000000001         #   id 1
    FFFFFFFFFFFFFFFF         #   key -1
    00000000                 #   empty payload
    06 6F7264657273          # orders
    00000001
    0000000000000001         # last id 1, given out and removed
    FFFFFFFF FFFFFFFF 00
    00000000                 # no record
""")


def history(store: QueueStore) -> None:
    store.create("orders")
    store.queue("orders").add(b"hello", key=5)
    store.queue().add(b"", key=-1)
    store.queue("orders").remove(1)


def test_a_designed_directory_is_written_as_the_note_says(tmp_path):
    with QueueStore(tmp_path) as store:
        assert store.edition == "designed"
        history(store)
        store.snapshot()
    assert snapshot_of(tmp_path) == {
        "data": None,
        "data/log": None,
        "data/log/0000000000000000000.log": DESIGNED_SEGMENT,
        "data/temp": None,
        "data/tflux.metadata": pinned("""
            5A6EA012             # marker
            00000002             # version: designed
            00000001             # term, Int32
            FFFFFFFF             # no vote
            6755A7AC             # checksum of the twelve bytes between
        """),
        "data/tflux.snapshot": pinned("""
            B6380FC9             # marker
            00000003             # last index, Int32
            00000001             # last term, Int32
            00000052             # 82 bytes of state
        """)
        + DESIGNED_SNAPSHOT_STATE
        + pinned("59683EC4 # checksum of the state"),
    }


def test_a_shipped_segment_differs_in_version_term_and_padding_alone(tmp_path):
    with QueueStore(tmp_path, edition="shipped") as store:
        history(store)
    expected = pinned("""
        1276AD55 00000001
        AAF534C4 0000000000000001 36AD9F68 00000015 43066F726465727300000001FFFFFFFFFFFFFFFF00
        AAF534C4 0000000000000001 16BB3419 00000019 41066F726465727300000000000000050000000568656C6C6F
        AAF534C4 0000000000000001 8E2D754A 0000000E 4100FFFFFFFFFFFFFFFF00000000
        AAF534C4 0000000000000001 F6AA1075 00000010 52066F72646572730000000000000001
        00000000
    """)
    assert (tmp_path / "data/log/0000000000000000000.log").read_bytes() == expected
    assert (tmp_path / "data/temporary").is_dir() and not (tmp_path / "data/temp").exists()


@pytest.mark.parametrize(
    ("edition", "expected"),
    [
        ("designed", "5A6EA012 00000002 00000007 00000003"),
        ("shipped", "5A6EA012 00000001 0000000000000007 00000003"),
    ],
)
def test_term_and_vote_stand_where_the_table_puts_them(edition, expected, tmp_path):
    with ReplicaLog(tmp_path, edition=edition) as log:
        log.set_term(7, 3)
    raw = (tmp_path / "data/tflux.metadata").read_bytes()
    assert raw[:-4] == bytes.fromhex(expected)
    assert raw[-4:] == crc32_mpeg2(raw, 4, len(raw) - 4).to_bytes(4, "big")
    assert len(raw) == {"designed": 20, "shipped": 24}[edition]


def test_the_metadata_vectors_of_the_format_page():
    assert SHIPPED.encode_metadata(1, None).hex() == "5a6ea012000000010000000000000001ffffffff3380ce3b"
    assert SHIPPED.encode_metadata(3, 0).hex() == "5a6ea01200000001000000000000000300000000669edc5a"


@pytest.mark.parametrize(("size", "padding"), [(1, 3), (34, 2), (1024, 0), (2051, 1), (0, 0)])
def test_padding_is_that_of_the_notes_examples(size, padding):
    data = bytes([7]) * size
    record = DESIGNED.encode_record(1, data)
    assert record[16:] == data + bytes(padding)
    assert int.from_bytes(record[12:16], "big") == size
    assert SHIPPED.encode_record(1, data)[20:] == data


@pytest.mark.parametrize(
    ("delta", "data", "checksum"),
    [
        (
            CreateQueue(QueueSpec("orders")),
            "43066F726465727300000001FFFFFFFFFFFFFFFF00",
            0x36AD9F68,
        ),
        (
            CreateQueue(QueueSpec("tmp", 2, key_range=(0, 9))),
            "4303746D7000000002FFFFFFFFFFFFFFFF0100000000000000000000000000000009",
            0xC70AB617,
        ),
        (
            CreateQueue(QueueSpec("qa-small", 2, 10, 1048576, (-2, 2))),
            "430871612D736D616C6C000000020000000A0010000001FFFFFFFFFFFFFFFE0000000000000002",
            0xAA15E83D,
        ),
        (DeleteQueue("tmp"), "4403746D70", 0xCAABA6C9),
        (AddRecord("orders", 5, b"hello"), "41066F726465727300000000000000050000000568656C6C6F", 0x16BB3419),
        (AddRecord("", -1, b""), "4100FFFFFFFFFFFFFFFF00000000", 0x8E2D754A),
        (RemoveRecord("orders", 1), "52066F72646572730000000000000001", 0xF6AA1075),
    ],
)
def test_the_delta_vectors_of_the_format_page(delta, data, checksum):
    raw = encode_delta(delta)
    assert raw == bytes.fromhex(data)
    assert crc32_mpeg2(raw, 0, len(raw)) == checksum


def test_the_example_segment_of_the_format_page():
    record = SHIPPED.encode_record(1, encode_delta(AddRecord("", 7, b"tail")))
    assert SHIPPED.segment_header() + record + bytes(4) == bytes.fromhex(
        "1276AD5500000001AAF534C40000000000000001A6281AA10000001241000000000000000007000000047461696C00000000"
    )


def test_the_widths_of_the_two_editions():
    assert (DESIGNED.record_header_size, DESIGNED.snapshot_header_size, DESIGNED.metadata_size) == (
        16,
        16,
        20,
    )
    assert (SHIPPED.record_header_size, SHIPPED.snapshot_header_size, SHIPPED.metadata_size) == (20, 24, 24)
    assert (DESIGNED.term_max, SHIPPED.term_max) == (2**31 - 1, 2**63 - 1)
    assert list(LAYOUTS) == ["designed", "shipped"]


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("0000000000000000000.log", 0),
        ("0000000000645261357.log", 645261357),
        ("9223372036854775807.log", 2**63 - 1),
        ("+000000000000000001.log", None),
        (" 000000000000000001.log", None),
        ("-000000000000000001.log", None),
        ("000000000000000000.log", None),
        ("00000000000000000000.log", None),
        ("0000000000000000000.LOG", None),
        ("0000000000000000000.log.new", None),
        ("0000000000000000000.log\n", None),
        ("٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠.log", None),  # digits, but not ours
        ("../00000000000000000.log", None),
        ("9223372036854775807.log", 2**63 - 1),  # a segment, though none that can hold a record
        ("9999999999999999999.log", 10**19 - 1),
    ],
)
def test_segment_names_are_nineteen_digits_and_nothing_else(name, first):
    assert parse_segment_name(name) == first
    if first is not None:
        assert segment_name(first) == name


def test_an_edition_that_is_none_is_refused(tmp_path):
    with pytest.raises(UsageError, match="designed, shipped"):
        QueueStore(tmp_path, edition="modern")
