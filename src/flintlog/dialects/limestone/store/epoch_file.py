"""The epoch file: which epochs are durable. One record of nine bytes for each, synced before anybody is told.

`data/durable` is its witness: the last record once more, written when the epoch file has it for certain, and never
synced. It costs no time, a crash may take it, and it never says more than was true: nine bytes at the beginning of a
file stand in one sector. So where it says more than the epoch file does, that file has lost records.
"""

from __future__ import annotations

import posixpath

from flintlog.core.kept import keep_cut
from flintlog.dialects.limestone import layout as lay
from flintlog.disk import Disk, File

RECORDS_MAX = 100  # the shipped edition then begins a new file


class EpochFile:
    """Appends records. Its callers serialise the calls."""

    def __init__(self, disk: Disk, directory: str, *, rolls: bool) -> None:
        self._disk = disk
        self._directory = directory
        self._rolls = rolls
        self._written = 0
        self._end = 0
        self._file: File | None = None
        self._witness: File | None = None

    def open(self, end: int, durable: int, witness: int) -> None:
        """Take over the file, cut behind its last whole record; what was read is made durable. A witness that says more
        is corrected: it was spoiled, or records are gone that no session needs."""
        file = self._file = self._disk.open(self._path, "create")
        if file.size() != end:
            keep_cut(self._disk, self._directory, file, end)
            file.truncate(end)
        file.sync()
        self._end = end
        if witness > durable:
            self._note(durable)

    @property
    def _path(self) -> str:
        return posixpath.join(self._directory, lay.EPOCH_FILE)

    def record(self, epoch: int) -> None:
        """Say that an epoch is durable; on return that is so."""
        self._written += 1
        if self._rolls and self._written == RECORDS_MAX:
            self._begin(lay.encode_durable(epoch))
        else:
            assert self._file is not None
            self._file.pwrite(lay.encode_durable(epoch), self._end)
            self._file.sync()
            self._end += lay.MARKER_SIZE
        self._note(epoch)

    def _note(self, epoch: int) -> None:
        """Let the witness say that an epoch is durable."""
        if self._witness is None:
            path = posixpath.join(self._directory, lay.WITNESS_FILE)
            self._disk.make_passing_directory(posixpath.dirname(path))
            self._witness = self._disk.open(path, "create")
        self._witness.pwrite(lay.encode_durable(epoch), 0)

    def _begin(self, content: bytes) -> None:
        file = self._disk.create_scratch(posixpath.join(self._directory, lay.EPOCH_SCRATCH))
        file.pwrite(content, 0)
        self._disk.install(file, self._path)
        self._close_file()
        self._file, self._end, self._written = file, len(content), 0

    def rotate(self, milliseconds: int, epoch: int) -> str | None:
        """Give the file another name and begin an empty one, whose name the caller syncs; None when it is empty."""
        if not self._end:
            return None
        name = lay.rotated_epoch_name(milliseconds, epoch)
        self._disk.rename(self._path, posixpath.join(self._directory, name))
        self._disk.sync_directory(self._directory)  # before the old name means another file
        self._close_file()
        self._file, self._end = self._disk.open(self._path, "create"), 0
        return name

    def close(self) -> None:
        self._close_file()
        if self._witness is not None:
            self._witness.close()

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
