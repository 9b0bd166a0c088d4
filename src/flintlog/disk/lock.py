"""One writer: the advisory lock that a store holds while it is open."""

from __future__ import annotations

from flintlog.disk.disk import Disk, File, Mode
from flintlog.errors import LockedError


def take_lock(disk: Disk, path: str, mode: Mode, directory: str) -> File:
    """Lock the file or directory at `path` for as long as what is returned stays open."""
    while True:
        file = disk.open(path, mode)
        if not file.lock():
            file.close()
            raise LockedError(
                "another process has this directory open for writing",
                file=directory,
                advice="Close it there first; reading verbs work meanwhile",
            )
        named = disk.stat(path)
        if named is not None and named.identity == file.stat().identity:
            return file
        file.close()  # it was replaced between open and lock
