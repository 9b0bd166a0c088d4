"""When a segment is full, when a snapshot is due, and which segments it covers: the notes' rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flintlog.dialects.taskflux.layout import Edition

SOFT_LIMIT_DEFAULT = 16 << 20
HARD_LIMIT_DEFAULT = 32 << 20
SNAPSHOT_THRESHOLD_DEFAULT = 5


@dataclass(frozen=True, slots=True)
class Limits:
    """Hints for the size of a segment in bytes, and the number of closed segments that ask for a snapshot."""

    soft: int = SOFT_LIMIT_DEFAULT
    hard: int = HARD_LIMIT_DEFAULT
    threshold: int = SNAPSHOT_THRESHOLD_DEFAULT

    def rolls(self, size: int, *, all_committed: bool) -> bool:
        """Does the next append begin a new segment?"""
        return (self.soft < size and all_committed) or self.hard < size

    def full_at(self, edition: Edition) -> int:
        """The size at which a segment takes no further record inside one append."""
        return self.hard if edition == "shipped" else self.hard + 1


def snapshot_due(
    edition: Edition, threshold: int, segment_firsts: Sequence[int], snapshot_index: int, commit_index: int
) -> bool:
    """Are there enough closed segments? `segment_firsts` are the first LSNs of all segments, the last one open."""
    if len(segment_firsts) <= threshold or not segment_firsts or commit_index < segment_firsts[0]:
        return False
    closed_lasts = [first - 1 for first in segment_firsts[1:]]
    if edition == "shipped":
        return threshold <= sum(last <= commit_index for last in closed_lasts)
    # Designed: the closed segments behind the one that holds the snapshot, up to and including the one that
    # holds the commit index.
    held = -1  # no segment holds the snapshot's LSN: all count
    for at, first in enumerate(segment_firsts):
        if snapshot_index >= first:
            held = at
    counted = sum(at > held and first <= commit_index for at, first in enumerate(segment_firsts[:-1]))
    return counted > threshold


def superfluous(segment_firsts: Sequence[int], snapshot_index: int) -> int:
    """How many segments, from the oldest on, hold only LSNs below the snapshot's. The newest one always stays."""
    count = 0
    for following in segment_firsts[1:]:
        if following - 1 >= snapshot_index:
            break
        count += 1
    return count
