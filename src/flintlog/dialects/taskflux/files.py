"""What lies in the directory: names and their roles, the edition, and each file read on its own. Reads only.

`survey` says how the files fit together.
"""

from __future__ import annotations

import posixpath
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from flintlog.columns.checksum import crc32_mpeg2
from flintlog.columns.zeros import zeros_from
from flintlog.core.finding import Damage, Finding
from flintlog.core.inside import inner_directory, member
from flintlog.core.kept import list_besides_kept
from flintlog.dialects.taskflux import layout as lay
from flintlog.dialects.taskflux import scan
from flintlog.dialects.taskflux.findings import CODES
from flintlog.dialects.taskflux.layout import Layout, Metadata
from flintlog.dialects.taskflux.state import Base, read_base
from flintlog.disk import Disk
from flintlog.errors import DamageError

# A damaged header before good records: writing it anew loses nothing.
HEADER_DAMAGED = "segment-header"

_SCRATCH_DIRECTORIES = (lay.DESIGNED.scratch, lay.SHIPPED.scratch)
_DIRECTORIES = (lay.LOG_DIRECTORY, *_SCRATCH_DIRECTORIES)
_CREATE = ord("C")
METADATA_SIZE_MAX = 4096
SETTINGS_SIZE_MAX = 1 << 20


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """A file of the log by its name; `first` is the LSN of its first record."""

    name: str
    first: int
    size: int


@dataclass(frozen=True, slots=True)
class Listing:
    """The names in a data directory, by role."""

    data: str
    segments: tuple[SegmentFile, ...]
    metadata_size: int | None
    snapshot_size: int | None
    scratch: tuple[str, ...]  # files in temp/ and temporary/
    foreign: tuple[str, ...]  # names that fit no role


def is_data(disk: Disk, path: str) -> bool:
    """Does a store keep its state in this directory?"""
    names = set(disk.list(path)) if disk.is_directory(path) else set()
    telling = names & {lay.METADATA_FILE, lay.SNAPSHOT_FILE}
    if any(disk.is_file(posixpath.join(path, name)) for name in telling) or names == {lay.SHIPPED.scratch}:
        return True
    return lay.LOG_DIRECTORY in names and _is_log(disk, posixpath.join(path, lay.LOG_DIRECTORY))


def _is_log(disk: Disk, path: str) -> bool:
    return disk.is_directory(path) and any(
        lay.parse_segment_name(name) is not None and disk.is_file(posixpath.join(path, name))
        for name in disk.list(path)
    )


def list_files(disk: Disk, data: str) -> Listing:
    """Every name in the data directory, sorted into roles."""
    segments: list[SegmentFile] = []
    foreign: list[str] = []
    scratch: list[str] = []
    sizes: dict[str, int] = {}
    for name in list_besides_kept(disk, data):
        place = posixpath.join(data, name)
        is_file = name in (lay.METADATA_FILE, lay.SNAPSHOT_FILE)
        look = member if is_file else inner_directory if name in _DIRECTORIES else Disk.stat
        found = look(disk, place)
        if found is None:
            continue  # removed between the two calls: the directory is live
        if not found.is_directory:
            sizes[name] = found.size
            if name not in (lay.METADATA_FILE, lay.SNAPSHOT_FILE, lay.IGNORED_FILE, lay.SETTINGS_FILE):
                foreign.append(name)
        elif name in _SCRATCH_DIRECTORIES:
            scratch += [f"{name}/{file}" for file in disk.list(place)]
        elif name == lay.LOG_DIRECTORY:
            for file in disk.list(place):
                first = lay.parse_segment_name(file)
                if first is None:
                    foreign.append(f"{name}/{file}")
                elif (inside := member(disk, posixpath.join(place, file))) is not None:
                    segments.append(SegmentFile(f"{name}/{file}", first, inside.size))
        else:
            foreign.append(f"{name}/")
    segments.sort(key=lambda segment: segment.first)
    return Listing(
        data,
        tuple(segments),
        sizes.get(lay.METADATA_FILE),
        sizes.get(lay.SNAPSHOT_FILE),
        tuple(scratch),
        tuple(foreign),
    )


def layout_at(disk: Disk, data: str) -> Layout:
    """The edition of a directory; reads only its metadata when that shows it."""
    metadata = disk.stat(posixpath.join(data, lay.METADATA_FILE))
    if metadata is not None and (found := _layout_by_metadata(disk, data, metadata.size)):
        return found
    return detect_layout(disk, list_files(disk, data)) or lay.DESIGNED


def _layout_by_metadata(disk: Disk, data: str, size: int | None) -> Layout | None:
    """The edition whose checksum fits; None when the metadata is missing, empty or damaged."""
    raw = disk.read(posixpath.join(data, lay.METADATA_FILE), METADATA_SIZE_MAX) if size else b""
    return next((layout for layout in (lay.SHIPPED, lay.DESIGNED) if _metadata_fits(raw, layout)), None)


def detect_layout(disk: Disk, listing: Listing) -> Layout | None:
    """The edition of an existing directory; None when no file shows it."""
    found = _layout_by_metadata(disk, listing.data, listing.metadata_size)
    if found is not None:
        return found
    for segment in listing.segments:
        found = _segment_layout(disk, posixpath.join(listing.data, segment.name))
        if found is not None:
            return found
    if listing.snapshot_size:
        with disk.open(posixpath.join(listing.data, lay.SNAPSHOT_FILE)) as file:
            view = file.view(copy=True)
            for layout in (lay.SHIPPED, lay.DESIGNED):
                with suppress(DamageError):
                    read_snapshot(view, layout)
                    return layout
    for layout in (lay.SHIPPED, lay.DESIGNED):
        if disk.is_directory(posixpath.join(listing.data, layout.scratch)):
            return layout
    if listing.metadata_size:  # damaged, and no other file shows it: its length is the last sign
        return lay.DESIGNED if listing.metadata_size < lay.SHIPPED.metadata_size else lay.SHIPPED
    return None


def _metadata_fits(raw: bytes, layout: Layout) -> bool:
    size = layout.metadata_size
    return len(raw) >= size and crc32_mpeg2(raw, 4, size - 4) == layout.metadata.head.unpack_from(raw)[-1]


def _segment_layout(disk: Disk, path: str) -> Layout | None:
    with disk.open(path) as file:
        view = file.view(copy=True)
    for layout in (lay.DESIGNED, lay.SHIPPED):  # the checksum of the first record proves the layout
        _, stop = next(iter(scan.scan_batches(view, layout, lay.SEGMENT_HEADER_SIZE, batch=1)))
        if len(view) > lay.SEGMENT_EMPTY_SIZE and (stop is None or stop.offset > lay.SEGMENT_HEADER_SIZE):
            return layout
    if len(view) < lay.SEGMENT_HEADER_SIZE:
        return None
    marker, version = lay.SEGMENT_HEADER.head.unpack_from(view)
    if marker != lay.FILE_MARKER:
        return None
    return next((layout for layout in lay.LAYOUTS.values() if layout.segment_version == version), None)


def read_metadata(raw: bytes, layout: Layout) -> Metadata:
    """Term and vote, or the error that names the first wrong field."""
    size, table = layout.metadata_size, layout.metadata
    wrong = partial(_wrong, lay.METADATA_FILE)
    if len(raw) < size:
        raise wrong(
            "metadata-short", "the metadata file is too short", len(raw), f"{size} bytes", f"{len(raw)} bytes"
        )
    marker, version, term, vote, stored = table.head.unpack_from(raw)
    if marker != lay.METADATA_MARKER:
        raise wrong("metadata-marker", "not a metadata file", 0, lay.METADATA_MARKER.hex(), marker.hex())
    if version > layout.metadata_version:
        raise DamageError(
            f"metadata version {version} is not known",
            code="metadata-version",
            file=lay.METADATA_FILE,
            offset=table.offset("version"),
        )
    if term < lay.TERM_FIRST:
        at = table.offset("term")
        raise wrong("metadata-term", "the term must be at least 1", at, "1 or more", str(term))
    if vote < -1:
        at = table.offset("vote")
        raise wrong("metadata-vote", "the vote is not a node", at, "-1 or more", str(vote))
    computed = crc32_mpeg2(raw, 4, size - 4)
    if computed != stored:
        raise wrong(
            "metadata-checksum", "the checksum does not fit", size - 4, f"{stored:08x}", f"{computed:08x}"
        )
    return Metadata(term, None if vote == -1 else vote)


def _wrong(file: str, code: str, message: str, offset: int, expected: str, found: str) -> DamageError:
    return DamageError(message, code=code, file=file, offset=offset, expected=expected, found=found)


def snapshot_index(view: memoryview, layout: Layout) -> int:
    """The index that the header of a snapshot names; -1 when there is no header."""
    if len(view) < layout.snapshot_header_size:
        return lay.LSN_NONE
    marker, index, _, _ = layout.snapshot_header.head.unpack_from(view)
    return index if marker == lay.SNAPSHOT_MARKER else lay.LSN_NONE


def claimed_index(disk: Disk, data: str) -> int:
    """The index that the snapshot of a directory claims; reads only the header."""
    path = posixpath.join(data, lay.SNAPSHOT_FILE)
    found = disk.stat(path)
    if found is None or not found.size:
        return lay.LSN_NONE
    layout = layout_at(disk, data)
    return snapshot_index(memoryview(disk.read(path, layout.snapshot_header_size)), layout)


def read_snapshot(view: memoryview, layout: Layout) -> Base:
    """The state in a snapshot file, every byte checked."""
    size, table = layout.snapshot_header_size, layout.snapshot_header
    wrong = partial(_wrong, lay.SNAPSHOT_FILE)
    if len(view) < size:
        raise wrong(
            "snapshot-short",
            "the snapshot ends inside its header",
            len(view),
            f"{size} bytes",
            f"{len(view)} bytes",
        )
    marker, index, term, length = table.head.unpack_from(view)
    if marker != lay.SNAPSHOT_MARKER:
        raise wrong("snapshot-marker", "not a snapshot", 0, lay.SNAPSHOT_MARKER.hex(), marker.hex())
    if not lay.LSN_NONE <= index < lay.LSN_MAX:
        raise wrong(
            "snapshot-index", "the last index is out of range", 4, f"-1 to {lay.LSN_MAX - 1}", str(index)
        )
    if term < lay.TERM_FIRST:
        at = table.offset("last term")
        raise wrong("snapshot-term", "the last term must be at least 1", at, "1 or more", str(term))
    if length < 0:
        at = table.offset("length")
        raise wrong("snapshot-length", "the state's length is negative", at, "0 or more", str(length))
    end = size + length
    if len(view) < end + 4:
        raise wrong(
            "snapshot-short", "the snapshot ends early", len(view), f"{end + 4} bytes", f"{len(view)} bytes"
        )
    computed = crc32_mpeg2(view, size, end)
    stored = int.from_bytes(view[end : end + 4], "big")
    if computed != stored:
        raise wrong(
            "snapshot-checksum",
            "the checksum does not fit the state",
            end,
            f"{stored:08x}",
            f"{computed:08x}",
        )
    if index == lay.LSN_NONE:
        return Base()  # as the original does: no snapshot
    try:
        return read_base(view, size, end, index, term)
    except DamageError as error:
        error.file = lay.SNAPSHOT_FILE
        raise


class Fall(NamedTuple):
    """A record whose term is lower than that of the one before it."""

    place: int  # counted from the first record
    offset: int
    before: int
    term: int


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment that was read: its records and where they end."""

    file: SegmentFile
    view: memoryview
    records: scan.Records
    end: int  # offset behind the last good record
    damage: Damage | None = None
    uninitialised: bool = False  # no whole header was ever written

    @property
    def first(self) -> int:
        return self.file.first

    @property
    def last(self) -> int:
        return self.file.first + len(self.records) - 1

    @property
    def last_term(self) -> int | None:
        return int(self.records.term[-1]) if len(self.records) else None

    @property
    def fall(self) -> Fall | None:
        falls = np.flatnonzero(np.diff(self.records.term) < 0)
        if not len(falls):
            return None
        at = int(falls[0]) + 1
        terms = self.records.term
        return Fall(at, int(self.records.offset[at]), int(terms[at - 1]), int(terms[at]))

    def term_at(self, lsn: int) -> tuple[int, int]:
        at = lsn - self.first
        return int(self.records.term[at]), int(self.records.offset[at])

    @property
    def stale_bytes(self) -> bool:
        return zeros_from(self.view, self.end) > self.end


def read_segment(
    disk: Disk, data: str, file: SegmentFile, layout: Layout, *, newest: bool, copy: bool = False
) -> Segment:
    """Read one segment; the result says what is wrong with it. `copy` an older one too, if it may be cut."""
    with disk.open(posixpath.join(data, file.name)) as handle:
        view = handle.view(copy=newest or copy)
    if file.first > lay.LSN_MAX:
        return Segment(file, view, scan.Records.join([]), 0, _beyond(file.first, 0))
    if newest and _never_written(view, layout.segment_header()):
        return Segment(file, view, scan.Records.join([]), lay.SEGMENT_HEADER_SIZE, uninitialised=True)
    if len(view) < lay.SEGMENT_HEADER_SIZE:
        return _without_header(file, view, layout)
    marker, version = lay.SEGMENT_HEADER.head.unpack_from(view)
    if marker != lay.FILE_MARKER:
        return _without_header(file, view, layout)
    if version > layout.segment_version:
        message = f"segment version {version} is not known to the {layout.edition} edition"
        damage = Damage("segment-version", message, 4, f"{layout.segment_version} or lower", str(version))
        return Segment(file, view, scan.Records.join([]), 4, damage)
    records, stop = scan.scan_segment(view, layout)
    room = lay.LSN_MAX + 1 - file.first
    if len(records) > room:
        end = int(records.offset[room])
        return Segment(file, view, records[:room], end, _beyond(lay.LSN_MAX + 1, end))
    return Segment(file, view, records, stop.offset, scan.judge(view, layout, stop, newest=newest))


def _beyond(lsn: int, offset: int) -> Damage:
    message = "no record can have this LSN: the name of the segment is wrong"
    return Damage("segment-lsn", message, offset, f"{lay.LSN_MAX} or lower", str(lsn))


def _without_header(file: SegmentFile, view: memoryview, layout: Layout) -> Segment:
    """A segment without a file marker. When good records follow to its end, only the header is damaged."""
    found = bytes(view[:4]).hex() or "nothing"
    damage = Damage("segment-marker", "not a segment of a log", 0, lay.FILE_MARKER.hex(), found)
    if len(view) > lay.SEGMENT_HEADER_SIZE:
        records, stop = scan.scan_segment(view, layout)
        if len(records) and stop.good:
            message = "the header is damaged; all records behind it are good"
            return Segment(
                file, view, records, stop.offset, replace(damage, code=HEADER_DAMAGED, message=message)
            )
    return Segment(file, view, scan.Records.join([]), 0, damage)


def _never_written(view: memoryview, header: bytes) -> bool:
    """Is this a new segment whose header did not arrive: a beginning of it, then zeros or the end of the file?"""
    written = zeros_from(view, 0)
    return written < len(header) and view[:written] == header[:written]


def finding_in(segment: Segment, *, newest: bool) -> Finding | None:
    """The finding of one segment by itself."""
    damage = segment.damage
    name = segment.file.name
    if damage is not None:
        if segment.end >= lay.SEGMENT_HEADER_SIZE and damage.code != HEADER_DAMAGED:
            damage = replace(damage, message=f"LSN {segment.last + 1}: {damage.message}")
        return CODES.of(damage, name)
    if segment.uninitialised and segment.file.size:
        message = "the segment was created and its header did not arrive"
        return CODES.finding("torn-header", message, name, 0)
    if newest and segment.stale_bytes:
        return CODES.finding(
            "stale-bytes", "bytes behind the end marker; they do not count", name, segment.end
        )
    return None


def bad_creates(segment: Segment, layout: Layout) -> list[Finding]:
    """Findings for creations that create no queue."""
    findings = []
    for at in np.flatnonzero(segment.records.operation == _CREATE).tolist():
        begin = int(segment.records.offset[at]) + layout.record_header_size
        try:
            lay.decode_create(bytes(segment.view[begin : begin + int(segment.records.length[at])]))
        except DamageError as error:
            error.file, error.offset = segment.file.name, int(segment.records.offset[at])
            error.message = f"LSN {segment.first + at}: creates no queue: {error.message}"
            findings.append(CODES.of(error))
    return findings
