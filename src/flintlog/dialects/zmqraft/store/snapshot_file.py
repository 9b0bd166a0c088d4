"""`SnapshotFile`: the state of whoever uses the log, at an index; written beside, installed by one rename.

The data comes as bytes, as a stream of unknown length, or in chunks at given offsets as a follower receives it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from flintlog.dialects.zmqraft import layout as lay
from flintlog.dialects.zmqraft.store.stamp import Stamps
from flintlog.disk import Disk, File
from flintlog.errors import DamageError, RefusedError, UsageError

HEAD_SIZE_MAX = 1 << 16


@dataclass(frozen=True, slots=True)
class SnapshotHead:
    """What a snapshot file says of itself."""

    index: int
    term: int
    size: int
    data_start: int


def read_head(head: memoryview, file_size: int, name: str = lay.SNAPSHOT_FILE) -> SnapshotHead:
    """The head of a snapshot file from its first bytes, checked against the size of the file."""

    def wrong(code: str, message: str, offset: int, expected: str, found: str) -> DamageError:
        return DamageError(message, code=code, file=name, offset=offset, expected=expected, found=found)

    need = lay.SNAPSHOT_HEADER.size
    if len(head) < need:
        raise wrong(
            "snapshot-short",
            "the snapshot ends inside its header",
            len(head),
            f"{need} bytes",
            f"{len(head)} bytes",
        )
    token, size, version, index, term, data_size = lay.SNAPSHOT_HEADER.unpack_from(head)
    if token != lay.SNAPSHOT_TOKEN or size not in lay.SNAPSHOT_SEGMENT_SIZES:
        raise wrong("snapshot-token", "not a snapshot file", 0, lay.SNAPSHOT_TOKEN.hex(), bytes(token).hex())
    if version != lay.VERSION:
        raise wrong("snapshot-version", f"snapshot version {version} is not known", 8, "1", str(version))
    if max(index, term, data_size) > lay.NUMBER_MAX:
        raise wrong(
            "snapshot-number", "index, term or size is above 2^53 - 1", 12, "at most 2^53 - 1", "more"
        )
    marker = lay.find_segment(head, lay.DATA_TOKEN, need)
    if marker is None:
        raise wrong("snapshot-marker", "the file ends before its data begins", len(head), "DATA", "nothing")
    if file_size - marker[0] != data_size:
        raise wrong(
            "snapshot-size",
            "the snapshot's data is not whole",
            marker[0],
            f"{data_size} bytes",
            f"{file_size - marker[0]} bytes",
        )
    return SnapshotHead(index, term, data_size, marker[0])


class SnapshotFile:
    """A snapshot in the making, under a scratch name. `write` it, `finish` it, then install it."""

    def __init__(
        self, disk: Disk, path: str, index: int, term: int, size: int | None, stamps: Stamps
    ) -> None:
        lay.check_number("index", index)
        lay.check_number("term", term)
        self.index, self.term = index, term
        self._declared = size
        self._disk = disk
        self._target = path
        self.file = disk.create_scratch(stamps.scratch(path))
        head = (
            lay.encode_snapshot_head(index, term, size or 0)
            + stamps.meta()
            + lay.segment(lay.DATA_TOKEN, b"")
        )
        self.file.pwrite(head, 0)
        self._start = len(head)
        self._end = 0

    def write(self, data: bytes | memoryview, offset: int | None = None) -> None:
        """Put data at an offset, or behind what is there."""
        at = self._end if offset is None else offset
        if at < 0 or (self._declared is not None and at + len(data) > self._declared):
            raise UsageError(f"{len(data)} bytes at {at} go beyond the declared size {self._declared}")
        self.file.pwrite(data, self._start + at)
        self._end = max(self._end, at + len(data))

    def finish(self) -> None:
        """All data is written: set the size where it was not known, and check it where it was."""
        if self._declared is None:
            head = lay.encode_snapshot_head(self.index, self.term, self._end)
            self.file.pwrite(head[28:36], 28)
        elif self._end != self._declared:
            raise RefusedError(
                f"the snapshot has {self._end} bytes of {self._declared}",
                file=self.file.path,
                advice="Write the rest first",
            )

    def abandon(self) -> None:
        """Throw it away."""
        self.file.close()
        self._disk.unlink(self.file.path)


def write_all_data(snapshot: SnapshotFile, data: bytes | Iterable[bytes]) -> None:
    """The whole data from bytes or from a stream."""
    for chunk in (data,) if isinstance(data, bytes | bytearray | memoryview) else data:
        snapshot.write(chunk)
    snapshot.finish()


def stream(file: File, head: SnapshotHead) -> Iterator[bytes]:
    """The data of a snapshot in chunks."""
    return file.chunks(head.data_start, head.data_start + head.size)
