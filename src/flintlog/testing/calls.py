"""The calls a kernel records: what each does to bytes or names, not when it becomes durable.

The running process and the device after a crash use the same `apply`, so their views cannot differ.
"""

from __future__ import annotations

from dataclasses import dataclass

Names = dict[int, dict[str, int]]
"""Directory inode to its names, each with the inode it stands for."""


@dataclass(frozen=True, slots=True)
class Write:
    """Bytes at an offset; a gap before them reads as zeros."""

    path: str
    inode: int
    offset: int
    data: bytes

    @property
    def end(self) -> int:
        return self.offset + len(self.data)

    def apply(self, content: bytearray) -> None:
        if self.offset > len(content):
            content.extend(bytes(self.offset - len(content)))
        content[self.offset : self.end] = self.data

    def __str__(self) -> str:
        return f"write {self.path} [{self.offset}, {self.end})"


@dataclass(frozen=True, slots=True)
class Extend:
    """The new length of a file, without the bytes of the write: zeros up to `size`."""

    inode: int
    size: int

    def apply(self, content: bytearray) -> None:
        if self.size > len(content):
            content.extend(bytes(self.size - len(content)))


@dataclass(frozen=True, slots=True)
class Truncate:
    """A new size: cut, or lengthened with zeros."""

    path: str
    inode: int
    size: int

    def apply(self, content: bytearray) -> None:
        if self.size < len(content):
            del content[self.size :]
        else:
            content.extend(bytes(self.size - len(content)))

    def __str__(self) -> str:
        return f"truncate {self.path} to {self.size}"


@dataclass(frozen=True, slots=True)
class Create:
    """A new name for a new inode: an empty file or an empty directory."""

    path: str
    directory: int
    name: str
    inode: int
    is_directory: bool

    def apply(self, names: Names) -> None:
        names[self.directory][self.name] = self.inode

    def __str__(self) -> str:
        return f"{'mkdir' if self.is_directory else 'create'} {self.path}"


@dataclass(frozen=True, slots=True)
class Unlink:
    """A name removed."""

    path: str
    directory: int
    name: str

    def apply(self, names: Names) -> None:
        names[self.directory].pop(self.name, None)

    def __str__(self) -> str:
        return f"unlink {self.path}"


@dataclass(frozen=True, slots=True)
class Rename:
    """A rename inside one directory: one step, whole or not at all."""

    path: str
    target: str
    directory: int
    name: str
    new_name: str
    inode: int

    def apply(self, names: Names) -> None:
        names[self.directory].pop(self.name, None)
        names[self.directory][self.new_name] = self.inode

    def __str__(self) -> str:
        return f"rename {self.path} to {self.target}"


@dataclass(frozen=True, slots=True)
class Arrive:
    """First half of a rename between directories: the new name."""

    path: str
    target: str
    directory: int
    name: str
    inode: int

    def apply(self, names: Names) -> None:
        names[self.directory][self.name] = self.inode

    def __str__(self) -> str:
        return f"rename {self.path} to {self.target}, new name"


@dataclass(frozen=True, slots=True)
class Leave:
    """Second half: the old name goes. A crash may show both names, never neither."""

    path: str
    directory: int
    name: str
    inode: int
    arrival: Arrive

    def apply(self, names: Names) -> None:
        # It may become durable after another file has got the name.
        if names[self.directory].get(self.name) == self.inode:
            del names[self.directory][self.name]

    def __str__(self) -> str:
        return f"rename {self.path}, old name"


@dataclass(frozen=True, slots=True)
class Sync:
    """The bytes and the size of one file are on the device, unless this sync was taken away."""

    path: str
    inode: int
    site: str
    elided: bool

    def __str__(self) -> str:
        return f"fsync {self.path}{' (taken away)' if self.elided else ''} at {self.site}"


@dataclass(frozen=True, slots=True)
class SyncDirectory:
    """The names in one directory are on the device, unless this sync was taken away."""

    path: str
    directory: int
    site: str
    elided: bool

    def __str__(self) -> str:
        return f"fsync of directory {self.path}{' (taken away)' if self.elided else ''} at {self.site}"


DataCall = Write | Truncate
NameCall = Create | Unlink | Rename | Arrive | Leave
Call = DataCall | NameCall | Sync | SyncDirectory
