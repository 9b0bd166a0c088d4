"""`SnapshotFile`: the application's state at an index; written beside the old one, installed by one rename.

The data comes as bytes, as a stream of unknown length, or in chunks at given offsets as a follower receives it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from flintlog.core.position import span
from flintlog.dialects.zmqraft import layout as lay
from flintlog.dialects.zmqraft.scan import SnapshotHead
from flintlog.dialects.zmqraft.store.stamp import Stamps
from flintlog.disk import Disk, FailStop, File
from flintlog.errors import DiskError, RefusedError, UsageError


class SnapshotFile:
    """A snapshot in the making, under a scratch name. `write` it, `finish` it, then install it."""

    def __init__(
        self,
        disk: Disk,
        path: str,
        index: int,
        term: int,
        size: int | None,
        stamps: Stamps,
        *,
        failstop: FailStop | None = None,
    ) -> None:
        lay.check_number("index", index)
        lay.check_number("term", term)
        self.index, self.term = index, term
        self._declared = size
        self._disk = disk
        self._failstop = failstop or FailStop(path)
        self.file = disk.create_scratch(stamps.scratch(path))
        head = (
            lay.encode_snapshot_head(index, term, size or 0)
            + stamps.meta()
            + lay.segment(lay.DATA_TOKEN, b"")
        )
        self.file.pwrite(head, 0)
        self._start = len(head)
        self._written: list[tuple[int, int]] = []  # the ranges written so far, in order, none touching

    def write(self, data: bytes | memoryview, offset: int | None = None) -> None:
        """Write data at an offset, or behind the last data."""
        data = lay.as_bytes("the data of a snapshot", data)
        at = offset if offset is not None else (self._written[-1][1] if self._written else 0)
        if at < 0 or (self._declared is not None and at + len(data) > self._declared):
            raise UsageError(f"{len(data)} bytes at {at} go beyond the declared size {self._declared}")
        with self._failstop.guard():
            self.file.pwrite(data, self._start + at)
        self._note(at, at + len(data))

    def _note(self, begin: int, end: int) -> None:
        """Join a range with those that it touches."""
        apart = [held for held in self._written if held[1] < begin or end < held[0]]
        joined = [held for held in self._written if held not in apart]
        whole = (min([begin, *(held[0] for held in joined)]), max([end, *(held[1] for held in joined)]))
        self._written = sorted([*apart, whole])

    def finish(self) -> None:
        """Check that all data is written, and set the size if it was not known."""
        size = self._whole_size()
        if self._declared is None:
            head = lay.encode_snapshot_head(self.index, self.term, size)
            with self._failstop.guard():
                self.file.pwrite(head[28:36], 28)

    def _whole_size(self) -> int:
        """Where the data ends; raises unless it begins at 0 without a hole."""
        end = 0
        for begin, following in [*self._written, (self._declared, None)]:
            if begin is not None and begin > end:
                raise RefusedError(
                    f"the snapshot is not whole: bytes {span(end, begin - 1)} are missing",
                    file=self.file.path,
                    advice="Write the rest first",
                )
            end = following if following is not None else end
        return end

    def abandon(self) -> None:
        """Throw the snapshot away; if it cannot be removed now, the next opening does it."""
        self.file.close()
        with suppress(DiskError):
            self._disk.unlink(self.file.path)


def stream(file: File, head: SnapshotHead) -> Iterator[bytes]:
    """The data of a snapshot in chunks."""
    return file.chunks(head.data_start, head.data_start + head.size)
