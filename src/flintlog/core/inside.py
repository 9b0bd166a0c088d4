"""The names of a log must stand for its own files and directories, and nothing else.

The root of a log is what the user named, and may be a link. Flintlog follows no link below it: a store would write, and
a repair remove, in a place that the user did not name. All code that lists a log asks here, so readers, verbs and
stores refuse the same things before they change anything.
"""

from __future__ import annotations

from flintlog.disk import Disk, Stat
from flintlog.errors import RefusedError

_FILE, _DIRECTORY = "file", "directory"


def member(disk: Disk, place: str) -> Stat | None:
    """The status of a file of a log; None when there is none. Raises when something else has its name."""
    return _own(disk, place, _FILE)


def inner_directory(disk: Disk, place: str) -> Stat | None:
    """The same for a directory of a log."""
    return _own(disk, place, _DIRECTORY)


def _own(disk: Disk, place: str, wanted: str) -> Stat | None:
    linked = disk.is_link(place)
    found = None if linked else disk.stat(place)
    if not linked and (found is None or _kind(found) == wanted):
        return found
    what = "symbolic link" if found is None else _kind(found)
    or_else = "mount it there" if linked and wanted == _DIRECTORY else "move what is there away"
    raise RefusedError(
        f"a {what} has the name of a {wanted} of the log",
        file=place,
        advice=f"Nothing was changed; put the {wanted} itself in its place, or {or_else}",
    )


def _kind(found: Stat) -> str:
    if found.is_directory:
        return _DIRECTORY
    return "pipe, socket or device" if found.is_special else _FILE


def refuse_link(disk: Disk, place: str) -> None:
    """Raise for a symbolic link under any name, where code walks or removes everything."""
    if disk.is_link(place):
        raise RefusedError(
            "this is a symbolic link, and Flintlog follows none here",
            file=place,
            advice="Nothing was changed; put the file or directory itself in its place",
        )
