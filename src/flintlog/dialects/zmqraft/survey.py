"""A look at a peer's directory, which changes nothing: every file is read, and what is wrong with it."""

from __future__ import annotations

import errno
import posixpath
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from flintlog.core.finding import Damage, Finding, Severity, gravest, refuse_grave
from flintlog.core.live import suppress_gone
from flintlog.core.position import check_reached
from flintlog.core.workers import Workers
from flintlog.dialects.zmqraft import layout as lay
from flintlog.dialects.zmqraft import scan
from flintlog.dialects.zmqraft.files import (
    IndexName,
    Listing,
    Stray,
    lacks_entries,
    list_files,
    read_head,
    read_snapshot_file,
    read_strays,
    read_whole,
)
from flintlog.dialects.zmqraft.findings import CODES
from flintlog.dialects.zmqraft.replay import (
    LogRange,
    applied_beyond,
    live_range,
    misplaced,
    missing_files,
    without_begun,
)
from flintlog.dialects.zmqraft.scan import Entries, SnapshotHead, Table
from flintlog.dialects.zmqraft.state import PROPERTIES_OF, Loaded, load_file
from flintlog.disk import Disk, Progress
from flintlog.errors import DamageError, DiskError

NO_SNAPSHOT = SnapshotHead(0, 0, 0, 0)
# What opening does about each finding that a crash can leave.
HEALED_BY_OPENING = {
    code: row.action for code, row in CODES.items() if row.opens and Severity.REPAIRABLE in row.severities
}


# Findings that a writing store may show: unfinished work, or a change between the reading of two files.
PASSING = {*HEALED_BY_OPENING, "log-start", "log-gap", "log-overlap", "index-offsets", "applied-beyond"}
LOOKS_MAX = 5
PAUSE_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class IndexRead:
    """An index file that was read: its table, and the first damage in it."""

    file: IndexName
    table: Table | None  # None: the head cannot be read, or a worker has read the file
    damage: Damage | None
    count: int | None  # how many entries are committed; None when the head cannot be read
    dirty: bool = False  # slots behind the first free one are used
    begun: bool = False  # a crash may have left it so when it was made


@dataclass(slots=True)
class Survey:
    """What the verbs know of a directory."""

    disk: Disk
    path: str
    listing: Listing
    snapshot: SnapshotHead | None = None  # None: it cannot be read
    reads: dict[int, IndexRead] = field(default_factory=dict)
    states: dict[str, Loaded | None] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    misplaced: list[Stray] = field(default_factory=list)  # index files that the log needs, in wrong places
    last_term: int | None = None  # known when all entries were read
    applied: int = 0
    range: LogRange = field(init=False)

    def refuse_damage(self) -> None:
        """Raise the gravest finding, if it would stop a store from opening."""
        refuse_grave(self.findings, self.path)

    def refuse_missing(self, index: int) -> None:
        """Raise for a position at which there is no state."""
        base = self.range.first - 1
        check_reached((index,), (base,), (self.range.last,), unit="index", path=self.path)

    def view(self, name: str, *, newest: bool = False) -> memoryview:
        """The bytes of a file; a copy of the newest index file, which a store may write to."""
        with self.disk.open(posixpath.join(self.path, name)) as file:
            return file.view(copy=newest)

    def view_of_passing(self, name: str) -> memoryview | None:
        """The same of a file that a store may remove meanwhile; then it does not count."""
        try:
            return self.view(name)
        except DiskError as error:
            if error.errno != errno.ENOENT:
                raise
            return None

    def count_of(self, first: int) -> int:
        """The number of entries of a file; an unreadable one counts as reaching up to the next."""
        count = self.reads[first].count
        if count is not None:
            return count
        return min((later for later in self.reads if later > first), default=first + 1) - first

    def is_unused(self, first: int) -> bool:
        """Is every slot of a file free?"""
        return self.reads[first].count == 0 and not self.reads[first].dirty

    def term_of(self, first: int, index: int) -> int:
        """The term of an entry; the snapshot's if it cannot be read, so that they never seem to differ."""
        read = self.reads[first]
        if read.count is not None and index < first + read.count:
            at = index - first
            view = self.view_of_passing(read.file.name) or memoryview(b"")
            table = read.table or scan.read_table(view, first)
            if isinstance(table, Table):
                entries, _ = scan.read_entries(view, table, at, at + 1)
                if len(entries):
                    return int(entries.term[0])
        return self.snapshot.term if self.snapshot else 0


@dataclass(frozen=True, slots=True)
class Descent:
    """An entry whose term is lower than that of the one before it."""

    index: int
    term: int
    offset: int


@dataclass(frozen=True, slots=True)
class Glance:
    """What an index file says, as a task returns it, without its table."""

    table: Table | None
    count: int | None
    damage: Damage | None
    closing: bool = False
    dirty: bool = False
    begun: bool = False
    first: Descent | None = None  # the first entry, if all were read
    lower: Descent | None = None  # the first entry in the file with a lower term than the one before
    last_term: int | None = None
    short: tuple[int, int] | None = None  # index and offset of the first entry without a head


@dataclass(frozen=True, slots=True)
class Reading:
    """An index file to read, as a task gets it."""

    disk: Disk
    path: str
    file: IndexName
    newest: bool
    read_all: bool


Reader = Callable[[Sequence[Reading]], Iterator[Glance | None]]


def read_index_file(item: Reading) -> Glance | None:
    """Read an index file; None when it is gone."""
    found: list[Glance] = []
    with suppress_gone(), item.disk.open(posixpath.join(item.path, item.file.name)) as handle:
        view, table = read_head(handle, item.file.first, copy=item.newest, newest=item.newest)
        if item.read_all or lacks_entries(view, table):
            view, table = read_whole(handle, item.file.first, copy=item.newest, newest=item.newest)
        glance = _glance(view, table, item.read_all)
        found.append(replace(glance, begun=item.newest and scan.is_begun(view, item.file.first)))
    return found[0] if found else None


def _glance(view: memoryview, table: Table | Damage, read_all: bool) -> Glance:
    if isinstance(table, Damage):
        return Glance(None, None, table)
    closing = scan.is_closing(view, table.capacity)
    if not read_all and not lacks_entries(view, table):
        return Glance(table, len(table.ends), None, closing, table.dirty)
    found, damage = scan.read_entries(view, table)
    entries, short = found[found.has_head], found[~found.has_head]
    lower = np.flatnonzero(np.diff(entries.term) < 0)
    return Glance(
        table,
        len(table.ends),
        damage,
        closing,
        table.dirty,
        False,
        _descent(entries, 0) if len(entries) else None,
        _descent(entries, int(lower[0]) + 1) if len(lower) else None,
        int(entries.term[-1]) if len(entries) else None,
        (int(short.index[0]), int(short.offset[0])) if len(short) else None,
    )


def glance(item: Reading) -> Glance | None:
    """The same without the table, for a task."""
    found = read_index_file(item)
    return None if found is None else replace(found, table=None)


def _descent(entries: Entries, at: int) -> Descent:
    return Descent(int(entries.index[at]), int(entries.term[at]), int(entries.offset[at]) + lay.TERM_OFFSET)


def survey(
    disk: Disk,
    path: str,
    *,
    read_all: bool = False,
    progress: Progress | None = None,
    reader: Reader | None = None,
    placed: Sequence[Stray] = (),
) -> Survey:
    """Look at every file: heads and sizes, or with `read_all` every entry. A `reader` reads the index files.

    `placed` are misplaced index files to count as if they were in their places.
    """
    applied = _read_applied(disk, path)  # before the log, which a store may append to or cut meanwhile
    found = Survey(disk, path, _with(list_files(disk, path), placed))
    _read_index_files(found, read_all, progress or disk.progress, reader or partial(map, read_index_file))
    _read_snapshot(found)
    for name in (lay.RAFT_STATE_FILE, lay.APPLIED_STATE_FILE):
        _read_state(found, name)
    state = found.states.get(lay.APPLIED_STATE_FILE)
    found.applied = min(applied, state.values["lastApplied"]) if state else 0
    _find_range(found)
    _compare_states(found)
    _find_misplaced(found)
    return found


def _with(listing: Listing, placed: Sequence[Stray]) -> Listing:
    files = {file.first: file for file in listing.index_files}
    files |= {stray.first: IndexName(stray.name, stray.first, stray.size) for stray in placed}
    names = {stray.name for stray in placed}
    return replace(
        listing,
        index_files=tuple(files[first] for first in sorted(files)),
        strays=tuple(name for name in listing.strays if name not in names),
        foreign=tuple(name for name in listing.foreign if name not in names),
    )


def _find_misplaced(found: Survey) -> None:
    """Put misplaced index files that the log needs first: other findings may follow from them."""
    for stray in read_strays(found.disk, found.path, found.listing.strays):
        read = found.reads.get(stray.first)
        taken = read is not None and stray.first not in found.range.empty and read.count != 0
        if not taken and found.range.needs(stray.first, stray.count):
            found.misplaced.append(stray)
    found.findings[:0] = [misplaced(stray.name, stray.first) for stray in found.misplaced]


def steady_survey(disk: Disk, path: str, *, read_all: bool = False, reader: Reader | None = None) -> Survey:
    """A survey that looks again some times when it sees unfinished work of a store, or a file goes away."""
    for left in reversed(range(LOOKS_MAX)):
        try:
            found = survey(disk, path, read_all=read_all, reader=reader)
        except DiskError as error:
            if error.errno != errno.ENOENT or not left:
                raise
        else:
            worst = gravest(found.findings)
            if not left or worst is None or worst.severity is Severity.NOTE or worst.code not in PASSING:
                return found
        disk.pause(PAUSE_SECONDS)
    raise AssertionError  # the last look returns or raises


def _read_applied(disk: Disk, path: str) -> int:
    place = posixpath.join(path, lay.APPLIED_STATE_FILE)
    with suppress(DamageError), suppress_gone(), disk.open(place) as file:
        return int(load_file(file, PROPERTIES_OF[lay.APPLIED_STATE_FILE]).values["lastApplied"])
    return 0


def _read_index_files(found: Survey, read_all: bool, progress: Progress, reader: Reader) -> None:
    files = found.listing.index_files
    total = sum(file.size for file in files)
    done = 0
    items = [Reading(found.disk, found.path, file, file is files[-1], read_all) for file in files]
    for file, read in zip(files, reader(items), strict=True):
        if read is not None:
            found.reads[file.first] = IndexRead(
                file, read.table, read.damage, read.count, read.dirty, read.begun
            )
            _note_glance(found, file, read)
        done += file.size
        progress(done, total)


def _note_glance(found: Survey, file: IndexName, read: Glance) -> None:
    if read.closing:
        message = "the file was being closed early; opening finishes it"
        found.findings.append(CODES.finding("unfinished-close", message, file.name, 12))
    if read.dirty:
        message = (
            "slots behind the first free one are used: a rollback or an append that did not fully arrive"
        )
        found.findings.append(CODES.finding("index-dirty", message, file.name, lay.TABLE_OFFSET))
    if read.short is not None:
        message = f"index {read.short[0]}: the entry is shorter than a head; it has no term, and is all data"
        found.findings.append(CODES.finding("entry-short", message, file.name, read.short[1]))
    if read.first is None:
        return
    # Terms never descend in the log of a Raft peer; the format itself allows it.
    before = found.last_term if found.last_term is not None else 0
    lower = read.first if read.first.term < before else read.lower
    found.last_term = read.last_term
    if lower is not None:
        message = f"index {lower.index}: term {lower.term} follows a higher one"
        found.findings.append(CODES.finding("term-falls", message, file.name, lower.offset))


def _read_snapshot(found: Survey) -> None:
    name = found.listing.snapshot
    if name not in found.listing.sizes:
        found.snapshot = NO_SNAPSHOT
        return
    try:
        found.snapshot = read_snapshot_file(found.disk, found.path, name)
    except DamageError as error:
        found.findings.append(CODES.of(error))


def substitute(found: Survey) -> str | None:
    """What can replace a lost snapshot before this log: a predecessor's name, "" for an empty snapshot, or None."""
    first = min(found.reads, default=None)
    if first is None:
        return None
    names = [name for name in found.listing.history if lay.is_predecessor(name, found.listing.snapshot)]
    return next((name for name in sorted(names, reverse=True) if _precedes(found, name, first)), None) or (
        "" if first <= 1 else None
    )


def _precedes(found: Survey, name: str, first: int) -> bool:
    """Is this a snapshot from which the log goes on?"""
    try:
        head = read_snapshot_file(found.disk, found.path, name)
    except DamageError:
        return False
    if head.index < first:
        return head.index == first - 1
    holder = max(file for file in found.reads if file <= head.index)
    count = found.reads[holder].count
    return (
        count is not None and head.index < holder + count and found.term_of(holder, head.index) == head.term
    )


def _find_range(found: Survey) -> None:
    firsts = list(found.reads)
    snapshot = found.snapshot or SnapshotHead(min(firsts, default=1) - 1, 0, 0, 0)
    found.range = _range_of(found, firsts, snapshot)
    found.findings += found.range.findings
    found.findings += missing_files(
        found.listing.sizes,
        found.listing.history,
        snapshot.index,
        has_log=bool(firsts),
        snapshot=found.listing.snapshot,
    )
    for at, first in enumerate(firsts):
        damage = found.reads[first].damage
        if damage is None or first in found.range.empty:
            continue
        finding = CODES.of(damage, found.reads[first].file.name)
        covered = found.range.superseded or (at + 1 < len(firsts) and firsts[at + 1] <= snapshot.index + 1)
        if covered and found.snapshot is not None:
            message = f"{finding.message}; the snapshot covers the file"
            finding = replace(finding, severity=Severity.REPAIRABLE, message=message)
        found.findings.append(finding)


def _range_of(found: Survey, firsts: list[int], snapshot: SnapshotHead) -> LogRange:
    def judge(firsts: list[int]) -> LogRange:
        return live_range(
            firsts,
            snapshot,
            found.count_of,
            found.term_of,
            found.is_unused,
            found.listing.superseded_by,
            end_is_known=not firsts or found.reads[firsts[-1]].count is not None,
        )

    if firsts and found.reads[firsts[-1]].begun and found.snapshot is not None:
        without = without_begun(judge(firsts[:-1]), firsts[-1], found.applied)
        if without is not None:
            return without
    return judge(firsts)


def _read_state(found: Survey, name: str) -> None:
    if name not in found.listing.sizes:
        return
    try:
        with found.disk.open(posixpath.join(found.path, name)) as file:
            loaded = load_file(file, PROPERTIES_OF[name])
    except DamageError as error:
        found.states[name] = None
        found.findings.append(CODES.of(error))
        return
    found.states[name] = loaded
    found.findings += loaded.findings


def _compare_states(found: Survey) -> None:
    """Compare the state files with the log. A term below the log's is a note: appending does not ask for a term."""
    raft = found.states.get(lay.RAFT_STATE_FILE)
    if raft is not None and found.last_term is not None and raft.values["currentTerm"] < found.last_term:
        message = f"term {raft.values['currentTerm']} is below the log's last term {found.last_term}"
        found.findings.append(CODES.finding("term-behind", message, lay.RAFT_STATE_FILE))
    files = found.range.files
    if (found.reads or found.snapshot is not None) and (
        not files or found.reads[files[-1]].count is not None
    ):
        beyond = applied_beyond(found.applied, found.range.last)
        found.findings += [beyond] if beyond is not None else []


def checked_survey(disk: Disk, path: str, workers: Workers | None) -> Survey:
    """A survey for code that will remove files; workers, if given, read every entry of the rest."""
    if workers is None:
        found = steady_survey(disk, path)
    else:
        found = steady_survey(disk, path, read_all=True, reader=partial(workers.map, glance))
    found.refuse_damage()
    return found
