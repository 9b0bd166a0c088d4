"""What lies in a directory of sessions: data files, descriptors, logs, leftovers. Reads only."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass

from flintlog.core.kept import KEPT_DIRECTORY
from flintlog.dialects.mpy6a import layout as lay
from flintlog.disk import Disk

SCRATCH_DATA = "data"
_DESCRIBING = (lay.SNAPSHOT_FILE, lay.CHANGES_FILE, lay.OPERATIONS_FILE)


@dataclass(frozen=True, slots=True)
class Listing:
    """The names in a directory, by role, with their sizes."""

    data: dict[str, int]
    known: dict[str, int]  # the snapshot, the logs, the exhausted sessions, as far as they are there
    scratch: tuple[str, ...]
    foreign: tuple[str, ...]

    @property
    def described(self) -> bool:
        """Is there anything that says which data files belong to the store?"""
        return any(name in self.known for name in _DESCRIBING)

    @property
    def empty(self) -> bool:
        return not self.data and not self.known


def is_ours(disk: Disk, path: str) -> bool:
    """Does this directory hold descriptors or data files of ours?"""
    if not disk.is_directory(path):
        return False
    listing = list_files(disk, path)
    return bool(listing.data) or listing.described


def list_files(disk: Disk, path: str) -> Listing:
    """Every name in the directory, sorted into roles."""
    data: dict[str, int] = {}
    known: dict[str, int] = {}
    scratch, foreign = [], []
    for name in disk.list(path):
        stat = disk.stat(posixpath.join(path, name))
        if stat is None:
            continue  # gone meanwhile: the directory is live
        if stat.is_directory:
            if name != KEPT_DIRECTORY:
                foreign.append(name)
        elif lay.parse_name(name) is not None:
            data[name] = stat.size
        elif name in (*_DESCRIBING, lay.EXHAUSTED_FILE):
            known[name] = stat.size
        elif is_scratch(name):
            scratch.append(name)
        else:
            foreign.append(name)
    return Listing(data, known, tuple(scratch), tuple(foreign))


def is_scratch(name: str) -> bool:
    """A file that an unfinished operation of ours left."""
    stem = name.removesuffix(lay.SCRATCH_SUFFIX)
    known = stem in (*_DESCRIBING, SCRATCH_DATA, "repair") or stem.startswith(f"{SCRATCH_DATA}.")
    return stem != name and known
