"""`operations.log`, open for writing: a checkpoint, and every operation since.

A commit is one write and one sync; each event has a checksum, which shows a partial write. A checkpoint is a new file
that takes the name by a rename: at every moment there is one whole log.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Sequence

from flintlog.core.kept import keep_cut
from flintlog.dialects.mpy6a import layout as lay
from flintlog.dialects.mpy6a import operations as ops
from flintlog.dialects.mpy6a.layout import StateID
from flintlog.dialects.mpy6a.operations import Base, Bytes, Open
from flintlog.dialects.mpy6a.scan import COMMIT_BYTES_MAX
from flintlog.disk import Disk, File

RESERVE_BYTES = 1 << 18
_SMALL_WRITE_BYTES = 1 << 16  # for a larger write the zeros cost more than not growing saves


class OperationLog:
    """Appends events. Callers make one call at a time."""

    def __init__(self, disk: Disk, directory: str, *, reserve_bytes: int = RESERVE_BYTES) -> None:
        self._disk = disk
        self._path = posixpath.join(directory, lay.OPERATIONS_FILE)
        self._reserve_bytes = reserve_bytes
        self._file: File
        self.end = 0
        self.events = 0  # since the checkpoint
        self.frame = lay.OPERATIONS_FRAME[0]  # a longer event has no room
        self._reserved = 0  # the file reaches up to here

    def open(self, end: int, events: int, frame: int) -> None:
        """Go on behind `end`: keep a copy of the bytes behind it, cut them, and make durable what was read."""
        self._file = self._disk.open(self._path, "write")
        if self._file.size() != end:
            keep_cut(self._disk, posixpath.dirname(self._path), self._file, end)
            self._file.truncate(end)
        self._file.sync()
        self.end = self._reserved = end
        self.events = events
        self.frame = frame

    def begin(self, state_id: StateID, base: Base, sessions: Iterable[Open], longest: int = 0) -> None:
        """Put a new log in the place of the old one, with nothing but a checkpoint and room for `longest` events."""
        frame, pieces = ops.checkpoint_with_room(state_id, base, sessions, longest)
        file = self._disk.create_scratch(self._path + lay.SCRATCH_SUFFIX)
        end = 0
        for chunk in pieces:
            file.pwrite(chunk, end)
            end += len(chunk)
        self._disk.install(file, self._path)
        self.close()
        self._file = file
        self.end = self._reserved = end
        self.events = 0
        self.frame = frame

    def append(self, events: Sequence[Bytes]) -> None:
        """Write events behind the last one; they are durable on return."""
        held: list[Bytes] = []
        size = 0
        for event in events:
            if size and size + len(event) > COMMIT_BYTES_MAX:
                self._commit(held)
                held, size = [], 0
            held.append(event)
            size += len(event)
        self._commit(held)
        self.events += len(events)

    def _commit(self, events: list[Bytes]) -> None:
        data = events[0] if len(events) == 1 else None
        if data is None or lay.padding_before(self.end, self.frame, len(data)):
            data = lay.framed(self.end, self.frame, events)
        end = self.end + len(data)
        if end > self._reserved and len(data) <= _SMALL_WRITE_BYTES and self._reserve_bytes:
            # An fsync of a file that grew must write its new length too: the next writes stay inside these zeros.
            self._file.pwrite(b"".join((data, bytes(self._reserve_bytes))), self.end)
            self._reserved = end + self._reserve_bytes
        else:
            self._file.pwrite(data, self.end)
            self._reserved = max(self._reserved, end)
        self._file.sync()
        self.end = end

    def read(self) -> memoryview:
        """The log as it stands on disk."""
        return memoryview(self._file.pread(self.end, 0))

    def close(self) -> None:
        if hasattr(self, "_file"):
            self._file.close()
