"""`RequestIndex`: which entries have a request id; reads files when asked, and remembers.

Of a closed file it keeps a fingerprint of each id, sorted; of the last file the ids themselves, and a lookup
reads of that file only what came since the one before. The number of fingerprints is bounded: those of the oldest files
go first, and a later search reads these files again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from flintlog.dialects.zmqraft import layout as lay
from flintlog.dialects.zmqraft import scan
from flintlog.dialects.zmqraft.scan import Entries
from flintlog.dialects.zmqraft.store.index_file import IndexFile
from flintlog.disk import Disk

_FINGERPRINTS_MAX = 1 << 24  # 12 bytes each
_FACTORS = np.array([1, 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F], np.uint64)

Fingerprints = tuple[NDArray[np.uint64], NDArray[np.uint32]]  # sorted, and the slot of each
ReadFile = Callable[[int], tuple[memoryview, Entries]]


class RequestIndex:
    """The request ids of one log, by file."""

    def __init__(self, fingerprints_max: int = _FINGERPRINTS_MAX) -> None:
        self._max = fingerprints_max
        self._closed: dict[int, Fingerprints] = {}
        self._kept = 0
        self._last: dict[bytes, int] = {}
        self._last_file = -1
        self._last_count = 0

    def find_in_last(self, file: IndexFile, disk: Disk, request_id: bytes) -> int | None:
        """The newest entry of the last file with this request id."""
        if file.first != self._last_file:
            self.forget_last()
            self._last_file = file.first
        if self._last_count < file.count:
            view, entries = file.read(disk, self._last_count)
            self._last.update(
                zip(scan.request_ids(view, entries).tolist(), entries.index.tolist(), strict=True)
            )
            self._last_count = file.count
        return self._last.get(request_id)

    def find_in_closed(self, base: int, read: ReadFile, request_id: bytes) -> Iterator[int]:
        """Entries of a closed file that may have this request id, the newest first."""
        prints, slots = self._closed.get(base) or self._learn(base, read)
        wanted = _fingerprints(np.frombuffer(request_id, np.uint8))[0]
        begin, end = np.searchsorted(prints, wanted, "left"), np.searchsorted(prints, wanted, "right")
        return (base + slot for slot in sorted(slots[begin:end].tolist(), reverse=True))

    def _learn(self, base: int, read: ReadFile) -> Fingerprints:
        ids = scan.request_ids(*read(base))
        slots = np.flatnonzero(ids != np.void(lay.NO_REQUEST)).astype(np.uint32)
        prints = _fingerprints(ids[slots].view(np.uint8))
        order = np.argsort(prints)
        found = self._closed[base] = prints[order], slots[order]
        self._kept += len(slots)
        while self._kept > self._max:
            self.forget(min(self._closed))
        return found

    def forget(self, base: int) -> None:
        """Forget a file that is gone, or open again."""
        gone = self._closed.pop(base, None)
        self._kept -= len(gone[0]) if gone else 0

    def forget_last(self) -> None:
        """Forget the last file: entries of it are gone, or another file is the last now."""
        self._last.clear()
        self._last_count = 0

    def clear(self) -> None:
        """Forget all files."""
        self._closed.clear()
        self._kept = 0
        self.forget_last()


def _fingerprints(ids: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """A number for each id of 12 bytes; different ids seldom have the same."""
    low, middle, high = ids.view("<u4").reshape(-1, 3).T
    found: NDArray[np.uint64] = low * _FACTORS[0] + middle * _FACTORS[1] + high * _FACTORS[2]
    return found
