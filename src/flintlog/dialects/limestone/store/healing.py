"""What a crash left is put in order before anything new is written.

Bytes above the durable epoch were never acknowledged. They must not come to life when a later epoch becomes
durable: what is torn is cut, and sessions that are whole are cut too (designed) or marked as invalid (shipped, as
the original does, and wherever something durable stands behind them). A rotated log is only ever marked, and so is a
very large one, which is then rotated: readers map those, and die when a file gets shorter under them.

A compaction whose switch of catalogs was not finished is rolled back (designed), or its catalog is written
again (shipped).
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from dataclasses import replace

from flintlog.core.kept import keep_cut
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone.base import compacted_epoch
from flintlog.dialects.limestone.files import log_file, read_epochs
from flintlog.dialects.limestone.judge import later_markers
from flintlog.dialects.limestone.layout import Catalog
from flintlog.dialects.limestone.scan import Snippets
from flintlog.dialects.limestone.survey import LogRead, Survey
from flintlog.disk import Disk, write_all
from flintlog.disk.disk import COPY_BYTES_MAX

TimeOf = Callable[[int], int]  # the time for the name of a channel's log

_INVALIDATED = bytes([lay.INVALIDATED])
PARTED_SCRATCH = "compaction_temp/parted"  # sessions on their way from one log to another
# Scratch of the original, as large as the log, which removes it at every start, too; and that of our sorted files.
_SCRATCH = ("sorting/", f"compaction_temp/{lay.COMPACTED_FILE}.", f"{lay.SNAPSHOT_FILE}.", PARTED_SCRATCH)


def heal(found: Survey, time_of: TimeOf) -> None:
    """Put logs, catalogs and compacted files in order. Bytes are durable on return; the caller syncs the names."""
    if found.edition == "designed":
        _roll_back(found)
    else:
        _settle_compacted(found)
    for name in found.listing.scratch:
        if "/" not in name or name.startswith(_SCRATCH):
            found.disk.unlink(found.place(name))
    if found.listing.snapshot is not None:
        found.disk.unlink(found.place(lay.SNAPSHOT_FILE))  # the state at an earlier opening
    for read in found.logs:
        _heal_log(found, read, time_of)


def epoch_end(found: Survey) -> int:
    """Where the last whole record of the epoch file ends."""
    if lay.EPOCH_FILE not in found.listing.epochs:
        return 0
    view = found.view(lay.EPOCH_FILE, active=True)
    _, finding = read_epochs(view, lay.EPOCH_FILE)
    return len(view) if finding is None or finding.offset is None else finding.offset


# Logs


def _heal_log(found: Survey, read: LogRead, time_of: TimeOf) -> None:
    """Cut an active log, which readers copy; mark where they may have mapped the file, so that none of them dies. A
    damaged one of which nothing is needed goes."""
    if read.covered:
        with found.disk.open(found.place(read.file.name)) as file:
            keep_cut(found.disk, found.path, file, 0)
        found.disk.unlink(found.place(read.file.name))
        return
    sessions = read.pending(found.durable)
    pending = [int(at) for at in sessions.offset]
    torn = read.tail if read.tail is not None and read.tail.torn else None
    may_cut = read.file.active and read.file.size <= COPY_BYTES_MAX
    cut = torn.begin if torn is not None and may_cut else None
    counted = read.counted(-1, found.durable)
    if (
        found.edition == "designed"
        and may_cut
        and found.listing.epochs  # without them nothing tells what is durable: mark, but cut nothing
        and pending
        and (not len(counted) or int(counted.offset[-1]) < pending[0])
    ):
        cut = pending[0] if cut is None else min(cut, pending[0])
    marks = [at for at in pending if cut is None or at < cut]
    if torn is not None and not may_cut:
        if not torn.marked and torn.begin not in marks:
            marks.append(torn.begin)
        # A walk does not come to what stands behind. It must not come to life when its epoch is durable.
        view = found.view(read.file.name, active=read.file.active)
        marks += later_markers(view, torn.offset + 1, found.durable + 1)
    changed = marks if cut is None else [*marks, cut]
    with found.disk.open(found.place(read.file.name), "write") as file:
        if changed and (torn is not None or sessions.entries.any()):  # a begin marker alone holds nothing
            keep_cut(found.disk, found.path, file, min(changed))
        for at in marks:
            file.pwrite(_INVALIDATED, at)
        if cut is not None:
            file.truncate(cut)
        # Also a cut or a mark that a dead process made: it must not come undone when its epoch is durable.
        file.sync()
    if torn is not None and read.file.active and not may_cut:
        rotate(found.disk, found.path, read.file.name, time_of)  # nothing may follow in this file


def rotate(disk: Disk, path: str, name: str, time_of: TimeOf, *, spare: bool = False) -> str:
    """Give an active log the name of a rotated one, behind all of its channel; the caller syncs the directory. `spare`
    leaves the name before it free."""
    match = lay.ACTIVE_NAME.fullmatch(name)
    assert match is not None
    channel = int(match[1])
    milliseconds = time_of(channel)
    logs = [log_file(other, 0) for other in disk.list(path) if lay.is_wal_name(other)]
    before = [log.number for log in logs if (log.channel, log.time) == (channel, milliseconds)]
    target = lay.rotated_name(channel, milliseconds, max(before, default=-1) + 1 + spare)
    disk.rename(posixpath.join(path, name), posixpath.join(path, target))
    return target


def latest_rotations(found: Survey) -> dict[int, int]:
    """The latest time in the name of a log of each channel that is there, or that the catalog lists."""
    latest: dict[int, int] = {}
    for log in [*found.listing.logs, *(log_file(name, 0) for name in found.catalog.detached)]:
        if log.channel is not None and log.time is not None:
            latest[log.channel] = max(log.time, latest.get(log.channel, -1))
    return latest


# Catalogs


def _roll_back(found: Survey) -> None:
    """Undo a switch of catalogs that did not come to its end. Compacted files that no catalog names go: a crash came
    before they counted, or before they were removed. What cannot be read as one stays."""
    for name in found.listing.compacted:
        if name not in found.catalog.compacted and compacted_epoch(found, name) is not None:
            found.disk.unlink(found.place(name))
    if found.catalog_name == lay.CATALOG_BACK:
        found.disk.sync_directory(found.path)  # before it holds alone: they are newer than it
        found.disk.rename(found.place(lay.CATALOG_BACK), found.place(lay.CATALOG_FILE))
    elif found.catalog_name is None and found.disk.stat(found.place(lay.CATALOG_FILE)) is not None:
        publish_catalog(found.disk, found.path, found.catalog)  # it was not whole, and nothing was compacted
    catalog = _leave_out(found)
    if catalog != found.catalog:
        publish_catalog(found.disk, found.path, catalog)


def _settle_compacted(found: Survey) -> None:
    """One compacted file under its name, and a catalog that lists it: without that the original forgets removals."""
    disk = found.disk
    if found.base == (lay.COMPACTED_PREVIOUS,):
        disk.rename(found.place(lay.COMPACTED_PREVIOUS), found.place(lay.COMPACTED_FILE))
    catalog = _leave_out(found)
    if found.base and not catalog.compacted:
        catalog = replace(catalog, compacted={lay.COMPACTED_FILE: lay.COMPACTED_VERSION})
    if catalog == found.catalog and found.catalog_name == lay.CATALOG_BACK:
        disk.rename(found.place(lay.CATALOG_BACK), found.place(lay.CATALOG_FILE))
    elif catalog != found.catalog or found.catalog_name != lay.CATALOG_FILE:
        publish_catalog(disk, found.path, catalog)
    if found.listing.previous is not None and found.base != (lay.COMPACTED_PREVIOUS,):
        disk.unlink(found.place(lay.COMPACTED_PREVIOUS))


def _leave_out(found: Survey) -> Catalog:
    """The catalog without the logs that hold sessions behind the compaction: others read no log that it lists."""
    catalog = found.catalog
    if found.low < 0 or found.all_history:
        return catalog
    newer = [read for read in found.logs if read.listed and _goes_on(found, read)]
    for read in newer:
        mark(found, read, read.counted(-1, found.low))
    return replace(catalog, detached=catalog.detached - {read.file.name for read in newer})


def _goes_on(found: Survey, read: LogRead) -> bool:
    """Does the log hold sessions behind the compaction, or will it? A begin marker of which a crash left a part is a
    session of an older epoch, and an active log must not begin with one."""
    return read.file.active or bool(len(read.counted(found.low, found.durable)))


def mark(found: Survey, read: LogRead, sessions: Snippets) -> None:
    """Mark sessions of a log that stand elsewhere, too; durable on return."""
    with found.disk.open(found.place(read.file.name), "write") as file:
        for at in sessions.offset.tolist():
            file.pwrite(_INVALIDATED, at)
        file.sync()


def publish_catalog(disk: Disk, path: str, catalog: Catalog) -> None:
    """Put a catalog in the place of the old one; the caller syncs the name."""
    target = posixpath.join(path, lay.CATALOG_FILE)
    with disk.create_scratch(target + ".new") as file:
        file.be_like(disk.stat(target))
        write_all(file, [catalog.encode()])
        file.sync()
        disk.rename(file.path, target)
