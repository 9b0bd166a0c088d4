"""A look at a directory of sessions, which changes nothing: what its files say together, and what is wrong.

Where there is an `operations.log`, it decides. Its checkpoint names the files and how much of each was synced;
its operations say what came after. The snapshot, the change log and the ends of data files may lag behind, because they
are not synced one by one: opening writes what they lack.

Without one the note's rule holds: the snapshot, then the change log, then the ends of the files that are written.
"""

from __future__ import annotations

import errno
import posixpath
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from flintlog.core.finding import Severity
from flintlog.core.inside import member
from flintlog.core.live import ChangedError, holding, settled
from flintlog.dialects.mpy6a import examine, scan
from flintlog.dialects.mpy6a import layout as lay
from flintlog.dialects.mpy6a import operations as ops
from flintlog.dialects.mpy6a.authority import ByNote, ByOperationLog
from flintlog.dialects.mpy6a.files import list_files, mark_of
from flintlog.dialects.mpy6a.findings import CODES
from flintlog.dialects.mpy6a.layout import MalformedError, StateID
from flintlog.dialects.mpy6a.replay import (
    Created,
    File,
    Machine,
)
from flintlog.dialects.mpy6a.scan import Events, LogScan
from flintlog.dialects.mpy6a.seen import Survey
from flintlog.disk import Disk, Progress
from flintlog.errors import DamageError, DiskError, RefusedError

_LOOKS_MAX = 20
_PAUSE_SECONDS = 0.001
_BASE_HEAD_BYTES = 48
_BASE_BYTES_MAX = 1 << 20
_CLOSE = "Try again, or close the store that writes here"


def survey(
    disk: Disk,
    path: str,
    *,
    examine_bytes: int | None = None,
    progress: Progress | None = None,
    reader: examine.Reader | None = None,
) -> Survey:
    """Look at a directory. Data files are examined from the newest on, up to `examine_bytes` in all.

    It always examines the last file of every chain: a writer must know where it ends. A `reader` reads all files. For a
    directory that a store may be writing to, use `live_survey`.
    """
    for _ in range(_LOOKS_MAX):
        before = _moment(disk, path)
        found = _read(disk, path)
        if _moment(disk, path) == before:
            return _examined(found, examine_bytes, progress or disk.progress, reader)
    raise ChangedError("the directory changes while it is read", file=path, advice=_CLOSE)


@contextmanager
def live_survey(
    disk: Disk, path: str, *, examine_bytes: int | None = None, progress: Progress | None = None
) -> Iterator[Survey]:
    """A survey of a live directory at one moment. Inside the block its files can be read."""
    for attempt in range(_LOOKS_MAX):
        before = _moment(disk, path)
        with holding(disk, path) as held:
            found = _read(held, path)
            if _moment(disk, path) == before:
                yield _examined(found, examine_bytes, progress or disk.progress, None)
                return
        disk.pause(_PAUSE_SECONDS * attempt)
    raise ChangedError("the directory changes faster than it can be read", file=path, advice=_CLOSE)


@contextmanager
def sound_survey(disk: Disk, path: str, *, examine_bytes: int) -> Iterator[Survey]:
    """The same, but raises for a directory that would not open."""
    with ExitStack() as stack:

        def look() -> Survey:
            with ExitStack() as looking:
                found = looking.enter_context(live_survey(disk, path, examine_bytes=examine_bytes))
                found.refuse_damage()
                stack.push(looking.pop_all())
            return found

        yield settled(disk, path, look)


def _moment(disk: Disk, path: str) -> object:
    """A value that stays equal as long as the files of a directory fit together.

    With an operation log that is its checkpoint: the log has everything behind it. Without one it is the snapshot and
    the size of every file.
    """
    try:
        log = posixpath.join(path, lay.OPERATIONS_FILE)
        if member(disk, log) is not None:
            return disk.read(log, _base_end(disk.read(log, _BASE_HEAD_BYTES)))
        listing = list_files(disk, path)
        size = listing.known.get(lay.SNAPSHOT_FILE)
        snapshot = None if size is None else disk.read(posixpath.join(path, lay.SNAPSHOT_FILE), size)
    except DiskError as error:
        if error.errno != errno.ENOENT:
            raise
        return object()  # a file went meanwhile: equal to no other moment
    return listing.data, listing.known, snapshot


def _base_end(head: bytes) -> int:
    """Where the checkpoint of an operation log ends."""
    try:
        size, at = lay.read_uvarint(head, lay.LOG_HEADER_SIZE + lay.EVENT_HEADER_SIZE)
    except MalformedError:
        return len(head)
    return min(at + size, _BASE_BYTES_MAX)


def survey_at(now: Survey, position: StateID) -> Survey:
    """The directory as of an operation."""
    now.refuse_missing(position)
    if position == now.last:
        return now
    past = Survey(now.disk, now.path, now.listing)
    read = _read_operations if now.has_operation_log else _read_note
    read(past, position)
    examine.sort_chains(past)
    for file in past.machine.files.values():
        _refuse_gone(now, past, file, position)
    return past


def _refuse_gone(now: Survey, past: Survey, file: File, position: StateID) -> None:
    """Raise for a file that was deleted since, unless the operation log has the sessions that waited in it."""
    present = now.machine.files.get(file.name)
    if present is not None and present.id == file.id:
        return
    if not past.authority.still_told(file):
        raise RefusedError(
            f"sessions that waited at {position} were read since, and their file was deleted",
            file=posixpath.join(now.path, file.name),
            advice="Give a later position, or restore a backup of that time",
        )


def _read(disk: Disk, path: str) -> Survey:
    """The files, and what the logs say of them."""
    found = Survey(disk, path, list_files(disk, path))
    try:
        if lay.OPERATIONS_FILE in found.listing.known:
            _read_operations(found)
        elif found.listing.described:
            _read_note(found)
        elif found.listing.data:
            raise DamageError(
                "there are data files, and nothing that describes them",
                code="descriptors-missing",
                expected=f"{lay.SNAPSHOT_FILE} or {lay.CHANGES_FILE}",
                found="neither",
            )
        found.readable = True
    except DamageError as error:
        found.findings.append(CODES.of(error))
    return found


def _examined(
    found: Survey, examine_bytes: int | None, progress: Progress, reader: examine.Reader | None
) -> Survey:
    """The same with its data files examined against the logs."""
    if not found.readable:
        return found
    examine.sort_chains(found)
    examine.examine(found, examine_bytes, progress, reader)
    examine.compare_exhausted(found)
    _sort_leftovers(found)
    return found


def _sort_leftovers(found: Survey) -> None:
    """Data files that no descriptor names: left by a deletion or unfinished work, or their descriptor is lost."""
    found.leftovers = tuple(name for name in found.listing.data if name not in found.machine.files)
    found.unexplained = tuple(
        name
        for name in found.leftovers
        if name not in found.deleted and mark_of(name) not in found.listing.scratch
    )
    for name in found.leftovers:
        records = 0
        if name in found.unexplained:
            records = len(scan.scan_records(found.view(name), limit=1)[0])
        if records:
            message = "the file has sessions, and nothing describes it or says that it is gone"
            found.add("file-undescribed", message, name, 0)
        else:
            found.add("leftover", "no descriptor names this file; opening removes it", name)


# The note's rule: snapshot, change log


def _note(found: Survey) -> ByNote:
    assert isinstance(found.authority, ByNote), "an operation log decides here"
    return found.authority


def _read_note(found: Survey, until: StateID | None = None) -> None:
    if lay.CHANGES_FILE not in found.listing.known:
        raise DamageError(
            "the change log is missing",
            code="changes-missing",
            file=lay.CHANGES_FILE,
            expected="a log",
            found="none",
        )
    if bytes(found.view(lay.CHANGES_FILE)[: lay.LOG_HEADER_SIZE]) == lay.encode_log_header(*lay.BESIDE_FRAME):
        raise DamageError(
            "the operation log is missing: the change log says that one stands beside it, with what is open",
            code="log-missing",
            file=lay.OPERATIONS_FILE,
            expected="a log",
            found="none",
        )
    files: dict[str, File] = {}
    last = StateID(0, 0)
    if lay.SNAPSHOT_FILE in found.listing.known:
        for offset, descriptor in lay.read_snapshot(found.view(lay.SNAPSHOT_FILE)):
            if descriptor.name in files:
                raise DamageError(
                    f"{descriptor.name} is described twice",
                    code="snapshot-duplicate",
                    file=lay.SNAPSHOT_FILE,
                    offset=offset,
                )
            files[descriptor.name] = File.of(descriptor)
            _note(found).described[descriptor.name] = descriptor.length
            last = max(last, descriptor.last_id)
    machine = found.machine = Machine(files.values(), last)
    found.first = last if last.term else None
    for file in files.values():
        _measure(found, file)
    view = found.view(lay.CHANGES_FILE)
    if len(view):  # an empty one was never begun
        read_changes(found, view, last, until)
    if machine.last.term == 0:
        machine.last = StateID(1, 0)


def read_changes(found: Survey, view: memoryview, snapshot: StateID, until: StateID | None = None) -> None:
    """Apply the operations of a change log that come after a snapshot."""
    note = _note(found)
    log = found.log = _scan(found, view, checked=False)
    machine = found.machine
    previous = StateID(0, 0)
    changes: list[tuple[int, StateID, lay.Change]] = []
    deleted: dict[str, int] = {}  # the last row that deletes a file
    for row in range(len(log.events)):
        state_id = log.events.state_id(row)
        with _At(lay.CHANGES_FILE, log.events, row):
            if state_id <= previous:
                raise MalformedError("order", f"it comes after {previous}")
            previous = state_id
            if state_id <= snapshot:  # the snapshot has this event: a crash came before the log was emptied
                with suppress(MalformedError):
                    change = lay.read_change(_payload(view, log.events, row))
                    found.deleted |= {change.name} if isinstance(change, lay.Delete) else set()
                continue
            change = lay.read_change(_payload(view, log.events, row))
            changes.append((row, state_id, change))
            if isinstance(change, lay.Delete):
                deleted[change.name] = row
    for row, state_id, change in changes:
        if until is not None and state_id > until:
            break
        name = None if isinstance(change, lay.Create) else change.name
        if name is not None and name not in machine.files and row < deleted.get(name, -1):
            continue  # the file is deleted in the snapshot already: a crash came before the log was emptied
        with _At(lay.CHANGES_FILE, log.events, row):
            if isinstance(change, lay.Shift | lay.StopWriting):
                file = machine.files.get(change.name)
                if deleted.get(change.name, -1) < row:
                    _measure(found, file)
                elif file is not None and isinstance(change, lay.Shift):
                    file.length = max(
                        file.length, file.offset + change.size
                    )  # the file is gone, so its length is unknown
            effects = machine.apply(state_id, change)
            note.created = next((item.name for item in effects if isinstance(item, Created)), None)
            if isinstance(change, lay.Delete):
                found.deleted.add(change.name)
                note.described.pop(change.name, None)
    for file in machine.files.values():
        _measure(found, file)


def _measure(found: Survey, file: File | None) -> None:
    """Set the length of a file that is being written: its descriptor does not have it."""
    if file is not None and file.written:
        file.length = max(found.listing.data.get(file.name, 0), file.length)


def _scan(found: Survey, view: memoryview, *, checked: bool) -> LogScan:
    name = lay.OPERATIONS_FILE if checked else lay.CHANGES_FILE
    try:
        log = scan.scan_log(view, checked=checked)
    except MalformedError as problem:
        raise DamageError(problem.message, code=f"log-{problem.code}", file=name, offset=0) from problem
    damage = scan.judge_log(view, log, checked=checked)
    if damage is not None:
        found.findings.append(CODES.of(damage, name))
    return log


class _At:
    """Turns a `MalformedError` inside it into damage at an event of a log."""

    def __init__(self, name: str, events: Events, row: int) -> None:
        self._name, self._events, self._row = name, events, row

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, MalformedError):
            raise DamageError(
                f"operation {self._events.state_id(self._row)}: {error.message}",
                code=f"operation-{error.code}",
                file=self._name,
                offset=int(self._events.offset[self._row]),
            ) from error


def _payload(view: memoryview, events: Events, row: int) -> memoryview:
    return view[int(events.payload[row]) : events.end(row)]


# With an operation log


def _read_operations(found: Survey, until: StateID | None = None) -> None:
    # The note's files are written behind the log, so a reader that reads them first never finds them ahead of it.
    note = {name: found.view(name) for name in (lay.SNAPSHOT_FILE, lay.CHANGES_FILE)}
    view = found.view(lay.OPERATIONS_FILE)
    log = found.log = _scan(found, view, checked=True)
    if not len(log.events):
        raise DamageError(
            "the operation log has no checkpoint",
            code="log-base",
            file=lay.OPERATIONS_FILE,
            offset=lay.LOG_HEADER_SIZE,
        )
    with _At(lay.OPERATIONS_FILE, log.events, 0):
        base = ops.decode_base(_payload(view, log.events, 0))
    sessions = []
    for row in range(1, min(base.sessions, len(log.events)) + 1):
        with _At(lay.OPERATIONS_FILE, log.events, min(row, len(log.events) - 1)):
            if row == len(log.events):
                raise MalformedError(
                    "base", f"the checkpoint announces {base.sessions} sessions and has {row - 1}"
                )
            sessions.append(ops.decode_open(_payload(view, log.events, row)))
    found.first = log.events.state_id(0)
    with _At(lay.OPERATIONS_FILE, log.events, 0):
        found.machine = Machine.of(found.first, base, sessions)
    authority = found.authority = ByOperationLog(list(base.descriptors), base.exhausted, base.sessions)
    for row in range(base.sessions + 1, len(log.events)):
        state_id = log.events.state_id(row)
        if until is not None and state_id > until:
            return
        with _At(lay.OPERATIONS_FILE, log.events, row):
            operation = ops.decode(_payload(view, log.events, row))
            authority.note(found.machine.apply(state_id, operation))
            found.deleted |= {operation.name} if isinstance(operation, lay.Delete) else set()
    damaged = any(item.severity is Severity.CORRUPT for item in found.findings)
    if not damaged:  # with a damaged log the note's files may have more
        _compare_note(found, authority, note)


def _compare_note(found: Survey, authority: ByOperationLog, note: dict[str, memoryview]) -> None:
    """Compare the note's files with the operation log: they may lag behind it, never be ahead."""
    for name, latest in ((lay.SNAPSHOT_FILE, _latest_of_snapshot), (lay.CHANGES_FILE, _latest_of_changes)):
        try:
            newest = latest(note[name]) if name in found.listing.known else None
        except (DamageError, MalformedError) as problem:
            found.add(
                "note-behind",
                f"{problem.message}; the operation log has what it says, opening writes it anew",
                name,
            )
            continue
        if newest is None or newest <= found.machine.last:
            continue
        if name == lay.CHANGES_FILE and not continues(authority, note[name]):
            found.add(
                "note-behind", "it does not say what the operation log says; opening writes it anew", name
            )
        else:
            raise DamageError(
                "the note's files are ahead of the operation log: another program wrote to this directory",
                code="note-ahead",
                file=name,
                expected=f"at most {found.machine.last}",
                found=str(newest),
            )


def continues(authority: ByOperationLog, view: memoryview) -> bool:
    """Does this change log begin with the changes of the operation log since its checkpoint?"""
    events = scan.scan_log(view, checked=False).events
    told = authority.changes
    return len(told) <= len(events) and all(
        view[int(events.offset[row]) : events.end(row)] == event for row, event in enumerate(told)
    )


def _latest_of_snapshot(view: memoryview) -> StateID | None:
    return max((item.last_id for _, item in lay.read_snapshot(view)), default=None)


def _latest_of_changes(view: memoryview) -> StateID | None:
    if not len(view):
        return None
    events = scan.scan_log(view, checked=False).events
    return events.state_id(-1) if len(events) else None
