"""What lies in a log directory: logs in order, epoch files, catalog, compacted files, leftovers. Reads only."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field

import numpy as np

from flintlog.columns.zeros import zeros_from
from flintlog.core.finding import Finding
from flintlog.core.inside import inner_directory, member
from flintlog.core.kept import list_besides_kept
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone.findings import CODES
from flintlog.disk import Disk

_EPOCH_RECORD = np.dtype([("type", "u1"), ("epoch", "<u8")])
_EPOCH_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class LogFile:
    """A log file by its name. `time` is when it was rotated, in milliseconds; None while it is active."""

    name: str
    size: int
    channel: int | None = None  # None: no writer makes this name, but the original reads it
    time: int | None = None
    number: int = 0

    @property
    def active(self) -> bool:
        return self.channel is not None and self.time is None

    @property
    def order(self) -> tuple[int, int, int, int, str]:
        """By channel, as the original reads them; within a channel in the order of writing, the active one last."""
        channel = -1 if self.channel is None else self.channel
        return (channel, int(self.active), self.time or 0, self.number, self.name)


@dataclass(slots=True)
class Listing:
    """The names in a log directory, by role, with their sizes."""

    logs: list[LogFile] = field(default_factory=list)
    epochs: dict[str, int] = field(default_factory=dict)
    odd_epochs: dict[str, int] = field(default_factory=dict)  # the original reads them when there is no other
    compacted: dict[str, int] = field(default_factory=dict)  # with their final names
    previous: int | None = None  # size of pwal_0000.compacted.prev
    catalogs: dict[str, int] = field(default_factory=dict)
    manifests: dict[str, int] = field(default_factory=dict)
    snapshot: int | None = None
    witness: int | None = None
    scratch: dict[str, int] = field(default_factory=dict)
    foreign: dict[str, int] = field(default_factory=dict)


def recognise(disk: Disk, path: str) -> bool:
    """Does this directory hold a manifest, a catalog or a log? Directories with such names do not count."""
    known = {lay.MANIFEST_FILE, lay.MANIFEST_BACK, lay.CATALOG_FILE, lay.CATALOG_BACK, lay.COMPACTED_FILE}
    return disk.is_directory(path) and any(
        (name in known or lay.is_rotated_name(name)) and not disk.is_directory(posixpath.join(path, name))
        for name in disk.list(path)
    )


def list_files(disk: Disk, path: str) -> Listing:
    """Every name in the directory, sorted into roles."""
    found = Listing()
    for name in list_besides_kept(disk, path):
        look = member if _is_of_the_log(name) else inner_directory if name in lay.DIRECTORIES else Disk.stat
        stat = look(disk, posixpath.join(path, name))
        if stat is None:
            continue
        if stat.is_directory:
            _enter(disk, path, name, found)
        else:
            _sort_in(found, name, stat.size)
    found.logs.sort(key=lambda log: log.order)
    return found


def _is_of_the_log(name: str) -> bool:
    known = (lay.MANIFEST_FILE, lay.MANIFEST_BACK, lay.CATALOG_FILE, lay.CATALOG_BACK)
    if name in (*known, lay.COMPACTED_PREVIOUS, lay.EPOCH_FILE):
        return True
    return lay.is_wal_name(name) or lay.is_compacted_name(name)


def _enter(disk: Disk, path: str, name: str, found: Listing) -> None:
    if name not in lay.DIRECTORIES:
        found.foreign[name] = 0
        return
    for inner in disk.list(posixpath.join(path, name)):
        inside = posixpath.join(name, inner)
        place = posixpath.join(path, inside)
        if name == lay.BLOB_DIRECTORY:
            if lay.BLOB_FOLDER.fullmatch(inner):
                inner_directory(disk, place)
            continue
        look = member if inside in (lay.SNAPSHOT_FILE, lay.WITNESS_FILE) else Disk.stat
        stat = look(disk, place)
        if stat is None or stat.is_directory:
            continue
        if inside == lay.SNAPSHOT_FILE:
            found.snapshot = stat.size
        elif inside == lay.WITNESS_FILE:
            found.witness = stat.size
        else:
            found.scratch[inside] = stat.size


def _sort_in(found: Listing, name: str, size: int) -> None:
    if name in (lay.MANIFEST_FILE, lay.MANIFEST_BACK):
        found.manifests[name] = size
    elif name in (lay.CATALOG_FILE, lay.CATALOG_BACK):
        found.catalogs[name] = size
    elif name == lay.COMPACTED_PREVIOUS:
        found.previous = size
    elif lay.is_compacted_name(name):
        found.compacted[name] = size
    elif lay.is_wal_name(name):
        found.logs.append(log_file(name, size))
    elif name == lay.EPOCH_FILE or lay.ROTATED_EPOCH_NAME.fullmatch(name):
        found.epochs[name] = size
    elif name.startswith(lay.EPOCH_FILE):
        found.odd_epochs[name] = size
    elif name == lay.EPOCH_SCRATCH or lay.is_compacted_name(name.partition(lay.COMPACTED_SCRATCH)[0]):
        found.scratch[name] = size
    else:
        found.foreign[name] = size


def log_file(name: str, size: int) -> LogFile:
    """A log by its name."""
    if match := lay.ACTIVE_NAME.fullmatch(name):
        return LogFile(name, size, int(match[1]))
    if match := lay.ROTATED_NAME.fullmatch(name):
        return LogFile(name, size, int(match[1]), int(match[2]), int(match[3]))
    return LogFile(name, size)


def blobs(disk: Disk, path: str) -> dict[int, int]:
    """The blobs by number, with their sizes."""
    root = posixpath.join(path, lay.BLOB_DIRECTORY)
    found: dict[int, int] = {}
    for folder in disk.list(root):
        if not lay.BLOB_FOLDER.fullmatch(folder):
            continue
        for name in disk.list(posixpath.join(root, folder)):
            match = lay.BLOB_NAME.fullmatch(name)
            stat = member(disk, posixpath.join(root, folder, name)) if match else None
            if match and stat is not None and lay.blob_path(int(match[1], 16)).endswith(f"{folder}/{name}"):
                found[int(match[1], 16)] = stat.size
    return found


def read_epochs(buffer: memoryview, name: str) -> tuple[int | None, Finding | None]:
    """The largest epoch in an epoch file, None when it has no record; and the finding if the file is damaged."""
    count = len(buffer) // lay.MARKER_SIZE
    records = np.frombuffer(buffer, _EPOCH_RECORD, count)
    largest: int | None = None
    for begin in range(0, count, _EPOCH_CHUNK):
        some = records[begin : begin + _EPOCH_CHUNK]
        wrong = np.flatnonzero(some["type"] != lay.DURABLE)
        good = some[: wrong[0]] if len(wrong) else some
        if len(good):
            largest = max(largest or 0, int(good["epoch"].max()))
        if len(wrong):
            return largest, _bad_epoch(buffer, name, (begin + int(wrong[0])) * lay.MARKER_SIZE)
    if len(buffer) % lay.MARKER_SIZE:
        return largest, _bad_epoch(buffer, name, count * lay.MARKER_SIZE)
    return largest, None


def read_witness(raw: bytes) -> int:
    """The epoch in `data/durable`; 0 when there is none."""
    whole = len(raw) == lay.MARKER_SIZE and raw[0] == lay.DURABLE
    return lay.decode_marker(raw, 0) if whole else 0


def _bad_epoch(buffer: memoryview, name: str, at: int) -> Finding:
    """The finding for bytes that are no record. Each record is synced before the next, so only the last can be cut or
    zero, and it was never acknowledged. Anything else is damage."""
    kind = int(buffer[at])
    left = len(buffer) - at
    zeros = left <= lay.MARKER_SIZE and zeros_from(buffer, at) == at
    if zeros or (left < lay.MARKER_SIZE and kind == lay.DURABLE):
        message = "the last record did not arrive whole; it was never acknowledged"
        return CODES.finding("epoch-torn", message, name, at, "9 bytes", f"{left} bytes")
    message = "no record of a durable epoch begins here"
    return CODES.finding("epoch-type", message, name, at, str(lay.DURABLE), str(kind))
