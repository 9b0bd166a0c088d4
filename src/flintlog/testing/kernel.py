"""A kernel in memory that records every call which changes bytes or names, and every sync.

It shows what a running process sees. `flintlog.testing.device` works out from the record what a crash would leave.
Paths are absolute; `/` is there from the start.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import count

from flintlog.disk.disk import FLAGS
from flintlog.disk.kernel import Access, Stat
from flintlog.testing.calls import (
    Arrive,
    Call,
    Create,
    Leave,
    Names,
    Rename,
    Sync,
    SyncDirectory,
    Truncate,
    Unlink,
    Write,
)
from flintlog.testing.device import ROOT, Device, State
from flintlog.testing.sites import Sites, is_at

# The flags that `Disk` passes; the kit knows no others.
_WRITE = FLAGS["write"]
_CREATE = FLAGS["create"] & ~FLAGS["write"]


@dataclass(slots=True)
class _Handle:
    inode: int
    path: str
    writable: bool


class MemoryKernel:
    """The system calls of one machine that has no disk.

    `state` is what its device holds at the start, `pending` what an earlier process wrote and did not sync: a process
    sees both, but only the first is durable. Syncs at the site `elide` are recorded and do nothing.
    """

    def __init__(
        self,
        state: State | None = None,
        pending: Iterable[Call] = (),
        *,
        sites: Sites | None = None,
        elide: str | None = None,
    ) -> None:
        self.base = state or State()
        self.log: list[Call] = list(pending)
        seen = self.base
        if self.log:
            device = Device(seen)
            device.take_all(self.log)
            seen = device.visible()
        self._files: dict[int, bytes | bytearray] = dict(seen.files)
        self._names: Names = {inode: dict(names) for inode, names in seen.names.items()}
        self._next_inode = max(max(self._files, default=ROOT), max(self._names)) + 1
        self._handles: dict[int, _Handle] = {}
        self._locks: dict[int, int] = {}
        self._sites = sites or Sites()
        self._elide = elide
        self._mutex = threading.Lock()

    def device(self) -> Device:
        """The device after every call so far."""
        device = Device(self.base)
        device.take_all(self.log)
        return device

    def visible(self) -> State:
        """What a process on this machine sees now."""
        files = {inode: bytes(content) for inode, content in self._files.items()}
        return State(files, {inode: dict(names) for inode, names in self._names.items()})

    def kill_processes(self) -> None:
        """End every process, with its handles and locks; the machine lives and forgets nothing."""
        self._handles.clear()
        self._locks.clear()

    # Files

    def open(self, path: str, flags: int) -> int:
        writable = bool(flags & _WRITE)
        with self._mutex:
            directory, name = self._place(path)
            inode = self._names[directory].get(name) if name else directory
            if inode is None:
                if not flags & _CREATE:
                    raise _error(errno.ENOENT, path)
                inode = self._create(path, directory, name, is_directory=False)
            elif inode in self._names and writable:
                raise _error(errno.EISDIR, path)
            # The lowest free number, as in a real system: code that uses a closed handle then hits another file.
            handle = next(number for number in count(3) if number not in self._handles)
            self._handles[handle] = _Handle(inode, path, writable)
        return handle

    def close(self, handle: int) -> None:
        inode = self._handle(handle).inode
        del self._handles[handle]
        if self._locks.get(inode) == handle:
            del self._locks[inode]

    def pread(self, handle: int, size: int, offset: int) -> bytes:
        content = self._content(self._handle(handle))
        if isinstance(content, bytes):
            return content[offset : offset + size]
        with self._mutex, memoryview(content) as view:
            return bytes(view[offset : offset + size])

    def pwrite(self, handle: int, data: memoryview, offset: int) -> int:
        held = self._handle(handle)
        if not held.writable:
            raise _error(errno.EBADF, held.path)
        call = Write(held.path, held.inode, offset, bytes(data))
        with self._mutex:
            call.apply(self._changeable(held.inode))
            self.log.append(call)
        return len(call.data)

    def truncate(self, handle: int, size: int) -> None:
        held = self._handle(handle)
        if not held.writable or size < 0:
            raise _error(errno.EINVAL, held.path)
        call = Truncate(held.path, held.inode, size)
        with self._mutex:
            call.apply(self._changeable(held.inode))
            self.log.append(call)

    def sync(self, handle: int) -> None:
        held = self._handle(handle)
        site, elided = self._site()
        made = SyncDirectory if held.inode in self._names else Sync
        self.log.append(made(held.path, held.inode, site, elided))

    def map(self, handle: int, size: int) -> memoryview:
        # A copy: a mapping need not show later changes.
        return memoryview(self.pread(handle, size, 0))

    def map_range(self, handle: int, start: int, end: int) -> memoryview:
        return memoryview(self.pread(handle, end - start, start))

    def lock(self, handle: int) -> bool:
        inode = self._handle(handle).inode
        return self._locks.setdefault(inode, handle) == handle

    def stat_handle(self, handle: int) -> Stat:
        return self._stat(self._handle(handle).inode)

    # Names

    def stat(self, path: str) -> Stat:
        return self._stat(self._find(path))

    def is_link(self, path: str) -> bool:
        return False

    def set_access(self, handle: int, access: Access) -> None:
        """Files have no owner here."""

    def list(self, path: str) -> list[str]:
        return [*self._names[self._find_directory(path)]]

    def mkdir(self, path: str) -> None:
        with self._mutex:
            directory, name = self._place(path)
            if not name or name in self._names[directory]:
                raise _error(errno.EEXIST, path)
            self._create(path, directory, name, is_directory=True)

    def rename(self, source: str, target: str) -> None:
        with self._mutex:
            directory, name = self._place(source)
            new_directory, new_name = self._place(target)
            inode = self._names[directory].get(name)
            if inode is None:
                raise _error(errno.ENOENT, source)
            replaced = self._names[new_directory].get(new_name)
            if replaced == inode:
                return  # two names of one file, as a crash may leave them: a rename then does nothing
            self._check_replaceable(inode, replaced, target)
            if directory == new_directory:
                self._rebind(Rename(source, target, directory, name, new_name, inode))
                return
            arrival = Arrive(source, target, new_directory, new_name, inode)
            self._rebind(arrival)
            self._rebind(Leave(source, directory, name, inode, arrival))

    def link(self, source: str, target: str) -> None:
        with self._mutex:
            inode = self._find(source)
            directory, name = self._place(target)
            if name in self._names[directory]:
                raise _error(errno.EEXIST, target)
            self._rebind(Create(target, directory, name, inode, False))

    def unlink(self, path: str) -> None:
        with self._mutex:
            directory, name = self._place(path)
            inode = self._names[directory].get(name)
            if inode is None:
                raise _error(errno.ENOENT, path)
            if inode in self._names:
                raise _error(errno.EISDIR, path)
            self._rebind(Unlink(path, directory, name))

    def rmdir(self, path: str) -> None:
        with self._mutex:
            inode = self._find_directory(path)
            if self._names[inode]:
                raise _error(errno.ENOTEMPTY, path)
            directory, name = self._place(path)
            self._rebind(Unlink(path, directory, name))

    def pause(self, seconds: float) -> None:
        """Return at once: this machine has no other process."""

    def sync_directory(self, path: str) -> None:
        directory = self._find_directory(path)
        site, elided = self._site()
        self.log.append(SyncDirectory(path, directory, site, elided))

    # Inside

    def _site(self) -> tuple[str, bool]:
        chain = self._sites.chain()
        return chain, self._elide is not None and is_at(chain, self._elide)

    def _handle(self, handle: int) -> _Handle:
        held = self._handles.get(handle)
        if held is None:
            raise _error(errno.EBADF, f"handle {handle}")
        return held

    def _content(self, held: _Handle) -> bytes | bytearray:
        content = self._files.get(held.inode)
        if content is None:
            raise _error(errno.EISDIR, held.path)
        return content

    def _changeable(self, inode: int) -> bytearray:
        content = self._files[inode]
        if isinstance(content, bytes):  # shared with its state until the first change
            content = self._files[inode] = bytearray(content)
        return content

    def _create(self, path: str, directory: int, name: str, *, is_directory: bool) -> int:
        inode = self._next_inode
        self._next_inode += 1
        if is_directory:
            self._names[inode] = {}
        else:
            self._files[inode] = b""
        self._rebind(Create(path, directory, name, inode, is_directory))
        return inode

    def _rebind(self, call: Create | Unlink | Rename | Arrive | Leave) -> None:
        call.apply(self._names)
        self.log.append(call)

    def _check_replaceable(self, inode: int, replaced: int | None, target: str) -> None:
        if replaced is None:
            return
        if inode not in self._names and replaced in self._names:
            raise _error(errno.EISDIR, target)
        if inode in self._names and replaced not in self._names:
            raise _error(errno.ENOTDIR, target)
        if self._names.get(replaced):
            raise _error(errno.ENOTEMPTY, target)

    def _place(self, path: str) -> tuple[int, str]:
        """The directory of a path, and the name in it; no name for the root itself."""
        parts = _parts(path)
        if not parts:
            return ROOT, ""
        directory = self._walk(parts[:-1], path)
        if directory not in self._names:
            raise _error(errno.ENOTDIR, path)
        return directory, parts[-1]

    def _find(self, path: str) -> int:
        return self._walk(_parts(path), path)

    def _find_directory(self, path: str) -> int:
        inode = self._find(path)
        if inode not in self._names:
            raise _error(errno.ENOTDIR, path)
        return inode

    def _walk(self, parts: Iterable[str], path: str) -> int:
        inode = ROOT
        for part in parts:
            names = self._names.get(inode)
            if names is None:
                raise _error(errno.ENOTDIR, path)
            found = names.get(part)
            if found is None:
                raise _error(errno.ENOENT, path)
            inode = found
        return inode

    def _stat(self, inode: int) -> Stat:
        content = self._files.get(inode)
        return Stat(content is None, len(content or b""), (0, inode))


@lru_cache(maxsize=1024)
def _parts(path: str) -> tuple[str, ...]:
    return tuple(part for part in path.split("/") if part)


def _error(number: int, path: str) -> OSError:
    return OSError(number, errno.errorcode[number], path)
