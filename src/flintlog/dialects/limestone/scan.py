"""A log file to columns: its snippets, the place and the fields of each entry, and where and why reading stopped.

Two passes, both compiled for large input, with nothing per record in Python. `walk` goes from record to record and
lists the snippets; `read_entries` then gives the entries of chosen snippets as columns. Either can begin in the
middle of a file, where a record begins and the snippet around it is known.

`judge.py` alone judges what stopped a walk.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flintlog.columns.compile import kernel, le32, le64, window
from flintlog.columns.table import Columns
from flintlog.dialects.limestone import layout as lay
from flintlog.disk import give_back

Ints = NDArray[np.int64]
Words = NDArray[np.uint64]
Bytes = NDArray[np.uint8]

# Why a walk stopped.
EDGE = 0  # the file ends behind a record
PAUSED = 1  # the range ends behind a record
TYPE = 2  # no record begins with this byte
CUT = 3  # the file ends inside a record
OUTSIDE = 4  # an entry or an end marker outside a snippet
_FULL = 5

SNIPPETS_CHUNK = 1 << 16
_WALK_BYTES = 16 << 20  # that are mapped at a time
ENTRIES_CHUNK = 1 << 17

_PUT, _BEGIN, _END, _REMOVE, _INVALIDATED = lay.PUT, lay.BEGIN, lay.END, lay.REMOVE, lay.INVALIDATED
_CLEAR, _REMOVE_STORAGE, _PUT_BLOBS = lay.CLEAR_STORAGE, lay.REMOVE_STORAGE, lay.PUT_BLOBS
_PUT_SIZE, _REMOVE_SIZE, _STORAGE_SIZE = lay.PUT_SIZE, lay.REMOVE_SIZE, lay.STORAGE_SIZE
_MARKER_SIZE, _END_SIZE = lay.MARKER_SIZE, lay.END_SIZE
_COUNT_SIZE, _BLOB_SIZE = lay.BLOB_COUNT.size, lay.BLOB_SIZE
# Where the fields of records stand; a storage id ends where the key, or the version without one, begins.
_EPOCH_AT, _KEY_LENGTH_AT, _VALUE_LENGTH_AT = lay.EPOCH_AT, lay.KEY_LENGTH_AT, lay.VALUE_LENGTH_AT
_PUT_KEY_AT, _REMOVE_KEY_AT = lay.PUT_HEADER.size, lay.REMOVE_HEADER.size
_VERSION_AT = lay.TABLES[lay.CLEAR_STORAGE].offset("major")
_STORAGE_ID_SIZE = _VERSION_AT - lay.TABLES[lay.CLEAR_STORAGE].offset("storage")
_MINOR = lay.VERSION_SIZE // 2


@dataclass(frozen=True, slots=True)
class Snippets(Columns):
    """Columns of snippets in file order. `end` is behind the last record, the end marker included."""

    offset: Ints  # of the begin marker
    end: Ints
    epoch: Words
    kind: Bytes  # 2 begin, 6 invalidated begin
    entries: Ints  # how many
    closed: Bytes  # 1: an end marker was seen
    end_epoch: Words  # its epoch

    def positions(self) -> Ints:
        """The epochs as positions; a larger one than 2^63 - 1 can only come from damage, and is cut to that."""
        return np.minimum(self.epoch, np.uint64(2**63 - 1)).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Entries(Columns):
    """Columns of entries in file order; offsets count from the beginning of the file."""

    offset: Ints
    length: Ints  # of the whole record
    type: Bytes
    snippet: NDArray[np.int32]  # index into the snippets that were asked for
    storage: Words
    key_length: Ints
    value_length: Ints
    major: Words
    minor: Words
    prefix: Words  # the first eight bytes of the key as a big-endian number, filled with zeros

    @property
    def key(self) -> Ints:
        """Where the keys begin; storage operations have none, of length 0."""
        return self.offset + _KEY_OFFSET[self.type]

    @property
    def value(self) -> Ints:
        """Where the values begin."""
        return self.key + self.key_length + lay.VERSION_SIZE

    @property
    def blob_count(self) -> Ints:
        """How many blobs each entry names."""
        with_blobs = self.type == lay.PUT_BLOBS
        behind = self.length - lay.PUT_SIZE - self.key_length - self.value_length - lay.BLOB_COUNT.size
        return np.where(with_blobs, behind // lay.BLOB_SIZE, 0)


_KEY_OFFSET = np.full(256, lay.STORAGE_SIZE, np.int64)
_KEY_OFFSET[[lay.PUT, lay.PUT_BLOBS]] = lay.PUT_HEADER.size
_KEY_OFFSET[lay.REMOVE] = lay.REMOVE_HEADER.size


@dataclass(frozen=True, slots=True)
class Stop:
    """Where and why a walk stopped; `inside`: in a snippet, the last one of the walk."""

    offset: int
    reason: int
    inside: bool

    @property
    def good(self) -> bool:
        return self.reason in (EDGE, PAUSED)


@dataclass(frozen=True, slots=True)
class Walk:
    """The snippets of a file or of a range of it, and where the walk stopped."""

    snippets: Snippets
    stop: Stop

    @property
    def entries(self) -> int:
        return int(self.snippets.entries.sum())

    @property
    def whole(self) -> Snippets:
        """All snippets but the one inside which reading stopped."""
        return self.snippets[:-1] if self.stop.inside and not self.stop.good else self.snippets


@dataclass(frozen=True, slots=True)
class Around:
    """The snippet inside which a range begins."""

    offset: int
    epoch: int
    kind: int


@kernel
def _walk(
    buffer: Any,
    at: int,
    limit: int,
    size: int,
    inside: bool,
    count: int,
    offset: Any,
    end: Any,
    epoch: Any,
    kind: Any,
    entries: Any,
    closed: Any,
    end_epoch: Any,
    reached: Any,
) -> tuple[int, int, bool, int]:
    number = 0  # entries of the open snippet since it was begun, or since this call
    reason = -1
    while reason < 0:
        reached[0] = at
        if at >= limit:
            reason = EDGE if at == size else PAUSED
            break
        type_ = int(buffer[at])
        left = size - at
        if type_ in (_PUT, _PUT_BLOBS, _REMOVE) or _CLEAR <= type_ <= _REMOVE_STORAGE:
            if not inside:
                reason = OUTSIDE
                break
            if type_ in (_PUT, _PUT_BLOBS):
                if left < _PUT_SIZE:
                    reason = CUT
                    break
                length = _PUT_SIZE + le32(buffer, at + _KEY_LENGTH_AT) + le32(buffer, at + _VALUE_LENGTH_AT)
                if type_ == _PUT_BLOBS:
                    length += _COUNT_SIZE
                    if left < length:
                        reason = CUT
                        break
                    length += _BLOB_SIZE * le32(buffer, at + length - _COUNT_SIZE)
            elif type_ == _REMOVE:
                if left < _REMOVE_SIZE:
                    reason = CUT
                    break
                length = _REMOVE_SIZE + le32(buffer, at + _KEY_LENGTH_AT)
            else:
                length = _STORAGE_SIZE
            if length > left:
                reason = CUT
                break
            number += 1
            at += length
        elif type_ in (_BEGIN, _INVALIDATED):
            if left < _MARKER_SIZE:
                reason = CUT
                break
            if inside:
                entries[count - 1] += number
                end[count - 1] = at
                inside = False
                number = 0
            if count == len(offset):
                reason = _FULL
                break
            offset[count] = at
            epoch[count] = le64(buffer, at + _EPOCH_AT)
            kind[count] = type_
            entries[count] = 0
            closed[count] = 0
            end_epoch[count] = 0
            count += 1
            inside = True
            at += _MARKER_SIZE
        elif type_ == _END:
            if not inside:
                reason = OUTSIDE
                break
            if left < _END_SIZE:
                reason = CUT
                break
            at_end = at + _END_SIZE
            entries[count - 1] += number
            end[count - 1] = at_end
            closed[count - 1] = 1
            end_epoch[count - 1] = le64(buffer, at + _EPOCH_AT)
            inside = False
            number = 0
            at = at_end
        else:
            reason = TYPE
    if inside:
        entries[count - 1] += number
        end[count - 1] = at
    return count, at, inside, reason


def walk(
    buffer: memoryview,
    start: int = 0,
    end: int | None = None,
    around: Around | None = None,
    chunk: int = SNIPPETS_CHUNK,
    reached: np.ndarray | None = None,
) -> Walk:
    """The snippets from `start` on, up to the first record that begins at or behind `end`.

    `reached` gets the offset of the walk, for a thread that watches.
    """
    if reached is None:
        reached = np.zeros(1, np.int64)
    size = len(buffer)
    limit = size if end is None else min(end, size)
    at, inside = start, around is not None
    parts: list[Snippets] = []
    carried = around is not None
    while True:
        # The file's size bounds the number of snippets, not a field in the file.
        capacity = min(chunk, max(limit - at, 0) // lay.MARKER_SIZE + 2)
        columns = [np.zeros(capacity, kind) for kind in Snippets.types().values()]
        if carried and around is not None:
            columns[0][0], columns[2][0], columns[3][0] = around.offset, around.epoch, around.kind
        count, reason = int(carried), PAUSED
        carried = False
        while reason == PAUSED:
            begin, upto = at, min(limit, at + _WALK_BYTES)
            count, at, inside, reason = _walk.run(
                limit - at, buffer, at, upto, size, inside, count, *(*columns, reached)
            )
            at, inside = int(at), bool(inside)
            give_back(buffer, begin, at)
            if at >= limit:
                break
        parts.append(Snippets.filled(columns, count))
        if reason != _FULL:
            return Walk(Snippets.join(parts), Stop(at, int(reason), inside))


@kernel
def _read(
    buffer: Any,
    size: int,
    begin: Any,
    end: Any,
    which: int,
    at: int,
    offset: Any,
    length: Any,
    kind: Any,
    snippet: Any,
    storage: Any,
    key_length: Any,
    value_length: Any,
    major: Any,
    minor: Any,
    prefix: Any,
) -> tuple[int, int, int]:
    count = 0
    while which < len(begin):
        if at < begin[which]:
            at = begin[which]
        stop = end[which]
        if stop > size:
            stop = size
        while at < stop:
            if count == len(offset):
                return count, which, at
            type_ = int(buffer[at])
            left = stop - at
            keys = 0
            values = 0
            if type_ in (_PUT, _PUT_BLOBS):
                if left < _PUT_SIZE:
                    return count, which, -1
                keys = le32(buffer, at + _KEY_LENGTH_AT)
                values = le32(buffer, at + _VALUE_LENGTH_AT)
                key = at + _PUT_KEY_AT
                bytes_ = _PUT_SIZE + keys + values
                if type_ == _PUT_BLOBS:
                    if left < bytes_ + _COUNT_SIZE:
                        return count, which, -1
                    bytes_ += _COUNT_SIZE + _BLOB_SIZE * le32(buffer, at + bytes_)
            elif type_ == _REMOVE:
                if left < _REMOVE_SIZE:
                    return count, which, -1
                keys = le32(buffer, at + _KEY_LENGTH_AT)
                key = at + _REMOVE_KEY_AT
                bytes_ = _REMOVE_SIZE + keys
            elif _CLEAR <= type_ <= _REMOVE_STORAGE:
                key = at + _VERSION_AT
                bytes_ = _STORAGE_SIZE
            elif type_ in (_BEGIN, _INVALIDATED):
                at += _MARKER_SIZE
                continue
            elif type_ == _END:
                at += _END_SIZE
                continue
            else:
                return count, which, -1
            if bytes_ > left:
                return count, which, -1
            offset[count] = at
            length[count] = bytes_
            kind[count] = type_
            snippet[count] = which
            storage[count] = le64(buffer, key - _STORAGE_ID_SIZE)
            key_length[count] = keys
            value_length[count] = values
            major[count] = le64(buffer, key + keys)
            minor[count] = le64(buffer, key + keys + _MINOR)
            prefix[count] = window(buffer, key, key + keys)
            count += 1
            at += bytes_
        which += 1
    return count, which, at


def read_entries(
    buffer: memoryview, snippets: Snippets, start: int = 0, end: int | None = None, chunk: int = ENTRIES_CHUNK
) -> Iterator[Entries]:
    """The entries of these snippets between two offsets, in batches.

    The snippets must come from a walk over the same bytes. If the file has changed since, reading ends early; the
    number of entries then is not that of the snippets.
    """
    size = len(buffer) if end is None else min(end, len(buffer))
    which, at = 0, start
    left = int(snippets.entries.sum())
    while left > 0 and which < len(snippets) and at >= 0:
        capacity = min(chunk, left)
        columns = Entries.room(capacity)
        count, which, at = map(
            int,
            _read.run(size - at, buffer, size, snippets.offset, snippets.end, which, at, *columns),
        )
        if count:
            yield Entries.filled(columns, count)
        left -= count
        if count < capacity:
            return
