"""The bytes of mpy6a: sessions that wait, descriptors of the files they wait in, and two logs.

All integers are little-endian. A *state id* is two u64: the leader's term (never 0) and the index of the operation in
it. The tables below are the content of

    <delay>@<YYYYMMDDHH>[-n].data    RECORD after RECORD; one chain of files for each delay
    exhausted.sessions               the records of sessions that were tried as often as their topic allows
    state.snapshot                   DESCRIPTOR after DESCRIPTOR, in the order of creation
    state.log                        LOG_HEADER, then EVENTs: what changed since the snapshot (CHANGES)
    operations.log                   LOG_HEADER, then CHECKED_EVENTs: every operation since the last checkpoint

`operations.py` has the operations of `operations.log`, which holds what the other two cannot: open sessions, and
operations whose effect on the files is not yet synced. An event lies in one frame; a frame without room for the next
one ends in zeros.
"""

from __future__ import annotations

import re
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from flintlog.core.fields import UINT64_MAX as UINT64_MAX
from flintlog.core.fields import Bytes, Field, Table
from flintlog.core.fields import MalformedError as MalformedError
from flintlog.core.fields import read_uvarint as read_uvarint
from flintlog.core.fields import uvarint as uvarint
from flintlog.errors import DamageError

SNAPSHOT_FILE = "state.snapshot"
CHANGES_FILE = "state.log"
OPERATIONS_FILE = "operations.log"
EXHAUSTED_FILE = "exhausted.sessions"
SCRATCH_SUFFIX = ".new"

EVENT_SIZE_MIN = 18  # state id, payload length, one byte
FRAME_SIZE_MAX = 32 << 20  # unless an event is longer, which then fills its frame
LONG_FRAME_SIZE_MAX = 1 << 40
CHANGES_FRAME = (4096, 1024)  # frame size, greatest payload
BESIDE_FRAME = (4096, 1023)  # of a change log beside an operation log, which decides
OPERATIONS_FRAME = (FRAME_SIZE_MAX, FRAME_SIZE_MAX - 20)
DELAY_MAX = (1 << 32) - 1
TIME_MAX = 253_402_300_799  # the last second whose year has four digits

WRITTEN = 1
READ = 2

_STATE_ID = struct.Struct("<QQ")
STATE_ID_SIZE = _STATE_ID.size
_FLAGS = {0: "neither written nor read", 1: "written", 2: "read", 3: "written and read"}
_NAME = re.compile(r"([1-9]\d{0,9})@(\d{10})(?:-([1-9]\d{0,18}))?\.data", re.ASCII)


class StateID(NamedTuple):
    """Which operation of which leader. Compares in the order of operations."""

    term: int
    index: int  # type: ignore[assignment]  # a tuple's method of that name is not used

    def following(self, count: int = 1) -> StateID:
        """The id `count` operations later, in the same term."""
        return StateID(self.term, self.index + count)

    def __str__(self) -> str:
        return f"({self.term}, {self.index})"


ZERO = StateID(0, 0)


# Fields of several tables


def encode_state_id(state_id: StateID) -> bytes:
    return _STATE_ID.pack(*state_id)


def read_state_id(buffer: Bytes, at: int = 0) -> StateID:
    if at + _STATE_ID.size > len(buffer):
        raise MalformedError("cut", "the bytes end inside a state id")
    return StateID(*_STATE_ID.unpack_from(buffer, at))


def state_id(name: str, meaning: str = "session {}") -> Field:
    """A state id in a table."""
    return Field(
        name,
        "16B",
        lambda raw: meaning.format(read_state_id(raw)),
        "term, index",
        write=encode_state_id,
        read=lambda raw: StateID(*_STATE_ID.unpack(raw)),
    )


def moment(name: str) -> Field:
    """A time in a table, in Unix seconds."""
    return Field(name, "u64", _moment)


def _moment(value: int) -> str:
    if not 0 < value <= TIME_MAX:
        return str(value)
    return f"{value}, {time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(value))} UTC"


def shown_name(raw: Bytes) -> str:
    return str(raw, "ascii", "backslashreplace")


def read_name(raw: Bytes) -> str:
    """A data file's name as it stands in a descriptor or an operation."""
    name = shown_name(raw)
    if parse_name(name) is None:
        raise MalformedError("name", f"{name[:80]!r} is not the name of a data file")
    return name


def named(read: Callable[[Bytes], str] = read_name) -> tuple[Field, Field]:
    """The name of a data file in a table."""
    text = Field("name", "[n]", shown_name, write=str.encode, read=read)
    return Field("name length", "uvarint n"), text


DELAY = Field("delay", "u32", "{} seconds", "u32 seconds")
TOPIC = Field("topic", "i32")
ATTEMPTS = Field("attempts", "uvarint")
DATA = Field("data", "*", words="up to the end")


# File names


def data_name(delay: int, now: int, living: Iterable[str]) -> str:
    """The name of a file that begins at `now`: the UTC hour, and a suffix above those of the hour's living files."""
    name = f"{delay}@{time.strftime('%Y%m%d%H', time.gmtime(now))}.data"
    stem = name_key(name)[:2]
    return name_behind(name, living) if any(name_key(other)[:2] == stem for other in living) else name


def name_behind(name: str, living: Iterable[str]) -> str:
    """The next name of the same delay and hour, behind this one and all living ones."""
    delay, hour, number = name_key(name)
    numbers = [key[2] for other in living if (key := name_key(other))[:2] == (delay, hour)]
    return f"{delay}@{hour}-{max(number, *numbers, 0) + 1}.data"


def name_key(name: str) -> tuple[int, str, int]:
    """Delay, hour and suffix of a data file: those of one delay are named in this order."""
    match = _NAME.fullmatch(name)
    assert match is not None
    return int(match[1]), match[2], int(match[3] or 0)


def parse_name(name: str) -> int | None:
    """The delay in the name of a data file; None when this is no such name."""
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


RECORD = Table(
    "little",
    moment("replay time"),
    state_id("session id"),
    TOPIC,
    ATTEMPTS,
    Field("data length", "uvarint n", "{} bytes"),
    Field("data", "[n]"),
    make=Record,
)
RECORD_HEADER_SIZE = RECORD.head.size
RECORD_SIZE_MIN = RECORD_HEADER_SIZE + 2


def encode_record(record: Record) -> bytes:
    return RECORD.encode(*record)


def read_record(buffer: Bytes, at: int) -> tuple[Record, int]:
    """The record at `at`, and where it ends."""
    return RECORD.decode(buffer, at)


# Descriptors


@dataclass(frozen=True, slots=True)
class Descriptor:
    """What the logs say of one data file."""

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
        return DESCRIPTOR.encode(
            self.name, self.id, self.last_id, self.flags, self.offset, self.length, self.replay
        )


DESCRIPTOR = Table(
    "little",
    *named(),
    state_id("id", "created by operation {}"),
    state_id("last id", "last touched by operation {}"),
    Field("flags", "u8", lambda flags: _FLAGS.get(flags, "unknown")),
    Field("read position", "uvarint", "{} bytes are read"),
    Field("length", "uvarint", "{} bytes"),
    moment("replay bound"),
    make=Descriptor,
)


def read_descriptor(buffer: Bytes, at: int) -> tuple[Descriptor, int]:
    """The descriptor at `at`, and where it ends; raises for one that contradicts itself."""
    found, at = DESCRIPTOR.decode(buffer, at)
    name, created, last = found.name, found.id, found.last_id
    if found.flags & ~(WRITTEN | READ):
        raise MalformedError(
            "flags", f"{name} has flags {found.flags:#04x}, of which only 0x03 have a meaning"
        )
    if created.term == 0 or last.term == 0:
        raise MalformedError("term", f"{name} was touched in term 0, which does not exist")
    if last < created:
        raise MalformedError("order", f"{name} was touched at {last}, before it was created at {created}")
    if found.offset > found.length:
        raise MalformedError(
            "offset", f"{name} is read up to byte {found.offset} and {found.length} bytes long"
        )
    return found, at


def encode_snapshot(descriptors: Iterable[Descriptor]) -> bytes:
    """Descriptors in the order of their creation, so that equal states have equal bytes."""
    return b"".join(item.encode() for item in sorted(descriptors, key=lambda item: item.id))


def read_snapshot(buffer: Bytes) -> Iterator[tuple[int, Descriptor]]:
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

LOG_HEADER = Table(
    "little", Field("frame size", "u64", "{} bytes"), Field("greatest payload", "u64", "{} bytes")
)
_EVENT = Table(
    "little", state_id("state id", "operation {}"), Field("payload length", "uvarint p", "{} bytes")
)
EVENT = _EVENT + Table("little", Field("payload", "[p]"))
CHECKED_EVENT = _EVENT + Table(
    "little",
    Field("payload", "[p-4]"),
    Field("checksum", "u32", "CRC-32/MPEG-2 of the event; fits"),
)
LOG_HEADER_SIZE = LOG_HEADER.size
EVENT_HEADER_SIZE = EVENT.head.size


def operations_frame(longest: int) -> tuple[int, int]:
    """Frame size and greatest payload of an operation log in which an event of `longest` bytes has room."""
    frame, limit = OPERATIONS_FRAME
    return max(frame, longest), max(limit, longest - (frame - limit))


def encode_log_header(frame: int, limit: int) -> bytes:
    return LOG_HEADER.encode(frame, limit)


def read_log_header(buffer: Bytes) -> tuple[int, int]:
    """Frame size and greatest payload."""
    if len(buffer) < LOG_HEADER_SIZE:
        raise MalformedError("header", f"a header of {LOG_HEADER_SIZE} bytes is cut to {len(buffer)}")
    (frame, limit), _ = LOG_HEADER.decode(buffer)
    long = frame <= LONG_FRAME_SIZE_MAX and (frame, limit) == operations_frame(frame)
    if (frame > FRAME_SIZE_MAX and not long) or limit < EVENT_SIZE_MIN or frame < limit:
        raise MalformedError(
            "header", f"the header asks for frames of {frame} bytes and payloads up to {limit}"
        )
    return frame, limit


def padding_before(position: int, frame: int, size: int) -> int:
    """Zeros to write before an event of `size` bytes at `position`, so that it lies in one frame."""
    rest = frame - (position - LOG_HEADER_SIZE) % frame
    return rest if size > rest else 0


def framed(at: int, frame: int, events: Iterable[bytes | bytearray | memoryview]) -> bytes:
    """Events in a row from `at` on, with zeros where one has no room in its frame."""
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

CREATE = 1


class Kind(NamedTuple):
    """A kind of operations: its code, what it is called, its class, and the payload of its events."""

    code: int
    word: str
    type: type[Any]
    payload: Table


CODE = Field("code", "u32")


def kind(
    code: int, word: str, type_: type[Any], *fields: Field, make: Callable[..., Any] | None = None
) -> Kind:
    return Kind(
        code,
        word,
        type_,
        Table("little", replace(CODE, value=code), *fields, make=make or type_),
    )


CHANGES = (
    kind(CREATE, "create", Create, DELAY, moment("now")),
    kind(2, "stop-writing", StopWriting, *named()),
    kind(3, "delete", Delete, *named()),
    kind(4, "open-to-read", OpenToRead, *named()),
    kind(5, "shift", Shift, *named(), Field("size", "uvarint", "{} bytes more are read")),
)
_BY_CODE = {kind.code: kind for kind in CHANGES}
_BY_TYPE = {kind.type: kind for kind in CHANGES}


def encode_change(change: Change) -> bytes:
    return _BY_TYPE[type(change)].payload.encode(*change)


def read_change(payload: Bytes) -> Change:
    """The change in a payload; raises for trailing bytes and unknown codes."""
    if len(payload) < 4:
        raise CODE.cut(4, len(payload))
    code = int.from_bytes(payload[:4], "little")
    if code not in _BY_CODE:
        raise MalformedError("unknown", f"{code} is not the code of an operation")
    change: Change
    change, at = _BY_CODE[code].payload.decode(payload)
    if isinstance(change, Create) and change.delay == 0:
        raise MalformedError("delay", "a file cannot be bound to a delay of 0 seconds")
    if isinstance(change, Create) and change.now + change.delay > TIME_MAX:
        raise MalformedError("time", f"{change.now} is not a time in seconds")
    if at != len(payload):
        raise MalformedError("trailing", f"{len(payload) - at} bytes follow the operation")
    return change
