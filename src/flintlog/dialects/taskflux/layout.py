"""The bytes of taskflux, in words and tables; encode and decode one record.

All integers are big-endian. A log directory's `data` holds

    log/NNNNNNNNNNNNNNNNNNN.log   segments, named by the LSN of their first record in 19 digits
    tflux.metadata                term and vote
    tflux.snapshot                the state up to an LSN; empty or missing when there is none
    temp/ or temporary/           scratch: designed or shipped

Segment: file marker, version, records, end marker. What stands behind the end marker is ignored, and zeros
are an end marker, so a preallocated file needs no other sign of its end.

    | field         | designed | shipped | value                                            |
    |---------------|----------|---------|--------------------------------------------------|
    | file marker   | 4        | 4       | 12 76 AD 55                                      |
    | version       | 4        | 4       | 2, shipped 1                                     |
    | record marker | 4        | 4       | AA F5 34 C4                                      |
    | term          | 4        | 8       | >= 1                                             |
    | checksum      | 4        | 4       | CRC-32/MPEG-2 of the data, padding left out      |
    | length        | 4        | 4       | of the data, padding left out                    |
    | data          | n        | n       | one delta                                        |
    | padding       | 0..3     | none    | zeros up to a multiple of 4 from the data's start|
    | end marker    | 4        | 4       | zeros                                            |

The LSN of a record is not stored: the file's first LSN plus the record's place in the file.

Delta: one byte says which.

    C  name, code Int32, max size Int32, max payload Int32 (-1: none), flag byte, if set min Int64, max Int64
    D  name
    A  name, key Int64, payload (Int32 length, bytes)
    R  name, id UInt64

A name is one length byte and 0 to 255 bytes from 0x21 to 0x7E. The empty name is the default queue, which is
always there.

Snapshot: marker B6 38 0F C9, last index, last term (Int32 each, shipped Int64), Int32 length and the state,
checksum of the state. State: Int32 count of queues, each: name, code Int32, last id UInt64, max size Int32,
max payload Int32, flag byte and range as in C, Int32 count of records, each: id UInt64, key Int64, payload.

Metadata: marker 5A 6E A0 12, version Int32, term (Int32, shipped Int64), vote Int32 (-1: none), checksum of
everything between marker and checksum.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from typing import Literal

from flintlog.columns.checksum import crc32_mpeg2
from flintlog.errors import DamageError, UsageError

FILE_MARKER = bytes.fromhex("1276AD55")
RECORD_MARKER = bytes.fromhex("AAF534C4")
SNAPSHOT_MARKER = bytes.fromhex("B6380FC9")
METADATA_MARKER = bytes.fromhex("5A6EA012")
END_MARKER = bytes(4)
SEGMENT_HEADER_SIZE = 8
# What the limits call the size of an empty segment.
SEGMENT_EMPTY_SIZE = SEGMENT_HEADER_SIZE + len(END_MARKER)

LOG_DIRECTORY = "log"
METADATA_FILE = "tflux.metadata"
SNAPSHOT_FILE = "tflux.snapshot"
SETTINGS_FILE = "taskflux.settings.json"
IGNORED_FILE = "tflux.log"  # stands in the note's tree and nowhere else

_NAME = re.compile(rb"[\x21-\x7e]*")
SEGMENT_NAME = re.compile(r"(\d{19})\.log")
LSN_NONE = -1
TERM_FIRST = 1
LSN_MAX = 2**63 - 2  # the one behind it, which a count ends with, has 63 bits too
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


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the two editions differ in bytes."""

    edition: Edition
    segment_version: int
    metadata_version: int
    term_size: int
    alignment: int
    scratch: str

    @property
    def record_header_size(self) -> int:
        return 4 + self.term_size + 4 + 4

    @property
    def snapshot_header_size(self) -> int:
        return 4 + 2 * self.term_size + 4

    @property
    def metadata_size(self) -> int:
        return 4 + 4 + self.term_size + 4 + 4

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
        return FILE_MARKER + struct.pack(">i", self.segment_version)

    def encode_record(self, term: int, data: bytes) -> bytes:
        """Marker, term, checksum, length, data, padding."""
        return b"".join(
            (
                RECORD_MARKER,
                term.to_bytes(self.term_size, "big"),
                struct.pack(">II", crc32_mpeg2(data, 0, len(data)), len(data)),
                data,
                bytes(self.padding(len(data))),
            )
        )

    def encode_snapshot_header(self, index: int, term: int, state_size: int) -> bytes:
        width = self.term_size
        return b"".join(
            (
                SNAPSHOT_MARKER,
                index.to_bytes(width, "big", signed=True),
                term.to_bytes(width, "big", signed=True),
                struct.pack(">i", state_size),
            )
        )

    def encode_metadata(self, term: int, vote: int | None) -> bytes:
        body = b"".join(
            (
                struct.pack(">i", self.metadata_version),
                term.to_bytes(self.term_size, "big", signed=True),
                struct.pack(">i", -1 if vote is None else vote),
            )
        )
        return METADATA_MARKER + body + struct.pack(">I", crc32_mpeg2(body, 0, len(body)))


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


def encode_name(name: str) -> bytes:
    raw = check_name(name)
    return bytes((len(raw),)) + raw


def encode_range(key_range: tuple[int, int] | None) -> bytes:
    return b"\x00" if key_range is None else struct.pack(">Bqq", 1, *key_range)


def _limit(value: int | None) -> int:
    return -1 if value is None else value


def encode_delta(delta: Delta) -> bytes:
    """The data of one record."""
    match delta:
        case CreateQueue(spec):
            limits = struct.pack(">iii", spec.code, _limit(spec.max_size), _limit(spec.max_payload))
            return b"C" + encode_name(spec.name) + limits + encode_range(spec.key_range)
        case DeleteQueue(queue):
            return b"D" + encode_name(queue)
        case AddRecord(queue, key, payload):
            return add_prefix(queue) + struct.pack(">qi", key, len(payload)) + payload
        case RemoveRecord(queue, id_):
            return remove_prefix(queue) + struct.pack(">Q", id_)


def delta_problem(data: bytes, layout: Layout) -> str | None:
    """Why these bytes are no delta that a directory can have, or None. It is what opening would say of them."""
    kind, name = data[:1], data[2 : 2 + data[1]] if len(data) > 1 else b""
    if kind not in (b"C", b"D", b"A", b"R"):
        return "its first byte is not one of C, D, A, R"
    if len(data) < 2 or len(name) < data[1]:
        return "it ends before its fields do"
    if _NAME.fullmatch(name) is None:
        return "the queue name holds a byte outside 0x21..0x7E"
    rest = data[2 + len(name) :]
    if kind == b"C":
        try:
            return layout.problem_of(decode_create(data))
        except DamageError as error:
            return error.message
    fits = len(rest) >= 12 and len(rest) - 12 >= int.from_bytes(rest[8:12], "big") if kind == b"A" else True
    return None if fits and (kind != b"R" or len(rest) >= 8) else "it ends before its fields do"


def add_prefix(queue: str) -> bytes:
    """What every A delta of a queue begins with."""
    return b"A" + encode_name(queue)


def remove_prefix(queue: str) -> bytes:
    """What every R delta of a queue begins with."""
    return b"R" + encode_name(queue)


def decode_create(data: bytes) -> QueueSpec:
    """The queue of a C delta whose name is known to be good."""
    at = 2 + data[1]
    name = data[2:at].decode("ascii")
    if len(data) < at + 13:
        raise DamageError("the create delta ends early", code="delta-short")
    code, max_size, max_payload, flag = struct.unpack_from(">iiiB", data, at)
    key_range = None
    if flag:  # any value but zero: so the original reads it in a delta
        if len(data) < at + 29:
            raise DamageError("the create delta ends early", code="delta-short")
        key_range = struct.unpack_from(">qq", data, at + 13)
    return _checked(
        QueueSpec(name, code, _unlimit(max_size), _unlimit(max_payload), key_range), "delta-queue"
    )


def _unlimit(value: int) -> int | None:
    return None if value == -1 else value


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


def decode_queue_header(state: bytes | memoryview, at: int) -> tuple[QueueSpec, int, int, int]:
    """A queue of a snapshot's state at `at`: its spec, last id, number of records, and where they begin."""
    try:
        size = state[at]
        raw = bytes(state[at + 1 : at + 1 + size])
        if len(raw) < size or not all(0x21 <= byte <= 0x7E for byte in raw):
            raise DamageError(
                "the snapshot has a queue with a name that is not allowed", code="snapshot-name"
            )
        at += 1 + size
        code, last_id, max_size, max_payload, flag = struct.unpack_from(">iQiiB", state, at)
        at += 21
        key_range = None
        if flag == 1:  # exactly one: so the original reads it in a snapshot
            key_range = struct.unpack_from(">qq", state, at)
            at += 16
        (count,) = struct.unpack_from(">i", state, at)
    except (struct.error, IndexError):
        raise DamageError("the state of the snapshot ends inside a queue", code="snapshot-short") from None
    if count < 0:
        raise DamageError(f"a queue of the snapshot has {count} records", code="snapshot-count")
    spec = QueueSpec(raw.decode("ascii"), code, _unlimit(max_size), _unlimit(max_payload), key_range)
    return _checked(spec, "snapshot-queue"), last_id, count, at + 4


def encode_queue_header(spec: QueueSpec, last_id: int, count: int) -> bytes:
    return b"".join(
        (
            encode_name(spec.name),
            struct.pack(">iQii", spec.code, last_id, _limit(spec.max_size), _limit(spec.max_payload)),
            encode_range(spec.key_range),
            struct.pack(">i", count),
        )
    )
