"""The fields of index files, snapshots and state files."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import msgpack
import numpy as np

from flintlog.core.dialect import ByteRange
from flintlog.core.fields import Span, shown
from flintlog.core.file_fields import asked, damaged, rest, shortened
from flintlog.core.finding import Damage
from flintlog.dialects.zmqraft import layout as lay
from flintlog.dialects.zmqraft import scan
from flintlog.dialects.zmqraft.layout import Segment
from flintlog.dialects.zmqraft.scan import Entries, Table
from flintlog.dialects.zmqraft.state import PROPERTIES_OF, STATE_SIZE_MAX, problem_of
from flintlog.dialects.zmqraft.tables import WORDS

_EMPTY_MAP = b"\x80"

# Index files


def head(view: memoryview, table: Table, chosen: Entries) -> Iterator[Span]:
    """Header, the slots of the chosen entries, the segments up to the first entry."""
    yield from _index_header(view, f"{table.capacity} slots, {len(table.ends)} used")
    for index in chosen.index.tolist():
        yield _slot(table, index - table.first)
    yield from _behind_slots(view, table)


def _index_header(view: memoryview, capacity: str) -> Iterator[Span]:
    """The fields of the header, as far as the file goes."""
    if len(view) >= lay.TABLE_OFFSET:
        yield from lay.INDEX.spans(view, told={"capacity": capacity})


def _slot(table: Table, at: int) -> Span:
    meaning = f"index {table.first + at} ends {int(table.ends[at])} bytes behind {table.data_start}"
    begin = lay.TABLE_OFFSET + lay.SLOT_SIZE * at
    return Span(begin, begin + lay.SLOT_SIZE, "slot", meaning)


def _behind_slots(view: memoryview, table: Table) -> Iterator[Span]:
    begin = lay.TABLE_OFFSET + lay.SLOT_SIZE * len(table.ends)
    end = lay.TABLE_OFFSET + lay.SLOT_SIZE * table.capacity
    word = "not all zero: left from entries that were rolled back" if table.dirty else "zero"
    yield from rest(begin, end, f"{table.capacity - len(table.ends)}, {word}", "free slots")
    for found in lay.segments_in(view[: table.data_start], end):
        yield from _segment(view, found)


def _segment(view: memoryview, found: Segment) -> Iterator[Span]:
    """A segment that is whole."""
    facts = lay.decode_meta(view, found.head, found.end) if found.token == lay.META_TOKEN else {}
    meaning = ", ".join(f"{name} {value}" for name, value in facts.items())
    spans = lay.SEGMENT.spans(view, found.head, told={"data": shortened(meaning)})
    yield from (span for span in spans if span.begin < span.end)


def entry(view: memoryview, entries: Entries, at: int) -> Iterator[Span]:
    """One entry; `at` is its row in the columns."""
    offset = int(entries.offset[at])
    end, kind = offset + int(entries.length[at]), offset + lay.REQUEST_ID_SIZE
    if not entries.has_head[at]:
        meaning = f"index {int(entries.index[at])} begins, too short for a head; {shown(view, offset, end)}"
        yield Span(offset, end, "data", meaning)
        return
    request_id = bytes(view[offset:kind])
    asked_by = "none" if request_id == lay.NO_REQUEST else request_id.hex()
    told = {
        "request id": f"index {int(entries.index[at])} begins; {asked_by}",
        "type": WORDS[int(entries.type[at])],
    }
    yield from (span for span in lay.ENTRY.spans(view[:end], offset, told=told) if span.begin < span.end)


def index(view: memoryview, first: int, where: ByteRange | None) -> Iterator[Span]:
    """A whole index file; a damaged one up to the damage."""
    table = scan.read_table(view, first)
    if isinstance(table, Damage):
        yield from _damaged_index(view, table)
        return
    entries, problem = scan.read_entries(view, table)
    yield from _index_header(view, f"{table.capacity} slots, {len(table.ends)} used")
    places = lay.TABLE_OFFSET + lay.SLOT_SIZE * np.arange(len(table.ends))
    for place in _touching(places, lay.SLOT_SIZE, where):
        yield _slot(table, place)
    yield from _behind_slots(view, table)
    for place in _touching(entries.offset, entries.length, where):
        yield from entry(view, entries, place)
    end = table.data_start + (int(table.ends[len(entries) - 1]) if len(entries) else 0)
    if problem is not None:
        yield from damaged(end, len(view), problem.message, problem.expected)
    else:
        yield from rest(end, len(view), "behind the last entry; no slot counts it")


def _touching(begin: scan.Ints, length: scan.Ints | int, where: ByteRange | None) -> Iterator[int]:
    if where is None:
        yield from range(len(begin))
    else:
        yield from np.flatnonzero(where.touches(begin, length)).tolist()


def _damaged_index(view: memoryview, problem: Damage) -> Iterator[Span]:
    """Header and slots before the damage; from there on the meaning of the bytes is unknown."""
    at = 0
    for found in _index_header(view, "slots"):
        if found.end > problem.offset:
            break
        yield found
        at = found.end
    slots = (min(problem.offset, len(view)) - lay.TABLE_OFFSET) // lay.SLOT_SIZE
    if problem.code == "index-offsets" and slots > 0:
        end = lay.TABLE_OFFSET + lay.SLOT_SIZE * slots
        yield Span(at, end, "slots", f"{slots} whose offsets ascend")
        at = end
    yield from damaged(at, len(view), problem.message, problem.expected)


# Snapshots


def snapshot(view: memoryview) -> Iterator[Span]:
    """Header, META, and the data, which only the application understands."""
    size, need = len(view), lay.SNAPSHOT_HEADER.size
    if view[:4] != lay.SNAPSHOT_TOKEN or size < need:
        short = view[:4] == lay.SNAPSHOT_TOKEN
        message = "the snapshot ends inside its header" if short else "not a snapshot file"
        yield from damaged(0, size, message, f"{need} bytes" if short else lay.SNAPSHOT_TOKEN.hex())
        return
    _, length, version, _, _, data_size = lay.SNAPSHOT_HEADER.unpack_from(view)
    wrong = {}
    if length not in lay.SNAPSHOT_SEGMENT_SIZES:
        wrong["size"] = f"{length} bytes are no header", "28 or 36"
    if version != lay.VERSION:
        wrong["version"] = f"snapshot version {version} is not known", "1"
    for span in lay.SNAPSHOT.spans(view):
        if span.name in wrong:
            yield from damaged(span.begin, size, *wrong[span.name])
            return
        yield span
    yield from _snapshot_rest(view, need, data_size)


def _snapshot_rest(view: memoryview, at: int, data_size: int) -> Iterator[Span]:
    size = len(view)
    for found in lay.segments_in(view[: scan.SNAPSHOT_HEAD_MAX], at):
        if found.token != lay.DATA_TOKEN and found.following > size:
            break
        if found.token == lay.DATA_TOKEN:
            told = {"length": f"{found.length}; the header has it"}
            yield from islice(lay.SEGMENT.spans(view, found.head, told=told), 2)
            yield from _snapshot_data(view, found.offset, data_size)
            return
        yield from _segment(view, found)
        at = found.following
    yield from damaged(at, size, "the file ends before its data begins", "DATA")


def _snapshot_data(view: memoryview, at: int, data_size: int) -> Iterator[Span]:
    size, end = len(view), at + data_size
    if end > size:
        yield from damaged(at, size, "the snapshot's data is not whole", f"{data_size} bytes")
        return
    state = f"{data_size} bytes of the application's state: {shown(view, at, end)}"
    yield from rest(at, end, state, "data")
    yield from damaged(end, size, "the snapshot's data is longer than it says", f"{data_size} bytes")


# State files


def state(view: memoryview, name: str, where: ByteRange | None) -> Iterator[Span]:
    """Each map with what it says; `name` is that of the state file, without a stamp."""
    size = len(view)
    if size > STATE_SIZE_MAX:
        yield from damaged(0, size, "too large for a state file", f"at most {STATE_SIZE_MAX} bytes")
        return
    raw = bytes(view)
    known = {prop.name: prop for prop in PROPERTIES_OF[name]}
    kept = len(raw.rstrip(b"\x00"))
    unpacker = msgpack.Unpacker(max_buffer_size=max(size, 1), strict_map_key=False)
    unpacker.feed(raw)
    at = 0
    while at < size:
        if at >= kept:
            yield Span(at, size, "torn", "zeros behind the last record")
            return
        try:
            record = unpacker.unpack()
        except msgpack.OutOfData:
            yield Span(at, size, "torn", "the last record is not whole")
            return
        except Exception:  # any bytes
            yield from damaged(at, size, "no MessagePack object begins here", "a map")
            return
        end = unpacker.tell()
        wrong = problem_of(record, known)
        if wrong is not None:
            if end > kept:
                yield Span(at, size, "torn", "the last record is filled with zeros")
            else:
                yield from damaged(at, size, wrong, "a map of known properties")
            return
        if raw[at:end] == _EMPTY_MAP:
            while raw[end : end + 1] == _EMPTY_MAP:
                unpacker.unpack()
                end += 1
            yield Span(at, end, "filling", f"empty maps, {end - at} of them; they change nothing")
        elif asked(where, at, end):
            yield Span(at, end, "record" if isinstance(record, dict) else "rest", _record_meaning(record))
        at = end


def _record_meaning(record: object) -> str:
    if not isinstance(record, dict):
        return shortened(f"{record!r} changes nothing")
    return shortened(", ".join(f"{name} {value!r}" for name, value in record.items()))
