"""A whole segment to columns: where each record stands, its fields, and where and why reading stopped.

One pass, compiled for large input; nothing per record in Python. `judge` then says what stopped the scan: an end, a
torn tail, or damage.

*The rule that tells a torn tail from damage.* A commit is one write followed by one fsync, and behind the end
of the log our files hold nothing but zeros. So, at the first byte of the newest segment that begins no good record, the
log is torn (and nothing there was acknowledged) when

1. nothing but zeros follows some byte of the bad record (the rest of the write never arrived), and no good
   record follows: a damaged length would reach over good records to the zeros at the end, or
2. the file ends inside the bad record, or its checksum fails, and no good record follows, or
3. a whole sector of the bad record is zero (it never arrived) and every good record behind it lies within the
   size of one commit (later sectors of the same write did arrive).

Everything else is damage: a good record follows, the marker is neither a marker nor zeros, a term below 1, a
negative length. In an older segment everything is damage, because it was synced before the next was begun.

An end marker with good records behind it is judged the same way in the designed edition. In the shipped edition
it says nothing: the original overwrites in place and leaves old records behind the new end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flintlog.columns.checksum import crc32_mpeg2
from flintlog.columns.compile import be32, be64, kernel
from flintlog.columns.table import Columns
from flintlog.columns.zeros import has_zero_sector, zeros_from
from flintlog.core.finding import Damage
from flintlog.dialects.taskflux import layout as lay
from flintlog.dialects.taskflux.layout import Layout

COMMIT_BYTES_MAX = 8 << 20  # a store writes and syncs at most this much at once, or one larger record
_CHUNK = 1 << 18  # records per pass of the kernel
_PROBE = 1 << 10
_RECORDS_MAX = 1 << 26  # records of one table; more come in several tables
_WINDOW = 64 << 20  # bytes that a walk over headers reads at a time
_WINDOW_MARKS = 1 << 12
_SEARCH_CHUNK = 1 << 20
_SEARCH_CHECKSUM_BYTES_MAX = 256 << 20

# Why the scan stopped.
END = 0  # end marker
EDGE = 1  # the file ends after a record
MARKER = 2
MARKER_CUT = 3
HEADER_CUT = 4
DATA_CUT = 5
TERM = 6
LENGTH = 7
CHECKSUM = 8
PADDING = 9
_FULL = 10

# What is wrong with a delta whose record is good.
DELTA_GOOD = 0
DELTA_EMPTY = 1
DELTA_UNKNOWN = 2
DELTA_NAME = 3
DELTA_SHORT = 4
DELTA_PROBLEMS = {
    DELTA_EMPTY: ("delta-empty", "the record holds no delta"),
    DELTA_UNKNOWN: ("delta-unknown-type", "the delta's type byte is not one of C, D, A, R"),
    DELTA_NAME: ("delta-queue-name", "the queue name holds a byte outside 0x21..0x7E"),
    DELTA_SHORT: ("delta-short", "the delta ends before its fields do"),
}

_MARKER = int.from_bytes(lay.RECORD_MARKER, "big")
# Where the fields of a record stand. The editions differ only in the size of the term, which shifts the fields behind
# it.
_RECORD = lay.DESIGNED.record
_TERM_AT = _RECORD.offset("term")
_CHECKSUM_AT = _RECORD.offset("checksum") - lay.DESIGNED.term_size
_LENGTH_AT = _RECORD.offset("length") - lay.DESIGNED.term_size
_HEADER = _RECORD.head.size - lay.DESIGNED.term_size
# And those of a delta: the length of its name, the name, and behind it the number and the payload.
_NAME_LENGTH_AT = lay.NAMED.offset("name length")
_NAME_AT = lay.NAMED.head.size
_PAYLOAD_LENGTH_AT = lay.RECORD_PAYLOAD.offset("payload length")
_PAYLOAD_AT = lay.RECORD_PAYLOAD.head.size
_ID_SIZE = lay.REMOVE.size - _NAME_AT
_C, _D, _A, _R = b"CDAR"
_INT32_RANGE = 1 << 32
_INT32_SIGN = 1 << 31


@dataclass(frozen=True, slots=True)
class Records(Columns):
    """Columns of records in log order. Offsets count from the beginning of the file."""

    offset: NDArray[np.int64]
    term: NDArray[np.int64]
    checksum: NDArray[np.uint32]
    length: NDArray[np.int64]  # of the data, without padding
    operation: NDArray[np.uint8]  # the delta's type byte; 0 when the delta is bad
    problem: NDArray[np.uint8]
    name_length: NDArray[np.uint8]  # the name begins 2 bytes into the data
    number: NDArray[np.int64]  # key of A, id of R
    payload: NDArray[np.int64]  # offset of A's payload
    payload_length: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Stop:
    """Where and why a scan stopped."""

    offset: int
    reason: int

    @property
    def good(self) -> bool:
        return self.reason in (END, EDGE)


@kernel
def _scan(
    buffer: Any,
    start: int,
    size: int,
    term_size: int,
    alignment: int,
    offset: Any,
    term: Any,
    checksum: Any,
    length: Any,
    operation: Any,
    problem: Any,
    name_length: Any,
    number: Any,
    payload: Any,
    payload_length: Any,
) -> tuple[int, int, int]:
    header = _HEADER + term_size
    count = 0
    at = start
    while True:
        if count == len(offset):
            return count, at, _FULL
        left = size - at
        if left < 4:
            return count, at, EDGE if left == 0 else MARKER_CUT
        marker = be32(buffer, at)
        if marker != _MARKER:
            return count, at, END if marker == 0 else MARKER
        if left < header:
            return count, at, HEADER_CUT
        if term_size == 8:
            record_term = be64(buffer, at + _TERM_AT)
        else:
            record_term = be32(buffer, at + _TERM_AT)
            if record_term >= _INT32_SIGN:
                record_term -= _INT32_RANGE
        if record_term < 1:
            return count, at, TERM
        size_data = be32(buffer, at + _LENGTH_AT + term_size)
        if size_data >= _INT32_SIGN:
            return count, at, LENGTH
        padding = (alignment - size_data % alignment) % alignment
        if left - header < size_data + padding:
            return count, at, DATA_CUT
        data = at + header
        end = data + size_data
        stored = be32(buffer, at + _CHECKSUM_AT + term_size)
        if crc32_mpeg2(buffer, data, end) != stored:
            return count, at, CHECKSUM
        for index in range(end, end + padding):
            if buffer[index] != 0:
                return count, at, PADDING

        offset[count] = at
        term[count] = record_term
        checksum[count] = stored
        length[count] = size_data
        kind = 0
        wrong = DELTA_GOOD
        name_size = 0
        value = 0
        begin = end
        if size_data == 0:
            wrong = DELTA_EMPTY
        else:
            kind = int(buffer[data])
            if kind != _A and kind != _R and kind != _C and kind != _D:
                wrong = DELTA_UNKNOWN
            elif size_data < _NAME_AT:
                wrong = DELTA_SHORT
            else:
                name_size = int(buffer[data + _NAME_LENGTH_AT])
                begin = data + _NAME_AT + name_size
                if begin > end:
                    wrong = DELTA_SHORT
                else:
                    for index in range(data + _NAME_AT, begin):
                        if buffer[index] < 0x21 or buffer[index] > 0x7E:
                            wrong = DELTA_NAME
        if wrong == DELTA_GOOD and kind == _A:
            if end - begin < _PAYLOAD_AT:
                wrong = DELTA_SHORT
            else:
                value = be64(buffer, begin)
                size_payload = be32(buffer, begin + _PAYLOAD_LENGTH_AT)
                begin += _PAYLOAD_AT
                if size_payload > end - begin:
                    wrong = DELTA_SHORT
                else:
                    end = begin + size_payload
        elif wrong == DELTA_GOOD and kind == _R:
            if end - begin < _ID_SIZE:
                wrong = DELTA_SHORT
            else:
                value = be64(buffer, begin)
        if wrong != DELTA_GOOD:
            kind = 0
        operation[count] = kind
        problem[count] = wrong
        name_length[count] = name_size
        number[count] = value
        payload[count] = begin
        payload_length[count] = end - begin if kind == _A else 0
        count += 1
        at = data + size_data + padding


def scan_batches(
    buffer: memoryview, layout: Layout, start: int, batch: int = _CHUNK, end: int | None = None
) -> Iterator[tuple[Records, Stop | None]]:
    """The records from `start` on in batches; the last one comes with the stop."""
    size = len(buffer) if end is None else end
    while True:
        # The file's size bounds the number of records, not a field in the file.
        capacity = min(batch, max(size - start, 0) // layout.record_header_size + 1)
        columns = Records.room(capacity)
        count, at, reason = _scan.run(
            size - start, buffer, start, size, layout.term_size, layout.alignment, *columns
        )
        records = Records.filled(columns, count)
        if reason != _FULL:
            yield records, Stop(int(at), int(reason))
            return
        yield records, None
        start = int(at)


def scan_segment(
    buffer: memoryview, layout: Layout, start: int = lay.SEGMENT_HEADER_SIZE, end: int | None = None
) -> tuple[Records, Stop]:
    """All records from `start` on, and where they stop."""
    end = len(buffer) if end is None else end
    batch = _expected_count(
        buffer, layout, start, end
    )  # one table where possible: joining tables copies them
    parts = list(scan_batches(buffer, layout, start, batch, end))
    stop = parts[-1][1]
    assert stop is not None
    return Records.join([records for records, _ in parts]), stop


def _expected_count(buffer: memoryview, layout: Layout, start: int, end: int) -> int:
    """How many records a range holds if all are like the first ones."""
    records, stop = next(scan_batches(buffer, layout, start, _PROBE, end))
    if stop is not None:
        return len(records) + 1
    size = int(records.offset[-1]) - start
    return min(_PROBE + (end - start) * _PROBE // size * 21 // 20, _RECORDS_MAX)


@dataclass(frozen=True, slots=True)
class Marks:
    """Places at which records begin, with the number of records before each; and where the walk ended."""

    offset: list[int]
    before: list[int]
    records: int
    end: int


@kernel
def _walk_headers(
    buffer: Any,
    at: int,
    limit: int,
    size: int,
    term_size: int,
    alignment: int,
    step: int,
    mark: int,
    offset: Any,
    before: Any,
) -> tuple[int, int, int, int, bool]:
    header = _HEADER + term_size
    count = 0
    marks = 0
    while True:
        if size - at < header:
            return marks, count, at, mark, True
        if limit - at < header or marks == len(offset):
            return marks, count, at, mark, False
        if be32(buffer, at) != _MARKER:
            return marks, count, at, mark, True
        length = be32(buffer, at + _LENGTH_AT + term_size)
        if length >= _INT32_SIGN:
            return marks, count, at, mark, True
        length += (alignment - length % alignment) % alignment
        if size - at - header < length:
            return marks, count, at, mark, True
        if at >= mark:
            offset[marks] = at
            before[marks] = count
            marks += 1
            mark = at + step
        count += 1
        at += header + length


def walk_headers(window: Callable[[int, int], memoryview], size: int, layout: Layout, step: int) -> Marks:
    """Where to cut a segment into ranges of about `step` bytes: from header to header, payloads are not read.

    `window` gives a buffer of the file in which a range is there. The walk checks only that headers follow each other;
    the reader of a range checks the rest.
    """
    marks = Marks([], [], 0, 0)
    at, mark, count, ended = lay.SEGMENT_HEADER_SIZE, lay.SEGMENT_HEADER_SIZE + step, 0, False
    while not ended:
        limit = min(at + _WINDOW, size)
        offset, before = np.empty(_WINDOW_MARKS, np.int64), np.empty(_WINDOW_MARKS, np.int64)
        found, more, at, mark, ended = _walk_headers.run(
            limit - at,
            window(at, limit),
            at,
            limit,
            size,
            layout.term_size,
            layout.alignment,
            step,
            mark,
            offset,
            before,
        )
        marks.offset.extend(offset[:found].tolist())
        marks.before.extend((before[:found] + count).tolist())
        count += int(more)
        at, mark = int(at), int(mark)
    return Marks(marks.offset, marks.before, count, at)


def judge(buffer: memoryview, layout: Layout, stop: Stop, *, newest: bool) -> Damage | None:
    """Apply the rule of this module's docstring to a stop; None when the log simply ends there."""
    at = stop.offset
    if stop.good and not (newest and _has_records_behind(buffer, layout, stop)):
        return None
    code, message, expected, found = _describe(buffer, layout, stop)
    resumes = find_record(buffer, layout, at + 1)
    torn = newest and _is_torn(buffer, layout, stop, resumes)
    if torn:
        code, message = "torn-tail", f"torn tail: {message}"
    return Damage(code, message, at, expected, found, torn, resumes)


def _has_records_behind(buffer: memoryview, layout: Layout, stop: Stop) -> bool:
    """Do good records behind an end marker mean damage? Not in the shipped edition, which leaves old records there."""
    if layout.edition != "designed" or zeros_from(buffer, stop.offset) == stop.offset:
        return False
    return find_record(buffer, layout, stop.offset + 1) is not None


def _describe(buffer: memoryview, layout: Layout, stop: Stop) -> tuple[str, str, str, str]:
    at = stop.offset
    header = layout.record_header_size
    left = len(buffer) - at
    if stop.reason == END:
        return "record-behind-end", "good records stand behind the end of the log", "zeros", "records"
    if stop.reason == MARKER:
        found = bytes(buffer[at : at + 4]).hex()
        return "record-marker", "no record begins here", lay.RECORD_MARKER.hex(), found
    if stop.reason == MARKER_CUT:
        return "record-cut", "the file ends inside a record marker", "4 bytes", f"{left} bytes"
    if stop.reason == HEADER_CUT:
        return "record-cut", "the file ends inside a record header", f"{header} bytes", f"{left} bytes"
    _, term, stored, length = layout.record.head.unpack_from(buffer, at)
    if stop.reason == TERM:
        return "record-term", "the record's term must be at least 1", "1 or more", str(term)
    if stop.reason == LENGTH:
        return "record-length", "the record's length is negative", "0 or more", str(length)
    if stop.reason == DATA_CUT:
        need = length + layout.padding(length)
        return (
            "record-cut",
            "the file ends inside a record",
            f"{need} bytes of data",
            f"{left - header} bytes",
        )
    if stop.reason == CHECKSUM:
        computed = crc32_mpeg2(buffer, at + header, at + header + length)
        message = "the record's checksum does not fit its data"
        return "record-checksum", message, f"{stored:08x}", f"{computed:08x}"
    return "record-padding", "the record's padding is not zero", "zeros", "other bytes"


def _is_torn(buffer: memoryview, layout: Layout, stop: Stop, resumes: int | None) -> bool:
    at = stop.offset
    if resumes is None:
        claimed = _claimed_end(buffer, layout, stop)
        cut = stop.reason in (MARKER_CUT, HEADER_CUT, DATA_CUT, CHECKSUM)
        return cut or zeros_from(buffer, at) < claimed
    if not has_zero_sector(buffer, at, resumes):
        return False
    return _last_good(buffer, layout, resumes) - at <= COMMIT_BYTES_MAX


def _claimed_end(buffer: memoryview, layout: Layout, stop: Stop) -> int:
    """Where the bad record ends by its own length, at most at the end of the file."""
    at, header = stop.offset, layout.record_header_size
    if stop.reason in (MARKER, MARKER_CUT):
        return min(at + 4, len(buffer))
    if stop.reason in (HEADER_CUT, TERM, LENGTH):
        return min(at + header, len(buffer))
    length = layout.record.head.unpack_from(buffer, at)[-1]
    return min(at + layout.record_size(length), len(buffer))


def _last_good(buffer: memoryview, layout: Layout, at: int) -> int:
    """The end of the last good record at or behind `at`, also behind further gaps."""
    while True:
        end = at
        for _, stop in scan_batches(buffer, layout, at):
            end = stop.offset if stop else end
        following = find_record(buffer, layout, end + 1)
        if following is None:
            return end
        at = following


def find_record(buffer: memoryview, layout: Layout, start: int) -> int | None:
    """The next offset at which a whole good record stands.

    The search is bounded. In a file full of markers and large lengths it ends at the next marker and takes that for a
    record, because calling acknowledged data torn is the one mistake that cannot be undone.
    """
    header = layout.record_header_size
    budget = _SEARCH_CHECKSUM_BYTES_MAX
    for at in _markers(buffer, start):
        if len(buffer) - at < header:
            return None
        _, term, stored, length = layout.record.head.unpack_from(buffer, at)
        if term < 1 or not 0 <= length <= len(buffer) - at - header:
            continue
        budget -= length
        if budget < 0:
            return at
        if crc32_mpeg2(buffer, at + header, at + header + length) == stored:
            return at
    return None


def _markers(buffer: memoryview, start: int) -> Iterator[int]:
    while start < len(buffer):
        chunk = bytes(buffer[start : start + _SEARCH_CHUNK + 3])
        at = chunk.find(lay.RECORD_MARKER)
        while 0 <= at < _SEARCH_CHUNK:
            yield start + at
            at = chunk.find(lay.RECORD_MARKER, at + 1)
        start += _SEARCH_CHUNK
