"""Files of several places as one read-only directory."""

from __future__ import annotations

import errno
import os
import posixpath
from collections.abc import Mapping

from flintlog.disk.disk import Disk
from flintlog.disk.kernel import Kernel, KernelInFront, ReadOnly, Stat


def assembled(disk: Disk, root: str, files: Mapping[str, str]) -> Disk:
    """A disk on which `root` holds exactly `files`, a map from names to the places of their bytes."""
    return Disk(_AssembledKernel(disk.kernel, root, files))


class _AssembledKernel(ReadOnly, KernelInFront):
    """Reads through another kernel; shows nothing but the files."""

    refusal = "the files of a backup are only read"

    def __init__(self, kernel: Kernel, root: str, files: Mapping[str, str]) -> None:
        super().__init__(kernel)
        self._places = {posixpath.join(root, name): place for name, place in files.items()}
        self._names: dict[str, set[str]] = {root: set()}
        for path in self._places:
            while path != root:
                parent, name = posixpath.split(path)
                self._names.setdefault(parent, set()).add(name)
                path = parent

    def open(self, path: str, flags: int) -> int:
        if flags != os.O_RDONLY:
            self._refuse()
        return self._kernel.open(self._place(path), flags)

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
        """Return at once: no store writes here."""

    def _place(self, path: str) -> str:
        place = self._places.get(path)
        if place is None:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        return place
