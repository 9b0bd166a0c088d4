"""Files that lie in several places, seen as one directory that cannot be written to."""

from __future__ import annotations

import errno
import os
import posixpath
from collections.abc import Mapping
from typing import NoReturn

from flintlog.disk.disk import Disk
from flintlog.disk.kernel import Access, Kernel, Stat


def assembled(disk: Disk, root: str, files: Mapping[str, str]) -> Disk:
    """A disk on which `root` holds exactly `files`: names in it, and where their bytes are."""
    return Disk(_AssembledKernel(disk.kernel, root, files))


class _AssembledKernel:
    """Reads through another kernel; what is not among the files is not there."""

    def __init__(self, kernel: Kernel, root: str, files: Mapping[str, str]) -> None:
        self._kernel = kernel
        self._places = {posixpath.join(root, name): place for name, place in files.items()}
        self._names: dict[str, set[str]] = {root: set()}
        for path in self._places:
            while path != root:
                parent, name = posixpath.split(path)
                self._names.setdefault(parent, set()).add(name)
                path = parent

    def open(self, path: str, flags: int) -> int:
        if flags != os.O_RDONLY:
            self._refuse(path)
        return self._kernel.open(self._place(path), flags)

    def close(self, handle: int) -> None:
        self._kernel.close(handle)

    def pread(self, handle: int, size: int, offset: int) -> bytes:
        return self._kernel.pread(handle, size, offset)

    def map(self, handle: int, size: int) -> memoryview:
        return self._kernel.map(handle, size)

    def map_range(self, handle: int, start: int, end: int) -> memoryview:
        return self._kernel.map_range(handle, start, end)

    def stat_handle(self, handle: int) -> Stat:
        return self._kernel.stat_handle(handle)

    def stat(self, path: str) -> Stat:
        if path in self._names:
            return Stat(True, 0, (0, 0))
        return self._kernel.stat(self._place(path))

    def is_link(self, path: str) -> bool:
        return False

    def list(self, path: str) -> list[str]:
        if path not in self._names:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        return [*self._names[path]]

    def pause(self, seconds: float) -> None:
        """No store writes here, so there is nothing to wait for."""

    def _place(self, path: str) -> str:
        place = self._places.get(path)
        if place is None:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        return place

    # What changes something

    def pwrite(self, handle: int, data: memoryview, offset: int) -> int:
        self._refuse(handle)

    def truncate(self, handle: int, size: int) -> None:
        self._refuse(handle)

    def set_access(self, handle: int, access: Access) -> None:
        self._refuse(handle)

    def sync(self, handle: int) -> None:
        self._refuse(handle)

    def lock(self, handle: int) -> bool:
        self._refuse(handle)

    def mkdir(self, path: str) -> None:
        self._refuse(path)

    def rename(self, source: str, target: str) -> None:
        self._refuse(source)

    def link(self, source: str, target: str) -> None:
        self._refuse(source)

    def unlink(self, path: str) -> None:
        self._refuse(path)

    def rmdir(self, path: str) -> None:
        self._refuse(path)

    def sync_directory(self, path: str) -> None:
        self._refuse(path)

    def _refuse(self, _: object) -> NoReturn:
        raise OSError(errno.EROFS, "the files of a backup are only read")
