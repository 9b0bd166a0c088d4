"""What a dialect says of a directory: which files, and how much of each, make the log at one moment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from flintlog.core.live import ChangedError as ChangedError
from flintlog.core.position import Position
from flintlog.disk import Buffer, File


@dataclass(frozen=True, slots=True)
class Part:
    """One file: `head`, then the bytes of the file behind it up to `size`, then `tail`.

    `made`: no file of the directory is behind it. A part of size 0 that is not made does have a file, and it matters
    which: another file under that name may have bytes that count.
    """

    name: str
    size: int = 0
    head: bytes = b""
    tail: tuple[Buffer, ...] = ()
    made: bool = False

    @property
    def length(self) -> int:
        return max(self.size, len(self.head)) + sum(len(piece) for piece in self.tail)

    def chunks(self, file: File | None) -> Iterator[Buffer]:
        """The bytes; `file` is the one in the directory."""
        if self.head:
            yield self.head
        if file is not None:
            left = max(self.size - len(self.head), 0)
            for chunk in file.chunks(len(self.head), self.size):
                left -= len(chunk)
                yield chunk
            if left:
                raise ChangedError("this file was cut while it was copied", file=file.path)
        yield from self.tail


@dataclass(frozen=True, slots=True)
class Picture:
    """A log at one moment. `first` to `last` are the positions that can be restored from it.

    `identity` is the lasting name of the log, where it has one: it stays while the log grows and is compacted.
    """

    path: str  # the names of the parts are relative to it
    edition: str | None
    version: int | None
    first: Position | None
    last: Position | None
    parts: tuple[Part, ...]
    identity: str | None = None
