"""What is here, and every check there is over every byte."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from functools import partial

from flintlog.core.finding import Finding, Severity
from flintlog.core.inventory import FileItem, Inventory
from flintlog.core.live import look
from flintlog.core.position import Position
from flintlog.core.surveys import Surveys
from flintlog.core.workers import Workers
from flintlog.dialects.mpy6a import layout as lay
from flintlog.dialects.mpy6a import scan
from flintlog.dialects.mpy6a.examine import EXAMINE_BYTES, read_records
from flintlog.dialects.mpy6a.findings import CODES
from flintlog.dialects.mpy6a.layout import MalformedError
from flintlog.dialects.mpy6a.replay import File
from flintlog.dialects.mpy6a.seen import Survey
from flintlog.dialects.mpy6a.survey import live_survey, survey
from flintlog.dialects.mpy6a.waiting import next_replay
from flintlog.disk import Disk, Progress, no_progress
from flintlog.errors import DamageError

# Findings that a writing store shows for a moment. Beside an operation log the other files are never torn.
_PASSING = {
    *("event-cut", "event-zeros", "event-length", "event-checksum", "event-padding"),
    *("record-cut", "record-zeros", "record-order", "record-time", "record-term", "record-number"),
    *("file-behind", "file-ahead", "file-short", "file-long", "note-behind", "note-ahead"),
    *("operation-file", "operation-shift", "offset-boundary", "exhausted-short", "changes-missing"),
}


def inspect(disk: Disk, path: str, seen: Surveys) -> Inventory:
    """Files, roles, ranges; examines as much as opening does."""

    def glance() -> Inventory:
        with live_survey(disk, path, examine_bytes=EXAMINE_BYTES) as found:
            return _inventory(found)

    once = partial(seen.take, "part", glance)
    return look(disk, path, once, once, _PASSING)


def verify(disk: Disk, path: str, progress: Progress, workers: Workers | None, seen: Surveys) -> Inventory:
    """Every file, every record, every operation, and whether they fit together."""

    def everything(progress: Progress = no_progress) -> tuple[Survey, Inventory]:
        if workers is not None:
            found = survey(disk, path, progress=progress, reader=partial(workers.map, read_records))
            return found, _inventory(found)
        with live_survey(disk, path, progress=progress) as found:
            return found, _inventory(found)  # while its files are held open

    kind = "whole" if workers is None else "by workers"
    return look(
        disk,
        path,
        lambda: seen.take(kind, partial(everything, progress), anew=True)[1],
        lambda: seen.take(kind, everything)[1],
        _PASSING,
    )


def _inventory(found: Survey) -> Inventory:
    findings = (*found.findings, *_odd_files(found))
    read = found.log is not None or found.machine.files or not findings
    return Inventory(
        "mpy6a",
        None,
        found.path,
        tuple(_items(found)),
        _first(found),
        found.last if read else None,
        findings,
        _facts(found),
    )


def _first(found: Survey) -> Position | None:
    if found.first is None and found.log is not None and len(found.log.events):
        return found.log.events.state_id(0)
    return found.first


def _odd_files(found: Survey) -> Iterator[Finding]:
    for name in found.listing.scratch:
        yield CODES.finding("leftover", "left over from an unfinished operation", name)
    for name in found.listing.foreign:
        yield CODES.finding("foreign", "no part of an mpy6a directory; not touched", name)


# Files


def _items(found: Survey) -> Iterator[FileItem]:
    known, listed = found.listing.known, found.listing.data
    for _, chain in sorted(found.machine.chains.items()):
        for file in chain:
            if file.name in listed:
                count = found.entries.get(file.name)
                yield FileItem(file.name, _role(file), listed[file.name], file.id, file.last_id, count)
    for name in found.listing.data:
        if name not in found.machine.files:
            role = "leftover" if name in found.leftovers else "closed"
            yield FileItem(name, role, listed[name])
    if lay.SNAPSHOT_FILE in known:
        yield _snapshot_item(found)
    for name, role in ((lay.CHANGES_FILE, "changes"), (lay.OPERATIONS_FILE, "operations")):
        if name in known:
            yield _log_item(found, name, role)
    if lay.EXHAUSTED_FILE in known:
        count = found.entries.get(lay.EXHAUSTED_FILE)
        yield FileItem(lay.EXHAUSTED_FILE, "exhausted", known[lay.EXHAUSTED_FILE], entries=count)
    for name in found.listing.foreign:
        stat = found.disk.stat(posixpath.join(found.path, name))
        yield FileItem(name, "foreign", 0 if stat is None or stat.is_directory else stat.size)


def _role(file: File) -> str:
    if file.written:
        return "writing"
    return "reading" if file.flags & lay.READ else "closed"


def _snapshot_item(found: Survey) -> FileItem:
    size = found.listing.known[lay.SNAPSHOT_FILE]
    try:
        items = [item for _, item in lay.read_snapshot(found.view(lay.SNAPSHOT_FILE))]
    except DamageError:
        return FileItem(lay.SNAPSHOT_FILE, "snapshot", size)
    first = min((item.id for item in items), default=None)
    last = max((item.last_id for item in items), default=None)
    return FileItem(lay.SNAPSHOT_FILE, "snapshot", size, first, last, len(items))


def _log_item(found: Survey, name: str, role: str) -> FileItem:
    size = found.listing.known[name]
    log = found.log if name == found.authority.log_name else None
    if log is None and size:
        try:
            log = scan.scan_log(found.view(name), checked=name == lay.OPERATIONS_FILE)
        except MalformedError:
            return FileItem(name, role, size)
    if log is None or not len(log.events):
        return FileItem(name, role, size, entries=0)
    return FileItem(name, role, size, log.events.state_id(0), log.events.state_id(-1), len(log.events))


# Facts


def _facts(found: Survey) -> dict[str, object]:
    machine = found.machine
    files = machine.files.values()
    unread = sum(end - begin for file in files for begin, end in file.unread())
    counted = not _is_damaged(found) and all(file.name in found.waiting or not file.length for file in files)
    return {
        "sessions": sum(found.waiting.values()) if counted else None,
        "open_sessions": sum(session.place is None for session in machine.sessions.values()),
        "changed_sessions": len(machine.taken),
        "exhausted_sessions": found.entries.get(lay.EXHAUSTED_FILE, 0),
        "delays": sorted(delay for delay, chain in machine.chains.items() if chain),
        "next_replay": None if _is_damaged(found) else next_replay(found),
        "unread_bytes": unread,
        "read_bytes": sum(file.length for file in files) - unread,
        "operations_log": lay.OPERATIONS_FILE in found.listing.known,
    }


def _is_damaged(found: Survey) -> bool:
    return any(finding.severity is Severity.CORRUPT for finding in found.findings)
