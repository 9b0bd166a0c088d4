"""What can be saved of a damaged log: everything but the bytes that cannot be read.

The entries of a session stand for themselves. So those before the damage stay, and reading goes on at the next durable
snippet. The end marker of a snippet gives back a begin marker that is gone.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone import scan
from flintlog.dialects.limestone.judge import judge, resumption

Passage = bytes | tuple[int, int]  # new bytes, or a range of the old ones


@dataclass(slots=True)
class Salvage:
    """The new content of a file in pieces, and the ranges of the old one that it gives up."""

    pieces: list[Passage] = field(default_factory=list)
    lost: list[tuple[int, int]] = field(default_factory=list)
    renewed: list[int] = field(default_factory=list)  # where a begin marker was made again

    def keep(self, begin: int, end: int) -> None:
        if end > begin:
            self.pieces.append((begin, end))


def salvage(view: memoryview, durable: int, *, end_markers: bool) -> Salvage:
    """Go through a log and leave out what cannot be read."""
    found = Salvage()
    at, epoch = 0, 1
    while at < len(view):
        walk = scan.walk(view, at)
        stop = walk.stop
        if stop.good:
            found.keep(at, len(view))
            break
        tail = judge(view, walk, durable, end_markers=end_markers)
        assert tail is not None
        if tail.torn:
            found.keep(at, tail.begin)
            break
        found.keep(at, stop.offset)
        counted = walk.snippets[
            (walk.snippets.kind == lay.BEGIN) & (walk.snippets.epoch <= np.uint64(durable))
        ]
        if len(counted):
            epoch = max(epoch, int(counted.epoch[-1]))
        if stop.inside and end_markers:
            found.pieces.append(lay.encode_end(int(walk.snippets.epoch[-1])))
        at = _resume(view, stop.offset, epoch, durable, found)
    return found


def _resume(view: memoryview, at: int, epoch: int, durable: int, found: Salvage) -> int:
    """Where reading goes on behind damage."""
    following, around = resumption(view, at, epoch, durable)
    if around is None:
        found.lost.append((at, following))
        return following
    end = int(scan.walk(view, at, None, around).snippets.end[0])
    found.pieces.append(lay.encode_begin(around.epoch))
    found.keep(at, end)
    found.renewed.append(at)
    return end
