"""What the queues and the Raft side share: one directory, opened, recovered, locked, written.

Opening: take the lock, survey, refuse damage, cut the torn tail, sync what was read, remove leftovers. The lock is an
advisory lock on `tflux.metadata`, as in the original program.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from itertools import chain

from flintlog.core.backup.listing import refuse_backup
from flintlog.core.dialect import refuse_others
from flintlog.core.finding import Finding, Severity
from flintlog.core.kept import keep_and_empty
from flintlog.core.repair import REPAIR_SCRATCH
from flintlog.dialects.taskflux import files, rules
from flintlog.dialects.taskflux import layout as lay
from flintlog.dialects.taskflux.layout import Layout, Metadata
from flintlog.dialects.taskflux.snapshot import encode_snapshot
from flintlog.dialects.taskflux.state import State
from flintlog.dialects.taskflux.store.opening import Opening
from flintlog.dialects.taskflux.store.segments import SegmentLog
from flintlog.dialects.taskflux.survey import SNAPSHOT_UNUSABLE, Survey, survey
from flintlog.disk import Disk, FailStop, File, take_lock, write_all
from flintlog.errors import DamageError, RefusedError, UnsupportedError

_METADATA_SCRATCH = "metadata.new"
_SNAPSHOT_SCRATCH = "snapshot.new"
RECEIVED_SCRATCH = "snapshot.received"
_SCRATCH_FILES = (_METADATA_SCRATCH, _SNAPSHOT_SCRATCH, RECEIVED_SCRATCH, REPAIR_SCRATCH)


Look = Callable[..., Survey]


class Engine:
    """An open directory. Callers make one writing call at a time; a failure in one stops it for good."""

    def __init__(
        self,
        disk: Disk,
        opening: Opening,
        look: Look = survey,
        on_stop: Callable[[], None] = lambda: None,
    ) -> None:
        self.disk = disk
        self.data = opening.data
        self.limits = opening.settings.limits
        self.failstop = FailStop(opening.data, on_stop)
        refuse_backup(disk, opening.data)
        refuse_others(disk, posixpath.dirname(opening.data), "taskflux")
        files.list_files(disk, opening.data)  # refuses a link, for one, before anything is made
        self.disk.make_passing_directory(self.log_directory)
        metadata = posixpath.join(self.data, lay.METADATA_FILE)
        was_there = self.disk.stat(metadata) is not None
        self._lock = take_lock(self.disk, metadata, "create", self.data, opening.wait)
        try:
            self._open(opening, self._look(opening, look, was_there))
        except BaseException:
            self._lock.close()
            raise

    # Opening

    def _look(self, opening: Opening, look: Look, was_there: bool) -> Survey:
        """Survey the directory, or raise why it stays closed; until then no byte has changed."""
        try:
            self.layout = self._layout(opening.edition)
            found = look(self.disk, self.data, layout=self.layout)
            found.refuse_damage()
        except (DamageError, RefusedError, UnsupportedError):
            if not was_there:
                self.disk.unlink(posixpath.join(self.data, lay.METADATA_FILE))  # made for the lock alone
            raise
        return found

    def _open(self, opening: Opening, found: Survey) -> None:
        self.log = SegmentLog(
            self.disk,
            self.data,
            self.layout,
            self.limits,
            preallocate=opening.preallocate,
            reserve_bytes=opening.reserve_bytes,
        )
        self.snapshot_index = found.base.index
        self.snapshot_term = found.base.term
        self.healed = [finding for finding in found.findings if finding.severity is Severity.REPAIRABLE]
        self.survey: Survey | None = found
        # Names that a dead process left unsynced must not vanish after new writes rest on them.
        self.disk.sync_ancestors(self.log_directory)
        self.disk.sync_directory(self.log_directory)
        self._make_scratch(found)
        self._put_snapshot_aside(found)
        self._open_log(found)
        self.metadata = found.metadata or Metadata(found.next_term)
        if found.metadata is None:
            self._create_rest()
        for name in found.leftovers:
            self.disk.unlink(posixpath.join(self.data, name))

    def _put_snapshot_aside(self, found: Survey) -> None:
        if any(finding.code == SNAPSHOT_UNUSABLE for finding in found.findings):
            path = posixpath.join(self.data, lay.SNAPSHOT_FILE)
            keep_and_empty(self.disk, self.data, path, scratch=self.snapshot_scratch)

    def _layout(self, edition: str | None) -> Layout:
        found = files.detect_layout(self.disk, files.list_files(self.disk, self.data))
        wanted = lay.layout_of(edition) if edition is not None else None
        if found is not None and wanted is not None and found is not wanted:
            raise RefusedError(
                f"this directory is of the {found.edition} edition, not {wanted.edition}",
                file=self.data,
                advice=f"Leave the edition out, or use `flintlog migrate --edition {wanted.edition}`",
            )
        return found or wanted or lay.DESIGNED

    def _open_log(self, found: Survey) -> None:
        tail = found.tail
        if tail is None:
            self.log.create(found.base.index + 1)
        else:
            older = [file.first for file in found.covered] + [
                segment.first for segment in found.segments[:-1]
            ]
            self.log.open(older, tail)

    def _create_rest(self) -> None:
        path = posixpath.join(self.data, lay.SNAPSHOT_FILE)
        if self.disk.stat(path) is None:
            self.disk.open(path, "create").close()
        self._publish_metadata(self.metadata)

    def _make_scratch(self, found: Survey) -> None:
        self.disk.make_passing_directory(self.scratch)
        for path in found.listing.scratch:
            directory, name = posixpath.split(path)
            if directory == self.layout.scratch and (
                name in _SCRATCH_FILES or name.startswith(f"{_SNAPSHOT_SCRATCH}.")
            ):
                self.disk.unlink(posixpath.join(self.scratch, name))

    def take_survey(self) -> Survey:
        """The survey of the opening; works once. It holds the whole log in memory, so do not keep it."""
        found, self.survey = self.survey, None
        assert found is not None
        return found

    # Places

    @property
    def log_directory(self) -> str:
        return posixpath.join(self.data, lay.LOG_DIRECTORY)

    @property
    def scratch(self) -> str:
        return posixpath.join(self.data, self.layout.scratch)

    @property
    def last(self) -> int:
        return max(self.log.last, self.snapshot_index)

    # Writing

    def set_metadata(self, metadata: Metadata) -> None:
        """Term and vote, durable on return."""
        self.failstop.check()
        with self.failstop.guard():
            self._publish_metadata(metadata)
            self.metadata = metadata

    def _publish_metadata(self, metadata: Metadata) -> None:
        # Not in place: a torn metadata file would cost the vote. The new file is locked before it gets the name,
        # so the name is locked at every moment.
        file = self.disk.create_scratch(posixpath.join(self.scratch, _METADATA_SCRATCH))
        file.lock()
        write_all(file, [self.layout.encode_metadata(metadata.term, metadata.vote)])
        self.disk.install(file, posixpath.join(self.data, lay.METADATA_FILE))
        self._lock.close()
        self._lock = file

    def state_at(self, index: int) -> State:
        """The state after `index`, from the files alone: writers go on while it is built."""
        found = survey(self.disk, self.data, layout=self.layout)
        tail = found.tail.file.name if found.tail else None
        for finding in found.findings:
            # The newest segment is being written; it only has to reach `index`.
            if finding.severity is Severity.CORRUPT and (finding.file != tail or found.last < index):
                raise finding.error(self.data)
        return found.state(index)

    def publish_snapshot(self, state: State, lock: AbstractContextManager[None] | None = None) -> None:
        """Replace the snapshot; pass a lock if other threads ask meanwhile which one is there."""
        chunks = encode_snapshot(state, self.layout)
        head = next(chunks)  # a state that does not fit is refused here, before anything is touched
        with self.failstop.preparing(), self.disk.create_scratch(self.snapshot_scratch) as file:
            write_all(file, chain([head], chunks))
            with lock or nullcontext():
                self.install_snapshot(file, state)

    @property
    def snapshot_scratch(self) -> str:
        """Where a snapshot is written; a caller that writes several adds a dot and a word."""
        return posixpath.join(self.scratch, _SNAPSHOT_SCRATCH)

    def install_snapshot(self, file: File, state: State) -> None:
        """Put a snapshot that was written to a scratch file in the place of the old one."""
        with self.failstop.guard():
            self.disk.install(file, posixpath.join(self.data, lay.SNAPSHOT_FILE))
            self.snapshot_index, self.snapshot_term = state.index, state.term

    def snapshot_due(self, commit_index: int) -> bool:
        """Do the notes' rules ask for a snapshot?"""
        return rules.snapshot_due(
            self.layout.edition,
            self.limits.threshold,
            self.log.segment_firsts,
            self.snapshot_index,
            commit_index,
        )

    def close(self) -> None:
        """Release the directory. No call is running."""
        self.failstop.close()
        self.failstop.end()
        try:
            self.log.close(intact=not self.failstop.failed)
        finally:
            self._lock.close()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What opening found and healed."""
        return tuple(self.healed)


def open_queues(disk: Disk, opening: Opening, on_stop: Callable[[], None]) -> tuple[Engine, State, int]:
    """Open a directory for queues; gives the state that its entries make, and the term of new entries.

    It makes the state before it changes a byte: entries that make none are refused.
    """
    found: list[State] = []

    def look(disk: Disk, data: str, *, layout: Layout) -> Survey:
        seen = survey(disk, data, layout=layout)
        seen.refuse_damage()
        found.append(seen.state())
        return seen

    engine = Engine(disk, opening, look, on_stop)
    return engine, found.pop(), max(engine.metadata.term, engine.take_survey().last_term)
