"""Columns to the bytes of many puts and removals."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flintlog.columns.compile import kernel, kernel_beside, le32
from flintlog.columns.gather import offsets_of
from flintlog.columns.payloads import Payloads
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone.scan import Words


def encode_puts(storage: int, keys: Payloads, values: Payloads, major: int, minor: Words) -> bytearray:
    """Puts into one storage, back to back."""
    storages = np.full(len(keys), storage, np.uint64)
    return encode_changes(storages, keys, values, np.ones(len(keys), np.bool_), major, minor)


def encode_changes(
    storage: Words, keys: Payloads, values: Payloads, puts: NDArray[np.bool_], major: int, minor: Words
) -> bytearray:
    """A put for each row, or a removal where `puts` is false; back to back."""
    ends = offsets_of(np.where(puts, values.length + lay.PUT_SIZE, lay.REMOVE_SIZE) + keys.length)
    out = bytearray(int(ends[-1]))
    _encode.run(
        len(out),
        np.frombuffer(out, np.uint8),
        ends,
        storage,
        keys.array,
        keys.start,
        keys.length,
        values.array,
        values.start,
        values.length,
        puts,
        np.uint64(major),
        minor,
    )
    return out


_PUT = struct.Struct("<BIIQ").pack  # its size up to the key
_REMOVE = struct.Struct("<BIQ").pack
_VERSION = struct.Struct("<QQ").pack
_FEW = 64  # for fewer rows arrays cost more than they save

Row = tuple[
    int, bytes, bytes | None, int
]  # storage, key, value (None takes the key away), second half of the version


def encode_rows(rows: Sequence[Row], epoch: int) -> bytes | bytearray:
    """A put or a removal for each row, back to back."""
    if len(rows) < _FEW:
        return b"".join([_entry(storage, key, value, epoch, minor) for storage, key, value, minor in rows])
    storages, keys, values, minors = zip(*rows, strict=True)
    return encode_changes(
        np.array(storages, np.uint64),
        Payloads.of(keys),
        Payloads.of([value or b"" for value in values]),
        np.array([value is not None for value in values]),
        epoch,
        np.array(minors, np.uint64),
    )


def _entry(storage: int, key: bytes, value: bytes | None, major: int, minor: int) -> bytes:
    if value is None:
        return _REMOVE(lay.REMOVE, len(key), storage) + key + _VERSION(major, minor)
    return _PUT(lay.PUT, len(key), len(value), storage) + key + _VERSION(major, minor) + value


def _encode_each(
    out: Any,
    ends: Any,
    storage: Any,
    keys: Any,
    key_start: Any,
    key_length: Any,
    values: Any,
    value_start: Any,
    value_length: Any,
    puts: Any,
    major: Any,
    minor: Any,
) -> None:
    """The same bytes, entry by entry."""
    names, contents = keys.tobytes(), values.tobytes()
    columns = (storage, key_start, key_length, value_start, value_length, puts, minor)
    parts = [
        _entry(
            number,
            names[key : key + room],
            contents[value : value + size] if is_put else None,
            int(major),
            second,
        )
        for number, key, room, value, size, is_put, second in zip(
            *(one.tolist() for one in columns), strict=True
        )
    ]
    out[:] = np.frombuffer(b"".join(parts), np.uint8)


@kernel_beside(_encode_each, times=4)
def _encode(
    out: Any,
    ends: Any,
    storage: Any,
    keys: Any,
    key_start: Any,
    key_length: Any,
    values: Any,
    value_start: Any,
    value_length: Any,
    puts: Any,
    major: Any,
    minor: Any,
) -> None:
    low = np.uint64(0xFF)
    for row in range(len(key_start)):
        at = ends[row]
        key_size, value_size = key_length[row], value_length[row]
        out[at] = 1 if puts[row] else 5
        head = 9 if puts[row] else 5
        for place in range(4):
            out[at + 1 + place] = (key_size >> (8 * place)) & 0xFF
            if puts[row]:
                out[at + 5 + place] = (value_size >> (8 * place)) & 0xFF
        version = at + head + 8 + key_size
        for place in range(8):
            shift = np.uint64(8 * place)
            out[at + head + place] = (storage[row] >> shift) & low
            out[version + place] = (major >> shift) & low
            out[version + 8 + place] = (minor[row] >> shift) & low
        begin = key_start[row]
        for place in range(key_size):  # for short keys a slice costs more
            out[at + head + 8 + place] = keys[begin + place]
        if puts[row]:
            begin = value_start[row]
            out[version + 16 : version + 16 + value_size] = values[begin : begin + value_size]


@kernel
def _stamp(data: Any, at: int, size: int, major: Any) -> int:
    """Change the first half of the version of whole puts and removals; returns the offset behind them."""
    low = np.uint64(0xFF)
    while size - at >= 9:
        key_size = le32(data, at + 1)
        is_put = data[at] == 1
        version = at + (17 if is_put else 13) + key_size
        following = version + 16 + (le32(data, at + 5) if is_put else 0)
        if following > size:
            break
        for place in range(8):
            data[version + place] = (major >> np.uint64(8 * place)) & low
        at = following
    return at


def stamp(data: bytearray, epoch: int) -> int:
    """Change the epoch of the puts and removals that are whole in `data`; returns the offset behind the last one."""
    return int(_stamp.run(len(data), np.frombuffer(data, np.uint8), 0, len(data), np.uint64(epoch)))
