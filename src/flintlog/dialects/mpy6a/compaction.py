"""Which files to merge: those that are no longer written, for their unread remains.

Neighbours of one delay become one file, up to the size of a full one. It stands where the first of them stood,
so order by time is kept. A single file is rewritten when more than half of it is read.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from flintlog.dialects.mpy6a.replay import File, Machine


@dataclass(frozen=True, slots=True)
class Merge:
    """Neighbouring files of one delay that become one."""

    delay: int
    files: tuple[File, ...]

    @property
    def live_bytes(self) -> int:
        return sum(end - begin for file in self.files for begin, end in file.unread())

    @property
    def dead_bytes(self) -> int:
        return sum(file.length for file in self.files) - self.live_bytes


def plan(machine: Machine, file_bytes: int, keep: Container[str] = ()) -> list[Merge]:
    """The merges; files named in `keep` stay as they are."""
    found = []
    for delay, chain in sorted(machine.chains.items()):
        group: list[File] = []
        size = 0
        for file in chain:
            fits = not file.written and file.name not in keep
            if not fits or size + file.length - file.offset > file_bytes:
                found += _worth(delay, group)
                group, size = [], 0
            if fits:
                group.append(file)
                size += file.length - file.offset
        found += _worth(delay, group)
    return found


def _worth(delay: int, group: list[File]) -> list[Merge]:
    merge = Merge(delay, tuple(group))
    return [merge] if len(group) > 1 or (group and merge.dead_bytes > merge.live_bytes) else []
