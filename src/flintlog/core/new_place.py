"""A directory that is there as a whole or not at all: backups, restored logs, other editions.

It is made under `<target>.new`, and gets its name last. An error removes it, with the directories above it that were
made for it.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from flintlog.disk import Disk
from flintlog.errors import FlintlogError, RefusedError


@contextmanager
def new_place(disk: Disk, target: str, *, scratch_is_ours: bool = False) -> Iterator[str]:
    """A new directory to fill. When the block ends well it gets its name, durably; when the block raises it is removed.

    `scratch_is_ours`: remove what an interrupted run left there.
    """
    refuse_taken(disk, target)
    building = f"{target}.new"
    if disk.stat(building) is not None or disk.is_link(building):
        if not scratch_is_ours:
            raise RefusedError(
                "an unfinished copy lies here", file=building, advice="Remove it, then try again"
            )
        disk.remove_directory(building)
    above = missing(disk, posixpath.dirname(target))
    try:
        disk.make_directory(building)
        yield building
        disk.sync_directory(building)
        disk.rename(building, target)
    except BaseException:
        with suppress(FlintlogError):
            disk.remove_directory(building)
            remove_empty(disk, above)
        raise
    disk.sync_directory(posixpath.dirname(target))


def refuse_taken(disk: Disk, target: str) -> None:
    """Raise unless the place is empty or new; a link is refused, because no rename puts a directory in its place."""
    stat = disk.stat(target)
    if disk.is_link(target) or (stat is not None and (not stat.is_directory or disk.list(target))):
        raise RefusedError(
            "this path exists and is not an empty directory",
            file=target,
            advice="Name an empty or a new directory",
        )


def missing(disk: Disk, path: str) -> list[str]:
    """The directories that are not there yet, from this one up."""
    return [path, *missing(disk, posixpath.dirname(path))] if disk.stat(path) is None else []


def remove_empty(disk: Disk, directories: Iterable[str]) -> None:
    """Remove directories from the lowest up; stop at the first that is not empty."""
    for path in directories:
        if disk.list(path):
            return
        disk.remove_directory(path)
