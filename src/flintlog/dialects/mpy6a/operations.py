"""The payloads of `operations.log`, encoded and decoded.

Each is a u32 code, its fields, and a checksum (CRC-32/MPEG-2, u32) over the whole event before it. So a write that
arrived in part is told from one that arrived whole, which the note's own files cannot do.

Codes 1 to 5 are those of `state.log`. The others:

     6 new       i32 topic | data                    a session is open; its id is the state id of this operation
     7 append    session id | data
     8 replace   session id | data
     9 drop      session id                          it is done with
    10 store     session id | u32 delay | u64 time   it waits, as the last record of the newest file of that delay
    11 put       u32 delay | uvarint count | records sessions that are stored as soon as they are made; they take
                                                     as many state ids as there are records
    12 take      bytes name | uvarint offset | uvarint size | record
                                                     a session that waited is open, because it is changed
    13 finish    bytes name | uvarint offset | uvarint size
                                                     the records at this place are done with
    14 again     bytes name | uvarint offset | uvarint size | u32 delay | records
                                                     they are done with there, and wait anew here
    15 exhaust   bytes name | uvarint offset | uvarint size | records
                                                     they were tried too often and are set aside

and, at the beginning of the file, the checkpoint that the operations continue:

    32 base      uvarint: number of open sessions, then of places done with | u64 length of exhausted.sessions
                 | bytes descriptors | for each place: bytes name, uvarint offset, uvarint size
    33 open      an open session: session id | last changed by: state id | i32 topic | uvarint attempts
                 | bytes name, empty for one that never waited | uvarint offset | uvarint size | data
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from flintlog.columns.checksum import crc32_mpeg2
from flintlog.dialects.mpy6a import layout as lay
from flintlog.dialects.mpy6a.layout import Change, Descriptor, MalformedError, StateID

NEW, APPEND, REPLACE, DROP, STORE, PUT, TAKE, FINISH, AGAIN, EXHAUST = range(6, 16)
BASE, OPEN = 32, 33
CHECKSUM_SIZE = 4
_OPEN_HEAD_SIZE_MAX = 256  # of an open session, without its data

_U32 = struct.Struct("<I")
_I32 = struct.Struct("<i")
_U64 = struct.Struct("<Q")
Bytes = bytes | bytearray | memoryview


class Place(NamedTuple):
    """Where records stand in a data file."""

    name: str
    offset: int
    size: int

    def holds(self, other: Place) -> bool:
        return self.name == other.name and self.offset <= other.offset < self.offset + self.size


class New(NamedTuple):
    topic: int
    data: bytes


class Append(NamedTuple):
    session: StateID
    data: bytes


class Replace(NamedTuple):
    session: StateID
    data: bytes


class Drop(NamedTuple):
    session: StateID


class Store(NamedTuple):
    session: StateID
    delay: int
    replay_time: int


class Put(NamedTuple):
    delay: int
    number: int
    records: Bytes


class Take(NamedTuple):
    place: Place
    record: bytes


class Finish(NamedTuple):
    place: Place


class Again(NamedTuple):
    place: Place
    delay: int
    records: Bytes


class Exhaust(NamedTuple):
    place: Place
    records: Bytes


Operation = Change | New | Append | Replace | Drop | Store | Put | Take | Finish | Again | Exhaust


class Base(NamedTuple):
    """A checkpoint: what the operations behind it continue."""

    sessions: int
    exhausted: int
    descriptors: tuple[Descriptor, ...]
    finished: tuple[Place, ...]


class Open(NamedTuple):
    """An open session of a checkpoint."""

    id: StateID
    last_change: StateID
    topic: int
    attempts: int
    place: Place | None
    data: bytes


# Encoding


def _place(place: Place) -> bytes:
    return lay.encode_bytes(place.name.encode()) + lay.uvarint(place.offset) + lay.uvarint(place.size)


def _fields(operation: Operation) -> tuple[int, list[Bytes]]:
    match operation:
        case New(topic, data):
            return NEW, [_I32.pack(topic), data]
        case Append(session, data):
            return APPEND, [lay.encode_state_id(session), data]
        case Replace(session, data):
            return REPLACE, [lay.encode_state_id(session), data]
        case Drop(session):
            return DROP, [lay.encode_state_id(session)]
        case Store(session, delay, replay_time):
            return STORE, [lay.encode_state_id(session), _U32.pack(delay), _U64.pack(replay_time)]
        case Put(delay, count, records):
            return PUT, [_U32.pack(delay), lay.uvarint(count), records]
        case Take(place, record):
            return TAKE, [_place(place), record]
        case Finish(place):
            return FINISH, [_place(place)]
        case Again(place, delay, records):
            return AGAIN, [_place(place), _U32.pack(delay), records]
        case Exhaust(place, records):
            return EXHAUST, [_place(place), records]
        case _:
            payload = lay.encode_change(operation)
            return int.from_bytes(payload[:4], "little"), [payload[4:]]


def encode(state_id: StateID, operation: Operation) -> bytearray:
    """One event of `operations.log`."""
    code, fields = _fields(operation)
    return _event(state_id, code, fields)


def encode_base(state_id: StateID, base: Base) -> bytearray:
    descriptors = b"".join(item.encode() for item in base.descriptors)
    return _event(
        state_id,
        BASE,
        [
            lay.uvarint(base.sessions),
            lay.uvarint(len(base.finished)),
            _U64.pack(base.exhausted),
            lay.encode_bytes(descriptors),
            *map(_place, base.finished),
        ],
    )


def encode_open(state_id: StateID, session: Open) -> bytearray:
    return _event(
        state_id,
        OPEN,
        [
            lay.encode_state_id(session.id),
            lay.encode_state_id(session.last_change),
            _I32.pack(session.topic),
            lay.uvarint(session.attempts),
            _place(session.place or Place("", 0, 0)),
            session.data,
        ],
    )


def _event(state_id: StateID, code: int, fields: list[Bytes]) -> bytearray:
    size = 4 + sum(map(len, fields)) + CHECKSUM_SIZE
    head = lay.encode_state_id(state_id) + lay.uvarint(size) + _U32.pack(code)
    event = bytearray().join((head, *fields, bytes(CHECKSUM_SIZE)))  # one copy: records come by the megabyte
    end = len(event) - CHECKSUM_SIZE
    _U32.pack_into(event, end, crc32_mpeg2(memoryview(event), 0, end))
    return event


def checkpoint(state_id: StateID, base: Base, sessions: Iterable[Open]) -> Iterator[bytes]:
    """A whole log that holds a checkpoint and nothing else, in pieces."""
    return checkpoint_with_room(state_id, base, sessions, 0)[1]


def checkpoint_with_room(
    state_id: StateID, base: Base, sessions: Iterable[Open], longest: int
) -> tuple[int, Iterator[bytes]]:
    """The same, and the size of its frames: an event of `longest` bytes has room in one."""
    sessions = list(sessions)
    first = encode_base(state_id, base)
    sizes = (_OPEN_HEAD_SIZE_MAX + len(item.data) for item in sessions)
    frame, limit = lay.operations_frame(max(longest, len(first), *sizes, 0))

    def pieces() -> Iterator[bytes]:
        yield lay.encode_log_header(frame, limit)
        yield bytes(first)
        at = lay.LOG_HEADER_SIZE + len(first)
        for item in sessions:
            event = encode_open(state_id, item)
            padding = lay.padding_before(at, frame, len(event))
            yield bytes(padding) + event
            at += padding + len(event)

    return frame, pieces()


def is_whole(event: memoryview) -> bool:
    """Does the checksum at the end of an event fit?"""
    end = len(event) - CHECKSUM_SIZE
    return end >= 21 and crc32_mpeg2(event, 0, end) == int.from_bytes(event[end:], "little")


# Decoding


def _read_place(payload: memoryview, at: int) -> tuple[Place, int]:
    raw, at = lay.read_bytes(payload, at)
    offset, at = lay.read_uvarint(payload, at)
    size, at = lay.read_uvarint(payload, at)
    return Place(lay.read_name(raw) if raw else "", offset, size), at


def _read_session(payload: memoryview, at: int) -> tuple[StateID, int]:
    return lay.read_state_id(payload, at), at + 16


def _read_new(body: memoryview) -> Operation:
    return New(_read_i32(body, 0)[0], bytes(body[4:]))


def _read_append(body: memoryview) -> Operation:
    session, at = _read_session(body, 0)
    return Append(session, bytes(body[at:]))


def _read_replace(body: memoryview) -> Operation:
    session, at = _read_session(body, 0)
    return Replace(session, bytes(body[at:]))


def _read_drop(body: memoryview) -> Operation:
    session, at = _read_session(body, 0)
    _expect_end(body, at)
    return Drop(session)


def _read_store(body: memoryview) -> Operation:
    session, at = _read_session(body, 0)
    delay, at = lay.read_u32(body, at)
    replay_time, at = lay.read_u64(body, at)
    _expect_end(body, at)
    return Store(session, delay, replay_time)


def _records(body: memoryview, at: int, count: int = 1) -> memoryview:
    """The rest of a payload, which has room for at least so many records."""
    if not 0 < count * lay.RECORD_SIZE_MIN <= len(body) - at:
        raise MalformedError("records", f"{count} records do not stand in {len(body) - at} bytes")
    return body[at:]


def _read_put(body: memoryview) -> Operation:
    delay, at = lay.read_u32(body, 0)
    count, at = lay.read_uvarint(body, at)
    return Put(delay, count, _records(body, at, count))


def _read_take(body: memoryview) -> Operation:
    place, at = _read_place(body, 0)
    return Take(place, bytes(_records(body, at)))


def _read_finish(body: memoryview) -> Operation:
    place, at = _read_place(body, 0)
    _expect_end(body, at)
    return Finish(place)


def _read_again(body: memoryview) -> Operation:
    place, at = _read_place(body, 0)
    delay, at = lay.read_u32(body, at)
    return Again(place, delay, _records(body, at))


def _read_exhaust(body: memoryview) -> Operation:
    place, at = _read_place(body, 0)
    return Exhaust(place, _records(body, at))


_READERS: dict[int, Callable[[memoryview], Operation]] = {
    NEW: _read_new,
    APPEND: _read_append,
    REPLACE: _read_replace,
    DROP: _read_drop,
    STORE: _read_store,
    PUT: _read_put,
    TAKE: _read_take,
    FINISH: _read_finish,
    AGAIN: _read_again,
    EXHAUST: _read_exhaust,
}


def decode(payload: memoryview) -> Operation:
    """The operation of a payload whose checksum fits."""
    code = int.from_bytes(payload[:4], "little")
    body = payload[: len(payload) - CHECKSUM_SIZE]
    reader = _READERS.get(code)
    return reader(body[4:]) if reader is not None else lay.read_change(body)


def decode_base(payload: memoryview) -> Base:
    body = payload[4 : len(payload) - CHECKSUM_SIZE]
    if int.from_bytes(payload[:4], "little") != BASE:
        raise MalformedError("base", "the log does not begin with a checkpoint")
    sessions, at = lay.read_uvarint(body, 0)
    places, at = lay.read_uvarint(body, at)
    exhausted, at = lay.read_u64(body, at)
    raw, at = lay.read_bytes(body, at)
    descriptors = []
    inside = 0
    while inside < len(raw):
        descriptor, inside = lay.read_descriptor(raw, inside)
        descriptors.append(descriptor)
    finished = []
    for _ in range(min(places, len(body))):
        place, at = _read_place(body, at)
        finished.append(place)
    _expect_end(body, at)
    return Base(sessions, exhausted, tuple(descriptors), tuple(finished))


def decode_open(payload: memoryview) -> Open:
    if int.from_bytes(payload[:4], "little") != OPEN:
        raise MalformedError("base", "the checkpoint announces more open sessions than it has")
    body = payload[4 : len(payload) - CHECKSUM_SIZE]
    session, at = _read_session(body, 0)
    last_change, at = _read_session(body, at)
    topic, at = _read_i32(body, at)
    attempts, at = lay.read_uvarint(body, at)
    place, at = _read_place(body, at)
    return Open(session, last_change, topic, attempts, place if place.name else None, bytes(body[at:]))


def _read_i32(body: memoryview, at: int) -> tuple[int, int]:
    value, end = lay.read_u32(body, at)
    return value - (1 << 32) if value >> 31 else value, end


def _expect_end(body: memoryview, at: int) -> None:
    if at != len(body):
        raise MalformedError("trailing", f"{len(body) - at} bytes follow the operation")
