"""An open directory: lock, recovery, the way from an operation to the disk, checkpoints.

An operation gets its state id and changes memory under `lock`; then it goes to the group commit, where one thread
writes for all that wait. With an operation log that is one write and one sync, however many files the operations touch;
the note's files follow unsynced. Without one the note's files are written with care instead (`note_files.py`).
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from flintlog.core import threads
from flintlog.core.backup.listing import refuse_backup
from flintlog.core.dialect import refuse_others
from flintlog.core.finding import Finding, Severity
from flintlog.core.group_commit import GroupCommit, Ticket
from flintlog.dialects.mpy6a import layout as lay
from flintlog.dialects.mpy6a import operations as ops
from flintlog.dialects.mpy6a.authority import ByNote, ByOperationLog
from flintlog.dialects.mpy6a.examine import EXAMINE_BYTES
from flintlog.dialects.mpy6a.files import is_mark
from flintlog.dialects.mpy6a.layout import StateID
from flintlog.dialects.mpy6a.operations import Bytes, Operation
from flintlog.dialects.mpy6a.replay import Effect, Machine, Written
from flintlog.dialects.mpy6a.seen import Survey
from flintlog.dialects.mpy6a.store.note_files import NoteFiles
from flintlog.dialects.mpy6a.store.operation_log import OperationLog
from flintlog.dialects.mpy6a.survey import survey
from flintlog.disk import DEFERRED, Disk, FailStop, take_lock
from flintlog.errors import RefusedError

CHANGES_BYTES_MAX = 4 << 20  # events of a change log without an operation log: a second or two to read
_EVENTS_MAX = 200_000  # operations between checkpoints: opening replays them one by one


@dataclass(slots=True)
class Work:
    """Operations that go to the disk together."""

    events: list[Bytes] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)


class Engine:
    """Everything below the sessions. A failed write stops it for good."""

    def __init__(
        self,
        disk: Disk,
        path: str,
        failstop: FailStop,
        *,
        strict: bool,
        follower: bool = False,
        log_bytes: int,
        reserve_bytes: int,
        wait: float = 0,
        after: Callable[[], None] = lambda: None,
    ) -> None:
        self.disk = disk
        self.path = path
        self.strict = strict
        self.failstop = failstop
        self.lock = threads.StoreLock(self.failstop, reentrant=True)
        self._log_bytes = log_bytes
        self._after = after
        self._files = NoteFiles(disk, path)
        self._log = None if strict else OperationLog(disk, path, reserve_bytes=reserve_bytes)
        self._group: GroupCommit[Work] = GroupCommit(self._flush)
        self._checkpointing = threads.lock()  # taken before `lock`
        refuse_backup(disk, path)
        refuse_others(disk, path, "mpy6a")
        disk.make_passing_directory(path)
        self._lock_file = take_lock(disk, path, "read", path, wait)
        try:
            found = survey(disk, path, examine_bytes=EXAMINE_BYTES)
            found.refuse_damage()
            self._open(found, follower)
        except BaseException:
            self._files.close()
            self._lock_file.close()
            raise

    # Opening

    def _open(self, found: Survey, follower: bool) -> None:
        log = found.authority
        if self.strict and found.has_operation_log:
            self._refuse_open_sessions(found)
        self.machine = found.machine
        if isinstance(log, ByNote):
            self._count_records(log)
        self.next_term = self._next_term(found)
        # The note's files do not say which operation was the last, which sessions are open, or which are done out of
        # turn.
        self.whole = found.listing.empty or found.has_operation_log
        self.findings: tuple[Finding, ...] = tuple(
            finding for finding in found.findings if finding.severity is Severity.REPAIRABLE
        )
        # Names that a dead process left unsynced must not vanish after new writes rest on them.
        self.disk.sync_ancestors(self.path)
        marks = [name for name in found.listing.scratch if is_mark(name)]
        for name in found.listing.scratch:
            if name not in marks:
                self.disk.unlink(posixpath.join(self.path, name))
        self._files.keep(found.unexplained)
        if isinstance(log, ByOperationLog):
            self._open_behind(found, log)
        else:
            self._files.take_over(found)
            self._files.remove(found.leftovers)
            if self.whole or not follower:
                self.stand_alone()
        for name in marks:  # the files that they explain are gone for good
            self.disk.unlink(posixpath.join(self.path, name))
        self._show_all()

    def _next_term(self, found: Survey) -> int:
        """The term to lead.

        The note's files do not say how many state ids a term has used, so opening on them alone begins a new term:
        later than every logged operation and than the records of files that are written, which have no event.
        """
        if found.listing.empty or (found.has_operation_log and not self.strict):
            return found.machine.last.term
        return min(found.machine.last.term + 1, lay.UINT64_MAX)

    def _count_records(self, note: ByNote) -> None:
        """Take in the state ids of records: the change log has no event for them."""
        for name, newest in note.newest.items():
            file = self.machine.files[name]
            file.last_id = max(file.last_id, newest)
            self.machine.last = max(self.machine.last, newest)

    def stand_alone(self) -> None:
        """Take the note's files as the whole state, and ask no leader for the rest."""
        self.whole = True
        if self._log is not None and self.alone:
            self._write_state()

    @property
    def alone(self) -> bool:
        """Do the note's files stand without an operation log?"""
        return not self._files.beside

    def _show_all(self) -> None:
        for file in self.machine.files.values():
            file.visible = file.length

    def _open_behind(self, found: Survey, log: ByOperationLog) -> None:
        assert found.log is not None
        if self._log is not None:
            self._log.open(found.log.end, len(found.log.events) - 1, found.log.frame)
            self._files.beside = True
        self._files.recover(found, log)
        self._files.remove(found.leftovers)
        if self.strict:  # from here on the note's files stand alone
            self._files.make_durable()
            self._files.snapshot(self.machine.descriptors(), self.machine)
            self.disk.unlink(posixpath.join(self.path, lay.OPERATIONS_FILE))
            self.disk.sync_directory(self.path)

    def _refuse_open_sessions(self, found: Survey) -> None:
        machine = found.machine
        places = sum(len(file.finished) for file in machine.files.values())
        if machine.sessions or places:
            raise RefusedError(
                f"{len(machine.sessions)} sessions are open and {places} replayed ones are done out of turn, which the"
                " note's files alone cannot keep",
                file=self.path,
                advice="Open the store without `strict` and end them first",
            )

    def _begin_log(self, longest: int) -> None:
        assert self._log is not None
        self._files.make_durable()
        base, sessions = self.machine.base()
        self._log.begin(self.machine.last, base, sessions, longest)
        self._files.beside = True  # only now: a change log that says so refuses to be read alone

    # Operations

    def do(self, work: Work, operation: Operation, state_id: StateID | None = None) -> StateID:
        """Apply an operation in memory and add it to `work`. The lock is held."""
        state_id = state_id or self.machine.last.following()
        if self._log is None:
            work.effects += self.machine.apply(state_id, operation)
            return state_id
        event = ops.encode(state_id, operation)
        if len(event) > self._log.frame:  # a record that was taken over can be of any length
            self._make_room(work, len(event))
        work.effects += self.machine.apply(state_id, operation)
        work.events.append(event)
        return state_id

    def _make_room(self, work: Work, longest: int) -> None:
        """Write `work`, then begin the log anew with longer frames."""
        self.submit(Work(work.events, work.effects))
        work.events, work.effects = [], []
        with DEFERRED:
            self._group.drain()
            with self.failstop.guard():
                self._write_state(longest)

    def submit(self, work: Work) -> Ticket[Work] | None:
        """Hand in operations; None when none of them goes to the disk. The lock is held."""
        self.failstop.check()
        return self._group.submit(work) if work.events or work.effects else None

    def wait(self, ticket: Ticket[Work] | None) -> None:
        """Return when the operations are durable. The lock is not held."""
        if ticket is not None:
            self._group.wait(ticket)
            self._checkpoint_if_due()

    def drain(self) -> None:
        """Write all operations that were handed in."""
        self._group.drain()

    def _flush(self, works: list[Work]) -> None:
        effects = [effect for work in works for effect in work.effects]
        with self.failstop.guard():
            if self._log is None:
                self._files.write_synced(effects)
            else:
                self._log.append([event for work in works for event in work.events])
                self._files.write(effects)
        for effect in effects:
            if isinstance(effect, Written):
                effect.file.visible = effect.offset + len(effect.data)
        self._after()

    # Checkpoints

    def _checkpoint_if_due(self) -> None:
        if self._log is None:
            due = self._files.changes_end > min(self._log_bytes, CHANGES_BYTES_MAX)
        else:
            due = self._log.end > self._log_bytes or self._log.events > _EVENTS_MAX
        if not due or self.failstop.closed:
            return
        with DEFERRED:
            if self._checkpointing.acquire(blocking=False):
                try:
                    if self._log is not None:
                        self._group.drain()
                    self._checkpoint()
                finally:
                    self._checkpointing.release()

    def checkpoint(self) -> None:
        """Bring the note's files up to date, and begin the logs anew."""
        self.failstop.check()
        with DEFERRED, self._checkpointing, self.lock:
            self.failstop.check()
            self._checkpoint()

    def _checkpoint(self) -> None:
        with self.lock:
            self._group.drain()
            with self.failstop.guard():
                self._write_state()

    def rebase(self, machine: Machine, gone: Iterable[str]) -> None:
        """Replace the state by another, whose files exist and are synced. The lock is held.

        The checkpoint decides: before it the new files are leftovers, after it those in `gone`. Syncing the marks of
        those makes the names of the new files durable too.
        """
        gone = list(gone)
        self._group.drain()
        with self.failstop.guard():
            self._files.announce(gone)
            self.machine = machine
            self._write_state()
            self._files.remove(gone)
            self._files.withdraw([*machine.files, *gone])
        self._show_all()

    def abandon(self, names: Iterable[str]) -> None:
        """Remove files that were announced and will not be finished. The lock is held."""
        names = list(names)
        with self.failstop.guard():
            self._files.remove(names)
            self._files.withdraw(names)

    def announce(self, name: str) -> None:
        """Announce a data file, which counts from the next `rebase`. The lock is held."""
        with self.failstop.guard():
            self._files.announce([name])

    def _write_state(self, longest: int = 0) -> None:
        """Write the log that decides first, so that the note's files are never ahead of it."""
        if self._log is not None and self.whole:  # a log would claim a position
            self._begin_log(longest)
        self._files.snapshot(self.machine.descriptors(), self.machine)

    # Closing

    def close(self) -> None:
        """Write what was handed in, then a snapshot, which says how long every file is."""
        with self.lock.closing() as mine:
            if mine:
                with self._checkpointing:
                    self._close()

    def _close(self) -> None:
        try:
            if not self.failstop.failed:
                self._group.drain()
                if self._files.written if self._log is None else self._log.events:
                    self._checkpoint()
        finally:
            with self.lock:
                self.failstop.end()
                self._files.close()
                if self._log is not None:
                    self._log.close()
                self._lock_file.close()

    def log_view(self) -> memoryview:
        """The operation log as it is on disk. The lock is held."""
        assert self._log is not None
        self._group.drain()
        return self._log.read()
