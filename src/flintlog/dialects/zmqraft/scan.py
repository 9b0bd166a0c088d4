"""An index file to columns: its header, where each entry stands, its fields, and what is wrong with it.

The offset table is read at once; the entries' headers are gathered without Python per entry. The format has no
checksums: only a table that does not ascend, missing data and a term of 0 can be seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flintlog.columns.table import Columns
from flintlog.core.finding import Damage
from flintlog.dialects.zmqraft import layout as lay
from flintlog.errors import DamageError

Ints = NDArray[np.int64]
SNAPSHOT_HEAD_MAX = 1 << 16


@dataclass(frozen=True, slots=True)
class Table:
    """The head of an index file: how many slots, which index the first has, where the data begins."""

    first: int
    capacity: int
    data_start: int
    ends: Ints  # of the committed entries, from the data's start
    dirty: bool  # slots behind the first free one that are not zero


def read_capacity(head: bytes | memoryview, first: int, *, newest: bool = False) -> int | Damage:
    """The capacity of the file that should begin at `first`, from its header.

    A crash while the newest file is closed early may leave only one of two fields changed. Then the size counts, which
    is written first; `read_table` checks that this is what happened.
    """
    if len(head) < lay.TABLE_OFFSET:
        return _short(len(head), lay.TABLE_OFFSET, "header")
    token, size, version, capacity, index = lay.INDEX_HEADER.unpack_from(head)
    if token != lay.INDEX_TOKEN:
        return Damage("index-token", "not an index file", 0, lay.INDEX_TOKEN.hex(), token.hex())
    if version != lay.VERSION:
        message = f"index file version {version} is not known"
        return Damage("index-version", message, 8, "1", str(version))
    if newest and size % lay.SLOT_SIZE == 0 and 16 < size < 16 + lay.SLOT_SIZE * (capacity - 1):
        capacity = (size - 16) // lay.SLOT_SIZE
    if size != 16 + lay.SLOT_SIZE * capacity or not 0 < capacity <= lay.CAPACITY_FILE_MAX:
        return _disagree(head)
    if index != first:
        message = "the file's name and its first index disagree"
        return Damage("index-first", message, 16, str(first), str(index))
    return int(capacity)


def _disagree(head: bytes | memoryview) -> Damage:
    _, size, _, capacity, _ = lay.INDEX_HEADER.unpack_from(head)
    if size == 16 + 4 * capacity:
        expected = f"1 to {lay.CAPACITY_FILE_MAX}"
        return Damage(
            "index-capacity", f"the capacity {capacity} is out of range", 12, expected, str(capacity)
        )
    return Damage("index-capacity", "size and capacity disagree", 4, str(16 + 4 * capacity), str(size))


def is_closing(view: memoryview, capacity: int) -> bool:
    """Does the header still have the capacity from before the file was closed early?"""
    return bool(capacity != lay.INDEX_HEADER.unpack_from(view)[3])


def _is_closed_at(view: memoryview, capacity: int) -> bool:
    """Do the slots behind `capacity` make one segment that reaches to the end of the old table?"""
    left = lay.INDEX_HEADER.unpack_from(view)[3] - capacity
    at = lay.TABLE_OFFSET + lay.SLOT_SIZE * capacity
    length = lay.SLOT_SIZE * left - lay.TOKEN_HEADER_SIZE
    is_full = view[at - lay.SLOT_SIZE : at] != bytes(lay.SLOT_SIZE)
    said = int.from_bytes(
        view[at + 4 : at + 8], "little"
    )  # computing it the other way round, a huge capacity would not fit
    return is_full and view[at : at + 4] == bytes(4) and said == length


def read_table(view: memoryview, first: int, *, newest: bool = True) -> Table | Damage:
    """The head of the file that should begin at `first`."""
    capacity = read_capacity(view, first, newest=newest)
    if isinstance(capacity, Damage):
        return capacity
    table_end = lay.TABLE_OFFSET + lay.SLOT_SIZE * capacity
    if len(view) < table_end:
        return _short(len(view), table_end, "offset table")
    if is_closing(view, capacity) and not _is_closed_at(view, capacity):
        return _disagree(view)
    slots = np.frombuffer(view, "<u4", capacity, lay.TABLE_OFFSET).astype(np.int64)
    free = np.flatnonzero(slots == 0)
    count = int(free[0]) if len(free) else capacity
    ends = slots[:count]
    wrong = np.flatnonzero(np.diff(ends, prepend=0) <= 0)
    if len(wrong):
        return _not_ascending(first, ends, int(wrong[0]))
    marker = lay.find_segment(view, lay.ENTRIES_TOKEN, table_end)
    if marker is None:
        message = "the file ends before its entries begin"
        return Damage("index-marker", message, len(view), "ITMZ", "the end of the file")
    return Table(first, capacity, marker.offset, ends, bool(np.any(slots[count:])))


def _not_ascending(first: int, ends: Ints, at: int) -> Damage:
    return Damage(
        "index-offsets",
        f"index {first + at}: the offsets do not ascend",
        lay.TABLE_OFFSET + lay.SLOT_SIZE * at,
        f"more than {int(ends[at - 1]) if at else 0}",
        str(int(ends[at])),
    )


def is_begun(view: memoryview, first: int) -> bool:
    """Is this what a crash leaves of a file in the making: a beginning of its head, and no slot used?"""
    head = lay.encode_index_head(1, first)
    if len(view) < lay.TABLE_OFFSET:  # all but size and capacity of the file is known
        known = bytes(view[:4]) + head[4:8][: max(len(view) - 4, 0)] + bytes(view[8:12])
        known += head[12:16][: max(len(view) - 12, 0)] + bytes(view[16:])
        return head.startswith(known)
    capacity = read_capacity(view, first)
    if isinstance(capacity, Damage):
        return False
    table_end = lay.TABLE_OFFSET + lay.SLOT_SIZE * capacity
    unused = not bytes(view[lay.TABLE_OFFSET : table_end]).strip(b"\0")
    return unused and lay.find_segment(view, lay.ENTRIES_TOKEN, table_end) is None


def zero_slot(table: Table) -> Damage:
    """The damage of a free slot in a file that must hold more, because the log goes on behind it."""
    count = len(table.ends)
    message = f"index {table.first + count}: its slot is zero, and the log goes on behind it"
    return Damage("log-gap", message, lay.TABLE_OFFSET + lay.SLOT_SIZE * count, "where the entry ends", "0")


def _short(size: int, needed: int, what: str) -> Damage:
    return Damage("index-short", f"the file ends inside its {what}", size, f"{needed} bytes", f"{size} bytes")


@dataclass(frozen=True, slots=True)
class Entries(Columns):
    """Columns of entries in log order; offsets count from the file's beginning."""

    index: Ints
    offset: Ints
    length: Ints
    term: Ints
    type: NDArray[np.uint8]

    @property
    def has_head(self) -> NDArray[np.bool_]:
        """Which entries have a head; a shorter one is all data."""
        return self.length >= lay.ENTRY_HEADER_SIZE


def read_entries(
    view: memoryview, table: Table, begin: int = 0, end: int | None = None
) -> tuple[Entries, Damage | None]:
    """The entries in the slots from `begin` to `end`, up to the first incomplete one."""
    end = len(table.ends) if end is None else min(end, len(table.ends))
    stops = table.ends[begin:end] + table.data_start
    starts = np.concatenate(
        [[table.ends[begin - 1] if begin else 0], table.ends[begin : max(end - 1, begin)]]
    )
    starts = (starts[: len(stops)] + table.data_start).astype(np.int64)
    lengths = stops - starts
    missing = stops > len(view)
    good = int(np.argmax(missing)) if missing.any() else len(stops)
    has_head = lengths[:good] >= lay.ENTRY_HEADER_SIZE
    # Type and term are eight bytes: as one number the type is the lowest byte and the term stands above it.
    words = _values_in_heads(view, starts[:good] + lay.REQUEST_ID_SIZE, has_head, "<u8")
    terms = (words >> np.uint64(8)).astype(np.int64)
    damage = (
        _entry_missing(table, begin + good, starts, stops, len(view), good) if good < len(stops) else None
    )
    too_high = np.flatnonzero(terms > lay.NUMBER_MAX)
    if len(too_high):
        good = int(too_high[0])
        damage = Damage(
            "entry-term",
            f"index {table.first + begin + good}: the term is too high",
            int(starts[good]) + 13,
            "at most 2^53 - 1",
            str(int(terms[good])),
        )
    index = np.arange(table.first + begin, table.first + begin + good, dtype=np.int64)
    types = words[:good].astype(np.uint8)
    return Entries(index, starts[:good], lengths[:good], terms[:good], types), damage


def _values_at(view: memoryview, offsets: Ints, kind: str) -> NDArray[Any]:
    """The values at some offsets, aligned or not."""
    dtype = np.dtype(kind)
    if not len(offsets):
        return np.empty(0, dtype)
    anywhere: NDArray[Any] = np.ndarray((len(view) - dtype.itemsize + 1,), dtype, view, strides=(1,))
    return anywhere[offsets]


def _values_in_heads(view: memoryview, offsets: Ints, has_head: NDArray[np.bool_], kind: str) -> NDArray[Any]:
    """The same of entries of which some have no head: these get zeros."""
    if has_head.all():
        return _values_at(view, offsets, kind)
    found = np.zeros(len(offsets), kind)
    found[has_head] = _values_at(view, offsets[has_head], kind)
    return found


def _entry_missing(table: Table, slot: int, starts: Ints, stops: Ints, size: int, at: int) -> Damage:
    return Damage(
        "entry-missing",
        f"index {table.first + slot}: the file ends inside the entry",
        int(starts[at]),
        f"{int(stops[at] - starts[at])} bytes",
        f"{max(size - int(starts[at]), 0)} bytes",
    )


def request_ids(view: memoryview, entries: Entries) -> NDArray[np.void]:
    """The request ids of entries, 12 bytes each, as one column to compare."""
    return _values_in_heads(view, entries.offset, entries.has_head, f"V{lay.REQUEST_ID_SIZE}")


@dataclass(frozen=True, slots=True)
class SnapshotHead:
    """The head of a snapshot file."""

    index: int
    term: int
    size: int
    data_start: int


def read_snapshot_head(head: memoryview, file_size: int, name: str = lay.SNAPSHOT_FILE) -> SnapshotHead:
    """The head of a snapshot file from its first bytes, checked against the size of the file."""

    def wrong(code: str, message: str, offset: int, expected: str, found: str) -> DamageError:
        return DamageError(message, code=code, file=name, offset=offset, expected=expected, found=found)

    need = lay.SNAPSHOT_HEADER.size
    if len(head) < need:
        raise wrong(
            "snapshot-short",
            "the snapshot ends inside its header",
            len(head),
            f"{need} bytes",
            f"{len(head)} bytes",
        )
    token, size, version, index, term, data_size = lay.SNAPSHOT_HEADER.unpack_from(head)
    if token != lay.SNAPSHOT_TOKEN or size not in lay.SNAPSHOT_SEGMENT_SIZES:
        raise wrong("snapshot-marker", "not a snapshot file", 0, lay.SNAPSHOT_TOKEN.hex(), bytes(token).hex())
    if version != lay.VERSION:
        raise wrong("snapshot-version", f"snapshot version {version} is not known", 8, "1", str(version))
    if max(index, term, data_size) > lay.NUMBER_MAX:
        raise wrong(
            "snapshot-number", "index, term or size is above 2^53 - 1", 12, "at most 2^53 - 1", "more"
        )
    marker = lay.find_segment(head, lay.DATA_TOKEN, need)
    if marker is None:
        raise wrong("snapshot-short", "the file ends before its data begins", len(head), "DATA", "nothing")
    if file_size - marker.offset != data_size:
        raise wrong(
            "snapshot-size",
            "the snapshot's data is not whole",
            marker.offset,
            f"{data_size} bytes",
            f"{file_size - marker.offset} bytes",
        )
    return SnapshotHead(index, term, data_size, marker.offset)
