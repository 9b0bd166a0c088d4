"""The files of the note, open for writing: data files, the change log, the snapshot of descriptors.

They are written in one of two ways.

*Beside an operation log* nothing here is synced one by one: the log has every operation until `make_durable`, and
opening writes again what a crash took.

*Alone*, as the note has it, each write is durable in its order: records before a change that rests on them, the
creation of a file before its first record, the change that deletes a file before the file. The formats have no
checksums. So that no reader takes a partial write for a whole one, each write has two steps with a sync between: first
everything but one byte, without which the first record or event is invalid, then that byte. In a record it is the
highest byte of the replay time (without it the record would be due before its predecessor); in an event the payload's
length. Records of one write are due at the same time, so behind a record without that byte there can be no other time.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Sequence
from itertools import groupby

from flintlog.core.kept import keep_cut
from flintlog.dialects.mpy6a import layout as lay
from flintlog.dialects.mpy6a.authority import ByOperationLog
from flintlog.dialects.mpy6a.files import mark_of
from flintlog.dialects.mpy6a.layout import Descriptor
from flintlog.dialects.mpy6a.operations import Bytes
from flintlog.dialects.mpy6a.replay import Created, Effect, Logged, Machine, Removed, SetAside, Written
from flintlog.dialects.mpy6a.seen import Survey
from flintlog.disk import Disk, File

_FRAME = lay.CHANGES_FRAME[0]
_OPEN_FILES_MAX = 64


class NoteFiles:
    """Carries out effects. Callers make one call at a time."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._open_files: dict[str, File] = {}
        self._dirty: set[str] = set()
        self._names_dirty = False
        self._frame = _FRAME
        self._changes: File | None = None
        self._announced: set[str] = set()
        self.changes_end = 0
        self.written = False  # since the last snapshot
        self.beside = False  # is there an operation log, which decides?

    # Opening

    def recover(self, found: Survey, log: ByOperationLog) -> None:
        """Write what the operation log has and these files lack; a crash in here leaves the log as it was."""
        for file in found.machine.files.values():
            tail = log.tails.get(file.name, [])
            if tail or found.listing.data.get(file.name) != file.length:
                self._make_equal(file.name, log.synced(file.name, 0), tail, file.length)
        if found.listing.known.get(lay.EXHAUSTED_FILE, 0) != found.machine.exhausted or log.set_aside:
            self._make_equal(lay.EXHAUSTED_FILE, log.exhausted, log.set_aside, found.machine.exhausted)
        self.keep(
            item.file for item in found.findings if item.code == "note-behind" and item.file is not None
        )
        snapshot = lay.encode_snapshot(log.descriptors)
        if found.view(lay.SNAPSHOT_FILE) != snapshot:
            self._publish(lay.SNAPSHOT_FILE, snapshot)
        changes = lay.encode_changes(log.changes, beside=True)
        if found.view(lay.CHANGES_FILE) != changes:
            self._publish(lay.CHANGES_FILE, changes)
        self._open_changes(len(changes), _FRAME)
        self._names_dirty = True

    def take_over(self, found: Survey) -> None:
        """Cut what is torn, and make durable what was read: a store must not build on bytes that a crash can take."""
        for file in found.machine.files.values():
            if file.written:
                self._cut(self._handle(file.name), file.length).sync()
        if lay.EXHAUSTED_FILE in found.listing.known:
            self._cut(self._handle(lay.EXHAUSTED_FILE), found.machine.exhausted).sync()
        if found.log is None:
            self.begin_changes()
        else:
            end = found.log.end
            self._open_changes(end, found.log.frame)
            assert self._changes is not None
            self._cut(self._changes, end).sync()
        self._sync_names()

    def _cut(self, file: File, size: int) -> File:
        """Cut what was never acknowledged; a copy of it stays."""
        if file.size() != size:
            keep_cut(self._disk, self._directory, file, size)
            file.truncate(size)
        return file

    def keep(self, names: Iterable[str]) -> None:
        """Copy files that are about to be removed."""
        for name in names:
            with self._disk.open(self._path(name)) as file:
                keep_cut(self._disk, self._directory, file, 0)

    def remove(self, names: Iterable[str]) -> None:
        """Remove files that no descriptor names; durable on return, so that what explains them may go."""
        for name in names:
            self._remove(name)
        self._sync_names()

    def _make_equal(self, name: str, synced: int, tail: Sequence[Bytes], length: int) -> None:
        handle = self._handle(name)
        missing = b"".join(tail)
        there = handle.pread(len(missing), synced)
        if there != missing:
            if not missing.startswith(there):
                keep_cut(self._disk, self._directory, handle, synced)
            handle.pwrite(missing, synced)
        self._cut(handle, length)
        self._dirty.add(name)

    # Writing

    def write(self, effects: Iterable[Effect]) -> None:
        """Carry out effects whose operations are durable elsewhere."""
        events: list[bytes] = []
        for effect in effects:
            match effect:
                case Written(file, offset, data):
                    self._handle(file.name).pwrite(data, offset)
                    self._dirty.add(file.name)
                case Logged(event):
                    events.append(event)
                case Created(name):
                    self._create(name)
                case Removed(name):
                    self._remove(name)
                case SetAside(offset, data):
                    self._handle(lay.EXHAUSTED_FILE).pwrite(data, offset)
                    self._dirty.add(lay.EXHAUSTED_FILE)
        if events:
            data = lay.framed(self.changes_end, self._frame, events)
            assert self._changes is not None
            self._changes.pwrite(data, self.changes_end)
            self.changes_end += len(data)

    def write_synced(self, effects: Iterable[Effect]) -> None:
        """Carry out effects, durable on return and in an order that a crash can cut anywhere."""
        self.written = True
        records: dict[str, list[Written | SetAside]] = {}
        events: list[bytes] = []
        created: set[str] = set()
        for effect in effects:
            match effect:
                case Written(file, _, _):
                    records.setdefault(file.name, []).append(effect)
                case SetAside(_, _):
                    records.setdefault(lay.EXHAUSTED_FILE, []).append(effect)
                case Logged(event):
                    events.append(event)
                case Created(name):
                    created.add(name)  # before any later event: only the file created last may be missing
                    self._settle(records, events, created)
                case Removed(name):
                    self._settle(records, events, created)
                    self._remove(name)
                    # The file must not come back when the log that deletes it is gone.
                    self._sync_names()
        self._settle(records, events, created)

    def _settle(
        self, records: dict[str, list[Written | SetAside]], events: list[bytes], created: set[str]
    ) -> None:
        self._write_records(records)
        self._write_events(events)
        for name in created:
            self._create(name)
        if created:
            self._sync_names()
        records.clear()
        events.clear()
        created.clear()

    def _write_records(self, records: dict[str, list[Written | SetAside]]) -> None:
        """Write the records of each file; those that are due together are one commit, by a byte of its replay time."""
        left = {name: [list(group) for _, group in groupby(pieces, _due)] for name, pieces in records.items()}
        while left:
            self._commit({name: groups.pop(0) for name, groups in left.items()})
            left = {name: groups for name, groups in left.items() if groups}

    def _commit(self, records: dict[str, list[Written | SetAside]]) -> None:
        commits: list[tuple[str, int, bytes]] = []
        for name, pieces in records.items():
            data = bytearray(b"".join(piece.data for piece in pieces))
            commit = (_due(pieces[0]).bit_length() + 7) // 8 - 1
            handle, offset = self._handle(name), pieces[0].offset
            commits.append((name, offset + commit, bytes(data[commit : commit + 1])))
            data[commit] = 0
            handle.pwrite(data, offset)
            handle.sync()
        if self._names_dirty:
            self._sync_names()
        for name, offset, byte in commits:
            handle = self._handle(name)
            handle.pwrite(byte, offset)
            handle.sync()

    def _write_events(self, events: list[bytes]) -> None:
        if not events:
            return
        file = self._changes
        assert file is not None
        data = bytearray(lay.framed(self.changes_end, self._frame, events))
        commit = lay.padding_before(self.changes_end, self._frame, len(events[0])) + lay.EVENT_HEADER_SIZE
        byte = bytes(data[commit : commit + 1])
        data[commit] = 0
        file.pwrite(data, self.changes_end)
        file.sync()
        file.pwrite(byte, self.changes_end + commit)
        file.sync()
        self.changes_end += len(data)

    # Snapshots

    def make_durable(self) -> None:
        """Make everything written so far durable."""
        for name in sorted(self._dirty):
            self._handle(name).sync()
        self._dirty.clear()
        if self._names_dirty:
            self._sync_names()

    def snapshot(self, descriptors: Sequence[Descriptor], machine: Machine) -> None:
        """Put descriptors in the place of the old snapshot, then begin the change log anew."""
        self._publish(lay.SNAPSHOT_FILE, lay.encode_snapshot(descriptors))
        self.begin_changes()
        self.written = False
        for name in [name for name in self._open_files if name != lay.EXHAUSTED_FILE]:
            known = machine.files.get(name)
            if known is None or not known.written:
                self._close(name)

    def begin_changes(self) -> None:
        """An empty change log."""
        header = lay.encode_changes([], beside=self.beside)
        self._publish(lay.CHANGES_FILE, header)
        self._open_changes(len(header), _FRAME)

    # Names

    def announce(self, names: Iterable[str]) -> None:
        """Mark these data files as being made or removed, before a crash can show anything of that."""
        for name in names:
            self._disk.open(self._path(mark_of(name)), "create").close()
            self._announced.add(name)
        self._sync_names()

    def withdraw(self, done: Iterable[str]) -> None:
        """Remove the marks: these files are described now, or gone."""
        for name in sorted(self._announced.intersection(done)):
            self._disk.unlink(self._path(mark_of(name)))
            self._announced.discard(name)

    def _sync_names(self) -> None:
        self._disk.sync_directory(self._directory)
        self._names_dirty = False

    def _open_changes(self, end: int, frame: int) -> None:
        if self._changes is not None:
            self._changes.close()
        self._changes = self._disk.open(self._path(lay.CHANGES_FILE), "write")
        self.changes_end = end
        self._frame = frame

    def _publish(self, name: str, data: bytes) -> None:
        path = self._path(name)
        self._disk.publish(path, [data], scratch=path + lay.SCRATCH_SUFFIX)

    def _create(self, name: str) -> None:
        self._handle(name).truncate(0)
        self._dirty.add(name)
        self._names_dirty = True

    def _remove(self, name: str) -> None:
        self._close(name)
        self._dirty.discard(name)
        if self._disk.stat(self._path(name)) is not None:
            self._disk.unlink(self._path(name))
            self._names_dirty = True

    def _handle(self, name: str) -> File:
        """A file, open for writing. When too many are open, closes the one used the longest ago."""
        handle = self._open_files.pop(name, None)
        if handle is None:
            if len(self._open_files) == _OPEN_FILES_MAX:
                self._close(next(iter(self._open_files)))
            handle = self._disk.open(self._path(name), "create")
            self._names_dirty = True
        self._open_files[name] = handle
        return handle

    def _close(self, name: str) -> None:
        handle = self._open_files.pop(name, None)
        if handle is not None:
            handle.close()

    def _path(self, name: str) -> str:
        return posixpath.join(self._directory, name)

    def close(self) -> None:
        for name in list(self._open_files):
            self._close(name)
        if self._changes is not None:
            self._changes.close()


def _due(piece: Written | SetAside) -> int:
    return int.from_bytes(piece.data[:8], "little")
