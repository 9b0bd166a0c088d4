"""The bytes of mpy6a: sessions that wait, descriptors of the files they wait in, and two logs.

All integers are little-endian. A *uvarint* is 7 bits a byte, low group first, high bit set while more follows.
*bytes* are a uvarint and as many bytes. A *state id* is two u64: the leader's term (never 0) and the index of
the operation in it.

`<delay>@<YYYYMMDDHH>[-n].data`, one chain of files for each delay: records back to back, nothing else.

    replay time u64, Unix seconds | session id: term u64, index u64 | topic i32 | attempts uvarint | bytes data

`state.snapshot`: one descriptor for each file, in the order of creation, up to the end of the file.

    name: uvarint + bytes | created by: state id | last touched by: state id | flags u8: 1 written, 2 read
    | read position uvarint | length uvarint | replay u64: not after the first record's replay time

`state.log`, what changed since the snapshot, and `operations.log`, every operation since the last checkpoint, are
frames of events. An event lies in one frame; a frame that has no room for the next one ends in zeros.

    header: frame size u64 | greatest payload u64
    event:  state id | payload length uvarint, 1 or more | payload

A payload of `state.log` begins with a u32 code:

    1 create        u32 delay | u64 now
    2 stop writing  bytes name
    3 delete        bytes name
    4 open to read  bytes name
    5 shift         bytes name | uvarint bytes read

`operations.py` has the payloads of `operations.log`, which holds what the two others cannot: sessions that are
open, and operations whose effect on the files is not yet synced.

`exhausted.sessions` holds the records of sessions that were tried as often as their topic allows.
"""

from __future__ import annotations

import re
import struct
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from flintlog.errors import DamageError, RefusedError

SNAPSHOT_FILE = "state.snapshot"
CHANGES_FILE = "state.log"
OPERATIONS_FILE = "operations.log"
EXHAUSTED_FILE = "exhausted.sessions"
SCRATCH_SUFFIX = ".new"

RECORD_HEADER_SIZE = 28
RECORD_SIZE_MIN = 30
LOG_HEADER_SIZE = 16
EVENT_HEADER_SIZE = 16
EVENT_SIZE_MIN = 18
FRAME_SIZE_MAX = 32 << 20  # unless an event is longer, which then fills its frame
LONG_FRAME_SIZE_MAX = 1 << 40
CHANGES_FRAME = (4096, 1024)  # frame size, greatest payload
BESIDE_FRAME = (4096, 1023)  # of a change log that an operation log stands beside, which decides
OPERATIONS_FRAME = (FRAME_SIZE_MAX, FRAME_SIZE_MAX - 20)
DELAY_MAX = (1 << 32) - 1
UINT64_MAX = (1 << 64) - 1
TIME_MAX = 253_402_300_799  # the last second whose year has four digits

WRITTEN = 1
READ = 2

_HEADER = struct.Struct("<QQQi")
_STATE_ID = struct.Struct("<QQ")
_LOG_HEADER = struct.Struct("<QQ")
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_NAME = re.compile(r"([1-9]\d{0,9})@(\d{10})(?:-([1-9]\d{0,18}))?\.data", re.ASCII)


class StateID(NamedTuple):
    """Which operation of which leader. Compares in the order of operations."""

    term: int
    index: int  # type: ignore[assignment]  # a tuple's method of that name is not used

    def following(self, count: int = 1) -> StateID:
        """The id so many operations later, in the same term."""
        return StateID(self.term, self.index + count)

    def __str__(self) -> str:
        return f"({self.term}, {self.index})"


ZERO = StateID(0, 0)


class MalformedError(RefusedError):
    """Bytes or an operation that mean nothing here; whoever knows the place says where."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


# Primitives


def uvarint(value: int) -> bytes:
    """The shortest form."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_uvarint(buffer: bytes | memoryview, at: int) -> tuple[int, int]:
    """The value at `at`, and where it ends; longer forms than needed are accepted."""
    value = 0
    for count in range(10):
        if at + count >= len(buffer):
            raise MalformedError("cut", "the bytes end inside a number")
        byte = buffer[at + count]
        value |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            if value > UINT64_MAX:
                break
            return value, at + count + 1
    raise MalformedError("number", "a number has more than 64 bits")


def encode_state_id(state_id: StateID) -> bytes:
    return _STATE_ID.pack(*state_id)


def read_state_id(buffer: bytes | memoryview, at: int) -> StateID:
    if at + _STATE_ID.size > len(buffer):
        raise MalformedError("cut", "the bytes end inside a state id")
    return StateID(*_STATE_ID.unpack_from(buffer, at))


def encode_bytes(data: bytes) -> bytes:
    return uvarint(len(data)) + data


def read_bytes(buffer: bytes | memoryview, at: int) -> tuple[bytes, int]:
    size, at = read_uvarint(buffer, at)
    if size > len(buffer) - at:
        raise MalformedError("cut", f"{size} bytes are announced, {len(buffer) - at} follow")
    return bytes(buffer[at : at + size]), at + size


def read_u32(buffer: bytes | memoryview, at: int) -> tuple[int, int]:
    if at + 4 > len(buffer):
        raise MalformedError("cut", "the bytes end inside a number of four bytes")
    return _U32.unpack_from(buffer, at)[0], at + 4


def read_u64(buffer: bytes | memoryview, at: int) -> tuple[int, int]:
    if at + 8 > len(buffer):
        raise MalformedError("cut", "the bytes end inside a number of eight bytes")
    return _U64.unpack_from(buffer, at)[0], at + 8


# File names


def data_name(delay: int, now: int, living: Iterable[str]) -> str:
    """The name of a file that begins at `now`: the UTC hour, and a suffix behind those of living files of that hour."""
    name = f"{delay}@{time.strftime('%Y%m%d%H', time.gmtime(now))}.data"
    stem = name_key(name)[:2]
    return name_behind(name, living) if any(name_key(other)[:2] == stem for other in living) else name


def name_behind(name: str, living: Iterable[str]) -> str:
    """The name of the same delay and hour behind this one and all living ones."""
    delay, hour, number = name_key(name)
    numbers = [key[2] for other in living if (key := name_key(other))[:2] == (delay, hour)]
    return f"{delay}@{hour}-{max(number, *numbers, 0) + 1}.data"


def name_key(name: str) -> tuple[int, str, int]:
    """Delay, hour and suffix of a data file: those of one delay are named in this order."""
    match = _NAME.fullmatch(name)
    assert match is not None
    return int(match[1]), match[2], int(match[3] or 0)


def parse_name(name: str) -> int | None:
    """The delay a data file is bound to; None when this is not the name of one."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    delay = int(match[1])
    return delay if delay <= DELAY_MAX else None


# Records


class Record(NamedTuple):
    """A session as it waits in a file."""

    replay_time: int
    id: StateID
    topic: int
    attempts: int
    data: bytes


def encode_record(record: Record) -> bytes:
    return b"".join(
        (
            _HEADER.pack(record.replay_time, *record.id, record.topic),
            uvarint(record.attempts),
            uvarint(len(record.data)),
            record.data,
        )
    )


def read_record(buffer: bytes | memoryview, at: int) -> tuple[Record, int]:
    """The record at `at`, and where it ends."""
    if at + RECORD_HEADER_SIZE > len(buffer):
        raise MalformedError("cut", "the bytes end inside a record")
    replay_time, term, index, topic = _HEADER.unpack_from(buffer, at)
    attempts, at = read_uvarint(buffer, at + RECORD_HEADER_SIZE)
    data, at = read_bytes(buffer, at)
    return Record(replay_time, StateID(term, index), topic, attempts, data), at


# Descriptors


@dataclass(frozen=True, slots=True)
class Descriptor:
    """What is known of one data file."""

    name: str
    id: StateID  # of the operation that created it
    last_id: StateID  # of the last one that touched it
    flags: int
    offset: int  # bytes before it are read
    length: int
    replay: int  # no session in the file is due before

    @property
    def delay(self) -> int:
        found = parse_name(self.name)
        assert found is not None
        return found

    def encode(self) -> bytes:
        return b"".join(
            (
                encode_bytes(self.name.encode()),
                encode_state_id(self.id),
                encode_state_id(self.last_id),
                bytes([self.flags]),
                uvarint(self.offset),
                uvarint(self.length),
                _U64.pack(self.replay),
            )
        )


def read_descriptor(buffer: bytes | memoryview, at: int) -> tuple[Descriptor, int]:
    """The descriptor at `at`, and where it ends. What contradicts itself is malformed."""
    raw, at = read_bytes(buffer, at)
    name = read_name(raw)
    created = read_state_id(buffer, at)
    last = read_state_id(buffer, at + 16)
    at += 32
    if at >= len(buffer):
        raise MalformedError("cut", "the bytes end inside a descriptor")
    flags = buffer[at]
    offset, at = read_uvarint(buffer, at + 1)
    length, at = read_uvarint(buffer, at)
    replay, at = read_u64(buffer, at)
    if flags & ~(WRITTEN | READ):
        raise MalformedError("flags", f"{name} has flags {flags:#04x}, of which only 0x03 have a meaning")
    if created.term == 0 or last.term == 0:
        raise MalformedError("term", f"{name} was touched in term 0, which does not exist")
    if last < created:
        raise MalformedError("order", f"{name} was touched at {last}, before it was created at {created}")
    if offset > length:
        raise MalformedError("offset", f"{name} is read up to byte {offset} and {length} bytes long")
    return Descriptor(name, created, last, flags, offset, length, replay), at


def read_name(raw: bytes) -> str:
    """A data file's name as it stands in a descriptor or an operation."""
    name = raw.decode("ascii", "backslashreplace")
    if parse_name(name) is None:
        raise MalformedError("name", f"{name[:80]!r} is not the name of a data file")
    return name


def encode_snapshot(descriptors: Iterable[Descriptor]) -> bytes:
    """Descriptors in the order of their creation, so that equal states have equal bytes."""
    return b"".join(item.encode() for item in sorted(descriptors, key=lambda item: item.id))


def read_snapshot(buffer: bytes | memoryview) -> Iterator[tuple[int, Descriptor]]:
    """Each descriptor with the place where it begins."""
    at = 0
    while at < len(buffer):
        begin = at
        try:
            descriptor, at = read_descriptor(buffer, at)
        except MalformedError as problem:
            raise DamageError(
                f"descriptor: {problem.message}",
                code=f"snapshot-{problem.code}",
                file=SNAPSHOT_FILE,
                offset=begin,
            ) from problem
        yield begin, descriptor


# Logs


def operations_frame(longest: int) -> tuple[int, int]:
    """Frame size and greatest payload of an operation log in which an event of `longest` bytes has room."""
    frame, limit = OPERATIONS_FRAME
    return max(frame, longest), max(limit, longest - (frame - limit))


def encode_log_header(frame: int, limit: int) -> bytes:
    return _LOG_HEADER.pack(frame, limit)


def read_log_header(buffer: bytes | memoryview) -> tuple[int, int]:
    """Frame size and greatest payload."""
    if len(buffer) < LOG_HEADER_SIZE:
        raise MalformedError("header", f"a header of {LOG_HEADER_SIZE} bytes is cut to {len(buffer)}")
    frame, limit = _LOG_HEADER.unpack_from(buffer)
    long = frame <= LONG_FRAME_SIZE_MAX and (frame, limit) == operations_frame(frame)
    if (frame > FRAME_SIZE_MAX and not long) or limit < EVENT_SIZE_MIN or frame < limit:
        raise MalformedError("header", f"frames of {frame} bytes with payloads up to {limit} cannot be")
    return frame, limit


def encode_event(state_id: StateID, payload: bytes) -> bytes:
    return encode_state_id(state_id) + uvarint(len(payload)) + payload


def padding_before(position: int, frame: int, size: int) -> int:
    """Zeros to write before an event of `size` bytes at `position`, so that it lies in one frame."""
    rest = frame - (position - LOG_HEADER_SIZE) % frame
    return rest if size > rest else 0


def framed(at: int, frame: int, events: Iterable[bytes | bytearray | memoryview]) -> bytes:
    """Events as they follow each other from `at` on, with zeros where one has no room in its frame."""
    parts: list[bytes | bytearray | memoryview] = []
    for event in events:
        padding = padding_before(at, frame, len(event))
        parts += [bytes(padding), event]
        at += padding + len(event)
    return b"".join(parts)


def encode_changes(events: Iterable[bytes], *, beside: bool) -> bytes:
    """A change log with these events, which says whether an operation log stands `beside` it."""
    header = encode_log_header(*(BESIDE_FRAME if beside else CHANGES_FRAME))
    return header + framed(len(header), CHANGES_FRAME[0], events)


# The changes of descriptors


class Create(NamedTuple):
    delay: int
    now: int


class StopWriting(NamedTuple):
    name: str


class Delete(NamedTuple):
    name: str


class OpenToRead(NamedTuple):
    name: str


class Shift(NamedTuple):
    name: str
    size: int


Change = Create | StopWriting | Delete | OpenToRead | Shift

CREATE, STOP_WRITING, DELETE, OPEN_TO_READ, SHIFT = 1, 2, 3, 4, 5
_NAMED: dict[int, type[StopWriting] | type[Delete] | type[OpenToRead]] = {
    STOP_WRITING: StopWriting,
    DELETE: Delete,
    OPEN_TO_READ: OpenToRead,
}
_CODES = {Create: CREATE, StopWriting: STOP_WRITING, Delete: DELETE, OpenToRead: OPEN_TO_READ, Shift: SHIFT}


def encode_change(change: Change) -> bytes:
    code = _U32.pack(_CODES[type(change)])
    if isinstance(change, Create):
        return code + _U32.pack(change.delay) + _U64.pack(change.now)
    if isinstance(change, Shift):
        return code + encode_bytes(change.name.encode()) + uvarint(change.size)
    return code + encode_bytes(change.name.encode())


def read_change(payload: bytes | memoryview) -> Change:
    """The change a payload asks for; trailing bytes and unknown codes are malformed."""
    code, at = read_u32(payload, 0)
    change: Change
    if code == CREATE:
        delay, at = read_u32(payload, at)
        now, at = read_u64(payload, at)
        if delay == 0:
            raise MalformedError("delay", "a file cannot be bound to a delay of 0 seconds")
        if now + delay > TIME_MAX:
            raise MalformedError("time", f"{now} is not a time in seconds")
        change = Create(delay, now)
    elif code == SHIFT:
        raw, at = read_bytes(payload, at)
        size, at = read_uvarint(payload, at)
        change = Shift(read_name(raw), size)
    elif code in _NAMED:
        raw, at = read_bytes(payload, at)
        change = _NAMED[code](read_name(raw))
    else:
        raise MalformedError("unknown", f"{code} is not the code of an operation")
    if at != len(payload):
        raise MalformedError("trailing", f"{len(payload) - at} bytes follow the operation")
    return change
