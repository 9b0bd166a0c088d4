"""The bytes of a directory field by field, for a person who looks at a hex dump."""

from __future__ import annotations

import time
from collections.abc import Iterator

from flintlog.core.explained import Span, damage, shown
from flintlog.dialects.mpy6a import layout as lay
from flintlog.dialects.mpy6a import operations as ops
from flintlog.dialects.mpy6a.layout import MalformedError
from flintlog.dialects.mpy6a.tables import OPERATIONS

_FLAGS = {0: "neither written nor read", 1: "written", 2: "read", 3: "written and read"}


class _Cursor:
    """Goes through bytes and names what it takes. Offsets count from `base`."""

    def __init__(self, view: memoryview, at: int, end: int, base: int = 0) -> None:
        self.view = view
        self.at = at
        self.end = end
        self.base = base

    def take(self, size: int, name: str, meaning: str) -> Span:
        begin, self.at = self.at, min(self.at + size, self.end)
        return Span(self.base + begin, self.base + self.at, name, meaning)

    def number(self, size: int, name: str, meaning: str = "{}", *, signed: bool = False) -> Span:
        value = int.from_bytes(self.view[self.at : self.at + size], "little", signed=signed)
        if self.at + size > self.end:
            raise MalformedError("cut", f"the bytes end inside {name}")
        return self.take(size, name, meaning.format(value))

    def uvarint(self, name: str, meaning: str = "{}") -> tuple[int, Span]:
        value, end = lay.read_uvarint(self.view[: self.end], self.at)
        return value, self.take(end - self.at, name, meaning.format(value))

    def moment(self, name: str) -> Span:
        value = int.from_bytes(self.view[self.at : self.at + 8], "little")
        return self.number(8, name, f"{{}}{_moment(value)}")

    def state_id(self, name: str, meaning: str) -> Span:
        found = lay.read_state_id(self.view[: self.end], self.at)
        return self.take(16, name, f"{meaning} {found}")

    def name(self) -> Iterator[Span]:
        size, field = self.uvarint("name length")
        yield field
        if size:
            text = bytes(self.view[self.at : min(self.at + size, self.end)])
            yield self.take(size, "name", text.decode("ascii", "backslashreplace"))

    def data(self, name: str = "data") -> Iterator[Span]:
        if self.at < self.end:
            yield self.take(self.end - self.at, name, shown(self.view, self.at, self.end))


def _moment(value: int) -> str:
    if not 0 < value <= lay.TIME_MAX:
        return ""
    return f", {time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(value))} UTC"


# Records


def explain_record(view: memoryview, at: int, base: int) -> Iterator[Span]:
    """One record; `base` is where `view` begins in the file."""
    yield from _record(_Cursor(view, at, len(view), base))


def _record(cursor: _Cursor) -> Iterator[Span]:
    yield cursor.moment("replay time")
    yield cursor.state_id("session id", "session")
    yield cursor.number(4, "topic", signed=True)
    yield cursor.uvarint("attempts")[1]
    size, field = cursor.uvarint("data length", "{} bytes")
    yield field
    inner = _Cursor(cursor.view, cursor.at, min(cursor.at + size, cursor.end), cursor.base)
    yield from inner.data()
    cursor.at = inner.at


# Descriptors


def explain_descriptor(view: memoryview, at: int) -> Iterator[Span]:
    yield from _descriptor(_Cursor(view, at, len(view)))


def _descriptor(cursor: _Cursor) -> Iterator[Span]:
    yield from cursor.name()
    yield cursor.state_id("id", "created by operation")
    yield cursor.state_id("last id", "last touched by operation")
    yield cursor.take(1, "flags", _FLAGS.get(cursor.view[cursor.at], "unknown"))
    yield cursor.uvarint("read position", "{} bytes are read")[1]
    yield cursor.uvarint("length", "{} bytes")[1]
    yield cursor.moment("replay bound")


# Events


def explain_log_header(view: memoryview) -> Iterator[Span]:
    cursor = _Cursor(view, 0, len(view))
    yield cursor.number(8, "frame size", "{} bytes")
    yield cursor.number(8, "greatest payload", "{} bytes")


def explain_event(view: memoryview, before: int, begin: int, end: int, *, checked: bool) -> Iterator[Span]:
    """One event, and the zeros in front of it; `before` is where the event before it ends."""
    cursor = _Cursor(view, before, end)
    if before < begin:
        yield cursor.take(begin - before, "padding", f"{begin - before} zeros up to the end of the frame")
    yield cursor.state_id("state id", "operation")
    yield cursor.uvarint("payload length", "{} bytes")[1]
    cursor.end -= ops.CHECKSUM_SIZE if checked else 0
    try:
        yield from _payload(cursor)
    except MalformedError as problem:
        yield cursor.take(cursor.end - cursor.at, "rest", problem.message)
    if cursor.at < cursor.end:
        yield cursor.take(cursor.end - cursor.at, "rest", "behind the operation; it has no meaning")
    if checked:
        cursor.end = end
        yield cursor.take(ops.CHECKSUM_SIZE, "checksum", "CRC-32/MPEG-2 of the event; fits")


def _payload(cursor: _Cursor) -> Iterator[Span]:
    code = int.from_bytes(cursor.view[cursor.at : cursor.at + 4], "little")
    known = OPERATIONS.get(code)
    yield cursor.number(4, "code", f"{{}}: {known or 'not the code of an operation'}")
    if code == lay.CREATE:
        yield cursor.number(4, "delay", "{} seconds")
        yield cursor.moment("now")
    elif code == ops.NEW:
        yield cursor.number(4, "topic", signed=True)
        yield from cursor.data()
    elif code in (ops.APPEND, ops.REPLACE, ops.DROP, ops.STORE):
        yield cursor.state_id("session id", "session")
        if code == ops.STORE:
            yield cursor.number(4, "delay", "{} seconds")
            yield cursor.moment("replay time")
        elif code != ops.DROP:
            yield from cursor.data()
    elif code == ops.PUT:
        yield cursor.number(4, "delay", "{} seconds")
        yield cursor.uvarint("number", "{} records")[1]
        yield from _records(cursor)
    elif code == ops.BASE:
        yield from _base(cursor)
    elif code == ops.OPEN:
        yield cursor.state_id("session id", "session")
        yield cursor.state_id("last change", "changed by operation")
        yield cursor.number(4, "topic", signed=True)
        yield cursor.uvarint("attempts")[1]
        yield from _place(cursor)
        yield from cursor.data()
    elif known is not None:
        yield from _on_file(cursor, code)


def _on_file(cursor: _Cursor, code: int) -> Iterator[Span]:
    if code in (lay.STOP_WRITING, lay.DELETE, lay.OPEN_TO_READ, lay.SHIFT):
        yield from cursor.name()
        if code == lay.SHIFT:
            yield cursor.uvarint("size", "{} bytes more are read")[1]
        return
    yield from _place(cursor)
    if code == ops.AGAIN:
        yield cursor.number(4, "delay", "{} seconds")
    yield from _records(cursor)


def _place(cursor: _Cursor) -> Iterator[Span]:
    yield from cursor.name()
    yield cursor.uvarint("offset", "byte {}")[1]
    yield cursor.uvarint("size", "{} bytes")[1]


def _records(cursor: _Cursor) -> Iterator[Span]:
    while cursor.at < cursor.end:
        yield from _record(cursor)


def _base(cursor: _Cursor) -> Iterator[Span]:
    yield cursor.uvarint("open sessions")[1]
    places, field = cursor.uvarint("places", "{} that are done with")
    yield field
    yield cursor.number(8, "exhausted", f"{{}} bytes of {lay.EXHAUSTED_FILE}")
    size, field = cursor.uvarint("descriptors", "{} bytes")
    yield field
    behind = min(cursor.at + size, cursor.end)
    while cursor.at < behind:
        yield from _descriptor(cursor)
    for _ in range(places):
        if cursor.at >= cursor.end:
            break
        yield from _place(cursor)


# What is no entry


def explain_reserve(view: memoryview, at: int) -> Span:
    """Zeros behind the last event of an operation log."""
    return Span(at, len(view), "reserve", f"{len(view) - at} zeros, written ahead")


def explain_damage(at: int, end: int, message: str, expected: str | None = None) -> Iterator[Span]:
    """What stands where the entries cannot be read on."""
    if at < end:
        yield damage(at, end, message, expected)
