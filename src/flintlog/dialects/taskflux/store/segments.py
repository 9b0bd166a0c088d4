"""The segmented log, open for writing: append, roll, roll back, remove what a snapshot covers.

Order of durable steps, and why a crash between any two of them is harmless:
- append: records and end marker in one write, one sync; then they count.
- roll: the old segment is synced by its last append before the new file exists. The new file's header and its name
  are synced before its first records. A name without content is an empty newest segment.
- roll back: later segments go from the last to the first, each removal synced, so no gap can appear; then the
  segment that stays is cut and synced.
"""

from __future__ import annotations

import posixpath
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from flintlog.core import threads
from flintlog.core.kept import keep_cut
from flintlog.dialects.taskflux import layout as lay
from flintlog.dialects.taskflux import rules, scan
from flintlog.dialects.taskflux.batch import Blob, Ints
from flintlog.dialects.taskflux.files import Segment, SegmentFile, read_segment
from flintlog.dialects.taskflux.layout import Layout
from flintlog.dialects.taskflux.rules import Limits
from flintlog.disk import COPY_BYTES_MAX, Disk, File
from flintlog.errors import RefusedError

BLANK = lay.SEGMENT_HEADER_SIZE
_SMALL_WRITE_BYTES = 1 << 16  # for a larger write the zeros cost more than not growing saves


@dataclass(slots=True)
class _Tail:
    """The newest segment. `end` is the offset behind its last record."""

    file: File
    first: int
    end: int = BLANK
    starts: array[int] = field(default_factory=lambda: array("q"))
    clean: bool = True  # nothing but zeros behind the end marker
    reserved: int = 0  # the file reaches up to here: a write below does not make it grow
    lent: bool = False  # we wrote these zeros ahead, and cut them again

    @property
    def next(self) -> int:
        return self.first + len(self.starts)


class SegmentLog:
    """Segments that follow each other without a gap; the newest one is written."""

    def __init__(
        self, disk: Disk, data: str, layout: Layout, limits: Limits, *, preallocate: bool, reserve_bytes: int
    ) -> None:
        self._disk = disk
        self._data = data
        self._directory = posixpath.join(data, lay.LOG_DIRECTORY)
        self._layout = layout
        self._limits = limits
        self._preallocate = preallocate
        self._reserve_bytes = 0 if preallocate else min(reserve_bytes, limits.hard)
        self._sealed: list[int] = []  # first LSNs
        # Held while segments are added or removed: a snapshot removes them beside the writer.
        self._shape = threads.lock()
        self._tail: _Tail

    # Opening

    def open(self, older: Sequence[int], tail: Segment) -> None:
        """Take over segments that were read; cut what is torn, and sync what another process left unsynced."""
        self._sealed = list(older)
        self._tail = self._take_over(tail)

    def create(self, first: int) -> None:
        """Begin with one empty segment."""
        self._tail = self._new_segment(first)

    def _take_over(self, segment: Segment) -> _Tail:
        file = self._disk.open(posixpath.join(self._data, segment.file.name), "write")
        starts = array("q", segment.records.offset.tobytes())
        tail = _Tail(file, segment.first, segment.end, starts, clean=not segment.stale_bytes)
        tail.reserved = segment.file.size
        # Zeros that a killed process left; not ours if the original preallocates its segments.
        tail.lent = self._reserve_bytes > 0 and self._layout is lay.DESIGNED
        if segment.uninitialised:
            keep_cut(self._disk, self._data, file, 0)
            return self._begin(tail)
        if segment.damage is not None:
            keep_cut(self._disk, self._data, file, tail.end)
            self._cut(tail)
        file.sync()  # what we read may be only in the page cache; sync it before new records follow
        return tail

    def close(self, *, intact: bool = True) -> None:
        """Close the newest segment; one whose last write failed is left as it is."""
        if intact:
            self._give_back()
        self._tail.file.close()

    # What is here

    @property
    def first(self) -> int:
        return self._sealed[0] if self._sealed else self._tail.first

    @property
    def last(self) -> int:
        return self._tail.next - 1

    @property
    def segment_firsts(self) -> list[int]:
        with self._shape:
            return [*self._sealed, self._tail.first]

    @property
    def tail_size(self) -> int:
        """The size to which the limits apply."""
        return max(self._tail.end, lay.SEGMENT_EMPTY_SIZE)

    # Writing

    def append(self, blobs: Sequence[Blob], *, committed: int) -> None:
        """Write records behind the last one; they are durable on return. Rolls by the rules."""
        if self._tail.next + sum(blob.count for blob in blobs) > lay.LSN_MAX + 1:
            raise RefusedError(f"the log is full: {lay.LSN_MAX} is the last LSN", file=self._data)
        if self._limits.rolls(self.tail_size, all_committed=committed >= self.last) and self._tail.starts:
            self._roll()
        full_at = self._limits.full_at(self._layout.edition)
        pending: list[bytes | bytearray | memoryview] = []
        starts = array("q")
        end = self._tail.end
        for blob in blobs:
            done = 0
            while done < blob.count:
                held = end - self._tail.end
                if (end >= full_at and end > BLANK) or held >= scan.COMMIT_BYTES_MAX:
                    self._write(pending, starts)
                    pending, starts = [], array("q")
                    if end >= full_at:
                        self._roll()
                    end = self._tail.end
                    held = 0
                piece: bytes | bytearray | memoryview
                if blob.ends is None:
                    piece, done = blob.data, 1
                    starts.append(end)
                else:
                    room = min(full_at - end, scan.COMMIT_BYTES_MAX - held)
                    piece, begins, done = _take(blob, blob.ends, done, room)
                    starts.frombytes((begins + end).tobytes())
                pending.append(piece)
                end += len(piece)
        self._write(pending, starts)

    def _write(self, pieces: list[bytes | bytearray | memoryview], starts: array[int]) -> None:
        tail = self._tail
        if not tail.clean:
            keep_cut(self._disk, self._data, tail.file, tail.end)
            self._cut(tail)
            tail.file.sync()  # stale records must be gone before new ones can end where they begin
        content = b"".join([*pieces, lay.END_MARKER])
        tail.file.pwrite(content + self._reserve(tail.end + len(content), len(content)), tail.end)
        tail.file.sync()
        tail.starts.extend(starts)
        tail.end += len(content) - len(lay.END_MARKER)

    def _reserve(self, end: int, size: int) -> bytes:
        """Zeros to write behind a small write that makes the file grow, so that the next ones do not."""
        tail = self._tail
        if end <= tail.reserved or size > _SMALL_WRITE_BYTES or not self._reserve_bytes:
            return b""
        tail.reserved = end + self._reserve_bytes
        tail.lent = True
        return bytes(self._reserve_bytes)

    def _give_back(self) -> None:
        """Cut the zeros that were written ahead. Not synced: zeros at the end of a segment mean nothing."""
        tail = self._tail
        if tail.reserved > COPY_BYTES_MAX:
            return  # cutting a file that a reader has mapped kills the reader
        if tail.lent and tail.reserved > tail.end + len(lay.END_MARKER):
            tail.file.truncate(tail.end + len(lay.END_MARKER))
            tail.lent = False

    def _cut(self, tail: _Tail) -> None:
        """Make the segment end behind its last record.

        The end marker comes from growing the file, not from a write: a torn write over the marker of a record
        would leave neither a record nor an end.
        """
        tail.file.truncate(tail.end)
        tail.file.truncate(tail.end + len(lay.END_MARKER))
        tail.clean = True
        tail.reserved = 0

    def _new_segment(self, first: int) -> _Tail:
        return self._begin(_Tail(self._disk.open(self._path(first), "create"), first))

    def _begin(self, tail: _Tail) -> _Tail:
        """An empty segment, durable with its name. The file grows behind its header: zeros alone mean nothing."""
        tail.file.truncate(0)
        header = self._layout.segment_header() + lay.END_MARKER
        tail.file.pwrite(header, 0)
        tail.reserved = max(len(header), self._limits.soft if self._preallocate else 0)
        tail.file.truncate(tail.reserved)
        tail.file.sync()
        self._disk.sync_directory(self._directory)
        return tail

    def _roll(self) -> None:
        fresh = self._new_segment(self._tail.next)
        self._give_back()
        self._tail.file.close()
        with self._shape:
            self._sealed.append(self._tail.first)
            self._tail = fresh

    def take_in(self, file: File, starts: np.ndarray) -> None:
        """Make a segment that was written elsewhere the newest one: its records count from then on, all or none.

        If the newest segment has no records, it takes that one's place and name.
        """
        old, first, size = self._tail, self._tail.next, file.size()
        self._give_back()
        self._disk.put(file, self._path(first))
        self._disk.sync_directory(self._directory)
        end = size - len(lay.END_MARKER)
        fresh = _Tail(self._disk.open(self._path(first), "write"), first, end, array("q", starts.tobytes()))
        fresh.reserved = size
        old.file.close()
        with self._shape:
            if old.starts:
                self._sealed.append(old.first)
            self._tail = fresh

    def roll_back(self, first_gone: int) -> None:
        """Forget the entries from `first_gone` on, also across segments."""
        while self._tail.first >= first_gone and self._sealed:
            self._tail.file.close()
            self._disk.unlink(self._path(self._tail.first))
            self._disk.sync_directory(self._directory)
            self._tail = self._take_over(self._read(self._sealed.pop(), newest=True))
        tail = self._tail
        keep = first_gone - tail.first
        if keep >= len(tail.starts):
            return
        tail.end = tail.starts[keep]
        del tail.starts[keep:]
        self._cut(tail)
        tail.file.sync()

    def restart(self, first: int) -> None:
        """Drop every segment and begin anew at `first`, where no segment begins: a snapshot has replaced them."""
        old = [*self._sealed, self._tail.first]
        assert first not in old
        self._tail.file.close()
        self._sealed = []
        self.create(first)
        for gone in old:
            self._disk.unlink(self._path(gone))

    def remove_covered(self, snapshot_index: int) -> int:
        """Remove segments that hold only LSNs below the snapshot's; returns how many.

        It syncs nothing: if a crash undoes a removal, opening recognises the segment and removes it.
        """
        count = rules.superfluous(self.segment_firsts, snapshot_index)
        with self._shape:
            gone = self._sealed[:count]
            del self._sealed[:count]
        for first in gone:
            self._disk.unlink(self._path(first))
        return count

    def remove_islands(self, snapshot_index: int) -> None:
        """Remove segments below the snapshot that a crash brought back while those behind them stayed away.

        Opening does not read what a snapshot covers, so it does not see these.
        """
        firsts = self.segment_firsts
        for at in reversed(range(len(firsts) - 1)):
            if firsts[at + 1] - 1 > snapshot_index:
                continue  # behind the snapshot opening has seen no gap
            if self._read(firsts[at], newest=False).last + 1 != firsts[at + 1]:
                del self._sealed[: at + 1]
                for first in firsts[: at + 1]:
                    self._disk.unlink(self._path(first))
                return

    # Reading

    def read(self, lsn: int) -> tuple[Segment, int]:
        """The segment that holds `lsn`, and its place in it."""
        firsts = self.segment_firsts
        first = firsts[bisect_right(firsts, lsn) - 1]
        segment = self._read(first, newest=first == self._tail.first)
        return segment, lsn - first

    def _read(self, first: int, *, newest: bool) -> Segment:
        name = f"{lay.LOG_DIRECTORY}/{lay.segment_name(first)}"
        found = self._disk.stat(posixpath.join(self._data, name))
        size = found.size if found else 0
        file = SegmentFile(name, first, size)
        # A copy: a roll-back may cut the file under a reader.
        return read_segment(self._disk, self._data, file, self._layout, newest=newest, copy=True)

    def _path(self, first: int) -> str:
        return posixpath.join(self._directory, lay.segment_name(first))


def _take(blob: Blob, ends: Ints, done: int, room: int) -> tuple[memoryview, Ints, int]:
    """The records of `blob` from `done` on that fit: all that start within `room`, at least one."""
    begin = int(ends[done - 1]) if done else 0
    # The record that crosses the limit still belongs to this segment: limits are checked between records.
    upto = min(int(np.searchsorted(ends, begin + room, side="left")) + 1, blob.count)
    upto = max(upto, done + 1)
    end = int(ends[upto - 1])
    begins = np.concatenate([[begin], ends[done : upto - 1]]).astype(np.int64) - begin
    return memoryview(blob.data)[begin:end], begins, upto
