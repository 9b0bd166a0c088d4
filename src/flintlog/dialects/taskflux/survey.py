"""How the files of a directory fit together: order, gaps, leftovers, damage. Reads only.

`survey` looks at a directory once and finds all that opening, verifying and repairing need to know:
which layout, which metadata, which snapshot, which segments form the log, where it ends, and what is wrong.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import zip_longest

from flintlog.core.finding import Finding
from flintlog.core.position import check_reached, span
from flintlog.dialects.taskflux import layout as lay
from flintlog.dialects.taskflux.files import (
    HEADER_DAMAGED,
    METADATA_SIZE_MAX,
    Listing,
    Segment,
    SegmentFile,
    detect_layout,
    finding_in,
    list_files,
    read_metadata,
    read_segment,
    read_snapshot,
    snapshot_index,
)
from flintlog.dialects.taskflux.findings import CODES
from flintlog.dialects.taskflux.layout import Layout, Metadata
from flintlog.dialects.taskflux.replay import replay
from flintlog.dialects.taskflux.state import Base, Source, State
from flintlog.disk import Disk
from flintlog.errors import DamageError


@dataclass(slots=True)
class Survey:
    """All that opening, verifying and repairing need to know of a directory, with its entries."""

    listing: Listing
    layout: Layout
    metadata: Metadata | None = None  # None: empty or missing; opening writes it
    base: Base = field(default_factory=Base)
    has_snapshot: bool = False
    claimed_index: int = -1  # the index in the header of the snapshot, also when the rest is damaged
    segments: list[Segment] = field(default_factory=list)  # those of the log that were read, in order
    # Segments of the log wholly below the snapshot, which were not read.
    covered: list[SegmentFile] = field(default_factory=list)
    leftovers: list[str] = field(default_factory=list)  # may be unlinked: no recovery can need them
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
        tail = next((segment for segment in reversed(self.segments) if segment.last_term is not None), None)
        if tail is None or tail.last_term is None or tail.last <= self.base.index:
            return self.base.term
        return tail.last_term

    @property
    def tail(self) -> Segment | None:
        return self.segments[-1] if self.segments else None

    @property
    def next_term(self) -> int:
        """The term of a node that lost its metadata: it may have voted in that of its last entry."""
        return self.last_term + 1 if self.last >= 0 else lay.TERM_FIRST

    def refuse_damage(self) -> None:
        """Raise for the first finding that opening must not pass over."""
        for finding in self.findings:
            if finding.is_grave or finding.code == HEADER_DAMAGED:
                raise finding.error(self.listing.data)

    def refuse_missing(self, lsn: int) -> None:
        """Raise for a position whose state cannot be built."""
        first = max(self.base.index, 0)
        check_reached((lsn,), (first,), (self.last,), unit="LSN", path=self.listing.data)

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
        """The state after the last entry, or after `as_of`; raises, with its place, for an entry that fits no state."""
        if as_of is not None:
            self.refuse_missing(as_of)
        try:
            return self.replayed(as_of)
        except DamageError as error:
            raise CODES.of(error).error(self.listing.data) from None

    def replayed(self, as_of: int | None = None) -> State:
        """The same for code that turns the error into a finding: its place is relative to the directory."""
        return replay(self.base, self.sources(as_of), self.layout)


LOG_EMPTIED = "log-emptied"
# A damaged snapshot that opening puts aside, because the log has all of it.
SNAPSHOT_UNUSABLE = "snapshot-unusable"

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
    _look_at_segments(disk, result, read_all, progress or disk.progress)
    _look_at_chain(result)
    _report_metadata(result)
    if snapshot_damage is not None:
        _judge_snapshot(result, snapshot_damage)
    return result


def _look_at_metadata(disk: Disk, result: Survey) -> None:
    if not result.listing.metadata_size:
        return  # `_report_metadata` judges a missing one after the log is read
    raw = disk.read(posixpath.join(result.listing.data, lay.METADATA_FILE), METADATA_SIZE_MAX)
    try:
        result.metadata = read_metadata(raw, result.layout)
    except DamageError as error:
        result.findings.append(CODES.of(error))


def _look_at_snapshot(disk: Disk, result: Survey) -> DamageError | None:
    if not result.listing.snapshot_size:
        return None
    with disk.open(posixpath.join(result.listing.data, lay.SNAPSHOT_FILE)) as file:
        view = file.view()  # a snapshot is replaced by a rename, never cut
    result.claimed_index = snapshot_index(view, result.layout)
    try:
        result.base = read_snapshot(view, result.layout)
    except DamageError as error:
        return error
    result.has_snapshot = result.base.index >= 0
    return None


def _report_metadata(result: Survey) -> None:
    """Report entries without metadata: metadata comes first, so the node has lost its vote."""
    if result.metadata is None and not result.listing.metadata_size and result.last >= 0:
        result.findings.append(
            CODES.finding(
                "metadata-missing",
                "there are entries, and the term and the vote of this node are gone",
                lay.METADATA_FILE,
            )
        )


def _judge_snapshot(result: Survey, error: DamageError) -> None:
    """A damaged snapshot costs nothing while the whole log is still there, up to the snapshot's index and beyond."""
    complete = result.first == 0 and bool(result.segments) and -1 < result.claimed_index <= result.last
    if complete:
        error.code = SNAPSHOT_UNUSABLE
        error.message = f"{error.message}; the log still holds everything from LSN 0 on"
    # Without this snapshot the log has a gap at its head; report only the cause.
    result.findings[:] = [CODES.of(error)] + [item for item in result.findings if item.code != "log-start"]


def _look_at_segments(disk: Disk, result: Survey, read_all: bool, progress: Look) -> None:
    files = result.listing.segments
    total = sum(file.size for file in files)
    done = 0
    for file, following in zip_longest(files, files[1:]):
        if not read_all and following is not None and following.first - 1 <= result.base.index:
            result.covered.append(file)
            continue
        newest = following is None
        result.segments.append(read_segment(disk, result.listing.data, file, result.layout, newest=newest))
        done += file.size
        progress(done, total)


def _look_at_chain(result: Survey) -> None:
    """Report segments that do not follow each other or the snapshot. Segments that the snapshot covers need not."""
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
    _report_emptied(result)


def _drop_islands(result: Survey) -> None:
    """Take segments before a gap below the snapshot as leftovers of an unfinished removal."""
    files = [*result.covered, *(segment.file for segment in result.segments)]
    counts = {
        segment.first: segment.last - segment.first + 1
        for segment in result.segments
        if segment.damage is None and not segment.uninitialised
    }
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
    """When the snapshot is ahead of the whole log, it came from another node, and the log is a leftover."""
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
    needless = following is not None and following.first - 1 <= result.base.index
    finding = finding_in(segment, newest=following is None)
    if finding is not None:
        result.findings.append(finding.lowered() if needless else finding)
    if (fall := segment.fall) is not None:
        result.findings.append(
            CODES.finding(
                "term-falls",
                f"LSN {segment.first + fall.place}: the term is lower than that of the record before",
                segment.file.name,
                fall.offset,
                f"{fall.before} or more",
                str(fall.term),
            )
        )


def _report_seam(result: Survey, segment: Segment, following: SegmentFile) -> None:
    expected = segment.last + 1
    if following.first == expected or (segment.damage is not None and segment.damage.code != HEADER_DAMAGED):
        return
    if following.first - 1 <= result.base.index:
        return
    if following.first > expected:
        missing = span(expected, following.first - 1)
        code, message = "log-gap", f"missing before this segment: LSN {missing}"
    else:
        code, message = "log-overlap", f"in two segments: LSN {span(following.first, expected - 1)}"
    result.findings.append(
        CODES.finding(
            code,
            message,
            following.name,
            None,
            lay.segment_name(expected),
            posixpath.basename(following.name),
        )
    )


def _report_emptied(result: Survey) -> None:
    """Report a designed log without segments, or whose only segment was emptied.

    A store writes its first segment before its metadata, so there is always one. The original does it the other way
    round, so that its directories may lack one.
    """
    if result.layout is not lay.DESIGNED or not (result.listing.metadata_size or result.has_snapshot):
        return
    files = result.listing.segments
    if not files:
        message, name = "the log is gone: there is not one segment", f"{lay.LOG_DIRECTORY}/"
    elif len(files) == 1 and result.segments and result.segments[0].uninitialised:
        message, name = "the only segment of the log was emptied", files[0].name
    else:
        return
    result.findings[:] = [item for item in result.findings if item.file != name]
    result.findings.append(CODES.finding(LOG_EMPTIED, message, name, 0 if files else None))


def _log_start(result: Survey) -> Finding:
    after = f"the snapshot ends at LSN {result.base.index}" if result.has_snapshot else "there is no snapshot"
    return CODES.finding(
        "log-start",
        f"the log begins at LSN {result.first} and {after}: what lies between is missing",
        result.listing.segments[0].name,
        None,
        f"LSN {result.base.index + 1} or lower",
        f"LSN {result.first}",
    )


def _report_conflict(result: Survey) -> None:
    """Report an entry at the snapshot's index with another term: in Raft both must be the same."""
    index = result.base.index
    for segment in result.segments:
        if result.has_snapshot and segment.first <= index <= segment.last:
            term, offset = segment.term_at(index)
            if term != result.base.term:
                result.findings.append(
                    CODES.finding(
                        "snapshot-conflict",
                        f"snapshot and log disagree about LSN {index}",
                        segment.file.name,
                        offset,
                        f"term {result.base.term}",
                        f"term {term}",
                    )
                )
