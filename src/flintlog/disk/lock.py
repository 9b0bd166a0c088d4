"""One writer: the advisory lock that a store holds while it is open."""

from __future__ import annotations

import time
from contextlib import suppress

from flintlog.disk import forks
from flintlog.disk.disk import Disk, File, Mode
from flintlog.errors import DiskError, LockedError

_LOOK_AGAIN_SECONDS = 0.05


def take_lock(disk: Disk, path: str, mode: Mode, directory: str, wait: float = 0) -> File:
    """Lock the file or directory at `path` until the returned file is closed.

    Waits `wait` seconds for a lock that another holds.
    """
    deadline = time.monotonic() + wait
    while True:
        file = disk.open(path, mode)
        if not file.lock():
            ours = _is_ours(file)
            file.close()
            left = deadline - time.monotonic()
            if left <= 0:
                raise _locked(directory, ours=ours)
            disk.pause(min(_LOOK_AGAIN_SECONDS, left))
            continue
        named = disk.stat(path)
        if named is not None and named.identity == file.stat().identity:
            return file
        file.close()  # the file was replaced between open and lock


def _is_ours(file: File) -> bool:
    """Does another file of this process hold the lock?"""
    identity = file.stat().identity
    for other in forks.known():
        if isinstance(other, File) and other.is_locked:
            with suppress(DiskError, LockedError):
                if other.stat().identity == identity:
                    return True
    return False


def _locked(directory: str, *, ours: bool) -> LockedError:
    if ours:
        return LockedError(
            "this process has this directory open for writing",
            file=directory,
            advice="Use the store that is open, or close it first",
        )
    return LockedError(
        "another process has this directory open for writing",
        file=directory,
        advice="Close it there first; reading verbs work meanwhile",
    )
