"""`RaftStore`: everything a Raft peer keeps, in one directory, behind one lock and one group commit.

It leaves elections and messages to the Raft above. When a call returns, its change is on disk, so Raft may answer.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flintlog.core import threads
from flintlog.core.backup.listing import refuse_backup
from flintlog.core.closes import Closes
from flintlog.core.dialect import refuse_others
from flintlog.core.finding import Finding
from flintlog.core.group_commit import GroupCommit
from flintlog.core.inside import member
from flintlog.dialects.zmqraft import batch
from flintlog.dialects.zmqraft import layout as lay
from flintlog.dialects.zmqraft.batch import Batch
from flintlog.dialects.zmqraft.files import check_snapshot_name
from flintlog.dialects.zmqraft.layout import Entry
from flintlog.dialects.zmqraft.scan import Entries
from flintlog.dialects.zmqraft.state import APPLIED_PROPERTIES, PROPERTIES_OF, RAFT_PROPERTIES, read_state
from flintlog.dialects.zmqraft.store.file_log import FileLog
from flintlog.dialects.zmqraft.store.snapshot_file import SnapshotFile
from flintlog.dialects.zmqraft.store.stamp import Stamps
from flintlog.dialects.zmqraft.store.state_file import StateFile
from flintlog.disk import DEFERRED, Disk, FailStop, File, take_lock
from flintlog.errors import RefusedError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class HardState:
    """What Raft must remember across a restart."""

    term: int
    vote: str | None
    applied: int


class RaftStore(Closes):
    """Log, snapshot and state of one peer. Thread-safe; threads that append together share the syncs.

    The store waits `wait` seconds for another writer of the directory.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        capacity: int = lay.CAPACITY_DEFAULT,
        peers: Sequence[Any] = (),
        disk: Disk | None = None,
        stamps: Stamps | None = None,
        data_size_max: int = lay.DATA_SIZE_MAX,
        as_original: bool = False,
        snapshot_name: str = lay.SNAPSHOT_FILE,
        wait: float = 0,
    ) -> None:
        check_snapshot_name(snapshot_name)
        self._disk = disk or Disk()
        self._path = self._disk.resolve(path)
        stamps = stamps or Stamps()
        refuse_backup(self._disk, self._path)
        refuse_others(self._disk, self._path, "zmqraft")
        self._disk.make_passing_directory(self._path)
        # One for all parts: after a failed vote, for example, no entry is taken.
        self._failstop = FailStop(self._path)
        self._lock = threads.StoreLock(self._failstop, reentrant=True)
        self._writing = threads.lock()  # held while the log changes; taken after `_lock` or alone
        self._group: GroupCommit[Batch] = GroupCommit(self._flush)
        self._parts: list[FileLog | StateFile | File] = []  # closed in this order, the lock last
        self._parts.append(take_lock(self._disk, self._path, "read", self._path, wait))
        try:
            self._open(stamps, capacity, list(peers), data_size_max, as_original, snapshot_name)
        except BaseException:
            self._close()
            raise

    def _open(
        self,
        stamps: Stamps,
        capacity: int,
        peers: list[Any],
        data_size_max: int,
        as_original: bool,
        snapshot_name: str,
    ) -> None:
        loaded = [self._look_at(name) for name in PROPERTIES_OF]  # before anything is changed
        self.log = FileLog(
            self._path,
            capacity=capacity,
            disk=self._disk,
            stamps=stamps,
            data_size_max=data_size_max,
            failstop=self._failstop,
            applied=max(values.get("lastApplied", 0) for values in loaded),
            snapshot_name=snapshot_name,
        )
        self._parts.append(self.log)
        options: dict[str, Any] = {
            "disk": self._disk,
            "stamps": stamps,
            "failstop": self._failstop,
            "numbers_as_original": as_original,
            "fill_sectors": not as_original,
        }
        path = posixpath.join(self._path, lay.RAFT_STATE_FILE)
        self.raft = StateFile(path, RAFT_PROPERTIES, defaults={"peers": peers}, **options)
        self._parts.append(self.raft)
        path = posixpath.join(self._path, lay.APPLIED_STATE_FILE)
        self.applied = StateFile(path, APPLIED_PROPERTIES, **options)
        self._parts.append(self.applied)

    def _look_at(self, name: str) -> dict[str, Any]:
        """The values of a state file; raises for damage."""
        path = posixpath.join(self._path, name)
        if member(self._disk, path) is None:
            return {}
        with self._disk.open(path) as file:
            return read_state(file, PROPERTIES_OF[name]).values

    # Term, vote, applied

    @property
    def hard_state(self) -> HardState:
        """Term, vote and applied index, as on disk."""
        return HardState(self.raft["currentTerm"], self.raft["votedFor"], self.applied["lastApplied"])

    def set_hard_state(
        self, *, term: int | None = None, vote: str | None = None, applied: int | None = None
    ) -> None:
        """Enter a term, vote in it, or note what was applied; durable on return.

        A new term begins without a vote unless one is given. Nothing is applied that the log does not hold.
        """
        with self._lock:
            current = self.hard_state
            if applied is not None and lay.check_number("applied", applied) > self.log.last:
                raise RefusedError(f"index {applied} cannot be applied: the log ends at {self.log.last}")
            changes: dict[str, Any] = {}
            if term is not None and lay.check_number("term", term) != current.term:
                changes = {"currentTerm": term, "votedFor": vote}
            elif vote is not None:
                changes = {"votedFor": vote}
            if changes:
                self.raft.update(**self._check_vote(changes))
            if applied is not None:
                self.applied.update(lastApplied=applied)

    def update_raft_state(self, changes: Mapping[str, Any]) -> None:
        """Set properties of `raft.pers`, such as the peers; durable on return.

        Term and vote obey the rules of `set_hard_state`.
        """
        with self._lock:
            self.raft.check(changes)
            self.raft.update(**self._check_vote(changes))

    def _check_vote(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Refuse a lower term, and a second vote in one term; a new term begins without a vote."""
        current = self.hard_state
        term, vote = changes.get("currentTerm", current.term), changes.get("votedFor", current.vote)
        if term < current.term:
            raise RefusedError(f"term {term} is below the current term {current.term}")
        if term > current.term:
            return {"votedFor": None, **changes}
        if current.vote not in (None, vote):
            raise RefusedError(f"this peer voted for {current.vote} in term {current.term} already")
        return dict(changes)

    def _lower_applied(self, last: int) -> None:
        """Lower the applied index before the log ends at `last`, so that no crash leaves it beyond the log."""
        if self.applied["lastApplied"] > last:
            self.applied.update(lastApplied=last)

    # Entries

    @property
    def first_index(self) -> int:
        """The index of the first entry that can be read."""
        return self.log.first

    @property
    def last_index(self) -> int:
        """The index of the last entry, or of the snapshot when the log behind it is empty."""
        return self.log.last

    @property
    def last_term(self) -> int:
        """The term at `last_index`."""
        return self.log.last_term

    def append(self, entries: Sequence[Entry]) -> None:
        """Append entries behind the last one; durable on return."""
        self._append(batch.of_entries(entries))

    def append_columns(
        self,
        terms: int | Sequence[int],
        data: Sequence[bytes],
        *,
        types: int | Sequence[int] = lay.STATE,
        request_ids: Sequence[bytes] | None = None,
    ) -> None:
        """Append entries from columns, which is faster; a single term or type counts for every entry."""
        self._append(batch.of_columns(terms, data, types=types, request_ids=request_ids))

    def _append(self, entries: Batch) -> None:
        if not len(entries):
            return
        self.log.check_sizes(entries)
        with DEFERRED:
            with self._lock:
                self._failstop.check()
                ticket = self._group.submit(entries)
            self._group.wait(ticket)

    def append_at(self, index: int, entries: Sequence[Entry]) -> None:
        """What a follower receives: entries from `index` on.

        Entries that are here already stay, with those behind them. From the first that differs on, the old entries are
        rolled back and the new ones written.
        """
        encoded = batch.of_entries(list(entries))
        self.log.check_sizes(encoded)
        if lay.check_index(index) < 1:
            raise UsageError(f"{index} is not an index", advice="The first is 1")
        with self._quiet():
            self.log.check_indexes(encoded, index - 1)
            if index > self.log.last + 1:
                raise RefusedError(
                    f"entries from {index} on would leave a gap: the log ends at {self.log.last}"
                )
            here = self._count_here(index, encoded)
            if here == len(encoded):
                return
            if index + here <= self.log.last:
                self._truncate(index + here)
            self.log.append(batch.of_entries(entries[here:]) if here else encoded)

    def _count_here(self, index: int, entries: Batch) -> int:
        """How many of these entries the log or the snapshot has already."""
        here = min(max(self.log.first - index, 0), len(entries))
        last = min(index + len(entries) - 1, self.log.last)
        for entry in self.log.raw_entries(index + here, last):
            if entry != entries.data[entries.start_of(here) : entries.start_of(here + 1)]:
                break
            here += 1
        return here

    def _flush(self, batches: list[Batch]) -> None:
        with self._writing:
            self.log.append(batch.join(batches))

    @contextmanager
    def _quiet(self) -> Iterator[None]:
        """Keep threads from appending, and wait until all that was handed in is written."""
        with self._lock:
            self._failstop.check()
            self._group.drain()
            with self._writing:
                yield

    def truncate(self, first_gone: int) -> None:
        """Forget the entries from `first_gone` on; lowers the applied index if it was beyond them."""
        with self._quiet():
            self._truncate(first_gone)

    def _truncate(self, first_gone: int) -> None:
        self.log.check_first_gone(first_gone)
        self._lower_applied(first_gone - 1)
        self.log.truncate(first_gone)

    def entries(self, first: int, last: int | None = None) -> Iterator[Entry]:
        """Entries in order."""
        for view, entries in self.columns(first, last):
            yield from batch.decode(view, entries)

    def columns(self, first: int, last: int | None = None) -> Iterator[tuple[memoryview, Entries]]:
        """Entries as columns, a piece for each file, with the bytes that the offsets count into.

        Columns of closed files are not copied: do not read entries after `truncate` forgets them.
        """
        self._failstop.check()
        last = self.last_index if last is None else lay.check_index(last)
        while lay.check_index(first) <= last:
            with self._reading():
                view, entries = self.log.piece(first, last)
            yield view, entries
            first += len(entries)

    def record_batches(self, first: int, last: int | None = None) -> Iterator[pa.RecordBatch]:
        """Entries as Arrow: index, term, type, request_id, data."""
        from flintlog.dialects.zmqraft.tables import state_batch

        for view, entries in self.columns(first, last):
            yield state_batch(view, entries)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with self._lock, self._writing:
            self._failstop.check()
            yield

    def term_of(self, index: int) -> int:
        """The term of an entry, or of the snapshot at its index."""
        with self._reading():
            return self.log.term_of(index)

    def find_request(self, request_id: bytes) -> int | None:
        """The index of the entry with this request id, or None."""
        with self._reading():
            return self.log.find_request(request_id)

    # Snapshots

    @property
    def snapshot_index(self) -> int:
        """The index that the snapshot covers; 0 when there is none."""
        return self.log.snapshot.index

    @property
    def snapshot_term(self) -> int:
        """The term at `snapshot_index`."""
        return self.log.snapshot.term

    @property
    def snapshot_size(self) -> int:
        """The size of the snapshot's data in bytes."""
        return self.log.snapshot.size

    def snapshot(self, index: int, data: bytes | Iterable[bytes], *, prune: bool = True) -> None:
        """Write a snapshot of the state after `index`, and remove the files that it covers. Appends go on meanwhile."""
        written = self._write_snapshot(index, self.term_of(index), data)
        with self._quiet():
            self.log.install_received(written)
            if prune:
                self.log.prune()

    def _write_snapshot(self, index: int, term: int, data: bytes | Iterable[bytes]) -> SnapshotFile:
        """Write a snapshot under a scratch name, without the lock: the data may come slowly."""
        self._failstop.check()
        return self.log.write_snapshot(index, term, data)

    def prune(self) -> int:
        """Remove the index files that the snapshot covers; returns how many."""
        with self._quiet():
            return self.log.prune()

    def install_snapshot(self, index: int, term: int, data: bytes | Iterable[bytes]) -> None:
        """Install a snapshot that another peer sent."""
        self.install_received(self._write_snapshot(index, term, data))

    def receive_snapshot(self, index: int, term: int, size: int | None = None) -> SnapshotFile:
        """A new snapshot for chunks at given offsets; give it to `install_received` when it is whole."""
        self._failstop.check()
        return self.log.begin_snapshot(index, term, size)

    def install_received(self, snapshot: SnapshotFile) -> None:
        """Install a snapshot that was received in chunks."""
        with self._quiet():
            self._install(snapshot)

    def _install(self, snapshot: SnapshotFile) -> None:
        is_ahead = snapshot.index >= self.log.snapshot.index
        if is_ahead and not self.log.agrees(snapshot.index, snapshot.term):
            self._lower_applied(snapshot.index)
        self.log.install_received(snapshot)

    def read_snapshot(self) -> Iterator[bytes]:
        """The data of the snapshot as a stream."""
        self._failstop.check()
        return self.log.read_snapshot()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What opening found and healed."""
        return (*self.log.findings, *self.raft.findings, *self.applied.findings)

    def close(self) -> None:
        """Let no new call begin, finish the others, and release the directory.

        In a forked child it does nothing: the store is the parent's.
        """
        with self._lock.closing() as mine:
            if mine:
                try:
                    if not self._failstop.failed:
                        self._group.drain()
                finally:
                    with self._lock, self._writing:
                        self._close()

    def _close(self) -> None:
        while self._parts:
            self._parts.pop().close()
