"""What can be saved of damaged bytes: descriptors of a snapshot, records of a data file, the order of times.

The format has no checksums, so nothing proves that these bytes are right.
"""

from __future__ import annotations

import calendar
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flintlog.columns.compile import kernel
from flintlog.dialects.mpy6a import layout as lay
from flintlog.dialects.mpy6a import scan
from flintlog.dialects.mpy6a.layout import Descriptor, MalformedError, StateID
from flintlog.errors import DamageError

Ints = NDArray[np.int64]
_NAME = re.compile(rb"[1-9][0-9]*@[0-9]{10}(?:-[1-9][0-9]*)?\.data")
_SLACK_SECONDS = 2 * 86400  # a clock, or a time zone
_SPAN_SECONDS = 1 << 28  # more than eight years: no file is written for longer
_TERM_MAX = 1 << 32
_CHUNK_BYTES = 8 << 20


def descriptors(view: memoryview) -> list[Descriptor]:
    """The descriptors that can be read, also behind a damaged one; of two with one name the one that is read less."""
    found: dict[str, Descriptor] = {}
    try:
        found = {item.name: item for _, item in lay.read_snapshot(view)}
        if sum(len(item.encode()) for item in found.values()) == len(view):
            return list(found.values())
    except DamageError:
        pass
    found.clear()
    for match in _NAME.finditer(view):
        begin = match.start() - 1
        if begin < 0 or view[begin] != match.end() - match.start():
            continue
        try:
            item, _ = lay.read_descriptor(view, begin)
        except MalformedError:
            continue
        if max(item.offset, item.length) >= 1 << 62:
            continue
        other = found.get(item.name)
        if other is not None:
            newer = max(item, other, key=lambda one: one.last_id)
            item = Descriptor(
                item.name,
                min(item.id, other.id),
                newer.last_id,
                newer.flags,
                min(item.offset, other.offset),
                newer.length,
                min(item.replay, other.replay),
            )
        found[item.name] = item
    return list(found.values())


def earliest(name: str) -> int | None:
    """No session of a file with this name can be due before this time; None when the name has no time."""
    hour = name.partition("@")[2][:10]
    try:
        begun = calendar.timegm(time.strptime(hour, "%Y%m%d%H"))
    except ValueError:
        return None
    return begun + (lay.parse_name(name) or 0)


# Records


@dataclass(slots=True)
class Saved:
    """The records of a data file that can be read, up to `end`, with `holes` between them."""

    offset: Ints
    size: Ints
    time: Ints
    holes: list[tuple[int, int]]
    end: int
    torn: bool  # bytes behind `end` were never acknowledged
    greatest: StateID  # the greatest session id

    def ends(self) -> Ints:
        return self.offset + self.size

    def followed_by(self, rest: Saved, begin: int) -> Saved:
        """These records, then others from `begin` on."""
        hole = [(self.end, begin)] if self.end < begin and rest.end else []
        return Saved(
            np.concatenate((self.offset, rest.offset + begin)),
            np.concatenate((self.size, rest.size)),
            np.concatenate((self.time, rest.time)),
            self.holes + hole + [(first + begin, last + begin) for first, last in rest.holes],
            begin + rest.end if rest.end else self.end,
            rest.torn,
            max(self.greatest, rest.greatest),
        ).widened()

    def widened(self) -> Saved:
        """The same with holes that have room for a record: a smaller one means that its neighbour is wrong too."""
        keep = np.ones(len(self.offset), np.bool_)
        ends = self.ends()
        holes: list[tuple[int, int]] = []
        for begin, end in self.holes:
            before = int(np.searchsorted(self.offset, begin)) - 1
            behind = before + 1
            while end - begin < lay.RECORD_SIZE_MIN:
                if before >= 0 and keep[before]:
                    keep[before], begin = False, int(self.offset[before])
                    before -= 1
                elif behind < len(keep):
                    keep[behind], end = False, int(ends[behind])
                    behind += 1
                else:
                    break
            if holes and holes[-1][1] >= begin:
                begin = holes.pop()[0]
            holes.append((begin, end))
        return replace(
            self, offset=self.offset[keep], size=self.size[keep], time=self.time[keep], holes=holes
        )

    def boundary(self, at: int) -> int:
        """Where the record around an offset begins, or `end`."""
        if at >= self.end or not len(self.offset):
            return min(at, self.end)
        return int(self.offset[max(int(np.searchsorted(self.offset, at, side="right")) - 1, 0)])


def save_records(
    view: memoryview, name: str, bound: int, *, grows_from: int | None, ordered: bool = True
) -> Saved:
    """Read what can be read. The end of a file that is being written can be torn from `grows_from` on."""
    parts, stop = _scan(view, 0, 0, ordered=ordered)
    before = int(parts[-1].replay_time[-1]) if parts and ordered else bound
    if stop.good:
        return _saved(parts, [], stop.offset, False)
    if _is_torn(view, stop, before, grows_from):
        return _saved(parts, [], stop.offset, True)
    low = earliest(name)
    low = max((bound if low is None else low) - _SLACK_SECONDS, 1)
    high = low + _SPAN_SECONDS if ordered else np.iinfo(np.int64).max
    parts, at = [], 0
    holes: list[tuple[int, int]] = []
    while True:
        more, stop = _scan(view, at, low if ordered else 0, ordered=False)
        good, end = _plausible(more, high, stop.offset)
        parts += good
        if end == stop.offset:
            torn = _is_torn(view, stop, low, grows_from)
            if stop.good or torn:
                return _saved(parts, holes, end, torn)
        at = scan.record_behind(view, end, low)
        if at < 0:
            return _saved(parts, holes, end, False)
        holes.append((end, at))


def _is_torn(view: memoryview, stop: scan.Stop, before: int, grows_from: int | None) -> bool:
    grows = grows_from is not None and stop.offset >= grows_from
    damage = scan.judge_records(view, stop, before, written=grows)
    return damage is not None and damage.torn


def _scan(
    view: memoryview, start: int, before: int, *, ordered: bool
) -> tuple[list[scan.Records], scan.Stop]:
    parts = []
    stop: scan.Stop | None = None
    for records, stop in scan.record_batches(view, start, before=before, ordered=ordered):  # noqa: B007
        if len(records):
            parts.append(records)
    assert stop is not None
    return parts, stop


def _plausible(parts: list[scan.Records], high: int, end: int) -> tuple[list[scan.Records], int]:
    """The records up to the first with an impossible time, and where they end."""
    good: list[scan.Records] = []
    for records in parts:
        wild = np.flatnonzero(records.replay_time > high)
        if len(wild):
            row = int(wild[0])
            return [*good, records[:row]] if row else good, int(records.offset[row])
        good.append(records)
    return good, end


def _saved(parts: list[scan.Records], holes: list[tuple[int, int]], end: int, torn: bool) -> Saved:
    records = scan.Records.join(parts)
    known = records.term <= _TERM_MAX
    term = int(records.term[known].max(initial=0))
    index = int(records.index[known & (records.term == term)].max(initial=0))
    return Saved(
        records.offset,
        records.size,
        records.replay_time,
        holes,
        end,
        torn,
        StateID(term, index) if term else lay.ZERO,
    ).widened()


# Times


@kernel
def _longest(times: Any, tails: Any, before: Any, keep: Any) -> None:
    """Mark the longest subsequence of times that do not go back; of two equal ones that with the later times."""
    count = 0
    for at in range(len(times) - 1, -1, -1):
        low, high = 0, count
        while low < high:
            middle = (low + high) // 2
            if times[tails[middle]] < times[at]:
                high = middle
            else:
                low = middle + 1
        before[at] = tails[low - 1] if low > 0 else -1
        tails[low] = at
        if low == count:
            count += 1
    at = tails[count - 1] if count > 0 else -1
    while at >= 0:
        keep[at] = True
        at = before[at]


def mend_times(times: Ints) -> Ints:
    """Make times not go back: one that does not fit takes the next one that does, or the last.

    Records stand in the order in which they were stored, which is the order of their replay.
    """
    if not len(times) or (np.diff(times) >= 0).all():
        return times
    keep = np.zeros(len(times), np.bool_)
    _longest.run(8 * len(times), times, np.zeros(len(times), np.int64), np.zeros(len(times), np.int64), keep)
    kept = np.flatnonzero(keep)
    next_kept = np.minimum(np.searchsorted(kept, np.arange(len(times))), len(kept) - 1)
    return np.where(keep, times, times[kept[next_kept]])


# New content


def filler(size: int, due: int) -> bytes:
    """A record of exactly this size that stands where nothing can be read; it is never replayed."""
    head = lay.encode_record(lay.Record(due, StateID(1, 0), 0, 0, b""))[:-1]
    length = size - len(head) - 1
    while len(head) + len(lay.uvarint(length)) + length > size:
        length -= 1
    number = bytearray(lay.uvarint(length))
    while len(head) + len(number) + length < size:  # a longer form of the same number
        number[-1] |= 0x80
        number.append(0)
    return head + bytes(number) + bytes(length)


def content(view: memoryview, saved: Saved, times: Ints, filled: int, due: int) -> Iterator[bytes]:
    """The file with other times, without its holes; those that begin before `filled` keep their place.

    A hole is filled with the time of the record before it, or `due` when the file has no record.
    """
    holes = dict(saved.holes)
    ends = saved.ends()
    row = 0
    at = 0
    while at < saved.end:
        if at in holes:
            if at < filled:
                near = times[max(row - 1, 0)] if len(times) else due
                yield filler(holes[at] - at, int(near))
            at = holes[at]
            continue
        stop = int(np.searchsorted(ends, at + _CHUNK_BYTES, side="right"))
        breaks = [int(np.searchsorted(saved.offset, begin)) for begin in holes if begin > at]
        stop = min(max(stop, row + 1), *breaks, len(ends)) if breaks else min(max(stop, row + 1), len(ends))
        chunk = bytearray(view[at : int(ends[stop - 1])])
        changed = row + np.flatnonzero(times[row:stop] != saved.time[row:stop])
        if len(changed):
            places = (saved.offset[changed] - at)[:, None] + np.arange(8)
            np.frombuffer(chunk, np.uint8)[places] = (
                times[changed].astype("<i8").view(np.uint8).reshape(-1, 8)
            )
        yield bytes(chunk)
        at, row = int(ends[stop - 1]), stop
