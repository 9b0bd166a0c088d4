"""What lies in the directory: roles, order, gaps, leftovers, damage. Reads only.

`survey` looks at a directory once and tells everything that opening, verifying and repairing need to know:
which layout, which metadata, which snapshot, which segments form the log, where it ends, and what is wrong.
"""

from __future__ import annotations

import posixpath
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np

from flintlog.columns.checksum import crc32_mpeg2
from flintlog.core.finding import Finding, Severity
from flintlog.dialects.taskflux import layout as lay
from flintlog.dialects.taskflux import scan
from flintlog.dialects.taskflux.layout import Layout, Metadata
from flintlog.dialects.taskflux.replay import Base, Source, State, read_base, replay
from flintlog.disk import Disk
from flintlog.errors import DamageError, RefusedError

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
    foreign: tuple[str, ...]  # what no role fits

    @property
    def log(self) -> str:
        return posixpath.join(self.data, lay.LOG_DIRECTORY)


def locate(disk: Disk, path: str) -> str | None:
    """The data directory: `path` itself, or `data` in it when `path` is a root; None when it is neither."""
    for candidate in (path, posixpath.join(path, "data")):
        names = set(disk.list(candidate)) if disk.is_directory(candidate) else set()
        if names & {lay.METADATA_FILE, lay.SNAPSHOT_FILE, lay.SHIPPED.scratch}:
            return candidate
        if lay.LOG_DIRECTORY in names and _is_log(disk, posixpath.join(candidate, lay.LOG_DIRECTORY)):
            return candidate
    return None


def _is_log(disk: Disk, path: str) -> bool:
    return disk.is_directory(path) and any(
        lay.parse_segment_name(name) is not None for name in disk.list(path)
    )


def list_files(disk: Disk, data: str) -> Listing:
    """Every name in the data directory, sorted into roles."""
    segments: list[SegmentFile] = []
    foreign: list[str] = []
    scratch: list[str] = []
    sizes: dict[str, int] = {}
    for name in disk.list(data):
        found = disk.stat(posixpath.join(data, name))
        if found is None:
            continue  # went away between the two calls: the directory is live
        if not found.is_directory:
            sizes[name] = found.size
            if name not in (lay.METADATA_FILE, lay.SNAPSHOT_FILE, lay.IGNORED_FILE, lay.SETTINGS_FILE):
                foreign.append(name)
        elif name in (lay.DESIGNED.scratch, lay.SHIPPED.scratch):
            scratch += [f"{name}/{file}" for file in disk.list(posixpath.join(data, name))]
        elif name == lay.LOG_DIRECTORY:
            for file in disk.list(posixpath.join(data, name)):
                first = lay.parse_segment_name(file)
                inside = disk.stat(posixpath.join(data, name, file))
                if first is None or inside is None or inside.is_directory:
                    foreign.append(f"{name}/{file}")
                else:
                    segments.append(SegmentFile(f"{name}/{file}", first, inside.size))
        elif name != lay.KEPT_DIRECTORY:
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


def detect_layout(disk: Disk, listing: Listing) -> Layout | None:
    """The edition of an existing directory; None when nothing in it tells."""
    if listing.metadata_size:
        raw = disk.read(posixpath.join(listing.data, lay.METADATA_FILE), METADATA_SIZE_MAX)
        return next(
            (layout for layout in (lay.SHIPPED, lay.DESIGNED) if _metadata_fits(raw, layout)), None
        ) or (lay.DESIGNED if len(raw) < lay.SHIPPED.metadata_size else lay.SHIPPED)
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
    return None


def _metadata_fits(raw: bytes, layout: Layout) -> bool:
    size = layout.metadata_size
    return len(raw) >= size and crc32_mpeg2(raw, 4, size - 4) == int.from_bytes(raw[size - 4 : size], "big")


def _segment_layout(disk: Disk, path: str) -> Layout | None:
    with disk.open(path) as file:
        view = file.view(copy=True)
    for layout in (lay.DESIGNED, lay.SHIPPED):  # the checksum of the first record proves the layout
        _, stop = next(iter(scan.scan_batches(view, layout, lay.SEGMENT_HEADER_SIZE, batch=1)))
        if len(view) > lay.SEGMENT_EMPTY_SIZE and (stop is None or stop.offset > lay.SEGMENT_HEADER_SIZE):
            return layout
    if len(view) < lay.SEGMENT_HEADER_SIZE or view[:4] != lay.FILE_MARKER:
        return None
    version = int.from_bytes(view[4:8], "big", signed=True)
    return next((layout for layout in lay.LAYOUTS.values() if layout.segment_version == version), None)


def read_metadata(raw: bytes, layout: Layout) -> Metadata:
    """Term and vote, or the error that names the first wrong field."""
    size = layout.metadata_size

    def wrong(code: str, message: str, offset: int, expected: str, found: str) -> DamageError:
        return DamageError(
            message, code=code, file=lay.METADATA_FILE, offset=offset, expected=expected, found=found
        )

    if len(raw) < size:
        raise wrong(
            "metadata-short", "the metadata file is too short", len(raw), f"{size} bytes", f"{len(raw)} bytes"
        )
    if raw[:4] != lay.METADATA_MARKER:
        raise wrong("metadata-marker", "not a metadata file", 0, lay.METADATA_MARKER.hex(), raw[:4].hex())
    version = int.from_bytes(raw[4:8], "big", signed=True)
    if version > layout.metadata_version:
        raise _UnsupportedError(f"metadata version {version} is not known", lay.METADATA_FILE, 4)
    term = int.from_bytes(raw[8 : 8 + layout.term_size], "big", signed=True)
    if term < lay.TERM_FIRST:
        raise wrong("metadata-term", "the term is not one", 8, "1 or more", str(term))
    vote_at = 8 + layout.term_size
    (vote,) = struct.unpack_from(">i", raw, vote_at)
    if vote < -1:
        raise wrong("metadata-vote", "the vote is not a node", vote_at, "-1 or more", str(vote))
    computed = crc32_mpeg2(raw, 4, size - 4)
    stored = int.from_bytes(raw[size - 4 : size], "big")
    if computed != stored:
        raise wrong(
            "metadata-checksum", "the checksum does not fit", size - 4, f"{stored:08x}", f"{computed:08x}"
        )
    return Metadata(term, None if vote == -1 else vote)


class _UnsupportedError(DamageError):
    """A version that this release does not know."""

    def __init__(self, message: str, file: str, offset: int) -> None:
        super().__init__(message, code="unsupported-version", file=file, offset=offset)


def read_snapshot(view: memoryview, layout: Layout) -> Base:
    """The state in a snapshot file, every byte checked."""
    size = layout.snapshot_header_size

    def wrong(code: str, message: str, offset: int, expected: str, found: str) -> DamageError:
        return DamageError(
            message, code=code, file=lay.SNAPSHOT_FILE, offset=offset, expected=expected, found=found
        )

    if len(view) < size:
        raise wrong(
            "snapshot-short",
            "the snapshot ends inside its header",
            len(view),
            f"{size} bytes",
            f"{len(view)} bytes",
        )
    if view[:4] != lay.SNAPSHOT_MARKER:
        raise wrong("snapshot-marker", "not a snapshot", 0, lay.SNAPSHOT_MARKER.hex(), bytes(view[:4]).hex())
    width = layout.term_size
    index = int.from_bytes(view[4 : 4 + width], "big", signed=True)
    term = int.from_bytes(view[4 + width : 4 + 2 * width], "big", signed=True)
    length = int.from_bytes(view[size - 4 : size], "big", signed=True)
    if index < lay.LSN_NONE:
        raise wrong("snapshot-index", "the last index is not one", 4, "-1 or more", str(index))
    if term < lay.TERM_FIRST:
        raise wrong("snapshot-term", "the last term is not one", 4 + width, "1 or more", str(term))
    if length < 0:
        raise wrong("snapshot-length", "the state's length is negative", size - 4, "0 or more", str(length))
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
        return Base()  # so the original treats it: as no snapshot
    try:
        return read_base(view, size, end, index, term)
    except DamageError as error:
        error.file = lay.SNAPSHOT_FILE
        raise


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment that was read: its records and where they end."""

    file: SegmentFile
    view: memoryview
    records: scan.Records
    end: int  # offset behind the last good record
    damage: scan.Damage | None = None
    uninitialised: bool = False  # no whole header was ever written

    @property
    def first(self) -> int:
        return self.file.first

    @property
    def last(self) -> int:
        return self.file.first + len(self.records) - 1

    @property
    def stale_bytes(self) -> bool:
        """Does anything but zeros stand behind the end?"""
        return scan.zeros_from(self.view, self.end) > self.end


@dataclass(slots=True)
class Survey:
    """All that opening, verifying and repairing need to know of a directory."""

    listing: Listing
    layout: Layout
    metadata: Metadata | None = None  # None: empty or missing, to be initialised
    base: Base = field(default_factory=Base)
    has_snapshot: bool = False
    segments: list[Segment] = field(default_factory=list)  # read ones that belong to the log, in order
    covered: list[SegmentFile] = field(
        default_factory=list
    )  # belong to the log, wholly below the snapshot, not read
    leftovers: list[str] = field(default_factory=list)  # may be unlinked: nothing can need them
    findings: list[Finding] = field(default_factory=list)

    @property
    def first(self) -> int:
        """The first LSN of the log; what the next append gets when the log is empty."""
        files = [*self.covered, *(segment.file for segment in self.segments)]
        return files[0].first if files else self.base.index + 1

    @property
    def last(self) -> int:
        """The last LSN of the log or of the snapshot, whichever is higher."""
        return max(self.segments[-1].last, self.base.index) if self.segments else self.base.index

    @property
    def last_term(self) -> int:
        """The term of the last entry, or of the snapshot when no entry follows it."""
        tail = next((segment for segment in reversed(self.segments) if len(segment.records)), None)
        if tail is None or tail.last <= self.base.index:
            return self.base.term
        return int(tail.records.term[-1])

    @property
    def tail(self) -> Segment | None:
        return self.segments[-1] if self.segments else None

    def sources(self, last: int | None = None) -> list[Source]:
        """The entries behind the snapshot, up to `last`."""
        result = []
        for segment in self.segments:
            begin = max(self.base.index + 1 - segment.first, 0)
            end = (
                len(segment.records) if last is None else min(last + 1 - segment.first, len(segment.records))
            )
            if begin < end:
                records = segment.records[begin:end]
                result.append(Source(segment.file.name, segment.view, records, segment.first + begin))
        return result

    def state(self, as_of: int | None = None) -> State:
        """The state after the last entry, or after `as_of`."""
        if as_of is not None and not self.base.index <= as_of <= self.last:
            raise RefusedError(
                f"the state at LSN {as_of} cannot be built: this directory holds {self.base.index} to {self.last}",
                file=self.listing.data,
                advice="Choose a position in that range, or restore an older backup",
            )
        return replay(self.base, self.sources(as_of), self.layout)

    def refuse_damage(self) -> None:
        """Raise for the first finding that opening must not pass over."""
        for finding in self.findings:
            if finding.severity in (Severity.CORRUPT, Severity.UNSUPPORTED) or finding.code in REPAIR_ONLY:
                raise finding.error(self.listing.data)


# Findings that lose nothing when repaired, but that opening does not decide on its own.
HEADER_DAMAGED = "segment-header"
REPAIR_ONLY = frozenset({"snapshot-unusable", HEADER_DAMAGED})

Look = Callable[[int, int], None]


def survey(
    disk: Disk,
    data: str,
    *,
    layout: Layout | None = None,
    read_all: bool = False,
    progress: Look | None = None,
) -> Survey:
    """Look at the directory. `read_all` reads also the segments that a snapshot covers."""
    listing = list_files(disk, data)
    result = Survey(listing, layout or detect_layout(disk, listing) or lay.DESIGNED)
    _look_at_metadata(disk, result)
    snapshot_damage = _look_at_snapshot(disk, result)
    _look_at_segments(disk, result, read_all, progress or (lambda done, total: None))
    _look_at_chain(result)
    if snapshot_damage is not None:
        _judge_snapshot(result, snapshot_damage)
    return result


def finding_of(error: DamageError, severity: Severity = Severity.CORRUPT) -> Finding:
    """A finding from an error that names file and offset inside the directory."""
    if isinstance(error, _UnsupportedError):
        severity = Severity.UNSUPPORTED
    return Finding(severity, error.code, error.message, error.file, error.offset, error.expected, error.found)


def _look_at_metadata(disk: Disk, result: Survey) -> None:
    if not result.listing.metadata_size:
        return
    raw = disk.read(posixpath.join(result.listing.data, lay.METADATA_FILE), METADATA_SIZE_MAX)
    try:
        result.metadata = read_metadata(raw, result.layout)
    except DamageError as error:
        result.findings.append(finding_of(error))


def _look_at_snapshot(disk: Disk, result: Survey) -> DamageError | None:
    if not result.listing.snapshot_size:
        return None
    with disk.open(posixpath.join(result.listing.data, lay.SNAPSHOT_FILE)) as file:
        view = file.view()  # never cut, only replaced by rename
    try:
        result.base = read_snapshot(view, result.layout)
    except DamageError as error:
        return error
    result.has_snapshot = result.base.index >= 0
    return None


def _judge_snapshot(result: Survey, error: DamageError) -> None:
    """A damaged snapshot costs nothing while the whole log is still there."""
    complete = result.first == 0 and bool(result.segments)
    finding = finding_of(error)
    if complete:
        finding = Finding(
            Severity.REPAIRABLE,
            "snapshot-unusable",
            f"{finding.message}; the log still holds everything from LSN 0 on",
            finding.file,
            finding.offset,
            finding.expected,
            finding.found,
        )
    # The gap that a missing snapshot leaves at the head of the log follows from this damage; say it once.
    result.findings[:] = [finding] + [item for item in result.findings if item.code != "log-start"]


def _look_at_segments(disk: Disk, result: Survey, read_all: bool, progress: Look) -> None:
    files = result.listing.segments
    total = sum(file.size for file in files)
    done = 0
    for at, file in enumerate(files):
        following = files[at + 1] if at + 1 < len(files) else None
        if not read_all and following is not None and following.first - 1 <= result.base.index:
            result.covered.append(file)
            continue
        result.segments.append(
            read_segment(disk, result.listing.data, file, result.layout, newest=following is None)
        )
        done += file.size
        progress(done, total)


def _no_records() -> scan.Records:
    return scan.scan_segment(memoryview(b""), lay.DESIGNED, 0)[0]


def read_segment(disk: Disk, data: str, file: SegmentFile, layout: Layout, *, newest: bool) -> Segment:
    """Read one segment; what is wrong with it is in the result."""
    with disk.open(posixpath.join(data, file.name)) as handle:
        view = handle.view(copy=newest)  # only the newest is ever cut
    if newest and _never_written(view, layout.segment_header()):
        return Segment(file, view, _no_records(), lay.SEGMENT_HEADER_SIZE, uninitialised=True)
    marker = bytes(view[:4])
    if len(view) < lay.SEGMENT_HEADER_SIZE or marker != lay.FILE_MARKER:
        return _without_header(file, view, layout)
    version = int.from_bytes(view[4:8], "big", signed=True)
    if version > layout.segment_version:
        message = f"segment version {version} is not known to the {layout.edition} edition"
        damage = scan.Damage(
            "segment-version", message, f"{layout.segment_version} or lower", str(version), unsupported=True
        )
        return Segment(file, view, _no_records(), 4, damage)
    records, stop = scan.scan_segment(view, layout)
    return Segment(file, view, records, stop.offset, scan.judge(view, layout, stop, newest=newest))


def _without_header(file: SegmentFile, view: memoryview, layout: Layout) -> Segment:
    """A file marker that is none. When good records follow to the end, only the header is damaged."""
    damage = scan.Damage(
        "segment-marker", "not a segment of a log", lay.FILE_MARKER.hex(), bytes(view[:4]).hex() or "nothing"
    )
    if len(view) > lay.SEGMENT_HEADER_SIZE:
        records, stop = scan.scan_segment(view, layout)
        if len(records) and stop.good:
            message = "the header is damaged; all records behind it are good"
            return Segment(
                file, view, records, stop.offset, replace(damage, code=HEADER_DAMAGED, message=message)
            )
    return Segment(file, view, _no_records(), 0, damage)


def _never_written(view: memoryview, header: bytes) -> bool:
    """A new segment whose header did not arrive: a beginning of the header, then zeros or the end of the file."""
    written = scan.zeros_from(view, 0)
    if written < len(header):
        return view[:written] == header[:written]
    return _lost_first_sector(view)


def _lost_first_sector(view: memoryview) -> bool:
    # Header and first records are one write; its first sector may be the one that did not arrive.
    return len(view) <= scan.COMMIT_BYTES_MAX and view[: scan.SECTOR_SIZE] == bytes(scan.SECTOR_SIZE)


def _look_at_chain(result: Survey) -> None:
    """Do the segments follow each other, and the snapshot? What a snapshot covers need not."""
    _drop_islands(result)
    _drop_superseded(result)
    segments = result.segments
    for at, segment in enumerate(segments):
        following = segments[at + 1].file if at + 1 < len(segments) else None
        _report_segment(result, segment, following)
        if following is not None:
            _report_seam(result, segment, following)
    if segments and result.first > result.base.index + 1:
        result.findings.append(_log_start(result))
    _report_conflict(result)


def _drop_islands(result: Survey) -> None:
    """Below the snapshot, segments before a gap are leftovers of an unfinished removal."""
    files = [*result.covered, *(segment.file for segment in result.segments)]
    counts = {segment.file.first: len(segment.records) for segment in result.segments}
    keep_from = 0
    for at in range(1, len(files)):
        count = counts.get(files[at - 1].first)
        ends = files[at].first if count is None else files[at - 1].first + count
        if ends < files[at].first <= result.base.index + 1:
            keep_from = at
    gone = {file.first for file in files[:keep_from]}
    result.leftovers += [file.name for file in files[:keep_from]]
    result.covered = [file for file in result.covered if file.first not in gone]
    result.segments = [segment for segment in result.segments if segment.first not in gone]


def _drop_superseded(result: Survey) -> None:
    """A snapshot ahead of the whole log: it was received from another node, and the log is a leftover."""
    tail = result.tail
    if not result.has_snapshot or tail is None or tail.last >= result.base.index:
        return
    if tail.damage is not None and not tail.damage.torn:
        return  # good records may stand behind the damage
    result.leftovers += [file.name for file in result.covered] + [
        segment.file.name for segment in result.segments
    ]
    result.covered = []
    result.segments = []


def _report_segment(result: Survey, segment: Segment, following: SegmentFile | None) -> None:
    damage = segment.damage
    name = segment.file.name
    newest = following is None
    if damage is not None:
        needless = following is not None and following.first - 1 <= result.base.index
        harmless = damage.torn or needless or damage.code == HEADER_DAMAGED
        severity = Severity.REPAIRABLE if harmless else Severity.CORRUPT
        if damage.unsupported:
            severity = Severity.UNSUPPORTED
        code = "torn-tail" if damage.torn else damage.code
        in_header = segment.end < lay.SEGMENT_HEADER_SIZE or damage.code == HEADER_DAMAGED
        message = damage.message if in_header else f"LSN {segment.last + 1}: {damage.message}"
        offset = 0 if damage.code == HEADER_DAMAGED else segment.end
        result.findings.append(Finding(severity, code, message, name, offset, damage.expected, damage.found))
    elif segment.uninitialised and segment.file.size:
        result.findings.append(
            Finding(
                Severity.REPAIRABLE,
                "torn-header",
                "the segment was created and its header did not arrive",
                name,
                0,
            )
        )
    elif newest and segment.stale_bytes:
        result.findings.append(
            Finding(
                Severity.NOTE,
                "stale-bytes",
                "bytes behind the end marker; they do not count",
                name,
                segment.end,
            )
        )
    falls = np.flatnonzero(np.diff(segment.records.term) < 0)
    if len(falls):
        at = int(falls[0]) + 1
        result.findings.append(
            Finding(
                Severity.NOTE,
                "term-falls",
                f"LSN {segment.first + at}: the term is lower than that of the record before",
                name,
                int(segment.records.offset[at]),
                f"{int(segment.records.term[at - 1])} or more",
                str(int(segment.records.term[at])),
            )
        )


def _report_seam(result: Survey, segment: Segment, following: SegmentFile) -> None:
    expected = segment.last + 1
    if following.first == expected or (segment.damage is not None and segment.damage.code != HEADER_DAMAGED):
        return
    if following.first - 1 <= result.base.index:
        return
    if following.first > expected:
        code, message = (
            "segment-gap",
            f"LSN {expected} to {following.first - 1} are missing before this segment",
        )
    else:
        code, message = "segment-overlap", f"LSN {following.first} to {expected - 1} stand in two segments"
    result.findings.append(
        Finding(
            Severity.CORRUPT,
            code,
            message,
            following.name,
            None,
            lay.segment_name(expected),
            posixpath.basename(following.name),
        )
    )


def _log_start(result: Survey) -> Finding:
    after = f"the snapshot ends at LSN {result.base.index}" if result.has_snapshot else "there is no snapshot"
    return Finding(
        Severity.CORRUPT,
        "log-start",
        f"the log begins at LSN {result.first} and {after}: what lies between is missing",
        result.listing.segments[0].name,
        None,
        f"LSN {result.base.index + 1} or lower",
        f"LSN {result.first}",
    )


def _report_conflict(result: Survey) -> None:
    """Raft: an entry that the snapshot covers has the snapshot's term."""
    index = result.base.index
    for segment in result.segments:
        if result.has_snapshot and segment.first <= index <= segment.last:
            at = index - segment.first
            term = int(segment.records.term[at])
            if term != result.base.term:
                result.findings.append(
                    Finding(
                        Severity.CORRUPT,
                        "snapshot-conflict",
                        f"snapshot and log disagree about LSN {index}",
                        segment.file.name,
                        int(segment.records.offset[at]),
                        f"term {result.base.term}",
                        f"term {term}",
                    )
                )
