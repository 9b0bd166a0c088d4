"""Opening copies aside what it cuts off, so that a person can still look at it.

Opening cuts what was never acknowledged: the torn end of the last commit. That follows from a rule, and a rule can be
wrong about a file that a hand or a device has changed. So opening copies the bytes to `kept/opened/` before it cuts
them. Only the newest copies stay.
"""

from __future__ import annotations

import posixpath
import re

from flintlog.core.inside import inner_directory
from flintlog.disk import Disk, File

KEPT_DIRECTORY = "kept"
OPENED_DIRECTORY = "opened"
CUT_BYTES_MAX = 16 << 20  # of one cut: its first bytes
CUTS_MAX = 16  # that stay
_NAME = re.compile(r"(\d{6,})-(.+)")
_SCRATCH = "cut.new"


def keep_cut(disk: Disk, root: str, file: File, begin: int) -> None:
    """Copy the bytes of `file` from `begin` on to `kept/opened/` of the log directory `root`; durable on return.

    Call it before the file is cut at `begin`. Nothing is copied when all bytes are zero, or when the same copy is
    there.
    """
    size = min(file.size() - begin, CUT_BYTES_MAX)
    data = file.pread(size, begin) if size > 0 else b""
    if not data.strip(b"\0"):
        return
    check_kept(disk, root)
    place = posixpath.join(root, KEPT_DIRECTORY, OPENED_DIRECTORY)
    name = f"{posixpath.relpath(file.path, root).replace('/', '~')}@{begin}"
    there = _numbered(disk, place)
    disk.make_passing_directory(place)
    disk.sync_directory(root)
    disk.sync_directory(posixpath.join(root, KEPT_DIRECTORY))
    if any(
        other == name and _holds(disk, posixpath.join(place, f"{at:06d}-{name}"), data) for at, other in there
    ):
        disk.sync_directory(place)  # the process that wrote it may have died before its name was synced
        return
    number = max((at for at, _ in there), default=0) + 1
    target, scratch = posixpath.join(place, f"{number:06d}-{name}"), posixpath.join(place, _SCRATCH)
    disk.publish(target, [data], scratch=scratch, like=file.stat())
    for at, other in there[: max(len(there) + 1 - CUTS_MAX, 0)]:
        disk.unlink(posixpath.join(place, f"{at:06d}-{other}"))


def check_kept(disk: Disk, root: str) -> None:
    """Raise unless `kept/` and `kept/opened/` are directories of the log, or missing."""
    for name in (KEPT_DIRECTORY, posixpath.join(KEPT_DIRECTORY, OPENED_DIRECTORY)):
        inner_directory(disk, posixpath.join(root, name))


def list_besides_kept(disk: Disk, root: str) -> list[str]:
    """The names in a log directory without `kept`, which is checked."""
    names = disk.list(root)
    if KEPT_DIRECTORY in names:
        check_kept(disk, root)
        names.remove(KEPT_DIRECTORY)
    return names


def keep_and_empty(disk: Disk, root: str, path: str, *, scratch: str) -> None:
    """Replace a useless file by an empty one, after keeping a copy."""
    with disk.open(path) as file:
        keep_cut(disk, root, file, 0)
    disk.publish(path, [], scratch=scratch)


def _numbered(disk: Disk, place: str) -> list[tuple[int, str]]:
    """The copies that lie here, from the oldest to the newest."""
    found = (_NAME.fullmatch(name) for name in disk.list(place))
    return sorted((int(match[1]), match[2]) for match in found if match)


def _holds(disk: Disk, path: str, data: bytes) -> bool:
    return disk.read(path, len(data) + 1) == data
