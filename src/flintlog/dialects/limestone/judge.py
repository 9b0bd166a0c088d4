"""What stands where a walk stopped: a torn tail, or damage.

*The rule.* A session is synced before its epoch becomes durable, so bytes that no durable snippet can need are torn: no
call has acknowledged them. Bytes at which a walk stops are torn

1. inside a snippet above the durable epoch, or an invalidated one, or
2. behind a closed snippet, or at the beginning of a file: a begin marker that is cut, or zeros, or
3. where snippets have no end markers (the designed edition, versions up to 5), behind any entry: a begin marker that
   is cut, or zeros that are at least as long as one or reach to the end of the file, or
4. behind a begin marker without entries when zeros follow: the marker itself arrived in part,

and in each case only if no durable snippet follows. Everything else is damage, as is an entry outside a snippet.

Without checksums no reader can see more: a flipped bit in a key, a value or a version looks like what was written, and
so does a snippet that lost its last entries with its end marker.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from flintlog.columns.compile import kernel, le64
from flintlog.core.finding import Damage
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone import scan
from flintlog.dialects.limestone.scan import Around, Snippets, Stop, Walk

_BEGIN, _END, _INVALIDATED, _TYPE_MAX = lay.BEGIN, lay.END, lay.INVALIDATED, lay.TYPE_MAX
_MARKER_SIZE, _END_SIZE, _NO_CHECKSUM = lay.MARKER_SIZE, lay.END_SIZE, lay.NO_CHECKSUM
_EPOCH_AT = lay.EPOCH_AT
_SEARCH_CHUNK = 1 << 20
_PROBE_BYTES = 1 << 16
_PROBES_MAX = 256


@dataclass(frozen=True, slots=True)
class Tail(Damage):
    """Bytes that cannot be read. A cut or a mark begins at `begin`; a durable snippet begins or ends at `resumes`."""

    begin: int = 0
    marked: bool = False  # inside an invalidated snippet, which no reader reads


def judge(buffer: memoryview, walk: Walk, durable: int, *, end_markers: bool) -> Tail | None:
    """Apply the rule of this module's docstring; None when the file simply ends."""
    stop = walk.stop
    if stop.good:
        return None
    last = walk.snippets[-1:] if stop.inside else None
    dead = last is not None and (int(last.kind[0]) == lay.INVALIDATED or int(last.epoch[0]) > durable)
    begin, torn = stop.offset, False
    if last is not None and dead:
        begin, torn = int(last.offset[0]), True
    elif last is None:
        torn = stop.reason == scan.CUT or not buffer[stop.offset]
    elif stop.offset == int(last.offset[0]) + lay.MARKER_SIZE and _zeros(buffer, stop.offset):
        begin, torn = int(last.offset[0]), True
    elif not end_markers:
        torn = _is_cut_marker(buffer, stop) or _zeros(buffer, stop.offset)
    resumes = None
    if torn or (last is None and stop.reason == scan.TYPE):
        resumes = find_durable(buffer, stop.offset + 1, _epoch_before(walk.snippets, durable), durable)
    marked = _is_marked(buffer, stop, last)
    code, message, expected, found = _describe(buffer, stop)
    if resumes is not None:
        torn, message = False, f"{message}, and a durable snippet follows"
    return Tail(code, message, stop.offset, expected, found, torn, resumes, begin, marked)


def _is_marked(buffer: memoryview, stop: Stop, last: Snippets | None) -> bool:
    if last is not None and int(last.kind[0]) == lay.INVALIDATED:
        return True
    return stop.reason == scan.CUT and int(buffer[stop.offset]) == lay.INVALIDATED


def _is_cut_marker(buffer: memoryview, stop: Stop) -> bool:
    return stop.reason == scan.CUT and int(buffer[stop.offset]) in (lay.BEGIN, lay.INVALIDATED)


def _zeros(buffer: memoryview, at: int) -> bool:
    """Are there zeros here, as many as a begin marker is long or up to the end of the file?"""
    return not any(buffer[at : at + lay.MARKER_SIZE])


def _epoch_before(snippets: Snippets, durable: int) -> int:
    """The epoch of the last durable snippet. Later snippets have at least this one: epochs do not descend in a file."""
    counted = snippets.epoch[(snippets.kind == lay.BEGIN) & (snippets.epoch <= np.uint64(durable))]
    return max(int(counted[-1]) if len(counted) else 0, 1)


def _describe(buffer: memoryview, stop: Stop) -> tuple[str, str, str, str]:
    at = stop.offset
    if stop.reason == scan.OUTSIDE:
        word = lay.OPERATIONS.get(int(buffer[at]), "end marker")
        return "entry-outside", "an entry stands outside a snippet", "a begin marker", word
    if stop.reason == scan.CUT:
        size = lay.record_size(buffer, at)
        left = len(buffer) - at
        return "entry-cut", "the file ends inside a record", f"{size} bytes", f"{left} bytes"
    return "entry-type", "no record begins here", "a type from 1 to 10 but 4", str(int(buffer[at]))


@kernel
def _find(buffer: Any, at: int, size: int, low: Any, high: Any) -> int:
    while at + _MARKER_SIZE < size:
        type_ = int(buffer[at])
        if type_ == _BEGIN or type_ == _END:  # noqa: SIM109 - compiled to one comparison less
            epoch = le64(buffer, at + _EPOCH_AT)
            if low <= epoch and epoch <= high:
                behind = int(buffer[at + _MARKER_SIZE])
                if type_ == _BEGIN:
                    if 0 < behind <= _TYPE_MAX:
                        return at
                elif behind == _NO_CHECKSUM and (
                    at + _END_SIZE == size
                    or int(buffer[at + _END_SIZE]) == _BEGIN
                    or int(buffer[at + _END_SIZE]) == _INVALIDATED
                ):
                    return at
        at += 1
    return -1


def find_durable(buffer: memoryview, start: int, low: int, high: int) -> int | None:
    """The offset of the first marker, at or behind `start`, of a snippet with an epoch from `low` to `high`."""
    if low > high:
        return None
    at = start
    for _ in range(_PROBES_MAX):
        found = int(_find.run(len(buffer) - at, buffer, at, len(buffer), np.uint64(low), np.uint64(high)))
        if found < 0:
            return None
        if int(buffer[found]) == lay.END or _is_snippet(buffer, found):
            return found
        at = found + 1
    return found  # too many look like one: let a person decide


def later_markers(buffer: memoryview, start: int, low: int) -> Iterator[int]:
    """The offsets, from `start` on, of markers with an epoch from `low` on, and of bytes that look like one."""
    at, high = start, np.uint64(lay.NUMBER_MAX)
    while True:
        found = int(_find.run(len(buffer) - at, buffer, at, len(buffer), np.uint64(low), high))
        if found < 0:
            return
        yield found
        at = found + 1


def walks_behind(buffer: memoryview, walk: Walk) -> Iterator[Walk]:
    """The walks behind the damage that stopped this one: each from a good snippet to the next damage."""
    low = _epoch_before(walk.whole, lay.NUMBER_MAX)
    at = walk.stop.offset + 1
    while (found := next(later_markers(buffer, at, low), None)) is not None:
        at = found + 1
        if int(buffer[found]) == lay.BEGIN and _is_snippet(buffer, found):
            behind = scan.walk(buffer, found)
            yield behind
            at = behind.stop.offset + 1


def _is_snippet(buffer: memoryview, at: int) -> bool:
    """Do good records follow this begin marker?"""
    seen = scan.walk(buffer, at, at + _PROBE_BYTES)
    whole = seen.stop.good or len(seen.snippets) > 1
    return whole and (seen.entries > 0 or bool(seen.snippets.closed.any()))


def resumption(view: memoryview, at: int, epoch: int, durable: int) -> tuple[int, Around | None]:
    """Where reading goes on behind damage at `at`, and the snippet around it when only its begin marker is gone."""
    orphan = scan.walk(view, at, None, Around(at, 0, lay.BEGIN)).snippets[:1]
    end_epoch = int(orphan.end_epoch[0])
    if orphan.closed[0] and int(orphan.entries[0]) and epoch <= end_epoch <= durable:
        return at, Around(at, end_epoch, lay.BEGIN)
    following = find_durable(view, at + 1, epoch, durable)
    if following is None:
        return len(view), None
    return following + (lay.END_SIZE if int(view[following]) == lay.END else 0), None
