"""What lies in a directory of sessions: data files, descriptors, logs, leftovers. Reads only."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass

from flintlog.core.inside import member
from flintlog.core.kept import list_besides_kept
from flintlog.dialects.mpy6a import layout as lay
from flintlog.dialects.mpy6a.layout import MalformedError
from flintlog.disk import Disk

SCRATCH_DATA = "data"
_EVIDENCE_BYTES = 512
_DESCRIBING = (lay.SNAPSHOT_FILE, lay.CHANGES_FILE, lay.OPERATIONS_FILE)


@dataclass(frozen=True, slots=True)
class Listing:
    """The names in a directory, by role, with their sizes."""

    data: dict[str, int]
    known: dict[str, int]  # the snapshot, the logs and the exhausted sessions that exist
    scratch: tuple[str, ...]
    foreign: tuple[str, ...]

    @property
    def described(self) -> bool:
        """Is there a file that says which data files belong to the store?"""
        return any(name in self.known for name in _DESCRIBING)

    @property
    def empty(self) -> bool:
        return not self.data and not self.known


def is_ours(disk: Disk, path: str) -> bool:
    """Does this directory hold data files, or descriptors or a log that can be read as such?"""
    if not disk.is_directory(path):
        return False
    listing = list_files(disk, path, trusting=False)
    telling = {lay.OPERATIONS_FILE: _is_log, lay.CHANGES_FILE: _is_log, lay.SNAPSHOT_FILE: _is_snapshot}
    return bool(listing.data) or any(
        name in listing.known and tells(disk.read(posixpath.join(path, name), _EVIDENCE_BYTES))
        for name, tells in telling.items()
    )


def _is_log(head: bytes) -> bool:
    try:
        lay.read_log_header(head)
    except MalformedError:
        return False
    return True


def _is_snapshot(head: bytes) -> bool:
    try:
        lay.read_descriptor(head, 0)
    except MalformedError:
        return False
    return True


def list_files(disk: Disk, path: str, *, trusting: bool = True) -> Listing:
    """Every name in the directory, sorted into roles. `trusting` that it is ours, refuse a link or pipe."""
    data: dict[str, int] = {}
    known: dict[str, int] = {}
    scratch, foreign = [], []
    for name in list_besides_kept(disk, path) if trusting else disk.list(path):
        place = posixpath.join(path, name)
        known_by_name = trusting and (
            lay.parse_name(name) is not None or name in (*_DESCRIBING, lay.EXHAUSTED_FILE)
        )
        stat = member(disk, place) if known_by_name else disk.stat(place)
        if stat is None:
            continue  # removed meanwhile: the directory is live
        if stat.is_directory:
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


def mark_of(name: str) -> str:
    """The scratch file that marks a data file as being made or removed: after a crash nothing in it is needed."""
    return f"{SCRATCH_DATA}.{name}{lay.SCRATCH_SUFFIX}"


def is_mark(name: str) -> bool:
    """Is this such a scratch file?"""
    inner = name.removeprefix(f"{SCRATCH_DATA}.").removesuffix(lay.SCRATCH_SUFFIX)
    return lay.parse_name(inner) is not None and name == mark_of(inner)


def is_scratch(name: str) -> bool:
    """Is this a file that an unfinished operation left?"""
    stem = name.removesuffix(lay.SCRATCH_SUFFIX)
    known = stem in (*_DESCRIBING, SCRATCH_DATA, "repair") or stem.startswith(f"{SCRATCH_DATA}.")
    return stem != name and known
