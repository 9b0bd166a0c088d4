"""The bytes of taskflux: what stands in a segment, in a snapshot, in the metadata, and in the data of one record.

All integers are big-endian. A log directory's `data` holds

    log/NNNNNNNNNNNNNNNNNNN.log   segments, named by the LSN of their first record in 19 digits
    tflux.metadata                term and vote
    tflux.snapshot                the state up to an LSN; empty or missing when there is none
    temp/ or temporary/           scratch: designed or shipped

The tables below have their fields; where the two editions differ, a `Layout` has them. A segment is its header,
records, and four zeros, the end marker. Readers ignore what follows the end marker. Zeros are an end marker, so a
preallocated file needs no other. The LSN of a record is not stored: the file's first LSN plus the record's place in the
file. Its data is a delta; the first byte says which. The empty name is the default queue, which is always there.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

from fastcrc.crc32 import mpeg_2

from flintlog.columns.checksum import crc32_mpeg2
from flintlog.core.fields import Bytes, Field, MalformedError, Table
from flintlog.core.lazy import lazy
from flintlog.errors import DamageError, UsageError

FILE_MARKER = bytes.fromhex("1276AD55")
RECORD_MARKER = bytes.fromhex("AAF534C4")
SNAPSHOT_MARKER = bytes.fromhex("B6380FC9")
METADATA_MARKER = bytes.fromhex("5A6EA012")
END_MARKER = bytes(4)
SEGMENT_HEADER = Table(
    "big", Field("file marker", "4B", "a segment of a log", value=FILE_MARKER), Field("version", "i32")
)
SEGMENT_HEADER_SIZE = SEGMENT_HEADER.size
# What the limits call the size of an empty segment.
SEGMENT_EMPTY_SIZE = SEGMENT_HEADER_SIZE + len(END_MARKER)

LOG_DIRECTORY = "log"
METADATA_FILE = "tflux.metadata"
SNAPSHOT_FILE = "tflux.snapshot"
SETTINGS_FILE = "taskflux.settings.json"
IGNORED_FILE = "tflux.log"  # appears only in the note's tree

_NAME = re.compile(rb"[\x21-\x7e]*")
SEGMENT_NAME = re.compile(r"(\d{19})\.log")
LSN_NONE = -1
TERM_FIRST = 1
LSN_MAX = 2**63 - 2  # so that the LSN behind it, at which a count ends, has 63 bits too
ID_MAX = 2**64 - 1
INT32_MAX = 2**31 - 1
DATA_SIZE_MAX = INT32_MAX
STATE_SIZE_MAX = INT32_MAX
NAME_SIZE_MAX = 255
DEFAULT_QUEUE = ""

CODE_HEAP = 1
CODE_BUCKETS = 2
BUCKETS_MAX = 10**8  # the original makes an array of the whole range
CODES = {CODE_HEAP: "heap", CODE_BUCKETS: "buckets"}

Edition = Literal["designed", "shipped"]


@dataclass(frozen=True)
class Layout:
    """Where the two editions differ in bytes."""

    edition: Edition
    segment_version: int
    metadata_version: int
    term_size: int
    alignment: int
    scratch: str

    def __reduce__(self) -> tuple[Any, ...]:
        return layout_of, (self.edition,)

    def _term(self, name: str, meaning: str | Callable[[int], str] = "") -> Field:
        return Field(name, f"i{8 * self.term_size}", meaning)

    @lazy
    def record(self) -> Table:
        """The checksum covers the data."""
        data = Field("data", "[n]", words="n bytes: a delta")
        padding = Field("padding", f"[-n%{self.alignment}]", "zeros up to a multiple of 4", "0 to 3 zeros")
        return Table(
            "big",
            Field("record marker", "4B", value=RECORD_MARKER),
            self._term("term"),
            Field("checksum", "u32", "CRC-32/MPEG-2 of the data; fits"),
            Field("length", "i32 n", "{} bytes of data"),
            *((data, padding) if self.alignment > 1 else (data,)),
        )

    @lazy
    def snapshot_header(self) -> Table:
        """The state and its checksum follow."""
        return Table(
            "big",
            Field("file marker", "4B", "the state up to an LSN", value=SNAPSHOT_MARKER),
            self._term("last index", _last_index),
            self._term("last term"),
            Field("length", "i32 n"),
        )

    @lazy
    def metadata(self) -> Table:
        """The checksum covers everything between it and the marker."""
        return Table(
            "big",
            Field("file marker", "4B", "term and vote", value=METADATA_MARKER),
            Field("version", "i32"),
            self._term("term", lambda term: str(term) if term >= TERM_FIRST else f"{term}, which is no term"),
            Field("vote", "i32", _vote, "i32, -1 none", write=_limit, read=_unlimit),
            Field("checksum", "u32"),
        )

    @lazy
    def record_header_size(self) -> int:
        return self.record.head.size

    @property
    def snapshot_header_size(self) -> int:
        return self.snapshot_header.size

    @property
    def metadata_size(self) -> int:
        return self.metadata.size

    @property
    def term_max(self) -> int:
        return (1 << (8 * self.term_size - 1)) - 1

    def padding(self, data_size: int) -> int:
        return -data_size % self.alignment

    def record_size(self, data_size: int) -> int:
        return self.record_header_size + data_size + self.padding(data_size)

    def problem_of(self, spec: QueueSpec) -> str | None:
        """Why a directory of this edition cannot have this queue, or None."""
        if self.edition == "shipped" and spec.code == CODE_BUCKETS and spec.key_range is not None:
            low, high = spec.key_range
            if high - low > BUCKETS_MAX:
                return (
                    f"key range {low}..{high} is too wide for implementation code 2 (buckets): the original cannot "
                    f"restore a range of more than {BUCKETS_MAX} keys"
                )
        return None

    def segment_header(self) -> bytes:
        return SEGMENT_HEADER.encode(self.segment_version)

    def encode_record(self, term: int, data: bytes) -> bytes:
        return self.record.encode(term, mpeg_2(data), data)

    def encode_metadata(self, term: int, vote: int | None) -> bytes:
        raw = self.metadata.encode(self.metadata_version, term, vote, 0)
        return raw[:-4] + struct.pack(">I", crc32_mpeg2(raw, 4, len(raw) - 4))


def _limit(value: int | None) -> int:
    return -1 if value is None else value


def _unlimit(value: int) -> int | None:
    return None if value == -1 else value


def _last_index(index: int) -> str:
    none = "; so it is no snapshot" if index == LSN_NONE else ""
    return f"LSN {index} is the last one in it{none}"


def _vote(vote: int) -> str:
    return "none" if vote == -1 else f"for node {vote}" if vote >= 0 else f"{vote}, which is no node"


DESIGNED = Layout("designed", 2, 2, term_size=4, alignment=4, scratch="temp")
SHIPPED = Layout("shipped", 1, 1, term_size=8, alignment=1, scratch="temporary")
LAYOUTS: dict[str, Layout] = {layout.edition: layout for layout in (DESIGNED, SHIPPED)}


def layout_of(edition: str) -> Layout:
    """The layout of an edition given by name."""
    if edition not in LAYOUTS:
        raise UsageError(f"{edition!r} is not an edition", advice=f"Known: {', '.join(LAYOUTS)}")
    return LAYOUTS[edition]


def segment_name(first_lsn: int) -> str:
    return f"{first_lsn:019d}.log"


def parse_segment_name(name: str) -> int | None:
    """The first LSN of a segment, or None when the name is not one of a segment. It may be above `LSN_MAX`."""
    match = SEGMENT_NAME.fullmatch(name)
    return int(match[1]) if match is not None and name.isascii() else None


@dataclass(frozen=True, slots=True)
class QueueSpec:
    """What a queue is: its name, how it is built, and its limits (None: no limit)."""

    name: str
    code: int = CODE_HEAP
    max_size: int | None = None
    max_payload: int | None = None
    key_range: tuple[int, int] | None = None

    def problem(self) -> str | None:
        """Why this cannot be a queue, or None."""
        if self.code not in CODES:
            return f"implementation code {self.code} is not known; known: 1 (heap), 2 (buckets)"
        if self.code == CODE_BUCKETS and self.key_range is None:
            return "implementation code 2 (buckets) needs a key range"
        for word, limit in (("size", self.max_size), ("payload", self.max_payload)):
            if limit is not None and (not isinstance(limit, int) or not 0 <= limit <= INT32_MAX):
                return f"maximum {word} {limit!r} is not a whole number from 0 to {INT32_MAX}"
        if self.key_range is not None:
            low, high = self.key_range
            if not (isinstance(low, int) and isinstance(high, int) and -(2**63) <= low <= high < 2**63):
                return f"key range {low!r}..{high!r} is empty or outside 64 bits"
        return None


@dataclass(frozen=True, slots=True)
class CreateQueue:
    spec: QueueSpec


@dataclass(frozen=True, slots=True)
class DeleteQueue:
    queue: str


@dataclass(frozen=True, slots=True)
class AddRecord:
    queue: str
    key: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class RemoveRecord:
    queue: str
    id: int


Delta = CreateQueue | DeleteQueue | AddRecord | RemoveRecord
OPERATIONS = {ord("C"): "create", ord("D"): "delete", ord("A"): "add", ord("R"): "remove"}


def check_name(name: str) -> bytes:
    """The bytes of a queue name, or an error that says which character is wrong."""
    for character in name:
        if not "\x21" <= character <= "\x7e":
            raise UsageError(
                f"queue name {name!r} holds {character!r}",
                advice="Allowed are the 94 printable ASCII characters, no blank",
            )
    if len(name) > NAME_SIZE_MAX:
        raise UsageError(
            f"a queue name of {len(name)} characters is too long", advice="At most 255 are allowed"
        )
    return name.encode("ascii")


# Deltas, and the queues and records of a state


def _read_name(raw: Bytes) -> str:
    if _NAME.fullmatch(raw) is None:
        raise MalformedError("name", "the queue name holds a byte outside 0x21..0x7E")
    return str(raw, "ascii")


def _limited(name: str) -> Field:
    return Field(
        name, "i32", lambda value: "none" if value == -1 else str(value), write=_limit, read=_unlimit
    )


_QUEUE_NAME = (
    Field("name length", "u8 q"),
    Field(
        "queue",
        "[q]",
        lambda raw: repr(str(raw, "ascii", "backslashreplace")),
        write=check_name,
        read=_read_name,
    ),
)
_IMPLEMENTATION = Field(
    "implementation", "i32", lambda code: f"{code}: {CODES[code]}" if code in CODES else str(code)
)
_LIMITS = (_limited("maximum size"), _limited("maximum payload"))
_HAS_RANGE = Field("has key range", "u8", lambda flag: "yes" if flag else "no")
_PAYLOAD = (Field("key", "i64"), Field("payload length", "i32 n", "{} bytes"), Field("payload", "[n]"))
RECORD_PAYLOAD = Table("big", *_PAYLOAD)
KEY_AND_LENGTH = RECORD_PAYLOAD.head
KEY_RANGE = Table("big", Field("lowest key", "i64"), Field("highest key", "i64"))


def _delta(kind: str, *fields: Field) -> Table:
    delta = Field("delta", "u8", f"{kind}: {OPERATIONS[ord(kind)]}", f"{kind!r}, {OPERATIONS[ord(kind)]}")
    return Table("big", replace(delta, value=ord(kind)), *_QUEUE_NAME, *fields)


NAMED = Table("big", Field("delta", "u8"), *_QUEUE_NAME)  # what every delta begins with
CREATE = _delta("C", _IMPLEMENTATION, *_LIMITS, _HAS_RANGE)
DELETE = _delta("D")
ADD = _delta("A", *_PAYLOAD)
REMOVE = _delta("R", Field("id", "u64"))
DELTAS = {ord("C"): CREATE, ord("D"): DELETE, ord("A"): ADD, ord("R"): REMOVE}

STATE = Table("big", Field("queues", "i32", words="i32, how many"))
QUEUE = Table(
    "big",
    *_QUEUE_NAME,
    _IMPLEMENTATION,
    Field("last id", "u64"),
    *_LIMITS,
    replace(_HAS_RANGE, meaning=lambda flag: "yes" if flag == 1 else "no"),
)
RECORDS = Table("big", Field("records", "i32", words="i32, how many"))
STATE_RECORD = Table("big", Field("id", "u64"), *_PAYLOAD)


def encode_delta(delta: Delta) -> bytes:
    """The data of one record."""
    match delta:
        case CreateQueue(spec):
            return CREATE.encode(*_queue(spec)) + _key_range(spec)
        case DeleteQueue(queue):
            return DELETE.encode(queue)
        case AddRecord(queue, key, payload):
            return ADD.encode(queue, key, payload)
        case RemoveRecord(queue, id_):
            return REMOVE.encode(queue, id_)


def _queue(spec: QueueSpec, *last_id: int) -> tuple[Any, ...]:
    limits = spec.max_size, spec.max_payload
    return spec.name, spec.code, *last_id, *limits, spec.key_range is not None


def _key_range(spec: QueueSpec) -> bytes:
    return b"" if spec.key_range is None else KEY_RANGE.encode(*spec.key_range)


@lru_cache
def _is_name(name: bytes) -> bool:
    return _NAME.fullmatch(name) is not None


def delta_problem(data: bytes, layout: Layout) -> str | None:
    """Why these bytes are no valid delta, in the words of opening; or None."""
    kind, name = data[:1], data[2 : 2 + data[1]] if len(data) > 1 else b""
    if kind not in (b"C", b"D", b"A", b"R"):
        return "its first byte is not one of C, D, A, R"
    if len(data) < 2 or len(name) < data[1]:
        return "it ends before its fields do"
    if not _is_name(name):
        return "the queue name holds a byte outside 0x21..0x7E"
    if kind == b"C":
        try:
            return layout.problem_of(decode_create(data))
        except DamageError as error:
            return error.message
    at = 2 + len(name)
    if kind == b"A":
        fits = len(data) >= at + 12 and len(data) - at - 12 >= int.from_bytes(data[at + 8 : at + 12], "big")
    else:
        fits = kind == b"D" or len(data) >= at + 8
    return None if fits else "it ends before its fields do"


def add_prefix(queue: str) -> bytes:
    """What every A delta of a queue begins with."""
    return NAMED.encode(ord("A"), queue)


def remove_prefix(queue: str) -> bytes:
    """What every R delta of a queue begins with."""
    return NAMED.encode(ord("R"), queue)


def decode_create(data: bytes) -> QueueSpec:
    """The queue of a C delta whose name is known to be good."""
    try:
        (name, code, max_size, max_payload, flag), at = CREATE.decode(data)
        # Any value but zero means yes, as the original reads it in a delta.
        key_range = KEY_RANGE.decode(data, at)[0] if flag else None
    except MalformedError:
        raise DamageError("the create delta ends early", code="delta-short") from None
    return _checked(QueueSpec(name, code, max_size, max_payload, key_range), "delta-queue")


def _checked(spec: QueueSpec, code: str) -> QueueSpec:
    problem = spec.problem()
    if problem is not None:
        raise DamageError(f"queue {spec.name!r}: {problem}", code=code)
    return spec


@dataclass(frozen=True, slots=True)
class Metadata:
    """Term and vote of a Raft node."""

    term: int = TERM_FIRST
    vote: int | None = None


def decode_queue_header(state: Bytes, at: int) -> tuple[QueueSpec, int, int, int]:
    """A queue of a snapshot's state at `at`: its spec, last id, number of records, and where they begin."""
    key_range = None
    try:
        (name, code, last_id, max_size, max_payload, flag), at = QUEUE.decode(state, at)
        if flag == 1:  # only 1 means yes, as the original reads it in a snapshot
            key_range, at = KEY_RANGE.decode(state, at)
        (count,), at = RECORDS.decode(state, at)
    except MalformedError as error:
        if error.field in ("", "queue"):
            raise DamageError(
                "the snapshot has a queue with a name that is not allowed", code="snapshot-name"
            ) from None
        raise DamageError("the state of the snapshot ends inside a queue", code="snapshot-short") from None
    if count < 0:
        raise DamageError(f"a queue of the snapshot has {count} records", code="snapshot-count")
    spec = QueueSpec(name, code, max_size, max_payload, key_range)
    return _checked(spec, "snapshot-queue"), last_id, count, at


def encode_queue_header(spec: QueueSpec, last_id: int, count: int) -> bytes:
    return QUEUE.encode(*_queue(spec, last_id)) + _key_range(spec) + RECORDS.encode(count)
