"""Columns to the bytes of many puts at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from flintlog.columns.compile import kernel
from flintlog.columns.gather import offsets_of
from flintlog.columns.payloads import Payloads
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone.scan import Words


def encode_puts(storage: int, keys: Payloads, values: Payloads, major: int, minor: Words) -> bytearray:
    """Puts into one storage, back to back."""
    ends = offsets_of(keys.length + values.length + lay.PUT_SIZE)
    out = bytearray(int(ends[-1]))
    _encode.run(
        len(out),
        np.frombuffer(out, np.uint8),
        ends,
        np.uint64(storage),
        keys.array,
        keys.start,
        keys.length,
        values.array,
        values.start,
        values.length,
        np.uint64(major),
        minor,
    )
    return out


@kernel
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
    major: Any,
    minor: Any,
) -> None:
    low = np.uint64(0xFF)
    for row in range(len(key_start)):
        at = ends[row]
        key_size, value_size = key_length[row], value_length[row]
        out[at] = 1
        for place in range(4):
            out[at + 1 + place] = (key_size >> (8 * place)) & 0xFF
            out[at + 5 + place] = (value_size >> (8 * place)) & 0xFF
        version = at + 17 + key_size
        for place in range(8):
            shift = np.uint64(8 * place)
            out[at + 9 + place] = (storage >> shift) & low
            out[version + place] = (major >> shift) & low
            out[version + 8 + place] = (minor[row] >> shift) & low
        begin = key_start[row]
        for place in range(key_size):  # keys are short: a slice would cost more
            out[at + 17 + place] = keys[begin + place]
        begin = value_start[row]
        out[version + 16 : version + 16 + value_size] = values[begin : begin + value_size]
