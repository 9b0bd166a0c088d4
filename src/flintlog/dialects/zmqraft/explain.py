"""The bytes of an index file field by field, for a person who looks at a hex dump."""

from __future__ import annotations

from collections.abc import Iterator

from flintlog.core.dialect import ByteField
from flintlog.dialects.zmqraft import layout as lay
from flintlog.dialects.zmqraft.scan import Damage, Entries, Table
from flintlog.dialects.zmqraft.tables import WORDS

_BYTES_SHOWN = 64
_DATA_SHOWN = 1024


def explain_head(view: memoryview, table: Table, file: str, chosen: Entries) -> Iterator[ByteField]:
    """Header, the slots of the chosen entries, the segments up to the first entry."""

    def field(begin: int, size: int, name: str, meaning: str) -> ByteField:
        return ByteField(file, begin, bytes(view[begin : begin + size]), name, meaning)

    size = 16 + lay.SLOT_SIZE * table.capacity
    yield field(0, 4, "token", "an index file begins")
    yield field(4, 4, "size", f"{size} bytes up to the end of the offset table")
    yield field(8, 4, "version", str(lay.VERSION))
    yield field(12, 4, "capacity", f"{table.capacity} slots, {len(table.ends)} used")
    yield field(16, 8, "first index", str(table.first))
    for index in chosen.index.tolist():
        at = index - table.first
        meaning = f"index {index} ends {int(table.ends[at])} bytes behind {table.data_start}"
        yield field(lay.TABLE_OFFSET + lay.SLOT_SIZE * at, lay.SLOT_SIZE, "slot", meaning)
    free = table.capacity - len(table.ends)
    begin = lay.TABLE_OFFSET + lay.SLOT_SIZE * len(table.ends)
    if free:
        word = "not all zero: left from entries that were rolled back" if table.dirty else "zero"
        yield field(begin, min(lay.SLOT_SIZE * free, _BYTES_SHOWN), "free slots", f"{free}, {word}")
    yield from _explain_segments(view, table, file)


def _explain_segments(view: memoryview, table: Table, file: str) -> Iterator[ByteField]:
    def field(begin: int, end: int, name: str, meaning: str) -> ByteField:
        return ByteField(file, begin, bytes(view[begin:end]), name, meaning)

    for found in lay.segments_in(view[: table.data_start], lay.TABLE_OFFSET + lay.SLOT_SIZE * table.capacity):
        yield field(found.head, found.head + 4, "token", _token_meaning(found.token))
        yield field(found.head + 4, found.offset, "length", f"{found.length} bytes")
        if found.length:
            facts = lay.decode_meta(view, found.head, found.end) if found.token == lay.META_TOKEN else {}
            meaning = ", ".join(f"{name} {value}" for name, value in facts.items())
            yield field(found.offset, found.offset + min(found.length, _DATA_SHOWN), "data", meaning)
        if found.following > found.end:
            yield field(found.end, found.following, "padding", "zeros up to a multiple of 4")


def _token_meaning(token: bytes) -> str:
    known = {
        lay.META_TOKEN: "who made the file, and when",
        lay.ENTRIES_TOKEN: "the entries begin behind it",
        bytes(4): "slots that were given up; skipped",
    }
    return known.get(token, "not known; skipped")


def explain_entry(view: memoryview, entries: Entries, at: int, file: str) -> Iterator[ByteField]:
    """One entry; `at` is its place in the columns."""
    offset, length = int(entries.offset[at]), int(entries.length[at])

    def field(begin: int, end: int, name: str, meaning: str) -> ByteField:
        return ByteField(file, offset + begin, bytes(view[offset + begin : offset + end]), name, meaning)

    request_id = bytes(view[offset : offset + lay.REQUEST_ID_SIZE])
    asked = "none" if request_id == lay.NO_REQUEST else request_id.hex()
    yield field(0, lay.REQUEST_ID_SIZE, "request id", f"index {int(entries.index[at])} begins; {asked}")
    yield field(lay.REQUEST_ID_SIZE, lay.TERM_OFFSET, "type", WORDS[int(entries.type[at])])
    yield field(lay.TERM_OFFSET, lay.ENTRY_HEADER_SIZE, "term", str(int(entries.term[at])))
    if length > lay.ENTRY_HEADER_SIZE:
        data = bytes(view[offset + lay.ENTRY_HEADER_SIZE : offset + length])
        yield field(lay.ENTRY_HEADER_SIZE, length, "data", repr(data[:_BYTES_SHOWN])[1:])


def explain_damage(view: memoryview, damage: Damage, file: str) -> ByteField:
    """What stands where the entries cannot be read on."""
    shown = bytes(view[damage.offset : damage.offset + _BYTES_SHOWN])
    return ByteField(file, damage.offset, shown, "damage", f"{damage.message}; expected {damage.expected}")
