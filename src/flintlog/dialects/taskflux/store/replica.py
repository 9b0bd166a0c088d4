"""`ReplicaLog`: the Raft side of a taskflux directory.

It keeps terms, votes, entries and snapshots, and leaves elections and messages to the Raft above. As in Raft, the
commit index is not stored: after opening it is the snapshot's index until `commit` raises it.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Unpack

from flintlog.core import threads
from flintlog.core.closes import Closes
from flintlog.core.finding import Finding
from flintlog.dialects.taskflux import batch, files
from flintlog.dialects.taskflux import layout as lay
from flintlog.dialects.taskflux.batch import Blob
from flintlog.dialects.taskflux.files import Segment
from flintlog.dialects.taskflux.layout import Metadata
from flintlog.dialects.taskflux.settings import Arguments, refuse_unknown
from flintlog.dialects.taskflux.store.due import DueSnapshots
from flintlog.dialects.taskflux.store.engine import RECEIVED_SCRATCH, Engine
from flintlog.dialects.taskflux.store.opening import RESERVE_BYTES_DEFAULT, opening_of
from flintlog.disk import DEFERRED, Disk, File
from flintlog.errors import DamageError, RefusedError, UsageError


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the log. `data` is a delta; `layout.encode_delta` makes one."""

    lsn: int
    term: int
    data: bytes


class ReplicaLog(Closes):
    """Log, metadata and snapshot of one Raft node. Thread-safe; every change is durable on return.

    Appends go on while a snapshot is written. A thread of its own writes a snapshot that a commit makes due; with
    `snapshot_in_background=False`, `commit` does.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        edition: str | None = None,
        preallocate: bool = False,
        reserve_bytes: int = RESERVE_BYTES_DEFAULT,
        snapshot_in_background: bool = True,
        wait: float = 0,
        disk: Disk | None = None,
        **arguments: Unpack[Arguments],
    ) -> None:
        refuse_unknown(ReplicaLog, arguments)
        disk = disk or Disk()
        opening = opening_of(
            disk,
            path,
            edition=edition,
            preallocate=preallocate,
            reserve_bytes=reserve_bytes,
            wait=wait,
            **arguments,
        )
        self._engine = Engine(disk, opening)
        try:
            self._last_term = self._engine.take_survey().last_term
            self._engine.log.remove_islands(self._engine.snapshot_index)
        except BaseException:
            self._engine.close()
            raise
        self._lock = threads.StoreLock(self._engine.failstop, reentrant=True)
        self._receiving = threads.lock()  # held while a snapshot comes in; taken before `_lock`
        # While a snapshot is made from the files, entries may be added but not removed.
        self._snapshotting = False
        self._calm = self._lock.condition()
        self._due = DueSnapshots(self._engine, self.snapshot, in_background=snapshot_in_background)
        self._commit = self._engine.snapshot_index

    # What is here

    @property
    def term(self) -> int:
        """The current term."""
        return self._engine.metadata.term

    @property
    def vote(self) -> int | None:
        """Which node got the vote of this term; None for no vote."""
        return self._engine.metadata.vote

    @property
    def first_lsn(self) -> int:
        """The first entry that can still be read."""
        return self._engine.log.first

    @property
    def last_lsn(self) -> int:
        """The LSN of the last entry, or of the snapshot when the log behind it is empty."""
        return self._engine.last

    @property
    def last_term(self) -> int:
        """The term of the last entry, or of the snapshot when the log behind it is empty."""
        return self._last_term

    @property
    def commit_index(self) -> int:
        """The last LSN given to `commit`, or the snapshot's."""
        return self._commit

    @property
    def snapshot_lsn(self) -> int:
        """The LSN of the newest snapshot; -1 when there is none."""
        return self._engine.snapshot_index

    @property
    def snapshot_term(self) -> int:
        """The term of the entry that the newest snapshot ends with."""
        return self._engine.snapshot_term

    @property
    def edition(self) -> str:
        """`designed` or `shipped`."""
        return self._engine.layout.edition

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What opening found and healed."""
        return self._engine.findings

    # Term and vote

    def set_term(self, term: int, vote: int | None = None) -> None:
        """Enter a term, or vote in it. Durable on return, so it may be answered.

        A vote in the current term cannot change; the same call again does nothing.
        """
        _check_number("term", term)
        if vote is not None:
            _check_number("node id", vote)
        with self._lock:
            self._engine.failstop.check()
            current = self._engine.metadata
            if term < current.term:
                raise RefusedError(f"term {term} is below the current term {current.term}")
            if term > self._engine.layout.term_max:
                raise RefusedError(f"term {term} does not fit the {self.edition} edition")
            if vote is not None and not 0 <= vote <= lay.INT32_MAX:
                raise UsageError(f"{vote} is not a node id")
            if term == current.term and vote in (None, current.vote):
                return
            if term == current.term and current.vote is not None:
                raise RefusedError(f"this node voted for {current.vote} in term {term} already")
            self._engine.set_metadata(Metadata(term, vote))

    # Entries

    def append(self, term: int, datas: Sequence[bytes]) -> int:
        """Append entries behind the last one; returns the LSN of the last."""
        with self._lock:
            return self.append_entries(self.last_lsn + 1, [(term, data) for data in datas])

    def append_entries(self, first: int, entries: Sequence[tuple[int, bytes]]) -> int:
        """What a follower receives: entries (term, data) from LSN `first` on.

        Entries that are here with the same term stay; from the first that differs on, the old ones are rolled
        back and the new ones written. Returns the last LSN.
        """
        if _check_number("LSN", first) < 0:
            raise UsageError(f"{first} is not an LSN", advice="The first is 0")
        entries = list(entries)
        self._check_entries(entries)
        with self._lock:
            while True:
                self._engine.failstop.check()
                if first > self.last_lsn + 1:
                    raise RefusedError(
                        f"entries from LSN {first} on would leave a gap: the log ends at {self.last_lsn}",
                        advice="Send the entries between, or a snapshot",
                    )
                at = self._first_conflict(first, entries)
                fresh = entries[at:]
                rolls_back = bool(fresh) and first + at <= self.last_lsn
                if not (rolls_back and self._snapshotting):
                    break
                self._calm.wait()  # other entries may have come meanwhile: look again
            if rolls_back:
                self.roll_back(first + at)
            if fresh:
                self._write(fresh)
            return self.last_lsn

    def _check_entries(self, entries: Sequence[tuple[int, bytes]]) -> None:
        checked: int | None = None
        for term, _ in entries:
            if term is checked:
                continue  # as most batches have it
            checked = _check_number("term", term)
            if not lay.TERM_FIRST <= term <= self._engine.layout.term_max:
                raise UsageError(f"{term} is not a term of the {self.edition} edition")
        layout = self._engine.layout
        for _, data in entries:
            if not isinstance(data, bytes | bytearray | memoryview):
                raise UsageError(f"an entry is not bytes but {type(data).__name__}", advice="Encode it first")
            if len(data) > lay.DATA_SIZE_MAX:
                raise UsageError(f"an entry of {len(data)} bytes is over the limit of {lay.DATA_SIZE_MAX}")
            problem = lay.delta_problem(bytes(data), layout)
            if problem is not None:
                raise UsageError(f"an entry is no delta: {problem}", advice="Make it with `encode_delta`")

    def _first_conflict(self, first: int, entries: Sequence[tuple[int, bytes]]) -> int:
        """How many of the entries are here already, with the same term."""
        here = min(len(entries), self.last_lsn + 1 - first)
        covered = min(max(self._engine.snapshot_index + 1 - first, 0), here)
        at = covered
        for entry in self.entries(first + covered, here - covered):
            if entry.term != entries[at][0]:
                break
            at += 1
        return at

    def _write(self, entries: Sequence[tuple[int, bytes]]) -> None:
        blobs: list[Blob] = []
        begin = 0
        for at in range(1, len(entries) + 1):
            if at == len(entries) or entries[at][0] != entries[begin][0]:
                term = entries[begin][0]
                blobs.append(
                    batch.several(self._engine.layout, term, [data for _, data in entries[begin:at]])
                )
                begin = at
        with self._engine.failstop.guard():
            self._engine.log.append(blobs, committed=self._commit)
        self._last_term = entries[-1][0]

    def roll_back(self, first_gone: int) -> None:
        """Forget the entries from `first_gone` on; refuses to forget committed ones."""
        _check_number("LSN", first_gone)
        with self._lock:
            self._wait_for_snapshot()
            if first_gone <= self._commit:
                raise RefusedError(
                    f"LSN {first_gone} is committed (commit index {self._commit}) and cannot be rolled back",
                    advice="A Raft node that asks for this has lost its term or its log",
                )
            if first_gone > self.last_lsn:
                return
            with self._engine.failstop.guard():
                self._engine.log.roll_back(first_gone)
            last = self.last_lsn
            self._last_term = self._engine.snapshot_term if last == self.snapshot_lsn else self.term_of(last)

    def commit(self, index: int) -> None:
        """Note that the cluster has agreed on everything up to `index`. Makes a snapshot when the rules ask for one."""
        _check_number("LSN", index)
        with self._lock:
            self._engine.failstop.check()
            if index > self.last_lsn:
                raise RefusedError(f"LSN {index} is not in the log, which ends at {self.last_lsn}")
            self._commit = max(self._commit, index)
        self._due.after_commit(self._commit)

    def entries(self, first: int, limit: int | None = None) -> Iterator[Entry]:
        """Entries from LSN `first` on, in order, up to the one that is the last now.

        A snapshot or a roll-back may come meanwhile. Reading raises for an entry that a snapshot removed, and ends at
        one that was rolled back.
        """
        _check_number("LSN", first)
        if limit is not None:
            _check_number("limit", limit)
        self._engine.failstop.check()
        last = self.last_lsn if limit is None else min(first + limit - 1, self.last_lsn)
        while first <= last:
            with self._lock:
                self._engine.failstop.check()
                last = min(last, self.last_lsn)
                if first > last:
                    return
                self._refuse_removed(first)
                segment, at = self._engine.log.read(first)
            header_size = self._engine.layout.record_header_size
            for entry in _entries_of(segment, at, last + 1 - first, header_size):
                yield entry
                first += 1

    def _refuse_removed(self, lsn: int) -> None:
        if lsn < self.first_lsn:
            raise RefusedError(
                f"LSN {lsn} is below {self.first_lsn}, the first one that is still here",
                file=self._engine.data,
                advice="Older entries are in the snapshot",
            )

    def term_of(self, lsn: int) -> int:
        """The term of an entry, or of the snapshot at its index."""
        _check_number("LSN", lsn)
        with self._lock:
            self._engine.failstop.check()
            if lsn == self._engine.snapshot_index:
                return self._engine.snapshot_term
            self._refuse_removed(lsn)
            if lsn > self._engine.log.last:
                raise RefusedError(
                    f"LSN {lsn} is not in the log, which ends at {self.last_lsn}", file=self._engine.data
                )
            segment, _ = self._engine.log.read(lsn)
            return segment.term_at(lsn)[0]

    # Snapshots

    def snapshot(self) -> int:
        """Write the committed state to a snapshot and remove the segments it covers; returns its LSN.

        Entries are appended meanwhile; roll-backs and snapshots from others wait.
        """
        engine = self._engine
        with DEFERRED:  # so that an interrupt resets the mark
            with self._lock:
                self._wait_for_snapshot()
                index = self._commit
                if index <= engine.snapshot_index:
                    return engine.snapshot_index
                self._snapshotting = True
            try:
                with DEFERRED.lifted():
                    engine.publish_snapshot(engine.state_at(index), self._lock)
                with self._lock, engine.failstop.guard():
                    engine.log.remove_covered(index)
            finally:
                with self._lock:
                    self._snapshotting = False
                    self._calm.notify_all()
        return index

    def _wait_for_snapshot(self) -> None:
        """Wait until no snapshot is being made. The lock is held."""
        self._engine.failstop.check()
        while self._snapshotting:
            self._calm.wait()
            self._engine.failstop.check()

    def read_snapshot(self, chunk_size: int = 1 << 20) -> Iterator[bytes]:
        """The bytes of the snapshot file, to send to another node."""
        if _check_number("chunk size", chunk_size) < 1:
            raise UsageError("a chunk must have at least 1 byte")
        self._engine.failstop.check()
        path = posixpath.join(self._engine.data, lay.SNAPSHOT_FILE)
        with self._engine.disk.open(path) as file:
            size = file.size()
            for offset in range(0, size, chunk_size):
                yield file.pread(min(chunk_size, size - offset), offset)

    def receive_snapshot(self, chunks: Iterable[bytes]) -> int:
        """Install a snapshot that another node sent; returns its LSN.

        It is written to the scratch directory and checked as a whole before it replaces the old one. Where the log
        agrees with the snapshot it stays, otherwise it is dropped. A snapshot that is already here changes nothing.
        """
        engine = self._engine
        engine.failstop.check()
        with self._receiving:
            with engine.failstop.preparing():
                file = engine.disk.create_scratch(posixpath.join(engine.scratch, RECEIVED_SCRATCH))
            with file:
                offset = 0
                for chunk in chunks:
                    if not isinstance(chunk, bytes | bytearray | memoryview):
                        raise UsageError(f"a chunk is not bytes but {type(chunk).__name__}")
                    engine.failstop.check()
                    with engine.failstop.preparing():
                        file.pwrite(chunk, offset)
                    offset += memoryview(chunk).nbytes
                with self._lock:
                    self._wait_for_snapshot()
                    index, term = self._check_received(file)
                    if index > engine.snapshot_index:
                        with engine.failstop.guard():
                            self._install(file, index, term)
            return index

    def _check_received(self, file: File) -> tuple[int, int]:
        try:
            base = files.read_snapshot(file.view(copy=True), self._engine.layout)
        except DamageError as error:
            error.file = file.path
            error.advice = "Nothing was changed; ask for the snapshot again"
            raise
        if base.index < 0:
            raise RefusedError("the received snapshot holds no state", advice="Nothing was changed")
        if base.index < self._commit and base.index != self.snapshot_lsn:
            raise RefusedError(f"a snapshot at LSN {base.index} is behind the commit index {self._commit}")
        if base.index == self.snapshot_lsn and base.term != self.snapshot_term:
            raise RefusedError(
                f"a snapshot at LSN {base.index} is here already, of term {self.snapshot_term} and not {base.term}",
                advice="Nothing was changed; two leaders disagree about what was committed",
            )
        return base.index, base.term

    def _install(self, file: File, index: int, term: int) -> None:
        engine = self._engine
        here = self.first_lsn <= index <= engine.log.last
        agrees = here and self.term_of(index) == term
        if here and not agrees:
            # Entries that contradict a snapshot were never committed. They go first: a crash between the two
            # steps leaves a shorter log, never a snapshot that disagrees with the log behind it.
            engine.log.roll_back(max(self._commit + 1, self.first_lsn))
        engine.disk.install(file, posixpath.join(engine.data, lay.SNAPSHOT_FILE))
        engine.snapshot_index, engine.snapshot_term = index, term
        self._commit = index
        if agrees:
            engine.log.remove_covered(index)
        else:
            engine.log.restart(index + 1)
            self._last_term = term

    def close(self) -> None:
        """Release the directory; in a forked child it does nothing: the log is the parent's."""
        with self._lock.closing() as mine:
            if mine:
                self._due.join()
                with self._lock:  # calls that were begun finish
                    self._calm.wait_for(lambda: not self._snapshotting)
                    self._engine.close()


def _check_number(word: str, value: int) -> int:
    """Raise for anything but a whole number, before a write."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise UsageError(f"{word} {value!r} is not a whole number")
    return value


def _entries_of(segment: Segment, at: int, count: int, header_size: int) -> Iterator[Entry]:
    records = segment.records[at : at + count]
    view = segment.view
    for place, (offset, length, term) in enumerate(
        zip(records.offset.tolist(), records.length.tolist(), records.term.tolist(), strict=True)
    ):
        begin = offset + header_size
        yield Entry(segment.first + at + place, term, bytes(view[begin : begin + length]))
