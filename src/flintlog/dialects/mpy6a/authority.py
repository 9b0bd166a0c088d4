"""Which log decides what the data files hold: the operation log, or the note's files where there is none.

Both have the same methods, so that a caller need not know which one it has.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar

from flintlog.core.finding import Finding
from flintlog.dialects.mpy6a import layout as lay
from flintlog.dialects.mpy6a.findings import CODES
from flintlog.dialects.mpy6a.layout import StateID
from flintlog.dialects.mpy6a.operations import Bytes
from flintlog.dialects.mpy6a.replay import Created, Effect, File, Logged, Removed, SetAside, Written

_NEVER_TORN = 1 << 63


@dataclass(slots=True)
class ByNote:
    """The snapshot, then the change log, then the ends of the files that are written."""

    log_name: ClassVar[str] = lay.CHANGES_FILE
    described: dict[str, int] = field(default_factory=dict)  # the lengths in the snapshot: synced that far
    created: str | None = None  # the file that the last change created
    newest: dict[str, StateID] = field(default_factory=dict)  # session id in each file that is written

    def last(self, logged: StateID) -> StateID:
        """Where the log ends. A change log has no event for a record, but the record has its state id."""
        return max([logged, *self.newest.values()])

    def synced(self, name: str, otherwise: int) -> int:
        """How much of a data file is synced."""
        return otherwise

    def tail(self, name: str) -> bytes:
        """The bytes behind that, which the file may lack."""
        return b""

    def torn_from(self, file: File) -> int:
        """The offset from which on the end of a file may be torn."""
        return self.described.get(file.name, 0) if file.written else _NEVER_TORN

    def misfit(self, file: File, size: int | None) -> Finding | None:
        """The finding for a file of a wrong size (None: it is missing), whose records then need no look."""
        if size is None and (file.length or file.name != self.created):
            return short(file, 0, "the file is missing")
        size = size or 0
        if size < file.length:
            return short(file, size, "the file is shorter than its descriptor says")
        if not file.written and size != file.length:
            message = "the file is not written any more and longer than its descriptor says"
            sizes = f"{file.length} bytes", f"{size} bytes"
            return CODES.finding("file-long", message, file.name, file.length, *sizes)
        return None

    def unsettled(self, file: File, size: int) -> Finding | None:
        """The finding for bytes that opening writes to the end of a file, or cuts there."""
        return None

    def still_told(self, file: File) -> bool:
        """For a file that is deleted by now: is it known which sessions waited in it?"""
        return not file.written and file.offset == file.length == self.described.get(file.name)

    def misses_exhausted(self, size: int) -> Finding | None:
        """The finding when the file of exhausted sessions lacks bytes."""
        return None

    def exhausted_bytes(self, view: memoryview) -> memoryview:
        """All bytes of that file."""
        return view


@dataclass(slots=True)
class ByOperationLog:
    """The operation log, and the bytes of it that the other files may lack: opening writes them there."""

    log_name: ClassVar[str] = lay.OPERATIONS_FILE
    descriptors: list[lay.Descriptor]  # of the checkpoint
    exhausted: int  # bytes of exhausted sessions that were synced by the checkpoint
    opened: int  # open sessions in the checkpoint
    changes: list[bytes] = field(default_factory=list)  # events of the change log since the checkpoint
    set_aside: list[Bytes] = field(default_factory=list)  # exhausted sessions since the checkpoint
    tails: dict[str, list[Bytes]] = field(default_factory=dict)  # the bytes behind that, by data file
    _synced: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self._synced = {item.name: item.length for item in self.descriptors}

    def note(self, effects: Iterable[Effect]) -> None:
        """Note what an operation does to the files."""
        for effect in effects:
            match effect:
                case Written(file, _, data):
                    self.tails.setdefault(file.name, []).append(data)
                case Logged(event):
                    self.changes.append(event)
                case Created(name):
                    self._synced[name] = 0
                    self.tails.pop(name, None)
                case Removed(name):
                    self._synced.pop(name, None)
                    self.tails.pop(name, None)
                case SetAside(_, data):
                    self.set_aside.append(data)

    def last(self, logged: StateID) -> StateID:
        return logged

    def synced(self, name: str, otherwise: int) -> int:
        return self._synced.get(name, otherwise)

    def tail(self, name: str) -> bytes:
        return b"".join(self.tails.get(name, ()))

    def torn_from(self, file: File) -> int:
        return _NEVER_TORN

    def misfit(self, file: File, size: int | None) -> Finding | None:
        synced = self.synced(file.name, 0)
        if size is None and synced:
            return short(file, 0, "the file is missing")
        return short(file, size or 0, "the file is shorter than it was") if (size or 0) < synced else None

    def unsettled(self, file: File, size: int) -> Finding | None:
        if size < file.length:
            message = (
                f"{file.length - size} bytes at its end are in the operation log only; opening writes them"
            )
            return CODES.finding("file-behind", message, file.name, size)
        if size > file.length:
            message = f"{size - file.length} bytes at its end belong to no operation; opening cuts them"
            return CODES.finding("file-ahead", message, file.name, file.length)
        return None

    def still_told(self, file: File) -> bool:
        return self.synced(file.name, 0) <= file.offset or file.offset == file.length

    def misses_exhausted(self, size: int) -> Finding | None:
        if size >= self.exhausted:
            return None
        sizes = f"{self.exhausted} bytes", f"{size} bytes"
        message = "sessions that were set aside are missing"
        return CODES.finding("exhausted-short", message, lay.EXHAUSTED_FILE, size, *sizes)

    def exhausted_bytes(self, view: memoryview) -> memoryview:
        return memoryview(b"".join((view[: self.exhausted], *self.set_aside)))


Authority = ByNote | ByOperationLog


def short(file: File, size: int, message: str) -> Finding:
    """The finding for a file that lacks acknowledged bytes."""
    sizes = f"{file.length} bytes", f"{size} bytes"
    return CODES.finding("file-short", message, file.name, size, *sizes)
