"""`IndexFile`: a table of slots and the entries behind it.

An entry's bytes are synced before its slot is written, and the slot is what commits it. Old slots in the place of the
new ones and behind them are zeroed and synced before the commit. A file is made under a scratch name and gets its own
when it is whole.
"""

from __future__ import annotations

import posixpath
from itertools import chain

import numpy as np

from flintlog.core.finding import Damage
from flintlog.dialects.zmqraft import layout as lay
from flintlog.dialects.zmqraft import scan
from flintlog.dialects.zmqraft.batch import Batch
from flintlog.dialects.zmqraft.findings import CODES
from flintlog.dialects.zmqraft.scan import Entries, Ints, Table
from flintlog.dialects.zmqraft.store.stamp import Stamps
from flintlog.disk import Disk, File, write_all
from flintlog.errors import RefusedError, UsageError


class IndexFile:
    """One index file, open for writing."""

    def __init__(
        self, file: File, table: Table, slots: Ints, *, data_size_max: int = lay.DATA_SIZE_MAX
    ) -> None:
        self._file = file
        self.first = table.first
        self.capacity = table.capacity
        self._data_start = table.data_start
        self._slots = slots
        self.count = len(table.ends)
        self._data_size_max = data_size_max

    @classmethod
    def create(
        cls,
        disk: Disk,
        path: str,
        first: int,
        capacity: int,
        stamps: Stamps,
        *,
        data_size_max: int = lay.DATA_SIZE_MAX,
    ) -> IndexFile:
        """Make a file for `capacity` entries from `first` on, in a durable directory; whole and durable on return."""
        if not 0 < capacity <= lay.CAPACITY_FILE_MAX:
            raise UsageError(f"capacity {capacity} is outside 1..{lay.CAPACITY_FILE_MAX}")
        lay.check_number("index", first)
        file = disk.create_scratch(stamps.scratch(path))
        meta = stamps.meta()
        table_end = lay.TABLE_OFFSET + lay.SLOT_SIZE * capacity
        file.pwrite(lay.encode_index_head(capacity, first), 0)
        file.pwrite(meta + lay.segment(lay.ENTRIES_TOKEN, b""), table_end)  # the table between reads as zeros
        disk.install(file, path)
        start = table_end + len(meta) + lay.TOKEN_HEADER_SIZE
        table = Table(first, capacity, start, np.empty(0, np.int64), False)
        return cls(file, table, np.zeros(capacity, np.int64), data_size_max=data_size_max)

    @classmethod
    def open(cls, disk: Disk, path: str, first: int, *, data_size_max: int = lay.DATA_SIZE_MAX) -> IndexFile:
        """Open a file for writing; what another process left unsynced is made durable first."""
        file = disk.open(path, "write")
        try:
            view = file.view(copy=True)
            table = scan.read_table(view, first)
            if isinstance(table, Damage):
                raise CODES.of(table, posixpath.basename(path)).error(posixpath.dirname(path))
            slots = np.frombuffer(view, "<u4", table.capacity, lay.TABLE_OFFSET).astype(np.int64)
            if scan.is_closing(view, table.capacity):
                _write_capacity(file, table.capacity, first)
            file.sync()
        except BaseException:
            file.close()
            raise
        return cls(file, table, slots, data_size_max=data_size_max)

    # What is here

    @property
    def next(self) -> int:
        """The index that the next entry gets."""
        return self.first + self.count

    @property
    def is_full(self) -> bool:
        """Does every slot have an entry?"""
        return self.count == self.capacity

    @property
    def data_size(self) -> int:
        """How many bytes of entries the file has."""
        return int(self._slots[self.count - 1]) if self.count else 0

    def fits(self, size: int) -> bool:
        """Is there a slot and room for one more entry of this size?"""
        return not self.is_full and self.data_size + size < self._data_size_max

    def read(self, disk: Disk, begin: int = 0, end: int | None = None) -> tuple[memoryview, Entries]:
        """The entries in the slots from `begin` to `end`, and their bytes, which the offsets count into.

        Reads by name, because the open file may be closed meanwhile.
        """
        end = self.count if end is None else end
        start = int(self._slots[begin - 1]) if begin else 0
        stop = int(self._slots[end - 1]) if end else 0
        with disk.open(self._file.path) as file:
            view = memoryview(file.pread(stop - start, self._data_start + start))
        table = Table(self.first, self.capacity, -start, self._slots[:end], False)
        entries, damage = scan.read_entries(view, table, begin)
        if damage is not None:
            name = posixpath.basename(self._file.path)
            raise CODES.of(damage, name, self._data_start + start).error(posixpath.dirname(self._file.path))
        return view, entries

    # Writing

    def append(self, entries: Batch, begin: int = 0) -> int:
        """Write as many entries from `begin` on as fit; committed and durable on return. Returns how many."""
        start = entries.start_of(begin)
        ends = entries.ends[begin:] + (self.data_size - start)
        room = int(np.searchsorted(ends, self._data_size_max, side="left"))
        taken = min(len(ends), self.capacity - self.count, room)
        if not taken:
            return 0
        stop = entries.start_of(begin + taken)
        self._file.pwrite(memoryview(entries.data)[start:stop], self._data_start + self.data_size)
        self._clear_dirty(taken)
        self._file.sync()  # no slot may be on disk before its entry, nor beside an old slot
        self._write_slots(self.count, ends[:taken])
        self._file.sync()
        self.count += taken
        return taken

    def _clear_dirty(self, taken: int) -> None:
        """Zero old slots in the place of new ones, and behind these up to the first free slot.

        A crash keeps slots one by one: an old one behind a new one would make an entry of the bytes between their ends.
        """
        end = self.count + taken
        if end < self.capacity and self._slots[end]:
            free = np.flatnonzero(self._slots[end:] == 0)
            end = end + int(free[0]) if len(free) else self.capacity
        if self._slots[self.count : end].any():
            self._write_slots(self.count, np.zeros(end - self.count, np.int64))

    def _write_slots(self, slot: int, values: Ints) -> None:
        self._file.pwrite(values.astype("<u4").tobytes(), lay.TABLE_OFFSET + lay.SLOT_SIZE * slot)
        self._slots[slot : slot + len(values)] = values

    def truncate(self, count: int) -> None:
        """Keep the first `count` entries; durable on return. The bytes of the others stay, uncommitted."""
        if count > self.count:
            raise RefusedError(f"the file holds {self.count} entries, not {count}", file=self._file.path)
        if count < self.count:
            gone = self.count - count
            self.count = count
            self._write_slots(count, np.zeros(gone, np.int64))
            self._file.sync()

    def close_early(self, disk: Disk, stamps: Stamps) -> None:
        """Give up the remaining slots, because the bytes ran out: the file is full from now on.

        The remaining slots become one segment of an unknown kind, which readers skip. The segment's length goes to the
        second of them, where it is a slot behind a free one. Then size and capacity shrink; if only the size did,
        opening finishes that. A single slot is too small for a segment: then the file is written anew without it.
        """
        left = self.capacity - self.count
        if left == 1:
            self._install_shrunk(disk, stamps)
        elif left:
            length = lay.SLOT_SIZE * left - lay.TOKEN_HEADER_SIZE
            if int(self._slots[self.count + 1]) != length:
                self._write_slots(self.count + 1, np.array([length], np.int64))
                self._file.sync()  # a wrong length behind the smaller table would hide the entries
            _write_capacity(self._file, self.count, self.first)
            self._file.sync()
        self.capacity = self.count
        self._slots = self._slots[: self.count]

    def _install_shrunk(self, disk: Disk, stamps: Stamps) -> None:
        """Put a copy without the free slots in the place of the file."""
        table_end = lay.TABLE_OFFSET + lay.SLOT_SIZE * self.capacity
        end = self._data_start + self.data_size
        slots = self._slots[: self.count].astype("<u4").tobytes()
        copy = disk.create_scratch(stamps.scratch(self._file.path))
        write_all(
            copy,
            chain([lay.encode_index_head(self.count, self.first), slots], self._file.chunks(table_end, end)),
        )
        copy.sync()
        # The name becomes durable with that of the next file, in the same directory.
        disk.rename(copy.path, self._file.path)
        copy.path = self._file.path
        self._file.close()
        self._file = copy
        self._data_start -= lay.SLOT_SIZE * (self.capacity - self.count)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _write_capacity(file: File, capacity: int, first: int) -> None:
    file.pwrite(lay.encode_index_head(capacity, first)[4:16], 4)
