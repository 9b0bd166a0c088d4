"""The payloads of `operations.log`, encoded and decoded.

Each ends in a checksum (CRC-32/MPEG-2) over the whole event before it. So a reader can tell a partial write from a
whole one, which the note's own files do not allow. Codes 1 to 5 are those of `state.log`. A log begins with the
checkpoint that its operations continue: `base`, and an `open` for each open session.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from flintlog.columns.checksum import crc32_mpeg2
from flintlog.core.fields import Bytes as Bytes
from flintlog.core.fields import Field, Table
from flintlog.dialects.mpy6a import layout as lay
from flintlog.dialects.mpy6a.layout import Change, Descriptor, Kind, MalformedError, StateID, kind

NEW, APPEND, REPLACE, DROP, STORE, PUT, TAKE, FINISH, AGAIN, EXHAUST = range(6, 16)
BASE, OPEN = 32, 33
CHECKSUM_SIZE = 4
_OPEN_HEAD_SIZE_MAX = 256  # of an open session, without its data

_U32 = struct.Struct("<I")


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


# Tables


def _records(raw: Bytes, count: int = 1) -> Bytes:
    """The bytes of records; raises when they are too few for that many."""
    if not 0 < count * lay.RECORD_SIZE_MIN <= len(raw):
        raise MalformedError("records", f"{count} records do not stand in {len(raw)} bytes")
    return raw


PLACE = Table(
    "little",
    *lay.named(lambda raw: lay.read_name(raw) if raw else ""),
    Field("offset", "uvarint", "byte {}"),
    Field("size", "uvarint", "{} bytes"),
    make=Place,
)
_SESSION = lay.state_id("session id")
_RECORDS = Field("records", "*", of=lay.RECORD, read=_records)


def _of_place(code: int, word: str, type_: type[Any], *fields: Field) -> Kind:
    """An operation on the records at a place."""

    def make(name: str, offset: int, size: int, *rest: Any) -> Any:
        return type_(Place(name, offset, size), *rest)

    return kind(code, word, type_, *PLACE.fields, *fields, make=make)


OPERATIONS = (
    *lay.CHANGES,
    # A session is open; its id is the state id of this operation.
    kind(NEW, "new", New, lay.TOPIC, lay.DATA),
    kind(APPEND, "append", Append, _SESSION, lay.DATA),
    kind(REPLACE, "replace", Replace, _SESSION, lay.DATA),
    # It is done.
    kind(DROP, "drop", Drop, _SESSION),
    # It waits, as the last record of the newest file of that delay.
    kind(STORE, "store", Store, _SESSION, lay.DELAY, lay.moment("replay time")),
    # New sessions that are stored at once; the operation takes as many state ids as there are records.
    kind(
        PUT,
        "put",
        Put,
        lay.DELAY,
        Field("number", "uvarint", "{} records"),
        Field("records", "*", of=lay.RECORD, read=memoryview),
    ),
    # A session that waited is open, because it is changed.
    _of_place(TAKE, "take", Take, Field("record", "*", of=lay.RECORD, read=lambda raw: bytes(_records(raw)))),
    # The records at this place are done.
    _of_place(FINISH, "finish", Finish),
    # They are done there, and wait anew here.
    _of_place(AGAIN, "again", Again, lay.DELAY, _RECORDS),
    # They were replayed too often and become exhausted.
    _of_place(EXHAUST, "exhaust", Exhaust, _RECORDS),
)


def _made_base(sessions: int, places: int, exhausted: int, described: bytes, finished: bytes) -> Base:
    descriptors, at = list[Descriptor](), 0
    while at < len(described):
        descriptor, at = lay.read_descriptor(described, at)
        descriptors.append(descriptor)
    done, at = list[Place](), 0
    for _ in range(min(places, len(finished) + 1)):
        place, at = PLACE.decode(finished, at)
        done.append(place)
    _expect_end(finished, at)
    return Base(sessions, exhausted, tuple(descriptors), tuple(done))


def _made_open(
    session: StateID,
    last_change: StateID,
    topic: int,
    attempts: int,
    name: str,
    offset: int,
    size: int,
    data: bytes,
) -> Open:
    place = Place(name, offset, size) if name else None
    return Open(session, last_change, topic, attempts, place, data)


def _expect_end(body: Bytes, at: int) -> None:
    if at != len(body):
        raise MalformedError("trailing", f"{len(body) - at} bytes follow the operation")


# The checkpoint: this event, and one for each open session. A session that never waited has a place without a name.
_BASE = kind(
    BASE,
    "base",
    Base,
    Field("open sessions", "uvarint"),
    Field("places", "uvarint", "{} that are done with"),
    Field("exhausted", "u64", f"{{}} bytes of {lay.EXHAUSTED_FILE}", "u64 bytes"),
    Field("descriptors", "uvarint d", "{} bytes"),
    Field("descriptors", "[d]", of=lay.DESCRIPTOR),
    Field("places", "*", of=PLACE),
    make=_made_base,
)
_OPEN = kind(
    OPEN,
    "open",
    Open,
    _SESSION,
    lay.state_id("last change", "changed by operation {}"),
    lay.TOPIC,
    lay.ATTEMPTS,
    *PLACE.fields,
    lay.DATA,
    make=_made_open,
)
KINDS = {kind.code: kind for kind in (*OPERATIONS, _BASE, _OPEN)}
_BY_TYPE = {kind.type: kind for kind in OPERATIONS}


# Encoding


def encode(state_id: StateID, operation: Operation) -> bytearray:
    """One event of `operations.log`."""
    parts = _BY_TYPE[type(operation)].payload.parts
    if isinstance(operation[0], Place):
        return _event(state_id, parts(*operation[0], *operation[1:]))
    return _event(state_id, parts(*operation))


def encode_base(state_id: StateID, base: Base) -> bytearray:
    parts = _BASE.payload.parts(
        base.sessions,
        len(base.finished),
        base.exhausted,
        b"".join(item.encode() for item in base.descriptors),
        b"".join(PLACE.encode(*place) for place in base.finished),
    )
    return _event(state_id, parts)


def encode_open(state_id: StateID, session: Open) -> bytearray:
    place = session.place or Place("", 0, 0)
    return _event(state_id, _OPEN.payload.parts(*session[:4], *place, session.data))


def _event(state_id: StateID, parts: tuple[Bytes, ...]) -> bytearray:
    head = lay.encode_state_id(state_id) + lay.uvarint(sum(map(len, parts)) + CHECKSUM_SIZE)
    event = bytearray().join((head, *parts, bytes(CHECKSUM_SIZE)))  # one copy: records come by the megabyte
    end = len(event) - CHECKSUM_SIZE
    _U32.pack_into(event, end, crc32_mpeg2(memoryview(event), 0, end))
    return event


def checkpoint(state_id: StateID, base: Base, sessions: Iterable[Open]) -> Iterator[bytes]:
    """A whole log that holds a checkpoint and nothing else, in pieces."""
    return checkpoint_with_room(state_id, base, sessions, 0)[1]


def checkpoint_with_room(
    state_id: StateID, base: Base, sessions: Iterable[Open], longest: int
) -> tuple[int, Iterator[bytes]]:
    """A checkpoint, and the size of its frames: an event of `longest` bytes has room in one."""
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


def decode(payload: memoryview) -> Operation:
    """The operation of a payload whose checksum fits."""
    code = int.from_bytes(payload[:4], "little")
    body = payload[: len(payload) - CHECKSUM_SIZE]
    if not NEW <= code <= EXHAUST:
        return lay.read_change(body)
    operation: Operation
    operation, at = KINDS[code].payload.decode(body)
    _expect_end(body, at)
    if isinstance(operation, Put):
        _records(operation.records, operation.number)
    return operation


def decode_base(payload: memoryview) -> Base:
    base: Base = _checkpoint(payload, _BASE, "the log does not begin with a checkpoint")
    return base


def decode_open(payload: memoryview) -> Open:
    session: Open = _checkpoint(payload, _OPEN, "the checkpoint announces more open sessions than it has")
    return session


def _checkpoint(payload: memoryview, kind: Kind, message: str) -> Any:
    if int.from_bytes(payload[:4], "little") != kind.code:
        raise MalformedError("base", message)
    return kind.payload.decode(payload[: len(payload) - CHECKSUM_SIZE])[0]
