"""A look at a log directory, which changes nothing: what counts, what does not, and what is wrong.

A survey has all that opening needs: the version and the edition, the durable epoch, the catalog that holds,
the compacted files below, the logs above with their snippets, and which bytes an opening store cuts or marks.

*Recovery.* The state is made of

1. the *base*: the compacted files that the catalog names. In the shipped edition also a compacted file that the catalog
   does not name, because a crash came before the catalog was written, or the previous compacted file when there is no
   other,
2. on top of it, from every log, the snippets above the catalog's maximum epoch up to the durable one. The highest
   write version of a key counts; every entry of a log beats one of the base.

Shipped: a log that the catalog does not list, with snippets that the maximum epoch should cover, was left out by a
compaction (the original does that to channels which a later process did not open, and after a migration). Then the
maximum epoch says nothing, and all snippets of all logs count, by their versions. A log that our own compaction does
not list, because a session was open in it, has its covered snippets marked as invalid: it is not left out.
"""

from __future__ import annotations

import errno
import posixpath
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import wait
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from flintlog.core.finding import Finding, Severity, refuse_grave
from flintlog.core.live import ChangedError
from flintlog.core.position import check_reached
from flintlog.core.workers import threads, threads_for
from flintlog.dialects.limestone import base, epochs, scan
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone.files import Listing, LogFile, list_files
from flintlog.dialects.limestone.findings import CODES
from flintlog.dialects.limestone.judge import Tail, find_durable, judge
from flintlog.dialects.limestone.layout import Catalog, Edition, IncompleteCatalogError, Manifest
from flintlog.dialects.limestone.scan import Snippets, Walk
from flintlog.disk import Disk, Progress
from flintlog.errors import DamageError, DiskError, RefusedError

_TELL_SECONDS = 0.1
_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class LogRead:
    """A log that was walked: its snippets, and the bytes at its end that cannot be read."""

    file: LogFile
    walk: Walk
    tail: Tail | None
    listed: bool  # a compaction has taken it in, by its name in the catalog or by its first epoch
    covered: bool = False  # the damage in the tail costs nothing: the compacted files hold what the log held

    @property
    def snippets(self) -> Snippets:
        return self.walk.snippets

    def counted(self, low: int, high: int) -> Snippets:
        """The snippets that count, with an epoch above `low` and up to `high`."""
        return counted(self.snippets, low, high)

    def reaches_above(self, epoch: int) -> bool:
        """Is there any snippet, counted or not, with a higher epoch?"""
        return bool(len(self.snippets)) and int(self.snippets.epoch.max()) > epoch

    def pending(self, durable: int) -> Snippets:
        """The snippets above the durable epoch that are not invalidated yet: a store does it when it opens."""
        found = self.snippets
        return found[(found.kind == lay.BEGIN) & (found.epoch > np.uint64(durable))]


def counted(found: Snippets, low: int, high: int) -> Snippets:
    """The snippets that are not invalidated, with an epoch above `low` and up to `high`."""
    keep = (found.kind == lay.BEGIN) & (found.epoch <= np.uint64(high))
    if low >= 0:
        keep &= found.epoch > np.uint64(low)
    return found if keep.all() else found[keep]


@dataclass(slots=True)
class Survey:
    """What opening and the verbs know of a directory."""

    disk: Disk
    path: str
    alone: bool = False  # the lock is held and no session is open: nothing cuts a log
    listing: Listing = field(default_factory=Listing)
    manifest: Manifest | None = None
    manifest_name: str | None = None  # the file that holds
    edition: Edition = "designed"
    catalog: Catalog = field(default_factory=Catalog)
    catalog_name: str | None = None  # the file that holds; None: there is none
    unfinished: Catalog | None = None  # a new one whose switch is not done: the old one holds
    durable: int = 0  # by the epoch files
    witness: int = 0  # an epoch that was durable, from `data/durable`
    reach: int = 0  # the epoch that judges the logs: the durable one; where that is lost, see `epochs.py`
    base: tuple[str, ...] = ()
    base_walks: dict[str, Walk] = field(default_factory=dict)
    logs: list[LogRead] = field(default_factory=list)
    all_history: bool = False  # a compaction left a log out: the maximum epoch says nothing
    findings: list[Finding] = field(default_factory=list)

    @property
    def sizes(self) -> dict[str, int]:
        """The files to walk, with their sizes when they were listed."""
        there = {**self.listing.compacted, lay.COMPACTED_PREVIOUS: self.listing.previous or 0}
        return {name: there[name] for name in self.base} | {log.name: log.size for log in self.listing.logs}

    @property
    def size(self) -> int:
        return sum(self.sizes.values())

    @property
    def low(self) -> int:
        """Snippets up to this epoch are in the base; -1: none are."""
        return self.catalog.max_epoch if self.catalog.compacted else -1

    @property
    def last_epoch(self) -> int:
        """The largest epoch in the directory; the next session gets this one or a higher one."""
        return max([self.durable, *(int(log.snippets.epoch.max()) for log in self.logs if len(log.snippets))])

    def greatest(self, epoch: int) -> int:
        """The greatest epoch, up to this one, of a session in the state."""
        counted = (read.counted(self.low, epoch).epoch for read in self.logs)
        return max([0, min(self.low, self.durable), *(int(some.max()) for some in counted if len(some))])

    @property
    def end_markers(self) -> bool:
        """Do snippets of this version end with a marker?"""
        return self.manifest is None or self.manifest.version >= lay.VERSION_OF_END_MARKERS

    @property
    def has_lost_epochs(self) -> bool:
        """Are there sessions of which no file says whether they are durable?"""
        return any(finding.code in epochs.LOST for finding in self.findings)

    def refuse_damage(self) -> None:
        """Raise the gravest finding, if it stops a store from opening."""
        refuse_grave(self.findings, self.path)

    def refuse_missing(self, epoch: int) -> None:
        """Raise for an epoch without a state: it is not durable, or compacted files hold a later one."""
        low = max(self.low, 0)
        check_reached((epoch,), (low,), (max(low, self.durable),), unit="epoch", path=self.path)

    def refuse_forgetting(self) -> None:
        """Raise when no epoch file says what is durable: a store that opens would forget all sessions."""
        missing = next((finding for finding in self.findings if finding.code == "epoch-missing"), None)
        if missing is not None and any(len(log.pending(self.durable)) for log in self.logs):
            raise RefusedError(
                missing.message,
                file=self.place(lay.EPOCH_FILE),
                advice=f"Nothing was changed; `flintlog repair {self.path}` counts every session that is whole",
            )

    def place(self, name: str) -> str:
        """Where a file of the directory stands."""
        return posixpath.join(self.path, name)

    def view(self, name: str, *, active: bool = False, begin: int = 0, end: int | None = None) -> memoryview:
        """The bytes of a file, or of a range of it; an active log is copied, because a store may cut it."""
        place = self.place(name)
        try:
            with self.disk.open(place) as file:
                return file.view(copy=active and not self.alone, begin=begin, end=end)
        except DiskError as error:
            if error.errno != errno.ENOENT:
                raise
            raise ChangedError(
                "this file was removed or renamed while the directory was read",
                file=place,
                advice="Read the directory again",
            ) from error


Walker = Callable[
    [Survey, Sequence[str]], Iterator[Walk]
]  # how the files are walked, in the order of the names


def survey(
    disk: Disk,
    path: str,
    *,
    walk: bool = True,
    progress: Progress | None = None,
    walker: Walker | None = None,
    assumed: Manifest | None = None,
    alone: bool = False,
) -> Survey:
    """Look at every file; with `walk=False` at all but the logs and the compacted files.

    Looks again at a directory that changes meanwhile. An `assumed` manifest stands in for a damaged one.
    `alone` says that nothing cuts a log meanwhile.
    """
    progress = progress or disk.progress
    walker = (walker or partial(_walks, progress=progress)) if walk else None
    for attempt in range(_ATTEMPTS):
        catalogs = _catalog_bytes(disk, path)
        try:
            found = _survey(Survey(disk, path, alone), catalogs, progress, walker, assumed)
        except ChangedError:
            if attempt + 1 == _ATTEMPTS:
                raise
            continue
        if _catalog_bytes(disk, path) == catalogs and not _has_rotated(found):
            return found
    raise ChangedError("the directory changes faster than it can be read", file=path, advice="Try again")


def _has_rotated(found: Survey) -> bool:
    """Was a log rotated since the names were listed? Then another file was read under its old name."""
    known = {log.name for log in found.listing.logs}
    return any(lay.ROTATED_NAME.fullmatch(name) and name not in known for name in found.disk.list(found.path))


def _survey(
    found: Survey,
    catalogs: dict[str, bytes],
    progress: Progress,
    walker: Walker | None,
    assumed: Manifest | None,
) -> Survey:
    disk, path = found.disk, found.path
    before = list_files(disk, path)
    # The epoch first: what is durable now is already in the logs, which are listed next.
    # And its witness before that: it is never ahead of the epoch file.
    found.witness = epochs.read_witness(disk, path)
    epochs.read_durable(found, before)
    found.listing = list_files(disk, path)
    if found.listing.epochs.keys() != before.epochs.keys():
        # The file read as the newest may be the empty one behind it.
        raise ChangedError(
            "an epoch file was rotated while it was read", file=path, advice="Read the directory again"
        )
    _read_manifest(found, catalogs, assumed)
    if found.manifest is None or not lay.VERSION_MIN <= found.manifest.version <= lay.VERSION_MAX:
        return found
    _read_catalog(found, catalogs)
    base.find_base(found)
    if walker is not None:
        _walk_all(found, progress, walker)
        epochs.judge_epochs(found)
        for at, read in enumerate(found.logs):
            found.logs[at] = _judge_tail(found, read)
        _judge_logs(found)
    return found


def _catalog_bytes(disk: Disk, path: str) -> dict[str, bytes]:
    found = {}
    for name in (lay.CATALOG_FILE, lay.CATALOG_BACK):
        place = posixpath.join(path, name)
        stat = disk.stat(place)
        if stat is None or stat.is_directory:
            continue
        try:
            found[name] = disk.read(place, lay.CATALOG_SIZE_MAX)
        except DiskError as error:
            if error.errno != errno.ENOENT:
                raise
    return found


# --- manifest, catalog -------------------------------------------------------------------------------------------


def _read_manifest(found: Survey, catalogs: dict[str, bytes], assumed: Manifest | None) -> None:
    read: dict[str, Manifest | DamageError] = {}
    for name in found.listing.manifests:
        raw = found.disk.read(found.place(name), lay.MANIFEST_SIZE_MAX)
        try:
            read[name] = lay.decode_manifest(raw, name)
        except DamageError as error:
            read[name] = error
    main, back = read.get(lay.MANIFEST_FILE), read.get(lay.MANIFEST_BACK)
    # Up to version 2 an upgrade renames the old manifest to .back, which holds until it is gone. Later versions
    # write the new one there first.
    renamed = isinstance(main, Manifest) and main.version <= lay.VERSION_OF["designed"]
    if isinstance(back, Manifest) and (not isinstance(main, Manifest) or renamed):
        found.manifest, found.manifest_name = back, lay.MANIFEST_BACK
        message = "a change of the manifest was not finished; the one before it holds"
        found.findings.append(CODES.finding("manifest-back", message, lay.MANIFEST_FILE))
    elif isinstance(main, Manifest):
        found.manifest, found.manifest_name = main, lay.MANIFEST_FILE
    elif main is not None:
        found.findings.append(CODES.of(main))
        if assumed is None:
            return
        found.manifest, found.manifest_name = assumed, lay.MANIFEST_FILE
    else:
        message = "there is no manifest: this would be version 0, from before manifests"
        found.findings.append(
            CODES.finding("manifest-missing", message, lay.MANIFEST_FILE, None, "1 to 7", "none")
        )
        return
    version = found.manifest.version
    if not lay.VERSION_MIN <= version <= lay.VERSION_MAX:
        message = f"version {version} is not known"
        found.findings.append(
            CODES.finding("manifest-version", message, found.manifest_name, 0, "1 to 7", str(version))
        )
    found.edition = _edition(version, catalogs)
    if found.edition == "designed":
        _take_as_logs(found.listing)


def _edition(version: int, catalogs: dict[str, bytes]) -> Edition:
    """Versions 1 and 2 are the note's. A catalog, whole or torn, that names the program's compacted file shows the
    program's own version 2."""
    if version > lay.VERSION_OF["designed"]:
        return "shipped"
    named = any(lay.COMPACTED_FILE.encode() in raw for raw in catalogs.values())
    return "shipped" if version == lay.VERSION_OF["designed"] and named else "designed"


def _take_as_logs(listing: Listing) -> None:
    """The compacted file of version 1 is a log like any other, the oldest of its channel; opening renames it to one."""
    old = {
        lay.COMPACTED_PREVIOUS: listing.previous,
        lay.COMPACTED_FILE: listing.compacted.pop(lay.COMPACTED_FILE, None),
    }
    listing.previous = None
    listing.logs += [
        LogFile(name, size, 0, 0, at) for at, (name, size) in enumerate(old.items()) if size is not None
    ]
    listing.logs.sort(key=lambda log: log.order)


def _read_catalog(found: Survey, raw: dict[str, bytes]) -> None:
    read: dict[str, Catalog | DamageError] = {}
    for name, content in raw.items():
        try:
            read[name] = lay.decode_catalog(content, name)
        except DamageError as error:
            read[name] = error
    main, back = read.get(lay.CATALOG_FILE), read.get(lay.CATALOG_BACK)
    names = [lay.CATALOG_FILE, lay.CATALOG_BACK]
    if found.edition == "designed" and back is not None:
        names.reverse()  # while .back is there the switch to the new catalog has not happened
    for name in names:
        catalog = read.get(name)
        if isinstance(catalog, Catalog):
            found.catalog, found.catalog_name = catalog, name
            found.unfinished = main if name == lay.CATALOG_BACK and isinstance(main, Catalog) else None
            break
        if catalog is not None and not isinstance(catalog, IncompleteCatalogError):
            found.findings.append(CODES.of(catalog))
            return
    _note_catalog(found, main, back)
    for name, version in found.catalog.compacted.items():
        if version != lay.COMPACTED_VERSION:
            message = f"version {version} of compacted files is not known"
            found.findings.append(
                CODES.finding("catalog-version", message, found.catalog_name, None, "1", name)
            )


def _note_catalog(
    found: Survey, main: Catalog | DamageError | None, back: Catalog | DamageError | None
) -> None:
    if found.catalog_name == lay.CATALOG_BACK:
        message = "a compaction did not finish its switch of catalogs; the one before it holds"
        found.findings.append(CODES.finding("catalog-back", message, lay.CATALOG_FILE))
    elif isinstance(main, DamageError) and found.catalog_name is None and not _needs_catalog(found):
        found.findings.append(CODES.of(main))
    if found.catalog_name is None and _needs_catalog(found):
        names = ", ".join(sorted(found.listing.compacted))
        message = "there is no whole catalog to say which compacted files count"
        found.findings.append(
            CODES.finding("catalog-lost", message, lay.CATALOG_FILE, None, "a catalog", names)
        )


def _needs_catalog(found: Survey) -> bool:
    """Only a catalog says which of several compacted files count. The shipped edition has one, known by its name."""
    return found.edition == "designed" and any(map(lay.CMPCT_NAME.fullmatch, found.listing.compacted))


# --- base and logs -----------------------------------------------------------------------------------------------


def _walk_all(found: Survey, progress: Progress, walker: Walker) -> None:
    logs = {log.name: log for log in found.listing.logs}
    sizes = found.sizes
    names = [*found.base, *logs]
    total = found.size
    done = 0
    for name, walk in zip(names, walker(found, names), strict=True):
        if name in logs:
            listed = name in found.catalog.detached or _begins_below(found, walk.snippets)
            found.logs.append(LogRead(logs[name], walk, None, listed))
        else:
            found.base_walks[name] = walk
            base.judge_base(found, name, walk)
        done += sizes[name]
        progress(done, max(total, done))


def _walks(found: Survey, names: Sequence[str], progress: Progress) -> Iterator[Walk]:
    """Walk the files in threads of this process, and report progress inside large ones."""
    active = {log.name: log.active for log in found.listing.logs}
    done = 0
    workers = threads_for(found.size)
    with threads(workers) as pool:
        for begin in range(0, len(names), workers):
            batch = names[begin : begin + workers]
            views = [found.view(name, active=active.get(name, False)) for name in batch]
            reached = [np.zeros(1, np.int64) for _ in batch]
            walks = [
                pool.submit(scan.walk, view, reached=place)
                for view, place in zip(views, reached, strict=True)
            ]
            while wait(walks, _TELL_SECONDS).not_done:
                progress(done + sum(int(place[0]) for place in reached), found.size)
            yield from (walk.result() for walk in walks)
            done += sum(len(view) for view in views)


def _judge_tail(found: Survey, read: LogRead) -> LogRead:
    """The same log with its tail judged."""
    if read.walk.stop.good:
        return read
    view = found.view(read.file.name, active=read.file.active)
    tail = judge(view, read.walk, found.reach, end_markers=found.end_markers)
    assert tail is not None  # the file does not simply end
    judged = replace(read, tail=tail, covered=not tail.torn and _is_covered(found, read, tail, view))
    found.findings.append(_tail_finding(judged, tail))
    return judged


def _begins_below(found: Survey, snippets: Snippets) -> bool:
    """Has a compaction taken this log in, by the epoch of its first session? Only the designed edition shows it so."""
    first = counted(snippets, -1, lay.NUMBER_MAX)[:1]
    return found.edition == "designed" and bool(len(first)) and int(first.epoch[0]) <= found.low


def _is_covered(found: Survey, read: LogRead, tail: Tail, view: memoryview) -> bool:
    """Has a compaction taken in all that a log held, also behind the damage?"""
    last = read.snippets.epoch[-1:]
    return (
        read.listed
        and bool((last <= np.uint64(max(found.low, 0))).any())
        and find_durable(view, tail.offset + 1, found.low + 1, found.reach) is None
    )


def _tail_finding(read: LogRead, tail: Tail) -> Finding:
    name = read.file.name
    if tail.torn:
        severity = Severity.NOTE if tail.marked and not read.file.active else Severity.REPAIRABLE
        message = f"torn tail: {tail.message}; nothing durable stands there"
        return CODES.finding("torn-tail", message, name, tail.offset, tail.expected, tail.found, severity)
    finding = CODES.of(tail, name)
    return finding.lowered("the compacted files hold what it held") if read.covered else finding


def _judge_logs(found: Survey) -> None:
    for read in found.logs:
        found.findings += _snippet_findings(found, read)
        if found.edition == "designed" and found.low >= 0 and read.file.active:
            found.findings += _old_sessions(found, read)
    left_out = [read for read in found.logs if _is_left_out(found, read)]
    if not left_out:
        return
    found.all_history = True
    there = {read.file.name: read for read in found.logs}
    gone = sorted(name for name in found.catalog.detached if not _is_whole(found, there.get(name)))
    for read in left_out:
        message = f"a compaction up to epoch {found.low} left this log out; all logs count by their versions"
        if gone:
            how = "is not whole" if gone[0] in there else "is gone"
            message = f"a compaction up to epoch {found.low} left this log out, and {gone[0]} {how}"
        code = "left-out-ambiguous" if gone else "left-out"
        offset = int(read.counted(-1, min(found.low, found.reach)).offset[0])
        found.findings.append(CODES.finding(code, message, read.file.name, offset))


def _old_sessions(found: Survey, read: LogRead) -> Iterator[Finding]:
    """Sessions in an active log that a compaction should have rotated away: it rotates every log first."""
    old = read.counted(-1, found.low)
    old = old[old.entries > 0]
    if found.low >= 0 and len(old):
        message = (
            f"an active log holds nothing up to epoch {found.low}, which is compacted: it is another file"
        )
        yield CODES.finding("snippet-old", message, read.file.name, int(old.offset[0]))


def _is_whole(found: Survey, read: LogRead | None) -> bool:
    """Does a compacted log still hold what the compaction took from it, as far as can be seen?"""
    return read is not None and read.tail is None and bool((read.counted(-1, found.low).entries > 0).any())


def _is_left_out(found: Survey, read: LogRead) -> bool:
    """Does this log hold durable snippets that the catalog's maximum epoch claims and no compaction has seen? In the
    designed edition a compaction sees every log."""
    if found.edition == "designed" or found.low < 0 or read.listed:
        return False
    covered = read.counted(-1, min(found.low, found.reach))
    return bool((covered.entries > 0).any())


def _snippet_findings(found: Survey, read: LogRead) -> Iterator[Finding]:
    name = read.file.name
    spoiled = read.tail.begin if read.tail is not None and read.tail.torn else -1
    pending = read.pending(found.durable)
    pending = pending[pending.offset != spoiled]
    if len(pending):
        message = (
            f"{len(pending)} sessions above the durable epoch {found.durable} do not count, "
            f"the first of epoch {int(pending.epoch[0])}"
        )
        yield CODES.finding("not-durable", message, name, int(pending.offset[0]))
    some = read.snippets
    odd = np.flatnonzero((some.closed == 1) & (some.kind == lay.BEGIN) & (some.epoch != some.end_epoch))
    if len(odd):
        at = int(odd[0])
        yield CODES.finding(
            "snippet-epochs",
            "a snippet begins with another epoch than it ends with; the one at its begin counts",
            name,
            int(some.offset[at]),
            str(int(some.end_epoch[at])),
            str(int(some.epoch[at])),
        )
    whole = read.walk.whole
    open_ = np.flatnonzero(
        (whole.closed == 0) & (whole.kind == lay.BEGIN) & (whole.epoch <= np.uint64(found.durable))
    )
    if len(open_) and found.end_markers and some.closed.any():
        at = int(open_[0])
        message = "a durable snippet has no end marker; entries may be missing at its end"
        yield CODES.finding("snippet-open", message, name, int(some.end[at]))
