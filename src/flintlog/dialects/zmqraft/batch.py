"""Columns to entries and back: what one append writes, without Python per entry where there are many."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from flintlog.dialects.zmqraft import layout as lay
from flintlog.dialects.zmqraft.layout import Entry
from flintlog.dialects.zmqraft.scan import Entries, Ints
from flintlog.errors import UsageError

_COLUMNS_MIN = 8  # for fewer entries one by one is faster
_DECODE_ENTRIES = 1024  # entries at a time


@dataclass(frozen=True, slots=True)
class Batch:
    """Encoded entries back to back. `ends` says where each ends, `last_term` which term the last has."""

    data: bytes
    ends: Ints
    last_term: int

    def __len__(self) -> int:
        return len(self.ends)

    def start_of(self, place: int) -> int:
        """Where entry number `place` begins; for the one behind the batch, the end of the batch."""
        return int(self.ends[place - 1]) if place else 0


def of_encoded(entries: Sequence[bytes]) -> Batch:
    """A batch of entries that are encoded already."""
    entries = _all_bytes("an entry", entries)
    lengths = np.fromiter(map(len, entries), np.int64, count=len(entries))
    if len(lengths) and int(lengths.min()) < lay.ENTRY_HEADER_SIZE:
        raise UsageError(f"an entry has at least {lay.ENTRY_HEADER_SIZE} bytes")
    term = int.from_bytes(entries[-1][lay.TERM_OFFSET : lay.ENTRY_HEADER_SIZE], "little") if entries else 0
    return Batch(b"".join(entries), np.cumsum(lengths), term)


def of_entries(entries: Sequence[Entry]) -> Batch:
    """A batch of entries."""
    if len(entries) < _COLUMNS_MIN:
        return of_encoded([entry.encode() for entry in entries])
    return of_columns(
        [entry.term for entry in entries],
        [entry.data for entry in entries],
        types=[entry.type for entry in entries],
        request_ids=[entry.request_id for entry in entries],
    )


def of_columns(
    terms: int | Sequence[int],
    data: Sequence[bytes],
    *,
    types: int | Sequence[int] = lay.STATE,
    request_ids: Sequence[bytes] | None = None,
) -> Batch:
    """A batch from columns; a single term or type counts for every entry."""
    count = len(data)
    term = _numbers("term", terms, count, lay.NUMBER_MAX)
    heads = np.zeros((count, lay.ENTRY_HEADER_SIZE), np.uint8)
    if request_ids is not None:
        heads[:, : lay.REQUEST_ID_SIZE] = _joined_ids(request_ids, count)
    # Type and term are eight bytes: as one number the type is the lowest byte and the term stands above it.
    words = term << 8 | _numbers("type", types, count, 255)
    heads[:, lay.REQUEST_ID_SIZE :] = words.astype("<u8").view(np.uint8).reshape(-1, 8)
    data = _all_bytes("the data of an entry", data)
    ends = np.cumsum(np.fromiter(map(len, data), np.int64, count=count) + lay.ENTRY_HEADER_SIZE)
    head = heads.view(f"V{lay.ENTRY_HEADER_SIZE}").ravel().tolist()
    joined = b"".join(chain.from_iterable(zip(head, data, strict=True)))
    return Batch(joined, ends, int(term[-1]) if count else 0)


def _numbers(word: str, values: int | Sequence[int], count: int, most: int) -> Ints:
    if type(values) is int and 0 <= values <= most:
        return np.full(count, values)  # the common case
    found = np.asarray(values)
    if found.dtype.kind not in "iu" and found.size:
        raise UsageError(f"a {word} is not a whole number from 0 to {most}")
    if found.ndim and len(found) != count:
        raise UsageError(f"{count} entries and {len(found)} of the column {word}")
    if found.size and not 0 <= int(found.min()) <= int(found.max()) <= most:
        raise UsageError(f"a {word} is not a whole number from 0 to {most}")
    return np.broadcast_to(found.astype(np.int64), count)


def _all_bytes(word: str, values: Sequence[bytes]) -> Sequence[bytes]:
    """The values, as bytes unless they are: the lengths of others may not count bytes."""
    return (
        values if {*map(type, values)} <= {bytes} else [bytes(lay.as_bytes(word, value)) for value in values]
    )


def _joined_ids(request_ids: Sequence[bytes], count: int) -> NDArray[np.uint8]:
    if len(request_ids) != count:
        raise UsageError(f"{count} entries and {len(request_ids)} request ids")
    request_ids = _all_bytes("a request id", request_ids)
    wrong = {len(request_id) for request_id in request_ids} - {lay.REQUEST_ID_SIZE}
    if wrong:
        raise UsageError(f"a request id has {lay.REQUEST_ID_SIZE} bytes, not {min(wrong)}")
    return np.frombuffer(b"".join(request_ids), np.uint8).reshape(-1, lay.REQUEST_ID_SIZE)


def join(batches: Sequence[Batch]) -> Batch:
    """Several batches as one."""
    if len(batches) == 1:
        return batches[0]
    begins = np.cumsum([0, *(len(batch.data) for batch in batches[:-1])])
    ends = np.concatenate([batch.ends + begin for batch, begin in zip(batches, begins, strict=True)])
    return Batch(b"".join(batch.data for batch in batches), ends, batches[-1].last_term)


def decode(view: memoryview, entries: Entries) -> Iterator[Entry]:
    """Entries one by one, from their columns and their bytes."""
    for begin in range(0, len(entries), _DECODE_ENTRIES):
        some = entries[begin : begin + _DECODE_ENTRIES]
        low, high = int(some.offset[0]), int(some.offset[-1] + some.length[-1])
        if not some.has_head.all():
            ends = (some.offset + some.length).tolist()
            yield from map(lay.decode_entry, map(view.__getitem__, map(slice, some.offset.tolist(), ends)))
            continue
        # One struct format for all: a single call gives the request id and the data of each.
        shape = "12s8x%ds" * len(some) % tuple((some.length - lay.ENTRY_HEADER_SIZE).tolist())
        parts = struct.Struct(f"<{shape}").unpack(view[low:high])
        yield from map(
            Entry._make, zip(some.term.tolist(), parts[1::2], some.type.tolist(), parts[::2], strict=True)
        )
