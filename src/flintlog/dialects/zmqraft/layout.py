"""The bytes of zmqraft, in words and tables; encode and decode one piece.

All integers are little-endian; every index, term and size is at most 2^53 - 1. A peer's directory holds

    log/ddddd/dd/dd/dddddddddddddd.rlog   index files, by the 56-bit index of their first slot in hex digits
    snap                                  the snapshot, or under another name; index 0, term 0, no data for none
    raft.pers, state.pers                 state files: the peer's Raft state, what it has applied
    <name>-YYYY-MM-DD-HHMMSS-mmmC         predecessors of snap, log and the state files
    <name>.tmp-PID-N                      scratch

The tables below have the fields. A token file is SEGMENT after SEGMENT; readers skip tokens they do not know. An index
file is INDEX, a slot for each entry, "META" (a MessagePack map: created, hostname, software), "ITMZ" without data; then
the entries, back to back. A slot says where its entry ends, from the data's start; 0 is free. The number of entries is
the number of leading slots that are not zero. A slot is what commits an entry: its bytes are on disk before its slot is
written, and a slot never crosses a sector. An entry of fewer bytes than a head has none: it is all data.

A snapshot file is SNAPSHOT, "META", "DATA" without data; then the data. A state file is MessagePack maps one after the
other; each holds the properties that changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import msgpack

from flintlog.core.fields import Field, Table
from flintlog.errors import DamageError, UsageError

NUMBER_MAX = 2**53 - 1
VERSION = 1

INDEX_TOKEN = b"RLOG"
META_TOKEN = b"META"
ENTRIES_TOKEN = b"ITMZ"
SNAPSHOT_TOKEN = b"SNAP"
DATA_TOKEN = b"DATA"
MARKERS = (ENTRIES_TOKEN, DATA_TOKEN)  # the last tokens; plain content follows them
HEAD_SEGMENTS_MAX = 1 << 16  # zeros are empty segments, and there may be very many


def _number(value: int) -> str:
    return str(value) if value <= NUMBER_MAX else f"{value}, which is above 2^53 - 1"


_VERSION = Field("version", "u32", value=VERSION)
INDEX = Table(
    "little",
    Field("token", "4B", "an index file begins", "RLOG", value=INDEX_TOKEN),
    Field("size", "u32", "{} bytes up to the end of the offset table"),
    _VERSION,
    Field("capacity", "u32 c"),
    Field("first index", "u64"),
)
SNAPSHOT = Table(
    "little",
    Field("token", "4B", "a snapshot file begins", "SNAP", value=SNAPSHOT_TOKEN),
    Field("size", "u32", "{} bytes of header"),
    _VERSION,
    Field("last index", "u64", _number),
    Field("last term", "u64", _number),
    Field("data size", "u64 d", _number),
)
_TOKENS = {
    META_TOKEN: "who made the file, and when",
    ENTRIES_TOKEN: "the entries begin behind it",
    DATA_TOKEN: "the data begins behind it",
    bytes(4): "slots that were given up; skipped",
}
SEGMENT = Table(
    "little",
    Field("token", "4B", lambda token: _TOKENS.get(bytes(token), "not known; skipped"), "4 characters"),
    Field("length", "u32 m", "{} bytes"),
    Field("data", "[m]"),
    Field("padding", "[-m%4]", "zeros up to a multiple of 4", "0 to 3 zeros"),
)
ENTRY = Table(
    "little",
    Field("request id", "12B", words="12 bytes, or zeros"),
    Field("type", "u8"),
    Field(
        "term",
        "7B",
        lambda raw: str(int.from_bytes(raw, "little")),
        "u56",
        write=lambda term: term.to_bytes(7, "little"),
        read=lambda raw: int.from_bytes(raw, "little"),
    ),
    Field("data", "*", words="up to its slot"),
)
INDEX_HEADER = INDEX.head
SNAPSHOT_HEADER = SNAPSHOT.head
TOKEN_HEADER_SIZE = SEGMENT.head.size
TABLE_OFFSET = INDEX.size
SLOT_SIZE = 4
SNAPSHOT_SEGMENT_SIZES = (28, 36)  # the length of the data, and the one in the note, which counts the header

CAPACITY_DEFAULT = 1 << 14
CAPACITY_MAX = 1 << 20  # one leaf directory: the original cannot find a file that spans two
CAPACITY_FILE_MAX = 0x00FFFFFF
DATA_SIZE_MAX = 0x3FFFFFFF  # entry bytes in one file stay below this

ENTRY_HEADER_SIZE = ENTRY.head.size
REQUEST_ID_SIZE = ENTRY.offset("type")
TERM_OFFSET = ENTRY.offset("term")
NO_REQUEST = bytes(REQUEST_ID_SIZE)
STATE, CONFIG, CHECKPOINT = 0, 1, 2
TYPES = {STATE: "state", CONFIG: "config", CHECKPOINT: "checkpoint"}

LOG_DIRECTORY = "log"
SNAPSHOT_FILE = "snap"  # the default: `RaftStore` takes another name
RAFT_STATE_FILE = "raft.pers"
APPLIED_STATE_FILE = "state.pers"
ROLL_BYTES = 524288
HISTORY_MAX = 60

SUPERSEDED = re.compile(r"superseded-by-(\d{1,16})-(\d{1,16})")
FILE_NAME = re.compile(r"([0-9a-f]{14})\.rlog")
STRAY_NAME = re.compile(r"([0-9A-Fa-f]{14})\.rlog")  # may be a misplaced index file; see `files.Stray`
STAMP = re.compile(r"-\d{4}-\d\d-\d\d-\d{6}-\d{3}([0-9a-z]+)")
SCRATCH = re.compile(r"\.tmp-\d+-[0-9a-z]+")


def names_of(snapshot: str) -> tuple[str, ...]:
    """The names in a peer's directory, with this name of its snapshot."""
    return LOG_DIRECTORY, snapshot, RAFT_STATE_FILE, APPLIED_STATE_FILE


def is_predecessor(entry: str, name: str) -> re.Match[str] | None:
    """Is this the stamped name of a predecessor of `name`?"""
    return STAMP.fullmatch(entry, len(name)) if entry.startswith(name) else None


def is_scratch(entry: str, name: str) -> bool:
    """Is this a scratch name for `name`?"""
    return entry.startswith(name) and SCRATCH.fullmatch(entry, len(name)) is not None


class Entry(NamedTuple):
    """One entry of the log."""

    term: int
    data: bytes
    type: int = STATE
    request_id: bytes = NO_REQUEST

    def encode(self) -> bytes:
        """The bytes behind the slots: request id, type, term, data."""
        request_id = check_request_id(self.request_id)
        if not 0 <= self.type <= 255:
            raise UsageError(f"type {self.type} is not a byte")
        check_number("term", self.term)
        data = as_bytes("the data of an entry", self.data)
        return ENTRY.encode(request_id, self.type, self.term, data)


def check_number(word: str, value: int) -> int:
    """Raise unless every part of the system can hold this number."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= NUMBER_MAX:
        raise UsageError(f"{word} {value!r} is not a whole number from 0 to 2^53 - 1")
    return value


def as_bytes(word: str, data: bytes | bytearray | memoryview) -> memoryview:
    """The bytes of a buffer with items of any kind and in any order; raises for anything else before a write."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise UsageError(f"{word} is not bytes but {type(data).__name__}", advice="Encode it first")
    view = memoryview(data)
    return view.cast("B") if view.c_contiguous else memoryview(view.tobytes())


def check_request_id(request_id: bytes | bytearray | memoryview) -> bytes:
    """A request id as bytes."""
    found = bytes(as_bytes("a request id", request_id))
    if len(found) != REQUEST_ID_SIZE:
        raise UsageError(f"a request id has {REQUEST_ID_SIZE} bytes, not {len(found)}")
    return found


def check_index(index: int) -> int:
    """Raise unless this is a whole number; the log itself checks whether it holds it."""
    if not isinstance(index, int) or isinstance(index, bool):
        raise UsageError(f"index {index!r} is not a whole number")
    return index


def decode_entry(raw: bytes | memoryview) -> Entry:
    """An entry from its bytes; one that is shorter than a head is all data, without term and request."""
    if len(raw) < ENTRY_HEADER_SIZE:
        return Entry(0, bytes(raw))
    term = int.from_bytes(raw[13:20], "little")
    if term > NUMBER_MAX:
        raise DamageError(
            "the entry's term is too high", code="entry-term", expected="at most 2^53 - 1", found=str(term)
        )
    return Entry(term, bytes(raw[20:]), raw[12], bytes(raw[:12]))


def round_up(size: int) -> int:
    """The next multiple of 4, where segments begin."""
    return -(-size // 4) * 4


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment of a token file: where its data begins, and the length that it claims."""

    token: bytes
    offset: int
    length: int

    @property
    def head(self) -> int:
        """Where its token is."""
        return self.offset - TOKEN_HEADER_SIZE

    @property
    def end(self) -> int:
        """Where its data ends."""
        return self.offset + self.length

    @property
    def following(self) -> int:
        """Where the next segment begins."""
        return self.offset + round_up(self.length)


# How a snapshot begins whose length counts the head of the segment, as in the note; and that segment.
SNAPSHOT_HEAD_OF_NOTE = SNAPSHOT.encode(SNAPSHOT_SEGMENT_SIZES[1], 0, 0, 0)[:TOKEN_HEADER_SIZE]
SNAPSHOT_SEGMENT = Segment(SNAPSHOT_TOKEN, TOKEN_HEADER_SIZE, SNAPSHOT_SEGMENT_SIZES[0])


def walk_segments(head_at: Callable[[int], bytes | memoryview], at: int, size: int) -> Iterator[Segment]:
    """The segments from `at` on, in a file of `size` bytes; `head_at` gives the 8 bytes at an offset.

    The last one may reach beyond the file. Fewer bytes than a head at the file's end are no segment.
    """
    while at + TOKEN_HEADER_SIZE <= size:
        head = head_at(at)
        found = Segment(bytes(head[:4]), at + TOKEN_HEADER_SIZE, int.from_bytes(head[4:8], "little"))
        yield found
        at = found.following


def segments_in(view: memoryview, at: int) -> Iterator[Segment]:
    """The segments of a file from `at` on."""
    return walk_segments(lambda head: view[head : head + TOKEN_HEADER_SIZE], at, len(view))


def segment(token: bytes, data: bytes) -> bytes:
    """The bytes of a segment."""
    return SEGMENT.encode(token, data)


def meta_segment(created: str, hostname: str, software: str | None) -> bytes:
    """META: who made the file, and when."""
    facts = {"created": created, "hostname": hostname}
    if software is not None:
        facts["software"] = software
    return segment(META_TOKEN, msgpack.packb(facts))


def file_capacity(capacity: int, first: int) -> int:
    """How many slots the file that begins at `first` has: it ends right before a multiple of the capacity."""
    return capacity - first % capacity


def log_capacity(first_file_capacity: int) -> int:
    """The capacity of all further files: the next power of two."""
    return 1 << (first_file_capacity - 1).bit_length()


def index_path(first: int) -> str:
    """The path of the index file that begins at `first`, in the peer's directory."""
    digits = f"{first:014x}"
    return f"{LOG_DIRECTORY}/{digits[:5]}/{digits[5:7]}/{digits[7:9]}/{digits}.rlog"


def parse_index_path(path: str) -> int | None:
    """The first index of an index file by its path; None for any other path."""
    match = FILE_NAME.fullmatch(path.rpartition("/")[2])
    if match is None:
        return None
    first = int(match[1], 16)
    return first if path == index_path(first) else None


def superseded_path(index: int, term: int) -> str:
    """The mark in a log that the snapshot at this index and of this term supersedes it."""
    return f"{LOG_DIRECTORY}/superseded-by-{index}-{term}"


def encode_index_head(capacity: int, first: int) -> bytes:
    return INDEX.encode(16 + SLOT_SIZE * capacity, capacity, first)


def encode_snapshot_head(index: int, term: int, size: int) -> bytes:
    return SNAPSHOT.encode(SNAPSHOT_SEGMENT_SIZES[0], index, term, size)


def find_segment(view: memoryview, token: bytes, at: int) -> Segment | None:
    """The first segment with this token from `at` on; None when the file ends before, or the head does."""
    some = islice(segments_in(view, at), HEAD_SEGMENTS_MAX)
    return next((found for found in some if found.token == token), None)


def decode_meta(view: memoryview, offset: int, end: int) -> dict[str, Any]:
    """META between two offsets; empty when it is missing or cannot be read, because nothing depends on it."""
    found = find_segment(view[:end], META_TOKEN, offset)
    if found is None:
        return {}
    try:
        facts = msgpack.unpackb(view[found.offset : found.end])
    except Exception:  # whatever stands there
        return {}
    return facts if isinstance(facts, dict) else {}
