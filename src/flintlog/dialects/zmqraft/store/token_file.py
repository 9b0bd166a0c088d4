"""`TokenFile`: segments one after the other, each with a token that says what it is.

*The first byte of the token commits the segment.* First everything else is synced, with a zero in its place, and the
head before data in another sector; then that one byte is written. So a half-written segment that a crash leaves begins
with a zero and is the last; opening keeps a copy of it, cuts it and reports it. A segment that begins with a zero
before others was not left by a crash, and a token with fewer bytes behind it than it says is damage: opening refuses
both.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator
from itertools import islice

from flintlog.columns.zeros import SECTOR_SIZE
from flintlog.core.finding import Finding
from flintlog.core.kept import keep_cut
from flintlog.dialects.zmqraft import layout as lay
from flintlog.dialects.zmqraft.findings import TOKEN_CODES
from flintlog.dialects.zmqraft.layout import Segment
from flintlog.disk import Disk, FailStop
from flintlog.errors import DamageError, RefusedError, UsageError

_TOKEN_SIZE = 4
_UNCOMMITTED = b"\0"
_LENGTH_MAX = 2**32 - 1


class TokenFile:
    """The segments of one file, open for writing; a new file is empty. Use it from one thread at a time.

    With `marker` the file must be there and is only read: the segments end with that token, and plain content
    follows, as in index files (`ITMZ`) and snapshots (`DATA`).
    """

    def __init__(
        self,
        path: str,
        *,
        marker: bytes | None = None,
        disk: Disk | None = None,
        failstop: FailStop | None = None,
    ) -> None:
        self._disk = disk or Disk()
        self._path = self._disk.resolve(path)
        self._marker = marker
        self._failstop = failstop or FailStop(self._path)
        self.findings: tuple[Finding, ...] = ()
        self._file = self._disk.open(self._path, "create" if marker is None else "read")
        try:
            self._end = self._heal() if marker is None else self._find_marker(marker)
        except BaseException:
            self._file.close()
            raise

    # Opening

    def _heal(self) -> int:
        """Cut what a crash left of the last segment; returns where the next one begins."""
        size = self._file.size()
        end = self._sound_end(size)
        if end < size:
            message = "torn tail: the last segment is not whole"
            name = posixpath.basename(self._path)
            self.findings = (TOKEN_CODES.finding("torn-segment", message, name, end),)
            keep_cut(self._disk, posixpath.dirname(self._path), self._file, end)
            self._file.truncate(end)
        # The bytes that were read, and their name, must not vanish after new writes rest on them.
        self._file.sync()
        self._disk.sync_ancestors(self._path)
        return end

    def _sound_end(self, size: int) -> int:
        end = 0
        for found in self._walk(size):
            if found.token.startswith(_UNCOMMITTED):
                self._refuse_unless_last(found, size)
                return end
            self._refuse_marker(found.token)
            if found.end > size:
                text = f"{found.token!r}: the file ends inside the segment"
                raise self._damage(text, end, f"{found.length} bytes", f"{size - found.offset} bytes")
            end = found.following
        rest = self._file.pread(max(size - end, 0), end)
        if rest and not rest.startswith(_UNCOMMITTED):
            text = "the file ends inside the head of a segment"
            raise self._damage(text, end, f"{lay.TOKEN_HEADER_SIZE} bytes", f"{len(rest)} bytes")
        return end

    def _refuse_unless_last(self, uncommitted: Segment, size: int) -> None:
        """Raise unless the segment without a first byte is the last, as after a crash: another must not be cut."""
        if self._is_last(uncommitted, size):
            return
        text = "a segment without the first byte of its token stands before others"
        raise self._damage(text, uncommitted.head, "a token", uncommitted.token.hex(), "segment-token")

    def _is_last(self, uncommitted: Segment, size: int) -> bool:
        """Is there nothing behind it but what a crash leaves of its own data?"""
        at = self._skip_zeros(uncommitted.following, size)
        if at >= size:
            return True
        if uncommitted.length:  # the length is right: the file ends with the segment
            return False
        if any(uncommitted.token) and at == uncommitted.following:  # the length arrived, and is 0
            return False
        # Earlier releases could leave data without its head: these bytes are that, or other segments.
        others = (found for found in self._walk(size, at) if not found.token.startswith(_UNCOMMITTED))
        other = next(others, None)
        if other is None or other.end > size:
            return True
        return not _is_printable(other.token) and any(found.end > size for found in others)

    def _skip_zeros(self, at: int, size: int) -> int:
        """Where the first head that is not all zeros begins; heads of zeros are empty segments."""
        for chunk in self._file.chunks(at, size):
            kept = chunk.lstrip(b"\0")
            if kept:
                zeros = len(chunk) - len(kept)
                return at + zeros - zeros % lay.TOKEN_HEADER_SIZE
            at += len(chunk)
        return size

    def _refuse_marker(self, token: bytes) -> None:
        """Raise for a marker: content read as segments would look torn, and be cut."""
        if token in lay.MARKERS:
            raise RefusedError(
                f"behind {token!r} stands content, not a segment",
                file=self._path,
                advice=f"Open the file with marker={token!r} to read it",
            )

    def _find_marker(self, marker: bytes) -> int:
        size = self._file.size()
        for found in self._walk(size):
            if found.token == marker:
                return found.following
        raise self._damage(
            "the file ends before its content begins", size, repr(marker), "the end of the file"
        )

    def _walk(self, end: int, begin: int = 0) -> Iterator[Segment]:
        def head_at(at: int) -> bytes:
            return self._file.pread(lay.TOKEN_HEADER_SIZE, at)

        if not begin and self._is_snapshot(head_at, end):
            yield lay.SNAPSHOT_SEGMENT
            begin = lay.SNAPSHOT_SEGMENT.following
        yield from lay.walk_segments(head_at, begin, end)

    def _is_snapshot(self, head_at: Callable[[int], bytes], end: int) -> bool:
        """Does the file begin with a snapshot whose length counts the head, as in the note?

        Your own segment may have that token and that length too; then no `DATA` follows.
        """
        if head_at(0) != lay.SNAPSHOT_HEAD_OF_NOTE:
            return False
        behind = lay.walk_segments(head_at, lay.SNAPSHOT_SEGMENT.following, end)
        return any(found.token == lay.DATA_TOKEN for found in islice(behind, lay.HEAD_SEGMENTS_MAX))

    def _damage(
        self, text: str, offset: int, expected: str, found: str, code: str = "segment-short"
    ) -> DamageError:
        return DamageError(
            text,
            code=code,
            file=self._path,
            offset=offset,
            expected=expected,
            found=found,
            advice="Nothing was changed; an index file or a snapshot is opened with its marker",
        )

    # What is here

    def segments(self) -> Iterator[Segment]:
        """The segments in order; a marker is the last."""
        return self._walk(self._end)

    def find(self, token: bytes) -> Segment | None:
        """The first segment with this token; None when there is none."""
        return next((found for found in self.segments() if found.token == token), None)

    def read(self, segment: Segment) -> bytes:
        """The data of a segment."""
        return self._file.pread(segment.length, segment.offset)

    def content(self) -> Iterator[bytes]:
        """What follows the marker, in chunks; without a marker there is none."""
        return self._file.chunks(self._end, self._file.size() if self._marker else self._end)

    # Writing

    def append(self, token: bytes, data: bytes = b"") -> Segment:
        """Put a segment behind the last one; durable on return."""
        token = bytes(lay.as_bytes("a token", token))
        view = lay.as_bytes("the data of a segment", data)
        if len(token) != _TOKEN_SIZE or token.startswith(_UNCOMMITTED):
            raise UsageError(f"{token!r} is not a token: four bytes, the first of them not zero")
        if len(view) > _LENGTH_MAX:
            raise UsageError(f"a segment holds at most {_LENGTH_MAX} bytes, not {len(view)}")
        self._refuse_marker(token)
        if self._marker is not None:
            raise RefusedError("the file was opened with a marker, to be read", file=self._path)
        content = lay.segment(_UNCOMMITTED + token[1:], bytes(view))
        done = 0
        with self._failstop.guard():
            if self._end // SECTOR_SIZE != (self._end + len(content) - 1) // SECTOR_SIZE:
                # Data must not be on disk without its head: it may look like other segments.
                done = lay.TOKEN_HEADER_SIZE
                self._file.pwrite(content[:done], self._end)
                self._file.sync()
            self._file.pwrite(content[done:], self._end + done)
            self._file.sync()
            self._file.pwrite(token[:1], self._end)
            self._file.sync()
        added = Segment(token, self._end + lay.TOKEN_HEADER_SIZE, len(view))
        self._end = added.following
        return added

    def close(self) -> None:
        """Close the file."""
        self._failstop.close()
        self._failstop.end()
        self._file.close()


def _is_printable(token: bytes) -> bool:
    return token.isascii() and token.decode().isprintable()
