"""The state as the bytes of a sorted file: `data/snapshot`, `cmpct_NNNN`, `pwal_0000.compacted`.

A sorted file is one snippet without an end marker: a begin marker, then the live entries as they were logged. The
compacted file of the shipped edition has zeros for the write versions. The original sorts storages by their bytes on
disk, so that a state in that order (`merge.by_bytes`) is needed for a file that it shall read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from flintlog.columns.gather import Ints, gather
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone.replay import Live, State
from flintlog.dialects.limestone.tables import pieces, zero_versions

T = TypeVar("T")


class Sorted(Protocol):
    """Live entries in key order: a state, or the places of one."""

    names: list[str]
    views: list[memoryview]

    def mapped(self, function: Callable[[Live], T]) -> Iterator[T]:
        """What a function makes of each batch."""


def sorted_file(state: State, epoch: int, *, zero_versions: bool = False) -> Iterator[bytes | bytearray]:
    """The bytes of the file in chunks, which can be given to `Disk.publish`."""
    yield lay.encode_begin(epoch)
    for data, _ in sorted_records(state, zero_versions=zero_versions):
        yield data


def sorted_records(state: Sorted, *, zero_versions: bool = False) -> Iterator[tuple[bytearray, Ints]]:
    """The live entries as they were logged, in chunks, with where each begins in its chunk (one more for the end)."""
    for chunks in state.mapped(lambda live: list(_records(state, live, zero_versions))):
        yield from chunks


def _records(state: Sorted, live: Live, zero: bool) -> Iterator[tuple[bytearray, Ints]]:
    for piece in pieces(live.length, state.names[0] if state.names else ""):
        data, starts = gather(state.views, live.file[piece], live.offset[piece], live.length[piece])
        if zero:
            zero_versions(data, starts[:-1], live.key_length[piece])
        yield data, starts
