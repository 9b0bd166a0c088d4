"""`Datastore`: a key-value log with channels, epochs and group commit."""

from __future__ import annotations

import logging
import os
import posixpath
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial

from flintlog.core import threads
from flintlog.core.backup.listing import refuse_backup
from flintlog.core.closes import Closes
from flintlog.core.dialect import refuse_others
from flintlog.core.finding import Finding, Severity
from flintlog.core.workers import Workers
from flintlog.dialects.limestone import distributed, files
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone.distributed import Distribution, Looking, Looks
from flintlog.dialects.limestone.layout import Catalog, Edition, Entry, Version
from flintlog.dialects.limestone.passes import MEMORY_BYTES
from flintlog.dialects.limestone.replay import Cleared, State
from flintlog.dialects.limestone.store import blobs, compaction, creation, healing, staged
from flintlog.dialects.limestone.store.auto import INTERVAL_SECONDS, Automatic
from flintlog.dialects.limestone.store.channel import FLUSH_BYTES, Channel
from flintlog.dialects.limestone.store.compaction import COMPACTED_BYTES, Compacted
from flintlog.dialects.limestone.store.epoch_file import EpochFile
from flintlog.dialects.limestone.store.places import places_in, places_of
from flintlog.dialects.limestone.store.present import Base, Present
from flintlog.dialects.limestone.store.snapshot import Snapshot
from flintlog.dialects.limestone.survey import Survey, survey
from flintlog.disk import DEFERRED, Disk, FailStop, File, take_lock
from flintlog.errors import RefusedError, UsageError

_log = logging.getLogger("flintlog.limestone")


@dataclass(frozen=True, slots=True)
class Rotation:
    """What a rotation did: the new names, those of them that a session is still open in, and the epoch that was
    durable: every session up to it is in the rotated logs."""

    names: list[str]
    busy: frozenset[str]
    epoch: int


class Datastore(Closes):
    """A directory of logs, open for writing. Thread-safe; each thread writes to a channel of its own.

    Entries are durable with their epoch: when every session of it has ended and a later epoch was begun.

    `keep_superseded` leaves logs that a compaction took in where they are, as the original does. `workers` walk the
    logs of a large directory and write its compacted files; without them this process does. `wait` says for how many
    seconds another writer of the directory is waited for.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        edition: Edition | None = None,
        snapshot: bool = True,
        on_durable: Callable[[int], None] | None = None,
        clock: Callable[[], float] = time.time,
        instance: Callable[[], str] = creation.new_instance,
        memory_bytes: int = MEMORY_BYTES,
        compacted_bytes: int = COMPACTED_BYTES,
        flush_bytes: int = FLUSH_BYTES,
        keep_superseded: bool = False,
        workers: Workers | Looks | None = None,
        wait: float = 0,
        disk: Disk | None = None,
    ) -> None:
        self.disk = disk or Disk()
        self.path = self.disk.resolve(path)
        self.failstop = FailStop(self.path, self._wake)
        self._clock = clock
        self._memory_bytes = memory_bytes
        self._compacted_bytes = compacted_bytes
        self._keep_superseded = keep_superseded
        self._wait = wait
        self._looks = None if workers is None else Looks.of(workers)
        self.flush_bytes = flush_bytes
        self._on_durable = on_durable
        self._lock = threads.StoreLock(self.failstop, reentrant=True)
        self._changed = self._lock.condition()
        self._recording = threads.lock()  # held while the epoch file is written
        self._versions = threads.lock()  # held while write versions are given out
        self._upkeep = threads.lock()  # rotation, compaction, backup: one at a time
        self._channels: list[Channel] = []
        self._loading: int | None = None  # the epoch of sessions that `load` takes in
        self.disk.make_passing_directory(self.path)
        self._lock_files: list[File] = [take_lock(self.disk, self.path, "read", self.path, wait)]
        try:
            self._open(edition, snapshot, instance)
        except BaseException:
            self._unlock()
            raise

    # Opening

    def _open(self, edition: Edition | None, snapshot: bool, instance: creation.Instance) -> None:
        if edition is not None and edition not in lay.VERSION_OF:
            raise UsageError(f"{edition!r} is not an edition", advice=f"Known: {', '.join(lay.VERSION_OF)}")
        refuse_backup(self.disk, self.path)
        refuse_others(self.disk, self.path, "limestone")
        blank = creation.is_blank(files.list_files(self.disk, self.path))
        if blank:
            creation.create(self.disk, self.path, creation.manifest_of(edition or "designed", instance))
        self._lock_manifest()
        found = self._survey()
        found.refuse_damage()
        found.refuse_forgetting()
        if edition is not None and found.edition != edition:
            raise RefusedError(
                f"this directory is of the {found.edition} edition, not {edition}",
                file=self.path,
                advice="Leave the edition out",
            )
        self.edition: Edition = found.edition
        self.findings: tuple[Finding, ...] = tuple(
            finding for finding in found.findings if finding.severity is Severity.REPAIRABLE
        )
        self.disk.sync_ancestors(self.path)
        if creation.name_first_compacted(found):
            found = self._survey()
        self._heal(found, instance)
        order = compaction.order_of(self.edition)
        self.snapshot: Snapshot | None = None
        self._present: Present | None = None
        if snapshot:
            fresh = self._survey() if self._was_changed(found) else found
            state = State(fresh, order=order, memory_bytes=self._memory_bytes)
            places = places_of(self.disk, self.path, state, order, self._memory_bytes)
            self.snapshot = Snapshot(
                self.disk, self.path, places, state.epoch, self._memory_bytes, self.failstop
            )
            base = Base(places, state.channels, self._durable, state.cleared, state)
            self._present = Present(self.disk, self.path, base, lambda: self._durable)

    def _was_changed(self, found: Survey) -> bool:
        """May opening have changed what a survey before it saw?"""
        version = found.manifest.version if found.manifest else 0
        return bool(found.findings) or self.edition == "shipped" or version != lay.VERSION_OF["designed"]

    def _survey(self, *, alone: bool = True) -> Survey:
        walker = None if self._looks is None else self._looks.walks
        return survey(self.disk, self.path, walker=walker, alone=alone)

    def _lock_manifest(self) -> None:
        """The original locks the manifest; a store of ours that comes here has the directory already."""
        path = posixpath.join(self.path, lay.MANIFEST_FILE)
        if self.disk.stat(path) is None:
            return
        self._lock_files.append(take_lock(self.disk, path, "write", self.path, self._wait))

    def _heal(self, found: Survey, instance: creation.Instance) -> None:
        there = files.blobs(self.disk, self.path)  # refuses what is no file before anything is changed
        creation.restore_manifest(found)
        old = found.manifest.version if found.manifest else 0
        upgraded = creation.upgrade(found, instance)
        if upgraded or found.manifest_name != lay.MANIFEST_FILE:
            self._lock_manifest()
        self._rotated = healing.latest_rotations(found)
        healing.heal(found, self._milliseconds)
        self._largest_blob = blobs.collect(found, there) if self.edition == "shipped" else 0
        self.blobs = blobs.Blobs(self.disk, self.path, self.edition, self._largest_blob, self.guard)
        if self.disk.stat(posixpath.join(self.path, lay.CATALOG_FILE)) is None:
            empty = Catalog(max_blob=0 if self.edition == "shipped" else None)
            healing.publish_catalog(self.disk, self.path, empty)
        self._epochs = EpochFile(self.disk, self.path, rolls=self.edition == "shipped")
        self._epochs.open(healing.epoch_end(found), found.durable, found.witness)
        self.disk.sync_directory(self.path)
        last = found.last_epoch
        if self.edition == "shipped":
            self._finish_as_shipped(found, last, old)
        # A compaction may have taken in empty epochs that no log and no record shows.
        covered = found.catalog.max_epoch
        self._recorded = last if self.edition == "shipped" else found.durable
        self._durable = max(self._recorded, covered)
        self._ended: set[int] = set()  # epochs with sessions that ended, and that are not yet durable
        self._switched = max(last, covered) + 1
        self._asked = 0  # the largest epoch that a session began in, or that a thread waits for
        self._minor = 0  # counts on over epochs: a session may still be open in one that is over

    def _finish_as_shipped(self, found: Survey, last: int, old_version: int) -> None:
        """What the original does when it is ready: the last epoch is recorded, other epoch files go."""
        if last:
            self._epochs.record(last)
        for name in [*found.listing.epochs, *found.listing.odd_epochs]:
            if name != lay.EPOCH_FILE:
                self.disk.unlink(posixpath.join(self.path, name))
        if old_version < lay.VERSION_OF_END_MARKERS:
            for log in files.list_files(self.disk, self.path).logs:
                if log.active and log.size:
                    healing.rotate(self.disk, self.path, log.name, self._milliseconds)
            self.disk.sync_directory(self.path)  # before the old names mean other files

    def _milliseconds(self, channel: int | None = None) -> int:
        """The time for the name of a rotated log. In a channel it always rises, so that names keep the order of
        writing, and none comes again that a catalog lists. Without a channel it is behind those of all."""
        with self._lock:
            latest = self._rotated.values() if channel is None else [self._rotated.get(channel, -1)]
            found = max([int(self._clock() * 1000), *(time + 1 for time in latest)])
            found = min(found, lay.ROTATED_TIME_MAX)
            if channel is not None:
                self._rotated[channel] = found
            return found

    # Epochs

    @property
    def epoch(self) -> int:
        """The epoch that sessions begin in now."""
        return self._switched

    @property
    def is_idle(self) -> bool:
        """Did no session begin in the present epoch, and does no thread wait for it?"""
        return self._asked < self._switched

    @property
    def durable_epoch(self) -> int:
        """Everything up to this epoch survives a crash."""
        return self._durable

    def switch_epoch(self, epoch: int | None = None) -> int:
        """Begin a later epoch, the next one unless it is named. Those before become durable when their sessions end."""
        with self._lock:
            self.failstop.check()
            following = lay.check_number("epoch", self._switched + 1 if epoch is None else epoch)
            if following < self._switched:
                raise UsageError(
                    f"epoch {following} is over: the present one is {self._switched}",
                    advice="Epochs only grow",
                )
            self._switched = following
        self._advance()
        return following

    def automatic(self, *, interval: float = INTERVAL_SECONDS) -> Automatic:
        """Let epochs switch by themselves, every few milliseconds: an application puts, and waits."""
        return Automatic(self, interval=interval)

    def wait_durable(self, epoch: int, timeout: float | None = None) -> bool:
        """Wait until an epoch is durable; False when the time is over."""
        with self._lock:
            self._asked = max(self._asked, epoch)
            self._changed.wait_for(
                lambda: self._durable >= epoch or self.failstop.closed or self.failstop.failed, timeout
            )
            if self._durable < epoch:
                self.failstop.check()
            return self._durable >= epoch

    def guard(self) -> AbstractContextManager[None]:
        """Around every change of a file: a failure stops the store."""
        return self.failstop.guard()

    def _wake(self) -> None:
        """Those who wait for an epoch learn that it will not come."""
        with self._lock:
            self._changed.notify_all()

    def _advance(self) -> None:
        """Record what became durable, and tell those who wait."""
        if self._upper() <= self._durable:
            return
        with DEFERRED, self._recording:
            with self._lock:
                upper = self._upper()
                if upper <= self._durable or self.failstop.closed:
                    return
                record = self._to_record(upper)
            if record > self._recorded:
                with self.guard():
                    self._epochs.record(record)
                self._recorded = record
            with self._lock:
                self._ended = {epoch for epoch in self._ended if epoch > upper}
                self._durable = upper
                self._changed.notify_all()
        if self._on_durable is None:
            return
        try:
            self._on_durable(upper)
        except Exception:
            _log.exception("on_durable failed for epoch %d of %s; the epoch is durable", upper, self.path)

    def _to_record(self, upper: int) -> int:
        """What the epoch file says when all is durable up to an epoch. The original records those with sessions."""
        if self.edition == "designed":
            return upper
        return max((epoch for epoch in self._ended if epoch <= upper), default=0)

    def _upper(self) -> int:
        """The largest epoch in which every session has ended."""
        open_epochs = [self._loading, *(channel.epoch for channel in self._channels)]
        return min([self._switched, *(epoch for epoch in open_epochs if epoch is not None)]) - 1

    # Channels

    def channel(self) -> Channel:
        """A channel for one thread; its log is `pwal_NNNN`, counted from 0 in each process."""
        with self._lock:
            self.failstop.check()
            channel = Channel(self, len(self._channels))
            self._channels.append(channel)
            return channel

    def enter(self, channel: Channel) -> int:
        """A session begins on a channel; returns its epoch."""
        with self._lock:
            self.failstop.check()
            channel.entered(self._switched)
            self._asked = max(self._asked, self._switched)
            return self._switched

    def leave(self, channel: Channel, epoch: int | None) -> None:
        """A session ended, with its entries on the device, or without any."""
        with self._lock:
            channel.epoch = None
            if epoch is not None:
                self._ended.add(epoch)
        self._advance()

    def next_versions(self, epoch: int, count: int) -> Version:
        """The first of so many write versions in a row."""
        with self._versions:
            first = self._minor
            self._minor += count
            return epoch, first

    def next_minor(self) -> int:
        """The second half of the next write version."""
        with self._versions:
            self._minor += 1
            return self._minor - 1

    def load(self, places: Sequence[str]) -> int:
        """Take in sessions that were staged in files of their own, below this directory; all of them count, or none.

        They get an epoch in which nothing else is written, and its versions. Returns it; it is durable as soon as the
        sessions before it have ended. `store/load.py` stages such files.
        """
        self.failstop.check()
        with DEFERRED, self._upkeep:
            with self._lock:
                self.failstop.check()
                epoch = lay.check_number("epoch", self._switched + 1)
                self._loading, self._switched = epoch, epoch + 1
            try:
                now = self._milliseconds()
                with self.guard():
                    staged.take_in(self.disk, self.path, places, epoch, now)
                with self._lock:
                    self._ended.add(epoch)
            finally:
                with self._lock:
                    self._loading = None
        self._advance()
        return epoch

    # Reading

    def get(self, storage: int, key: bytes) -> bytes | None:
        """The value that a key has now, by all that is durable; None when there is none."""
        found = self.entry(storage, key)
        return None if found is None else found.value

    def entry(self, storage: int, key: bytes) -> Entry | None:
        """The whole entry of a key, with version and blobs."""
        return self._reading().entry(storage, key)

    def __contains__(self, place: tuple[int, bytes]) -> bool:
        """Has a storage this key now? `(storage, key) in store`."""
        return self.entry(*place) is not None

    def scan(
        self, storage: int | None = None, start: bytes = b"", stop: bytes | None = None
    ) -> Iterator[Entry]:
        """Entries in the order of their keys: all, or those of one storage from `start` on and below `stop`.

        They are those of one moment: when the first is asked for.
        """
        return self._reading().scan(storage, start, stop)

    def _reading(self) -> Present:
        self.failstop.check()
        if self._present is None:
            raise _without_snapshot()
        return self._present

    # Upkeep

    def rotate(self) -> list[str]:
        """Give every log the name of a rotated one; sessions that are open end in theirs. Returns the new names."""
        self.failstop.check()
        with DEFERRED, self._upkeep:
            self.failstop.check()
            return self._rotate().names

    def _rotate(self, *, epochs: bool | None = None) -> Rotation:
        names = []
        with self._recording, self._lock, self.guard(), self._changing() as renamed:
            if epochs or (epochs is None and self.edition == "designed"):
                name = self._epochs.rotate(int(self._clock() * 1000), self._switched)
                names += [name] if name else []
            there = {log.name for log in files.list_files(self.disk, self.path).logs if log.active}
            written = {channel.name for channel in self._channels if channel.epoch is not None}
            rotated = {
                name: healing.rotate(self.disk, self.path, name, self._milliseconds, spare=name in written)
                for name in sorted(there)
            }
            renamed.update(rotated)
            for channel in self._channels:
                if channel.name in rotated:
                    channel.rotate(rotated[channel.name])
            open_in = [channel.rotated for channel in self._channels if channel.epoch is not None]
            self.disk.sync_directory(self.path)
            busy = frozenset(name for name in open_in if name is not None)
            return Rotation(names + list(rotated.values()), busy, self._durable)

    def compact(self) -> Compacted | None:
        """Write the durable state to compacted files, while channels go on; None when there is nothing new."""
        self.failstop.check()
        with self._upkeep, self.failstop.preparing():
            self.failstop.check()
            rotation = self._rotate()
            looking = None if self._looks is None else Looking(self._looks, self.disk, self.path)
            found = self._survey(alone=False) if looking is None else looking.survey
            found.refuse_damage()
            if not compaction.is_due(found, rotation.epoch):
                return None
            if self.snapshot is not None and not self.snapshot.is_written:
                self.snapshot.write()  # it holds logs that go
            write = None
            if looking is not None:
                order = compaction.order_of(self.edition)
                write = partial(distributed.write_files, Distribution(looking, rotation.epoch, order=order))
            done = compaction.compact(
                found,
                rotation.epoch,
                busy=rotation.busy,
                file_bytes=self._compacted_bytes,
                memory_bytes=self._memory_bytes,
                write=write,
                guard=self._guarded,
            )
            self._rebase(done)
            with self.guard():
                self._collect(done.superseded)
            return done

    def _changing(self) -> AbstractContextManager[dict[str, str]]:
        """Around changes of logs that other threads may read."""
        return nullcontext({}) if self._present is None else self._present.changing()

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        with self._changing(), self.guard():
            yield

    def _rebase(self, done: Compacted) -> None:
        """Read what is durable from the compacted files; the logs that they replace can go."""
        if self._present is None:
            return
        order = compaction.order_of(self.edition)
        places = places_in(self.disk, self.path, list(done.files), order, self._memory_bytes)
        base = Base(places, [None] * len(done.files), done.epoch, Cleared())
        self._present.rebase(base, done.superseded)

    def write_snapshot(self) -> None:
        """Write `data/snapshot`, the state at opening as a sorted file, while channels go on."""
        self.failstop.check()
        if self.snapshot is None:
            raise _without_snapshot()
        with self._upkeep, self.failstop.preparing():
            self.failstop.check()
            self.snapshot.write()

    def _collect(self, superseded: Sequence[str]) -> None:
        """Remove what nothing needs any more; logs may be kept, compacted files before the last never are."""
        old: list[str] = []
        if self._keep_superseded:
            superseded = list(filter(lay.is_compacted_name, superseded))
        elif self.edition == "designed":
            with self._recording:
                old = self._old_epochs()
        for name in [*superseded, *old]:
            self.disk.unlink(posixpath.join(self.path, name))

    def _old_epochs(self) -> list[str]:
        """Rotated epoch files: the present one says as much, as soon as it has a record."""
        names = [name for name in files.list_files(self.disk, self.path).epochs if name != lay.EPOCH_FILE]
        if names:
            self._epochs.record(self._recorded)
        return names

    @contextmanager
    def held(self) -> Iterator[int]:
        """Rotate, and let no file that is there change or go until the block ends; gives the epoch that they reach.

        Channels go on. Rotation, compaction and closing wait.
        """
        self.failstop.check()
        with self._upkeep:
            self.failstop.check()
            yield self._rotate(epochs=True).epoch

    # Closing

    def close(self) -> None:
        """Let no new call begin, finish those that were begun, and give the directory free.

        What is in no durable epoch is forgotten when it is opened again. In a forked child it does nothing: the store
        is the parent's.
        """
        with self._lock.closing() as mine:
            if mine:
                self._wake()
                with self._upkeep, self._recording:
                    self.failstop.end()
                    for channel in self._channels:
                        channel.close()
                    self._epochs.close()
                    if self._present is not None:
                        self._present.close()
                    self._unlock()
            if mine:
                self._tell_pending()

    def _tell_pending(self) -> None:
        """Say what the next opening will forget."""
        ended = any(epoch > self._durable for epoch in self._ended)
        if ended or any(channel.has_entries for channel in self._channels):
            _log.warning(
                "%s was closed with sessions that are not durable: the next opening forgets them. "
                "End every session (close what automatic() gave) and call switch_epoch() before close()",
                self.path,
            )

    def _unlock(self) -> None:
        for file in reversed(self._lock_files):
            file.close()
        self._lock_files = []


def _without_snapshot() -> UsageError:
    return UsageError("this store was opened without a snapshot", advice="Open it with snapshot=True")
