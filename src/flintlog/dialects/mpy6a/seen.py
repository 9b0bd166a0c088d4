"""What a look at a directory of sessions has seen, for the verbs and for opening."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field
from typing import Any

from flintlog.core.finding import Finding, refuse_grave
from flintlog.core.position import check_reached
from flintlog.dialects.mpy6a import layout as lay
from flintlog.dialects.mpy6a.authority import Authority, ByNote, ByOperationLog
from flintlog.dialects.mpy6a.content import Content, view_of
from flintlog.dialects.mpy6a.files import Listing
from flintlog.dialects.mpy6a.findings import CODES
from flintlog.dialects.mpy6a.layout import StateID
from flintlog.dialects.mpy6a.replay import File, Machine
from flintlog.dialects.mpy6a.scan import LogScan
from flintlog.disk import Disk


@dataclass(slots=True)
class Survey:
    """What the verbs and opening know of a directory."""

    disk: Disk
    path: str
    listing: Listing
    machine: Machine = field(default_factory=Machine)
    authority: Authority = field(default_factory=ByNote)
    log: LogScan | None = None  # of the log that decides
    findings: list[Finding] = field(default_factory=list)
    entries: dict[str, int] = field(default_factory=dict)  # records of the files that were examined
    waiting: dict[str, int] = field(default_factory=dict)  # those of them that are not done
    leftovers: tuple[str, ...] = ()  # data files that no descriptor names
    unexplained: tuple[str, ...] = ()  # those of them that no log and no mark explains
    deleted: set[str] = field(default_factory=set)  # files that the log that decides has deleted
    first: StateID | None = None  # the oldest position in the logs
    readable: bool = False  # do the logs say which files there are?
    _contents: dict[str, Content] = field(default_factory=dict)

    @property
    def has_operation_log(self) -> bool:
        """Is there an operation log that can be read? Then it decides."""
        return isinstance(self.authority, ByOperationLog)

    @property
    def last(self) -> StateID:
        """Where the log ends."""
        return self.authority.last(self.machine.last)

    def refuse_damage(self) -> None:
        """Raise the gravest finding, if it would stop a store from opening."""
        refuse_grave(self.findings, self.path)

    def refuse_missing(self, position: StateID) -> None:
        """Raise for a position at which there is no state."""
        check_reached(position, self.first or lay.ZERO, self.last, unit="state id", path=self.path)

    def content(self, file: File) -> Content:
        """The bytes of a data file, with those that it lacks."""
        found = self._contents.get(file.name)
        if found is None or found.file is not file:
            tail = self.authority.tail(file.name)
            synced = self.authority.synced(file.name, file.length) if tail else 0
            found = Content(self.disk, self.path, file, synced, tail)
            self._contents[file.name] = found
        return found

    def view(self, name: str, *, copy: bool = True) -> memoryview:
        """The bytes of a file; a copy, if it may be cut meanwhile."""
        return view_of(self.disk, posixpath.join(self.path, name), copy=copy)

    def add(self, code: str, message: str, file: str, *place: Any) -> None:
        """Add a finding: `place` is the offset, and what was expected and found there."""
        self.findings.append(CODES.finding(code, message, file, *place))
