"""Files to columns: the records of a data file, the events of a log, and where and why reading stopped.

One pass, compiled for large input. It finds the place and the fields of each; data stays in the file.

*Torn or damaged.* The last file of a chain and the logs grow by one write and one sync at a time. What a crash can
leave at their end is torn, and none of it was acknowledged:

- a record or event that the file's end cuts,
- zeros up to the end,
- a record whose replay time lacks its highest byte, with none behind it that are due at different times, or an
  event whose length is zero: that byte is written only when everything behind it is durable, so it commits the
  whole write (see `store/note_files.py`),
- in `operations.log`, which has checksums, a bad event with no good one behind it, or with a sector of zeros before
  those, all within the size of one commit.

A good record or event behind a cut one is damage, and so is everything else: times that go back, term 0 or
replay time 0 before other bytes, numbers of more than 64 bits. In a file that is no longer written everything
is damage.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flintlog.columns.checksum import crc32_mpeg2
from flintlog.columns.compile import kernel, le32, le64
from flintlog.columns.table import Columns
from flintlog.columns.zeros import SECTOR_SIZE, has_zero_sector, zeros_from
from flintlog.core.finding import Damage
from flintlog.dialects.mpy6a import layout as lay
from flintlog.dialects.mpy6a.integers import signed, uvarint_at

COMMIT_BYTES_MAX = 8 << 20  # a store writes and syncs at most this much at once, or one larger event
_CHUNK = 1 << 17  # rows per pass of a kernel
_AHEAD_SECONDS = 1 << 28  # how far behind its predecessor a record can plausibly be due
_PLAUSIBLE_TERM = 1 << 32
_TERMS_AHEAD = 1 << 16
_TIME_MAX = lay.TIME_MAX
# Where the fields of a record and of an event stand. A state id is its term, then its index.
_TERM_AT = lay.RECORD.offset("session id")
_TOPIC_AT = lay.RECORD.offset("topic")
_ATTEMPTS_AT = lay.RECORD.offset("attempts")
_RECORD_SIZE_MIN = lay.RECORD_SIZE_MIN
_INDEX = lay.STATE_ID_SIZE // 2
_LOG_HEADER = lay.LOG_HEADER_SIZE
_LENGTH_AT = lay.EVENT.offset("payload length")
_EVENT_SIZE_MIN = lay.EVENT_SIZE_MIN

# Why a scan stopped.
END = 0
CUT = 1  # the file ends inside
TERM = 2  # term 0
TIME = 3  # a replay time that cannot be
ORDER = 4  # a replay time below the one before, or below what the descriptor promises
NUMBER = 5  # a uvarint of more than 64 bits
PAYLOAD = 6  # an event without payload, or with more than the log allows
CHECKSUM = 7
_FULL = 8


# Records


@dataclass(frozen=True, slots=True)
class Records(Columns):
    """Columns of records in file order. Offsets count from the beginning of the buffer."""

    offset: NDArray[np.int64]
    size: NDArray[np.int64]
    replay_time: NDArray[np.int64]
    term: NDArray[np.uint64]
    index: NDArray[np.uint64]
    topic: NDArray[np.int32]
    attempts: NDArray[np.uint64]
    data: NDArray[np.int64]
    length: NDArray[np.int64]

    def moved(self, distance: int) -> Records:
        """The same records, with offsets from another place."""
        return replace(self, offset=self.offset + distance, data=self.data + distance)


@dataclass(frozen=True, slots=True)
class Stop:
    """Where and why a scan stopped."""

    offset: int
    reason: int

    @property
    def good(self) -> bool:
        return self.reason == END


@kernel
def _scan_records(
    buffer: Any,
    start: int,
    end: int,
    before: int,
    ordered: bool,
    offset: Any,
    size: Any,
    replay_time: Any,
    term: Any,
    index: Any,
    topic: Any,
    attempts: Any,
    data: Any,
    length: Any,
) -> tuple[int, int, int]:
    at = start
    count = 0
    previous = before
    while True:
        if at == end:
            return count, at, END
        if count == len(offset):
            return count, at, _FULL
        if end - at < _ATTEMPTS_AT:
            return count, at, CUT
        time = le64(buffer, at)
        if time == 0 or time > np.uint64(_TIME_MAX):
            return count, at, TIME
        record_term = le64(buffer, at + _TERM_AT)
        if record_term == 0:
            return count, at, TERM
        due = signed(time)
        if due < previous:
            return count, at, ORDER
        record_topic = le32(buffer, at + _TOPIC_AT)
        record_attempts, place = uvarint_at(buffer, at + _ATTEMPTS_AT, end)
        if place < 0:
            return count, at, CUT if place == -1 else NUMBER
        data_size, place = uvarint_at(buffer, place, end)
        if place < 0:
            return count, at, CUT if place == -1 else NUMBER
        if data_size > np.uint64(end - place):
            return count, at, CUT
        offset[count] = at
        replay_time[count] = due
        term[count] = record_term
        index[count] = le64(buffer, at + _TERM_AT + _INDEX)
        topic[count] = record_topic - (1 << 32) if record_topic >= (1 << 31) else record_topic
        attempts[count] = record_attempts
        data[count] = place
        length[count] = signed(data_size)
        place += signed(data_size)
        size[count] = place - at
        if ordered:
            previous = due
        at = place
        count += 1


def scan_records(
    buffer: memoryview,
    start: int = 0,
    end: int | None = None,
    before: int = 0,
    limit: int = _CHUNK,
    *,
    ordered: bool = True,
) -> tuple[Records, Stop | None]:
    """Up to `limit` records from `start` on, none due before `before`. The stop is None when there may be more.

    `ordered` says that times may not go back; in the file of exhausted sessions they may.
    """
    size = len(buffer) if end is None else end
    capacity = min(limit, max(size - start, 0) // lay.RECORD_SIZE_MIN + 1)
    columns = Records.room(capacity)
    count, at, reason = _scan_records.run(size - start, buffer, start, size, before, ordered, *columns)
    records = Records.filled(columns, count)
    return records, None if reason == _FULL else Stop(int(at), int(reason))


def record_batches(
    buffer: memoryview,
    start: int = 0,
    end: int | None = None,
    before: int = 0,
    limit: int = _CHUNK,
    *,
    ordered: bool = True,
) -> Iterator[tuple[Records, Stop | None]]:
    """All records from `start` on in batches; the last one comes with the stop."""
    while True:
        records, stop = scan_records(buffer, start, end, before, limit, ordered=ordered)
        yield records, stop
        if stop is not None:
            return
        start = int(records.offset[-1] + records.size[-1])
        before = int(records.replay_time[-1]) if ordered else before


def judge_records(buffer: memoryview, stop: Stop, before: int, *, written: bool) -> Damage | None:
    """Apply the rule of this module to a stop in a data file; None when the file simply ends there.

    The record may not be due before `before`; `written` says that the file may still grow.
    """
    if stop.good:
        return None
    at, left = stop.offset, len(buffer) - stop.offset
    if written and zeros_from(buffer, at) == at:
        message = "torn tail: zeros follow the last record"
        return Damage("record-zeros", message, at, "a record", f"{left} zeros", True)
    torn = written and (
        (stop.reason == CUT and record_behind(buffer, at, before) < 0)
        or (
            stop.reason in (ORDER, TIME, TERM)
            and lacks_commit(buffer, at, before)
            and _is_one_commit(buffer, at, before)
        )
    )
    code, message, expected, found = _describe_record(buffer, stop, before)
    return Damage(code, f"torn tail: {message}" if torn else message, at, expected, found, torn)


def lacks_commit(buffer: memoryview, at: int, before: int) -> bool:
    """Is the highest byte of the replay time here still missing? A write puts it last."""
    time = le64(buffer, at)
    return before > 0 and time < 1 << 8 * ((before.bit_length() - 1) // 8)


def _is_one_commit(buffer: memoryview, at: int, before: int) -> bool:
    """Can everything from `at` on be one write that arrived in part? Its records are due at the same time.

    Devices write whole sectors: if the record at `at` lacks more than the byte that commits it, the rest of its sector
    is missing too.
    """
    begin = record_behind(buffer, at, before)
    if begin < 0:
        return True
    due = int(le64(buffer, begin))
    uncommitted = due % (1 << 8 * ((due.bit_length() - 1) // 8))
    if le64(buffer, at) != uncommitted and begin // SECTOR_SIZE == at // SECTOR_SIZE:
        return False
    return all(
        (records.replay_time == due).all() for records, _ in record_batches(buffer, begin, ordered=False)
    )


def _describe_record(buffer: memoryview, stop: Stop, before: int) -> tuple[str, str, str, str]:
    at, left = stop.offset, len(buffer) - stop.offset
    if stop.reason == CUT:
        return "record-cut", "the file ends inside a record", "a whole record", f"{left} bytes"
    if stop.reason == TERM:
        return "record-term", "the session's term is 0", "1 or more", "0"
    if stop.reason == NUMBER:
        return "record-number", "a number of the record has more than 64 bits", "at most 10 bytes", "more"
    time = le64(buffer, at)
    if stop.reason == TIME:
        return "record-time", "the replay time is not a time", "seconds since 1970", str(time)
    return "record-order", "the record is due before its predecessor", f"{before} or later", str(time)


def record_behind(buffer: memoryview, at: int, before: int) -> int:
    """Where, behind `at`, good records begin that reach the end of the file; -1 when there are none.

    A cut record before them then has a wrong length.
    """
    found: int = _search_record.run(len(buffer) - at, buffer, at + 1, len(buffer), before)
    return found


@kernel
def _search_record(buffer: Any, start: int, end: int, before: int) -> int:
    for begin in range(start, end - _RECORD_SIZE_MIN + 1):
        at = begin
        previous = before
        while end - at >= _RECORD_SIZE_MIN:
            time = le64(buffer, at)
            term = le64(buffer, at + _TERM_AT)
            if time >> np.uint64(40) != 0 or term == 0 or term > np.uint64(_PLAUSIBLE_TERM):
                break
            due = signed(time)
            if due < previous or due > previous + _AHEAD_SECONDS:
                break
            _, place = uvarint_at(buffer, at + _ATTEMPTS_AT, end)
            if place < 0:
                break
            size, place = uvarint_at(buffer, place, end)
            if place < 0 or size > np.uint64(end - place):
                break
            at = place + signed(size)
            previous = due
        if at == end:
            return begin
    return -1


# Events


@dataclass(frozen=True, slots=True)
class Events(Columns):
    """Columns of the events of a log, in file order."""

    offset: NDArray[np.int64]
    term: NDArray[np.uint64]
    index: NDArray[np.uint64]
    payload: NDArray[np.int64]
    length: NDArray[np.int64]

    def state_id(self, row: int) -> lay.StateID:
        return lay.StateID(int(self.term[row]), int(self.index[row]))

    def end(self, row: int) -> int:
        return int(self.payload[row] + self.length[row])


@kernel
def _scan_events(
    buffer: Any,
    start: int,
    end: int,
    frame: int,
    limit: int,
    checked: bool,
    offset: Any,
    term: Any,
    index: Any,
    payload: Any,
    length: Any,
) -> tuple[int, int, int]:
    at = start
    count = 0
    while True:
        if at == end:
            return count, at, END
        if count == len(offset):
            return count, at, _FULL
        rest = frame - (at - _LOG_HEADER) % frame
        begin = at
        if rest < _EVENT_SIZE_MIN:
            if end - at < rest:
                return count, begin, CUT
            for place in range(at, at + rest):
                if buffer[place] != 0:
                    return count, begin, TERM
            at += rest
            continue
        if end - at < _LENGTH_AT:
            return count, begin, CUT
        event_term = le64(buffer, at)
        if event_term == 0:
            if end - at < rest:
                return count, begin, CUT
            for place in range(at, at + rest):
                if buffer[place] != 0:
                    return count, begin, TERM
            at += rest
            if end - at >= 8 and le64(buffer, at) == 0:
                return count, begin, TERM
            continue
        size, place = uvarint_at(buffer, at + _LENGTH_AT, end)
        if place < 0:
            return count, begin, CUT if place == -1 else NUMBER
        if size == 0 or size > np.uint64(limit):
            return count, begin, PAYLOAD
        if signed(size) > rest - (place - at):
            return count, begin, PAYLOAD
        if signed(size) > end - place:
            return count, begin, CUT
        stop = place + signed(size)
        if checked:
            if size < 8:
                return count, begin, CHECKSUM
            if crc32_mpeg2(buffer, at, stop - 4) != le32(buffer, stop - 4):
                return count, begin, CHECKSUM
        offset[count] = at
        term[count] = event_term
        index[count] = le64(buffer, at + _INDEX)
        payload[count] = place
        length[count] = signed(size)
        at = stop
        count += 1


@dataclass(frozen=True, slots=True)
class LogScan:
    """The events of a log, and where and why reading stopped. `end` is where the last good event ends."""

    frame: int
    limit: int
    events: Events
    stop: Stop
    end: int


def scan_log(buffer: memoryview, *, checked: bool) -> LogScan:
    """All events of a log; `MalformedError` when its header cannot be one. `checked` events carry checksums."""
    frame, limit = lay.read_log_header(buffer)
    parts: list[Events] = []
    at, reason = lay.LOG_HEADER_SIZE, _FULL
    while reason == _FULL:
        capacity = min(_CHUNK, (len(buffer) - at) // lay.EVENT_SIZE_MIN + 1)
        columns = Events.room(capacity)
        count, at, reason = _scan_events.run(
            len(buffer) - at, buffer, at, len(buffer), frame, limit, checked, *columns
        )
        parts.append(Events.filled(columns, count))
    events = Events.join(parts)
    end = events.end(-1) if len(events) else lay.LOG_HEADER_SIZE
    return LogScan(frame, limit, events, Stop(int(at), int(reason)), int(at) if reason == END else end)


def judge_log(buffer: memoryview, scan: LogScan, *, checked: bool) -> Damage | None:
    """Apply the rule of this module to where a log stops; None when it simply ends there.

    Zeros behind the end of `operations.log` are written ahead and no damage.
    """
    stop = scan.stop
    if stop.good:
        return None
    left = len(buffer) - stop.offset
    if zeros_from(buffer, scan.end) == scan.end:
        if checked:
            return None
        message = "torn tail: zeros follow the last event"
        return Damage("event-zeros", message, scan.end, "an event", f"{left} zeros", True)
    torn = _log_is_torn(buffer, scan, checked)
    code, message, expected, found = _describe_event(buffer, scan)
    if torn and scan.stop.reason == CUT:
        found = f"{len(buffer) - scan.end} bytes"  # the padding before it goes too
    if torn:
        return Damage(code, f"torn tail: {message}", scan.end, expected, found, True)
    return Damage(code, message, stop.offset, expected, found)


def _log_is_torn(buffer: memoryview, scan: LogScan, checked: bool) -> bool:
    stop = scan.stop
    last = scan.events.state_id(-1) if len(scan.events) else lay.StateID(1, 0)

    def behind(begin: int) -> int:
        place: int = _search_event.run(
            max(len(buffer) - begin, 0),
            buffer,
            begin,
            len(buffer),
            scan.limit,
            checked,
            last.term,
            last.index,
        )
        return place

    resumes = behind(stop.offset + 1)
    if checked:
        if resumes < 0:
            return True
        if behind(stop.offset + COMMIT_BYTES_MAX) >= 0:
            return False
        return has_zero_sector(buffer, stop.offset, resumes)
    uncommitted = stop.reason == PAYLOAD and buffer[stop.offset + lay.EVENT_HEADER_SIZE] == 0
    if uncommitted:  # behind a real event without a payload the next one would follow
        return resumes != stop.offset + lay.EVENT_HEADER_SIZE + 1
    return stop.reason == CUT and resumes < 0


@kernel
def _search_event(
    buffer: Any, start: int, end: int, limit: int, checked: bool, last_term: int, last_index: int
) -> int:
    for at in range(start, end - _EVENT_SIZE_MIN + 1):
        term = le64(buffer, at)
        if term < np.uint64(last_term) or term > np.uint64(last_term) + np.uint64(_TERMS_AHEAD):
            continue
        index = le64(buffer, at + _INDEX)
        if term == np.uint64(last_term) and index <= np.uint64(last_index):
            continue
        size, place = uvarint_at(buffer, at + _LENGTH_AT, end)
        if place < 0 or size < 8 or size > np.uint64(limit) or size > np.uint64(end - place):
            continue
        stop = place + signed(size)
        if checked:
            if crc32_mpeg2(buffer, at, stop - 4) == le32(buffer, stop - 4):
                return at
        else:
            code = le32(buffer, place)
            if code >= 1 and code <= 5:
                return at
    return -1


def _describe_event(buffer: memoryview, scan: LogScan) -> tuple[str, str, str, str]:
    at, reason = scan.stop.offset, scan.stop.reason
    left = len(buffer) - at
    if reason == CUT:
        return "event-cut", "the file ends inside an event or its padding", "a whole event", f"{left} bytes"
    if reason == TERM:
        return "event-padding", "what should fill the frame is not zero", "zeros", "other bytes"
    if reason == NUMBER:
        return "event-number", "the payload's length has more than 64 bits", "at most 10 bytes", "more"
    size, place = uvarint_at(buffer, at + lay.EVENT_HEADER_SIZE, len(buffer))
    if reason == PAYLOAD:
        room = min(scan.limit, scan.frame - (at - lay.LOG_HEADER_SIZE) % scan.frame - (place - at))
        return "event-length", "the payload's length is out of range", f"1 to {room} bytes", f"{size} bytes"
    stored = le32(buffer, place + size - 4) if size >= 8 else 0
    computed = crc32_mpeg2(buffer, at, place + size - 4) if size >= 8 else 0
    return "event-checksum", "the event's checksum does not fit", f"{stored:08x}", f"{computed:08x}"
