"""The epoch file: which epochs are durable. One record of nine bytes for each, synced before anybody is told.

`data/durable` is its witness: the same records, each written when the epoch file has it for certain, and never
synced. It costs no time, a crash may take it, and it never says more than was true. So where it says more than the
epoch file does, that file has lost records.
"""

from __future__ import annotations

import posixpath

from flintlog.core.kept import keep_cut
from flintlog.dialects.limestone import layout as lay
from flintlog.disk import Disk, File

RECORDS_MAX = 100  # the shipped edition then begins a new file
_WITNESS_BYTES_MAX = 1000 * lay.MARKER_SIZE


class EpochFile:
    """Appends records. Its callers serialise the calls."""

    def __init__(self, disk: Disk, directory: str, *, rolls: bool) -> None:
        self._disk = disk
        self._directory = directory
        self._rolls = rolls
        self._written = 0
        self._end = 0
        self._file: File | None = None
        self._witness = Witness(disk, posixpath.join(directory, lay.WITNESS_FILE))

    def open(self, end: int, durable: int) -> None:
        """Take over the file, cut behind its last whole record; what was read is made durable."""
        file = self._file = self._disk.open(self._path, "create")
        if file.size() != end:
            keep_cut(self._disk, self._directory, file, end)
            file.truncate(end)
        file.sync()
        self._end = end
        self._witness.begin(durable)

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
        self._witness.note(epoch)

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
        self._witness.close()

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()


class Witness:
    """`data/durable`. It only grows, so that one byte of a record without the others never makes a larger number."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._end = 0
        self._file: File | None = None

    def begin(self, epoch: int) -> None:
        """Begin the file anew with an epoch that is durable."""
        self.close()
        self._disk.make_passing_directory(posixpath.dirname(self._path))
        self._file, self._end = self._disk.create_scratch(self._path), 0
        if epoch:
            self.note(epoch)

    def note(self, epoch: int) -> None:
        """An epoch is durable."""
        if self._end >= _WITNESS_BYTES_MAX:
            self.begin(epoch)
            return
        assert self._file is not None
        self._file.pwrite(lay.encode_durable(epoch), self._end)
        self._end += lay.MARKER_SIZE

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
