"""`FileLog`: index files that follow each other, and the snapshot before them.

Every file but the last is full. Opening reads the head of every file and the entries of the last; `replay` says what
the files mean together.
"""

from __future__ import annotations

import posixpath
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np

from flintlog.core.finding import Damage, Finding
from flintlog.core.kept import keep_cut
from flintlog.core.position import span
from flintlog.dialects.zmqraft import batch, scan
from flintlog.dialects.zmqraft import layout as lay
from flintlog.dialects.zmqraft.batch import Batch
from flintlog.dialects.zmqraft.files import (
    Listing,
    check_snapshot_name,
    find_snapshot,
    leaf_directories,
    list_files,
    read_head,
    read_snapshot_file,
    read_snapshot_head,
    read_strays,
)
from flintlog.dialects.zmqraft.findings import CODES
from flintlog.dialects.zmqraft.layout import Entry
from flintlog.dialects.zmqraft.replay import (
    LogRange,
    applied_beyond,
    live_range,
    misplaced,
    missing_files,
    without_begun,
)
from flintlog.dialects.zmqraft.scan import Entries, SnapshotHead
from flintlog.dialects.zmqraft.store.index_file import IndexFile
from flintlog.dialects.zmqraft.store.request_index import RequestIndex
from flintlog.dialects.zmqraft.store.snapshot_file import SnapshotFile, stream
from flintlog.dialects.zmqraft.store.stamp import Stamps
from flintlog.dialects.zmqraft.store.state_file import trim_history
from flintlog.disk import Disk, FailStop
from flintlog.errors import DamageError, RefusedError, UsageError

_READERS_MAX = 64
_NO_SNAPSHOT = SnapshotHead(0, 0, 0, 0)


class FileLog:
    """The log of one peer, open for writing. Use it from one thread at a time."""

    def __init__(
        self,
        path: str,
        *,
        capacity: int = lay.CAPACITY_DEFAULT,
        disk: Disk | None = None,
        stamps: Stamps | None = None,
        data_size_max: int = lay.DATA_SIZE_MAX,
        failstop: FailStop | None = None,
        applied: int = 0,
        snapshot_name: str = lay.SNAPSHOT_FILE,
    ) -> None:
        """The log must reach the index `applied`: its entry was applied."""
        self._snapshot_name = check_snapshot_name(snapshot_name)
        if capacity & (capacity - 1) or not 1 <= capacity <= lay.CAPACITY_MAX:
            raise UsageError(f"capacity {capacity} is not a power of two from 1 to {lay.CAPACITY_MAX}")
        self._disk = disk or Disk()
        self._path = self._disk.resolve(path)
        self._stamps = stamps or Stamps()
        self._data_size_max = data_size_max
        self._failstop = failstop or FailStop(self._path)
        self._readers: OrderedDict[int, tuple[memoryview, Entries]] = OrderedDict()
        self._requests = RequestIndex()
        self.findings: list[Finding] = []
        self._open(capacity, applied)

    # Opening

    def _open(self, capacity: int, applied: int) -> None:
        """Look first: a damaged log stays as it is."""
        disk = self._disk
        listing = list_files(disk, self._path, self._snapshot_name)
        if self._snapshot_name not in listing.sizes:
            self._refuse_another_snapshot()
        self.snapshot = self._read_snapshot() if self._snapshot_name in listing.sizes else _NO_SNAPSHOT
        self._capacity = capacity
        self._sizes = {file.first: file.size for file in listing.index_files}
        self._firsts = [file.first for file in listing.index_files]
        found = self._range_of(listing, applied)
        beyond = applied_beyond(applied, found.last)
        missing = missing_files(
            listing.sizes,
            listing.history,
            self.snapshot.index,
            has_log=bool(listing.index_files),
            snapshot=self._snapshot_name,
        )
        findings = [
            *self._misplaced(listing, found),
            *found.findings,
            *missing,
            *([beyond] if beyond is not None else ()),
        ]
        for finding in findings:
            if finding.is_grave:
                raise finding.error(self._path)
        self.findings.extend(findings)
        if found.files:
            self._read_closed(found.files[-1])  # a crash can have touched only these entries
        self._sync_names(listing)
        for name in listing.scratch:
            if lay.is_scratch(name, self._snapshot_name) or name.startswith(f"{lay.LOG_DIRECTORY}/"):
                disk.unlink(posixpath.join(self._path, name))
        if self._snapshot_name not in listing.sizes:
            self._write_empty_snapshot()
        self._take_range(found)

    def _misplaced(self, listing: Listing, found: LogRange) -> Iterator[Finding]:
        """Index files in wrong places that the log needs."""
        for stray in read_strays(self._disk, self._path, listing.strays):
            first = stray.first
            taken = first in self._firsts and first not in found.empty and self._count_in(first) > 0
            if not taken and found.needs(first, stray.count):
                yield misplaced(stray.name, first)

    def _refuse_another_snapshot(self) -> None:
        """Raise when the snapshot has another name: an empty one beside it would make this another log."""
        name = find_snapshot(self._disk, self._path, self._disk.list(self._path))
        if name != self._snapshot_name and self._disk.stat(posixpath.join(self._path, name)) is not None:
            raise RefusedError(
                f"the snapshot here is called {name}, not {self._snapshot_name}",
                file=self._path,
                advice=f"Open it with snapshot_name={name!r}; nothing was changed",
            )

    def _range_of(self, listing: Listing, applied: int) -> LogRange:
        """The log that the files make; a crash may have left the newest in the making."""
        newest = self._firsts[-1] if self._firsts else None
        if newest is not None and self._is_begun(newest):
            del self._firsts[-1]
            without = without_begun(self._judge(listing), newest, applied)
            self._firsts.append(newest)
            if without is not None:
                return without
        return self._judge(listing)

    def _judge(self, listing: Listing) -> LogRange:
        def is_unused(first: int) -> bool:
            return not self._count_in(first) and not self._table_of(first).dirty

        return live_range(
            self._firsts, self.snapshot, self._count_in, self._term_in, is_unused, listing.superseded_by
        )

    def _is_begun(self, first: int) -> bool:
        with self._disk.open(posixpath.join(self._path, lay.index_path(first))) as file:
            head, table = read_head(file, first, copy=True)
            return isinstance(table, Damage) and scan.is_begun(head, first)

    def _sync_names(self, listing: Listing) -> None:
        """Sync names that a dead process made or removed: they must not change again after new writes rest on them."""
        for file in listing.index_files[-1:]:
            self._disk.sync_ancestors(posixpath.join(self._path, file.name))
        for directory in leaf_directories(self._disk, self._path):
            self._disk.sync_directory(posixpath.join(self._path, directory))

    def _read_snapshot(self) -> SnapshotHead:
        try:
            return read_snapshot_file(self._disk, self._path, self._snapshot_name)
        except DamageError as error:
            raise CODES.of(error).error(self._path) from None

    def _write_empty_snapshot(self) -> None:
        path = posixpath.join(self._path, self._snapshot_name)
        fresh = SnapshotFile(self._disk, path, 0, 0, 0, self._stamps)
        fresh.file.sync()
        self._disk.rename(fresh.file.path, path)  # if a crash takes the name away, opening makes it again
        fresh.file.close()

    def _take_range(self, found: LogRange) -> None:
        """Remove or put aside files that do not count, and open the last one."""
        if found.superseded:
            self._move_log_aside()
        for first in found.empty:
            with self._disk.open(posixpath.join(self._path, lay.index_path(first))) as file:
                keep_cut(self._disk, self._path, file, 0)
        for first in (*found.empty, *found.leftovers):
            self._unlink(first)
        self._firsts = list(found.files)
        if not self._firsts:
            self._begin(self.snapshot.index + 1)
            return
        self._capacity = lay.log_capacity(self._head_of(self._firsts[0])[0])
        self._last = self._open_file(self._firsts[-1])
        self._set_last_term()

    def _count_in(self, first: int) -> int:
        """How many entries a file holds; raises for a file before the last that lacks bytes of them."""
        capacity, last_end = self._head_of(first)
        if not last_end:
            return len(self._table_of(first).ends)
        least = lay.TABLE_OFFSET + lay.SLOT_SIZE * capacity + lay.TOKEN_HEADER_SIZE + last_end
        if self._sizes[first] < least and first != self._firsts[-1]:
            self._read_closed(first)
        return capacity

    def _term_in(self, first: int, index: int) -> int:
        return int(self._read_closed(first, index - first + 1)[1].term[index - first])

    def _head_of(self, first: int) -> tuple[int, int]:
        """The capacity of a file, and where the entry in its last slot ends."""
        name = lay.index_path(first)
        with self._disk.open(posixpath.join(self._path, name)) as file:
            head = file.pread(lay.TABLE_OFFSET, 0)
            capacity = scan.read_capacity(head, first, newest=first == self._firsts[-1])
            if isinstance(capacity, Damage):
                raise CODES.of(capacity, name).error(self._path)
            at = lay.TABLE_OFFSET + lay.SLOT_SIZE * (capacity - 1)
            return capacity, int.from_bytes(file.pread(lay.SLOT_SIZE, at), "little")

    def _table_of(self, first: int) -> scan.Table:
        name = lay.index_path(first)
        with self._disk.open(posixpath.join(self._path, name)) as file:
            table = scan.read_table(file.view(copy=True), first)
        if isinstance(table, Damage):
            raise CODES.of(table, name).error(self._path)
        return table

    def _open_file(self, first: int) -> IndexFile:
        path = posixpath.join(self._path, lay.index_path(first))
        return IndexFile.open(self._disk, path, first, data_size_max=self._data_size_max)

    def _set_last_term(self) -> None:
        last = self.last
        self.last_term = self.snapshot.term if last == self.snapshot.index else self.term_of(last)

    def _begin(self, first: int) -> None:
        """The first file of a log."""
        capacity = lay.file_capacity(self._capacity, first)
        self._make_directory(first)
        self._last = self._create_file(first, capacity)
        self._firsts = [first]
        self._capacity = lay.log_capacity(capacity)
        self.last_term = self.snapshot.term

    def _make_directory(self, first: int) -> None:
        self._disk.make_directory(posixpath.join(self._path, posixpath.dirname(lay.index_path(first))))

    def _create_file(self, first: int, capacity: int) -> IndexFile:
        path = posixpath.join(self._path, lay.index_path(first))
        return IndexFile.create(
            self._disk, path, first, capacity, self._stamps, data_size_max=self._data_size_max
        )

    # What is here

    @property
    def first(self) -> int:
        """The first index that can be read."""
        return max(self._firsts[0], self.snapshot.index + 1)

    @property
    def last(self) -> int:
        """The last index; the snapshot's when nothing follows it."""
        return max(self._last.next - 1, self.snapshot.index)

    def term_of(self, index: int) -> int:
        """The term of an entry, or of the snapshot at its index."""
        if lay.check_index(index) == self.snapshot.index:
            return self.snapshot.term
        return int(self.piece(index, index)[1].term[0])

    def entries(self, first: int, last: int | None = None) -> Iterator[Entry]:
        """Entries in order."""
        for view, entries in self.columns(first, last):
            yield from batch.decode(view, entries)

    def raw_entries(self, first: int, last: int | None = None) -> Iterator[memoryview]:
        """The bytes of entries, not copied."""
        for view, entries in self.columns(first, last):
            stops = entries.offset + entries.length
            yield from map(view.__getitem__, map(slice, entries.offset.tolist(), stops.tolist()))

    def columns(self, first: int, last: int | None = None) -> Iterator[tuple[memoryview, Entries]]:
        """Entries as columns, a piece for each file, with the bytes that the offsets count into.

        Closed files are mapped and not copied: do not read entries after `truncate` forgets them.
        """
        last = self.last if last is None else lay.check_index(last)
        while lay.check_index(first) <= last:
            view, entries = self.piece(first, last)
            yield view, entries
            first += len(entries)

    def piece(self, first: int, last: int) -> tuple[memoryview, Entries]:
        """The entries from `first` up to `last` or to the end of their file."""
        self._check_range(first, last)
        newest = self._last
        base = self._file_of(first)
        if base == newest.first:
            return newest.read(self._disk, first - base, last - base + 1)
        view, entries = self._read_file(base)
        return view, entries[first - base : last - base + 1]

    def find_request(self, request_id: bytes) -> int | None:
        """The index of the newest entry with this request id; `RequestIndex` says what it costs."""
        request_id = lay.check_request_id(request_id)
        if request_id == lay.NO_REQUEST:
            return None
        found = self._requests.find_in_last(self._last, self._disk, request_id)
        if found is not None:
            return found if found >= self.first else None
        for following, base in pairwise(reversed(self._firsts)):
            if following <= self.first:
                break  # the snapshot covers the rest
            for index in self._requests.find_in_closed(base, self._read_file, request_id):
                if (
                    index >= self.first
                    and next(self.raw_entries(index, index))[: lay.REQUEST_ID_SIZE] == request_id
                ):
                    return index
        return None

    def _check_range(self, first: int, last: int) -> None:
        if not self.first <= first or last > self.last:
            raise RefusedError(
                f"index {span(first, last)} is not in the log, which holds {self.first} to {self.last}",
                file=self._path,
                advice="Older entries are in the snapshot",
            )

    def _file_of(self, index: int) -> int:
        return self._firsts[bisect_right(self._firsts, index) - 1]

    def _read_file(self, base: int) -> tuple[memoryview, Entries]:
        if base == self._last.first:
            return self._last.read(self._disk)
        if base not in self._readers:
            following = self._firsts[bisect_right(self._firsts, base)]
            self._readers[base] = self._read_closed(base, following - base)
        self._readers.move_to_end(base)
        while len(self._readers) > _READERS_MAX:
            self._readers.popitem(last=False)
        return self._readers[base]

    def _read_closed(self, base: int, least: int = 0) -> tuple[memoryview, Entries]:
        """All entries of a file; raises for fewer than `least`."""
        name = lay.index_path(base)
        with self._disk.open(posixpath.join(self._path, name)) as file:
            view = file.view()
        table = scan.read_table(view, base)
        damage: Damage | None
        if isinstance(table, Damage):
            raise CODES.of(table, name).error(self._path)
        entries, damage = scan.read_entries(view, table)
        if damage is None and len(entries) < least:
            damage = scan.zero_slot(table)
        if damage is not None:
            raise CODES.of(damage, name).error(self._path)
        return view, entries

    # Writing

    def append(self, entries: Sequence[bytes] | Batch) -> int:
        """Append encoded entries; committed and durable on return. Returns the last index."""
        entries = entries if isinstance(entries, Batch) else batch.of_encoded(entries)
        self.check_sizes(entries)
        self.check_indexes(entries, self.last)
        with self._failstop.guard():
            done = 0
            while done < len(entries):
                done += self._last.append(entries, done)
                if done < len(entries):
                    self._next_file()
            if len(entries):
                self.last_term = entries.last_term
        return self.last

    def check_sizes(self, entries: Batch) -> None:
        """Raise for an entry that no file could hold, before a write."""
        if len(entries.data) >= self._data_size_max:
            size = int(np.diff(entries.ends, prepend=0).max())
            if size >= self._data_size_max:
                raise UsageError(f"an entry of {size} bytes is over the limit of {self._data_size_max - 1}")

    def check_indexes(self, entries: Batch, last: int) -> None:
        """Raise for entries behind `last` whose index would be above the maximum."""
        if last + len(entries) > lay.NUMBER_MAX:
            raise RefusedError(
                f"{len(entries)} entries behind index {last} would go beyond 2^53 - 1, the highest index",
                file=self._path,
            )

    def _next_file(self) -> None:
        if not self._last.is_full:
            self._last.close_early(self._disk, self._stamps)
        first = self._last.next
        if posixpath.dirname(lay.index_path(first)) != posixpath.dirname(lay.index_path(self._last.first)):
            self._make_directory(first)
        fresh = self._create_file(first, lay.file_capacity(self._capacity, first))
        full, self._last = self._last, fresh
        self._firsts.append(first)
        full.close()

    def truncate(self, first_gone: int) -> None:
        """Forget the entries from `first_gone` on; durable on return."""
        self.check_first_gone(first_gone)
        with self._failstop.guard():
            self._truncate(first_gone)

    def check_first_gone(self, first_gone: int) -> None:
        """Raise for an index to which the log cannot be rolled back."""
        if not self.first <= lay.check_index(first_gone) <= self.last + 1:
            raise RefusedError(
                f"index {first_gone} is not in the log, which holds {self.first} to {self.last}",
                file=self._path,
            )

    def _truncate(self, first_gone: int) -> None:
        if self._last.first >= first_gone and len(self._firsts) > 1:
            self._last.close()
            while self._firsts[-1] >= first_gone and len(self._firsts) > 1:
                gone = self._firsts.pop()
                self._forget(gone)
                self._unlink(gone)  # from the last one down, so that a crash leaves no gap
            self._last = self._open_file(self._firsts[-1])
        self._forget(self._last.first)
        self._requests.forget_last()
        self._last.truncate(min(first_gone - self._last.first, self._last.count))
        self._set_last_term()

    def _forget(self, first: int) -> None:
        """Forget what was read of a closed file."""
        self._readers.pop(first, None)
        self._requests.forget(first)

    def _unlink(self, first: int) -> None:
        path = posixpath.join(self._path, lay.index_path(first))
        self._disk.unlink(path)
        self._disk.sync_directory(posixpath.dirname(path))

    # Snapshots

    def begin_snapshot(self, index: int, term: int, size: int | None = None) -> SnapshotFile:
        """A new snapshot. Write its chunks in any order, then give it to `install_received`."""
        path = posixpath.join(self._path, self._snapshot_name)
        lay.check_number("index", index)
        lay.check_number("term", term)
        lay.check_number("size", size or 0)
        with self._failstop.guard():
            return SnapshotFile(self._disk, path, index, term, size, self._stamps, failstop=self._failstop)

    def install_snapshot(self, index: int, term: int, data: bytes | Iterable[bytes]) -> None:
        """Write a snapshot from bytes or from a stream, and install it."""
        self.install_received(self.write_snapshot(index, term, data))

    def write_snapshot(self, index: int, term: int, data: bytes | Iterable[bytes]) -> SnapshotFile:
        """Write a snapshot from bytes or from a stream, for `install_received`."""
        chunks: Iterable[bytes | memoryview]
        if isinstance(data, bytes | bytearray | memoryview):
            chunks = (lay.as_bytes("the data of a snapshot", data),)
            size = len(chunks[0])
        else:
            chunks, size = data, None
        snapshot = self.begin_snapshot(index, term, size)
        try:
            for chunk in chunks:
                snapshot.write(chunk)
        except BaseException:
            snapshot.abandon()
            raise
        return snapshot

    def install_received(self, snapshot: SnapshotFile) -> None:
        """Put a written snapshot in the place of the old one.

        A log that agrees with the snapshot stays; any other is put aside. One rename decides: before it the peer is the
        old one, after it the new one, even if the log is not put aside yet.
        """
        if snapshot.index < self.snapshot.index:
            snapshot.abandon()
            raise RefusedError(
                f"a snapshot at {snapshot.index} is behind the present one at {self.snapshot.index}"
            )
        agrees = self.agrees(snapshot.index, snapshot.term)
        if not agrees and snapshot.index == lay.NUMBER_MAX:
            snapshot.abandon()
            raise RefusedError("no log can begin behind index 2^53 - 1", file=self._path)
        path = posixpath.join(self._path, self._snapshot_name)
        snapshot.finish()
        with self._failstop.guard():
            if snapshot.index == self.snapshot.index and not agrees:
                self._mark_superseded(snapshot)
            self._disk.link(path, self._stamps.predecessor(self._disk, path))
            self._disk.install(snapshot.file, path)
            snapshot.file.close()
            self.snapshot = self._read_snapshot()
            trim_history(self._disk, path)
            if not agrees:
                self._put_log_aside()
            elif self.last == self.snapshot.index:
                self.last_term = self.snapshot.term

    def agrees(self, index: int, term: int) -> bool:
        """Is a snapshot with this index and term one of this log?"""
        if index == self.snapshot.index:
            return term == self.snapshot.term
        return self.first <= index <= self.last and self.term_of(index) == term

    def _mark_superseded(self, snapshot: SnapshotFile) -> None:
        """Mark in the log that this snapshot supersedes it, because no entry shows that."""
        mark = posixpath.join(self._path, lay.superseded_path(snapshot.index, snapshot.term))
        self._disk.open(mark, "create").close()
        self._disk.sync_directory(posixpath.dirname(mark))

    def _put_log_aside(self) -> None:
        self._last.close()
        self._readers.clear()
        self._requests.clear()
        self._move_log_aside()
        self._begin(self.snapshot.index + 1)

    def _move_log_aside(self) -> None:
        log = posixpath.join(self._path, lay.LOG_DIRECTORY)
        self._disk.rename(log, self._stamps.predecessor(self._disk, log))
        self._disk.sync_directory(
            self._path
        )  # otherwise a crash could keep the new log's name and lose the old one's

    def prune(self) -> int:
        """Remove the files that the snapshot covers; returns how many.

        It removes from the lowest up and syncs nothing: a file that a crash brings back is below a gap, and the next
        opening removes it.
        """
        keep = max(bisect_right(self._firsts, self.snapshot.index) - 1, 0)
        with self._failstop.guard():
            for first in self._firsts[:keep]:
                self._forget(first)
                self._disk.unlink(posixpath.join(self._path, lay.index_path(first)))
        del self._firsts[:keep]
        return keep

    def read_snapshot(self) -> Iterator[bytes]:
        """The data of the snapshot as a stream."""
        with self._disk.open(posixpath.join(self._path, self._snapshot_name)) as file:
            yield from stream(
                file, read_snapshot_head(file)
            )  # the size of this file: another snapshot may be installed meanwhile

    def check(self) -> None:
        """Raise unless the log may go on."""
        self._failstop.check()

    def close(self) -> None:
        """Close the files."""
        self._failstop.close()
        self._failstop.end()
        self._last.close()
