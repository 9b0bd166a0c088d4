"""What a device holds: `State` is a whole file system at rest, `Device` the one that calls arrive at.

A device separates durable calls from pending ones. A sync makes the pending calls of one file, or of one directory,
durable; a crash keeps any selection of the other pending calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from flintlog.testing.calls import (
    Arrive,
    Call,
    Create,
    DataCall,
    Extend,
    Leave,
    NameCall,
    Names,
    Sync,
    SyncDirectory,
    Truncate,
    Write,
)

ROOT = 1


@dataclass(frozen=True, slots=True)
class State:
    """Every inode with its bytes or its names. It never changes, so it can be shared."""

    files: Mapping[int, bytes] = field(default_factory=dict)
    names: Mapping[int, Mapping[str, int]] = field(default_factory=lambda: {ROOT: {}})

    def digest(self) -> int:
        """A hash of names and contents as a reader sees them, without inode numbers and files without a name."""
        return hash(self._digest(ROOT))

    def _digest(self, directory: int) -> frozenset[tuple[str, object]]:
        files, names = self.files, self.names
        # `bytes` cache their hash, so a file shared by many images is hashed once
        return frozenset(
            [
                (name, self._digest(inode) if inode in names else files[inode])
                for name, inode in names[directory].items()
            ]
        )

    def tree(self) -> Iterator[tuple[str, bytes | None]]:
        """Every path with its bytes, None for a directory; parents first."""
        yield from self._tree("", ROOT)

    def _tree(self, prefix: str, directory: int) -> Iterator[tuple[str, bytes | None]]:
        for name, inode in sorted(self.names[directory].items()):
            path = f"{prefix}/{name}"
            if inode in self.names:
                yield path, None
                yield from self._tree(path, inode)
            else:
                yield path, self.files[inode]


class Device:
    """Takes recorded calls one by one; knows at each moment what is durable and what is pending."""

    def __init__(self, state: State) -> None:
        self.files: dict[int, bytes] = dict(state.files)
        self.names: Names = {inode: dict(names) for inode, names in state.names.items()}
        self.pending_data: dict[int, DataCall] = {}
        self.pending_names: dict[int, NameCall] = {}
        self._awaited: list[Leave] = []

    def take(self, number: int, call: Call) -> None:
        """Take in the call with this number."""
        if isinstance(call, Write | Truncate):
            self.pending_data[number] = call
        elif isinstance(call, Sync):
            if not call.elided:
                self._sync(call.inode)
        elif isinstance(call, SyncDirectory):
            if not call.elided:
                self._sync_directory(call.directory)
        else:
            if isinstance(call, Create):
                self._make(call)
            self.pending_names[number] = call

    def take_all(self, calls: Iterable[Call]) -> None:
        """Take in calls in order, numbered from 1."""
        for number, call in enumerate(calls, 1):
            self.take(number, call)

    @property
    def pending_calls(self) -> int:
        """How many calls a crash may lose; every call that is not an idle sync changes it."""
        return len(self.pending_data) + len(self.pending_names)

    def pending(self) -> tuple[Call, ...]:
        """The calls that a crash may lose, in order."""
        both: dict[int, Call] = {**self.pending_data, **self.pending_names}
        return tuple(both[number] for number in sorted(both))

    def durable(self) -> State:
        """The image of a power failure that loses everything pending."""
        return State(dict(self.files), {inode: dict(names) for inode, names in self.names.items()})

    def visible(self) -> State:
        """The image of a power failure that loses nothing: what a living system shows."""
        names = {inode: dict(held) for inode, held in self.names.items()}
        for call in self.pending_names.values():
            call.apply(names)
        return State(self.files_with_all(), names)

    def files_with_all(self) -> dict[int, bytes]:
        """The contents when every pending write and truncate is kept."""
        files = dict(self.files)
        by_inode: dict[int, list[DataCall]] = {}
        for call in self.pending_data.values():
            by_inode.setdefault(call.inode, []).append(call)
        for inode, calls in by_inode.items():
            files[inode] = applied(files[inode], calls)
        return files

    def _make(self, call: Create) -> None:
        # The inode exists, empty and without a name, whether or not its name survives. When an earlier process left a
        # pending name, the inode may already have bytes that were synced since.
        if call.is_directory:
            self.names.setdefault(call.inode, {})
        else:
            self.files.setdefault(call.inode, b"")

    def _sync(self, inode: int) -> None:
        mine = [number for number, call in self.pending_data.items() if call.inode == inode]
        if mine:
            self.files[inode] = applied(self.files[inode], [self.pending_data.pop(number) for number in mine])

    def _sync_directory(self, directory: int) -> None:
        mine = [number for number, call in self.pending_names.items() if call.directory == directory]
        arrived = []
        for number in mine:
            call = self.pending_names.pop(number)
            if isinstance(call, Leave) and self._is_pending(call.arrival):
                self.pending_names[number] = call  # the old name goes only after the new one is there
                self._awaited.append(call)
                continue
            if isinstance(call, Arrive):
                arrived.append(call)
            call.apply(self.names)
        if arrived:
            self._release(arrived)

    def _release(self, arrived: list[Arrive]) -> None:
        for number, call in list(self.pending_names.items()):
            released = isinstance(call, Leave) and any(call.arrival is one for one in arrived)
            if released and any(call is one for one in self._awaited):
                self.pending_names.pop(number).apply(self.names)

    def _is_pending(self, arrival: Arrive) -> bool:
        return any(call is arrival for call in self.pending_names.values())


def applied(content: bytes, calls: Iterable[DataCall | Extend]) -> bytes:
    """The bytes of a file after these calls."""
    data = bytearray(content)
    for call in calls:
        call.apply(data)
    return bytes(data)
