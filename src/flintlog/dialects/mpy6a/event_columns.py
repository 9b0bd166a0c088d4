"""The payloads of a log's events to columns: which operation, on which file or session, with which numbers.

Compiled for large logs. A field that an operation does not have is -1 (`NONE`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flintlog.columns.compile import helper, kernel, le32, le64
from flintlog.columns.table import Columns
from flintlog.dialects.mpy6a import layout as lay
from flintlog.dialects.mpy6a.integers import signed, uvarint_at
from flintlog.dialects.mpy6a.operations import CHECKSUM_SIZE
from flintlog.dialects.mpy6a.scan import Events

NONE = -1
_SESSION, _TOPIC, _ATTEMPTS = (lay.RECORD.offset(name) for name in ("session id", "topic", "attempts"))
_RECORD_SIZE_MIN = lay.RECORD_SIZE_MIN
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class EventColumns(Columns):
    """More columns for the rows of `Events`. Offsets count from the beginning of the log."""

    code: Ints  # NONE: the payload cannot be read
    name: Ints  # where a file name begins
    name_length: Ints
    delay: Ints
    time: Ints  # the replay time, or for create the time now
    offset: Ints  # in the named file
    size: Ints  # bytes in the named file
    topic: Ints
    has_topic: NDArray[np.bool_]
    session: Ints  # where a session id begins
    number: Ints  # of records, or of open sessions
    data: Ints  # where the rest begins: data, or records
    length: Ints


def _seconds(buffer: Any, at: int) -> Any:
    return np.int64(le64(buffer, at) & np.uint64(0x7FFFFFFFFFFFFFFF))


@helper(compiled=_seconds)
def seconds(buffer: Any, at: int) -> int:
    """A time without its highest bit, which no time uses."""
    return le64(buffer, at) & 0x7FFFFFFFFFFFFFFF


def _ascii(buffer: Any, at: int, size: int) -> Any:
    high = np.uint8(0)
    for place in range(at, at + size):
        high |= buffer[place]
    return high < 0x80


@helper(compiled=_ascii)
def is_ascii(buffer: Any, at: int, size: int) -> bool:
    """Are all bytes of a name below 128?"""
    return bytes(buffer[at : at + size]).isascii()


@kernel
def _read_columns(
    buffer: Any,
    offset: Any,
    payload: Any,
    length: Any,
    checksum: int,
    code: Any,
    name: Any,
    name_length: Any,
    delay: Any,
    time: Any,
    place: Any,
    size: Any,
    topic: Any,
    has_topic: Any,
    session: Any,
    number: Any,
    data: Any,
    data_length: Any,
) -> None:
    for row in range(len(offset)):
        at = payload[row]
        end = at + length[row] - checksum
        if end - at < 4:
            continue
        which = le32(buffer, at)
        at += 4
        record = -1
        if which == 1:  # create
            if end - at < 12:
                continue
            delay[row] = le32(buffer, at)
            time[row] = seconds(buffer, at + 4)
        elif (which >= 2 and which <= 5) or (which >= 12 and which <= 15):  # a file is named
            count, at = uvarint_at(buffer, at, end)
            if at < 0 or count > np.uint64(end - at):
                continue
            if not is_ascii(buffer, at, signed(count)):
                continue
            name[row] = at
            name_length[row] = signed(count)
            at += signed(count)
            if which == 5:
                count, at = uvarint_at(buffer, at, end)
                if at < 0 or count >> np.uint64(63) != 0:
                    continue
                size[row] = signed(count)
            elif which >= 12:
                first, at = uvarint_at(buffer, at, end)
                if at < 0 or first >> np.uint64(63) != 0:
                    continue
                count, at = uvarint_at(buffer, at, end)
                if at < 0 or count >> np.uint64(63) != 0:
                    continue
                place[row] = signed(first)
                size[row] = signed(count)
                if which == 14:
                    if end - at < 4:
                        continue
                    delay[row] = le32(buffer, at)
                    at += 4
                if which != 13:
                    record = at
        elif which == 6:  # new
            if end - at < 4:
                continue
            topic[row] = le32(buffer, at)
            has_topic[row] = True
            session[row] = offset[row]
            data[row] = at + 4
        elif which >= 7 and which <= 10:  # a session is named
            if end - at < 16:
                continue
            session[row] = at
            at += 16
            if which == 10:
                if end - at < 12:
                    continue
                delay[row] = le32(buffer, at)
                time[row] = seconds(buffer, at + 4)
            elif which != 9:
                data[row] = at
        elif which == 11:  # put
            if end - at < 4:
                continue
            delay[row] = le32(buffer, at)
            count, at = uvarint_at(buffer, at + 4, end)
            if at < 0 or count >> np.uint64(63) != 0:
                continue
            number[row] = signed(count)
            record = at
        elif which == 32:  # base
            count, at = uvarint_at(buffer, at, end)
            if at < 0 or count >> np.uint64(63) != 0:
                continue
            number[row] = signed(count)
        elif which == 33:  # open
            if end - at < 36:
                continue
            session[row] = at
            topic[row] = le32(buffer, at + 32)
            has_topic[row] = True
            _, at = uvarint_at(buffer, at + 36, end)
            if at < 0:
                continue
            count, at = uvarint_at(buffer, at, end)
            if at < 0 or count > np.uint64(end - at):
                continue
            if not is_ascii(buffer, at, signed(count)):
                continue
            if count > np.uint64(0):
                name[row] = at
                name_length[row] = signed(count)
            at += signed(count)
            first, at = uvarint_at(buffer, at, end)
            if at < 0 or first >> np.uint64(63) != 0:
                continue
            count, at = uvarint_at(buffer, at, end)
            if at < 0 or count >> np.uint64(63) != 0:
                continue
            if name[row] >= 0:
                place[row] = signed(first)
                size[row] = signed(count)
            data[row] = at
        else:
            continue
        if record >= 0:
            if end - record < _RECORD_SIZE_MIN:
                continue
            data[row] = record
            time[row] = seconds(buffer, record)
            _, at = uvarint_at(buffer, record + _ATTEMPTS, end)
            if at >= 0:
                count, at = uvarint_at(buffer, at, end)
                if at >= 0 and count == np.uint64(end - at):  # one record, and nothing behind it
                    session[row] = record + _SESSION
                    topic[row] = le32(buffer, record + _TOPIC)
                    has_topic[row] = True
        if topic[row] >= (1 << 31):
            topic[row] -= 1 << 32
        if data[row] >= 0:
            data_length[row] = end - data[row]
        code[row] = which


def read_columns(view: memoryview, events: Events, *, checked: bool) -> EventColumns:
    """The fields of every event."""
    count = len(events)
    columns = {
        name: np.zeros(count, np.bool_) if name == "has_topic" else np.full(count, NONE, np.int64)
        for name in EventColumns.__dataclass_fields__
    }
    _read_columns.run(
        int(events.length.sum()),
        view,
        events.offset,
        events.payload,
        events.length,
        CHECKSUM_SIZE if checked else 0,
        *columns.values(),
    )
    return EventColumns(**columns)  # type: ignore[arg-type]
