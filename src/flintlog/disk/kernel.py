"""The calls that reach the operating system, one line each, and nothing else.

`Kernel` is the seam of the fault kit: `flintlog.testing` puts an in-memory kernel here that records every
call, makes crash images from the record and fails call N. What needs thought (whole writes, retries, fsync of new
names, errors with a place) is one floor up, in `Disk`, so that the kit tests it too.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import stat
import sys
import time
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol


class Access(NamedTuple):
    """Who may use a file: the permission bits, and whose it is."""

    mode: int
    owner: int
    group: int


@dataclass(frozen=True, slots=True)
class Stat:
    """What a name stands for. Two files have different `identity`, even when one was renamed over the other.

    `is_special`: neither a file nor a directory, but a pipe, a socket or a device. `access` is None where files have
    none. `changed` is when bytes, name or access changed last, `written` when the bytes did, both in nanoseconds; None
    where the system does not tell.
    """

    is_directory: bool
    size: int
    identity: tuple[int, int]
    is_special: bool = False
    access: Access | None = None
    changed: int | None = None
    written: int | None = None


class Kernel(Protocol):
    """Raw calls. Each may raise OSError; `pwrite` may write less than it was given.

    `map` may fail with ENODEV, as it does on file systems that cannot map.
    """

    def open(self, path: str, flags: int) -> int: ...
    def close(self, handle: int) -> None: ...
    def pread(self, handle: int, size: int, offset: int) -> bytes: ...
    def pwrite(self, handle: int, data: memoryview, offset: int) -> int: ...
    def truncate(self, handle: int, size: int) -> None: ...
    def sync(self, handle: int) -> None: ...
    def map(self, handle: int, size: int) -> memoryview: ...
    def map_range(self, handle: int, start: int, end: int) -> memoryview: ...
    def lock(self, handle: int) -> bool: ...
    def stat_handle(self, handle: int) -> Stat: ...
    def stat(self, path: str) -> Stat: ...
    def is_link(self, path: str) -> bool: ...
    def set_access(self, handle: int, access: Access) -> None: ...
    def list(self, path: str) -> list[str]: ...
    def mkdir(self, path: str) -> None: ...
    def rename(self, source: str, target: str) -> None: ...
    def link(self, source: str, target: str) -> None: ...
    def unlink(self, path: str) -> None: ...
    def rmdir(self, path: str) -> None: ...
    def sync_directory(self, path: str) -> None: ...
    def pause(self, seconds: float) -> None: ...


class KernelInFront:
    """Hands every call on to another kernel; a subclass overrides some."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def open(self, path: str, flags: int) -> int:
        return self._kernel.open(path, flags)

    def close(self, handle: int) -> None:
        self._kernel.close(handle)

    def pread(self, handle: int, size: int, offset: int) -> bytes:
        return self._kernel.pread(handle, size, offset)

    def pwrite(self, handle: int, data: memoryview, offset: int) -> int:
        return self._kernel.pwrite(handle, data, offset)

    def truncate(self, handle: int, size: int) -> None:
        self._kernel.truncate(handle, size)

    def sync(self, handle: int) -> None:
        self._kernel.sync(handle)

    def map(self, handle: int, size: int) -> memoryview:
        return self._kernel.map(handle, size)

    def map_range(self, handle: int, start: int, end: int) -> memoryview:
        return self._kernel.map_range(handle, start, end)

    def lock(self, handle: int) -> bool:
        return self._kernel.lock(handle)

    def stat_handle(self, handle: int) -> Stat:
        return self._kernel.stat_handle(handle)

    def stat(self, path: str) -> Stat:
        return self._kernel.stat(path)

    def is_link(self, path: str) -> bool:
        return self._kernel.is_link(path)

    def set_access(self, handle: int, access: Access) -> None:
        self._kernel.set_access(handle, access)

    def list(self, path: str) -> list[str]:
        return self._kernel.list(path)

    def mkdir(self, path: str) -> None:
        self._kernel.mkdir(path)

    def rename(self, source: str, target: str) -> None:
        self._kernel.rename(source, target)

    def link(self, source: str, target: str) -> None:
        self._kernel.link(source, target)

    def unlink(self, path: str) -> None:
        self._kernel.unlink(path)

    def rmdir(self, path: str) -> None:
        self._kernel.rmdir(path)

    def sync_directory(self, path: str) -> None:
        self._kernel.sync_directory(path)

    def pause(self, seconds: float) -> None:
        self._kernel.pause(seconds)


class ReadOnly:
    """Refuses the calls that change something; another base class has the others."""

    refusal = "these files are only read"

    def _refuse(self, *arguments: Any, **named: Any) -> Any:
        raise OSError(errno.EROFS, self.refusal)

    pwrite = truncate = set_access = sync = lock = _refuse
    mkdir = rename = link = unlink = rmdir = sync_directory = _refuse


class Mapped(mmap.mmap):
    """A whole file, mapped."""

    def give_back(self, begin: int, end: int) -> None:
        start = begin - begin % mmap.PAGESIZE
        self.madvise(mmap.MADV_DONTNEED, start, end - start)


class LocalKernel:
    """The operating system this process runs on."""

    def open(self, path: str, flags: int) -> int:
        return os.open(
            path, flags | os.O_CLOEXEC | os.O_NONBLOCK, 0o666
        )  # a pipe would wait for its other end

    def close(self, handle: int) -> None:
        os.close(handle)

    def pread(self, handle: int, size: int, offset: int) -> bytes:
        return os.pread(handle, size, offset)

    def pwrite(self, handle: int, data: memoryview, offset: int) -> int:
        return os.pwrite(handle, data, offset)

    def truncate(self, handle: int, size: int) -> None:
        os.ftruncate(handle, size)

    def sync(self, handle: int) -> None:
        if sys.platform == "darwin":
            fcntl.fcntl(handle, fcntl.F_FULLFSYNC)  # fsync there stops at the drive's cache
        else:
            os.fdatasync(handle)  # includes the size; leaves out only times

    def map(self, handle: int, size: int) -> memoryview:
        return memoryview(Mapped(handle, size, prot=mmap.PROT_READ)) if size else memoryview(b"")

    def map_range(self, handle: int, start: int, end: int) -> memoryview:
        before = start % mmap.ALLOCATIONGRANULARITY
        if start == end:
            return memoryview(b"")
        mapped = mmap.mmap(handle, before + end - start, prot=mmap.PROT_READ, offset=start - before)
        return memoryview(mapped)[before:]

    def lock(self, handle: int) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                return False
            raise
        return True

    def stat_handle(self, handle: int) -> Stat:
        return _stat(os.fstat(handle))

    def stat(self, path: str) -> Stat:
        return _stat(os.stat(path))

    def is_link(self, path: str) -> bool:
        return os.path.islink(path)

    def set_access(self, handle: int, access: Access) -> None:
        os.fchown(handle, access.owner, access.group)
        os.fchmod(handle, access.mode)

    def list(self, path: str) -> list[str]:
        return os.listdir(path)

    def mkdir(self, path: str) -> None:
        os.mkdir(path)

    def rename(self, source: str, target: str) -> None:
        os.rename(source, target)

    def link(self, source: str, target: str) -> None:
        os.link(source, target)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def rmdir(self, path: str) -> None:
        os.rmdir(path)

    def sync_directory(self, path: str) -> None:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)


def _stat(result: os.stat_result) -> Stat:
    special = not (stat.S_ISDIR(result.st_mode) or stat.S_ISREG(result.st_mode))
    return Stat(
        stat.S_ISDIR(result.st_mode),
        max(result.st_size, 1) if special else result.st_size,  # a pipe is not an empty file
        (result.st_dev, result.st_ino),
        special,
        Access(stat.S_IMODE(result.st_mode), result.st_uid, result.st_gid),
        result.st_ctime_ns,
        result.st_mtime_ns,
    )
