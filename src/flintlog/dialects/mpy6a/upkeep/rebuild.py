"""A damaged directory, rebuilt from what can be read: which files there are, and what each holds.

The logs count up to their first damage. Other files make up for what they said behind it: the change log for the
operation log, and the data files, read from their beginning, for the change log and the snapshot. So sessions that were
done can come again; every session that can be read is kept.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field

import numpy as np

from flintlog.columns.zeros import zeros_from
from flintlog.core.finding import Finding, Severity
from flintlog.dialects.mpy6a import layout as lay
from flintlog.dialects.mpy6a import scan
from flintlog.dialects.mpy6a.authority import ByNote, ByOperationLog
from flintlog.dialects.mpy6a.layout import Descriptor, MalformedError, StateID
from flintlog.dialects.mpy6a.operations import Base, Open, Place
from flintlog.dialects.mpy6a.replay import File, Machine
from flintlog.dialects.mpy6a.seen import Survey
from flintlog.dialects.mpy6a.survey import continues, read_changes
from flintlog.dialects.mpy6a.upkeep import salvage
from flintlog.dialects.mpy6a.upkeep.salvage import Ints, Saved
from flintlog.errors import DamageError

_GAP_BYTES_MAX = 1 << 30
_STRANGE = {"replay-bound", "file-long"}
_DESCRIBING = ("snapshot-", "operation-", "event-", "log-", "changes-", "descriptors-", "note-ahead")


@dataclass(slots=True)
class Rebuilt:
    """One data file: its new descriptor, the bytes to take from, and the good records in them."""

    file: File
    view: memoryview
    saved: Saved
    times: Ints
    on_disk: int  # its size
    adopted: bool = False
    lacks: bool = False  # some of the bytes are in the operation log only
    read_to: int = 0  # what its descriptor said,
    was: int = 0  # and how long it was
    notes: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.file.name

    @property
    def changed(self) -> bool:
        """Must the bytes on disk change?"""
        return bool(self.saved.holes) or self.saved.end != self.on_disk or self.retimed > 0 or self.lacks

    @property
    def retimed(self) -> int:
        return int((self.times != self.saved.time).sum())


@dataclass(slots=True)
class Rebuild:
    """The directory as it will be."""

    found: Survey
    operations: bool  # does it have an operation log?
    machine: Machine = field(default_factory=Machine)
    files: list[Rebuilt] = field(default_factory=list)
    gone: list[File] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)  # data files without a descriptor and without sessions
    exhausted: Rebuilt | None = None
    doubtful: bool = False  # are the descriptors of the data files damaged?
    strange: set[int | None] = field(default_factory=set)  # delays with two files that may have swapped names
    described: dict[str, int] = field(default_factory=dict)  # lengths of files in the snapshot
    log_end: int | None = None  # where the damage in the change log begins
    last: StateID = lay.ZERO

    @property
    def descriptors(self) -> tuple[Descriptor, ...]:
        return tuple(sorted((item.file.descriptor() for item in self.files), key=lambda one: one.id))

    def base(self) -> tuple[Base, list[Open]]:
        """The checkpoint of a new operation log."""
        places = [
            Place(item.name, offset, size)
            for item in self.files
            for offset, size in sorted(item.file.finished.items())
        ]
        sessions = [
            Open(one.id, one.last_change, one.topic, one.attempts, one.place, one.data)
            for _, one in sorted(self.machine.sessions.items())
        ]
        aside = self.exhausted.file.length if self.exhausted is not None else 0
        return Base(len(sessions), aside, self.descriptors, tuple(places)), sessions


def rebuild(found: Survey) -> Rebuild:
    """Rebuild the directory from what can be read of it."""
    made = Rebuild(found, lay.OPERATIONS_FILE in found.listing.known)
    damaged = [item for item in found.findings if item.severity is Severity.CORRUPT]
    made.doubtful = any(item.code.startswith(_DESCRIBING) for item in damaged)
    made.strange = _strange(found.findings)
    log = found.authority
    if isinstance(log, ByNote):
        made.machine = _described(found, made)
    else:
        made.machine = found.machine
        if made.doubtful:
            _follow_note(found, log, made)
    for _, chain in sorted(made.machine.chains.items()):
        _rebuild_chain(made, chain)
    undescribed = {item.file for item in damaged if item.code == "file-undescribed"}
    _adopt(made, set(found.listing.data) if made.doubtful else undescribed)
    _mend_chains(made, damaged)
    _number(made)
    _settle_sessions(made)
    _rebuild_exhausted(made)
    return made


def _strange(findings: list[Finding]) -> set[int | None]:
    """Delays with a file that begins too early or is too long: two files may have swapped names."""
    codes: dict[int | None, set[str]] = {}
    for item in findings:
        codes.setdefault(lay.parse_name(item.file or ""), set()).add(item.code)
    return {
        delay for delay, found in codes.items() if found & _STRANGE or found >= {"file-short", "file-ahead"}
    }


# Descriptors


def _described(found: Survey, made: Rebuild) -> Machine:
    """The state by the note's files, up to their first damage."""
    items = salvage.descriptors(found.view(lay.SNAPSHOT_FILE))
    last = max((item.last_id for item in items), default=lay.ZERO)
    made.described = {item.name: item.length for item in items}
    past = Survey(found.disk, found.path, found.listing)
    past.machine = Machine((File.of(item) for item in items), last)
    _apply_changes(past, made, last)
    return past.machine


def _follow_note(found: Survey, log: ByOperationLog, made: Rebuild) -> None:
    """Take in what the note's files say beyond a damaged or older operation log."""
    items = salvage.descriptors(found.view(lay.SNAPSHOT_FILE))
    newest = max((item.last_id for item in items), default=lay.ZERO)
    if newest <= made.machine.last:
        if _continues(found, log):
            _apply_changes(found, made, made.machine.last)
        return
    before, made.machine = made.machine, _described(found, made)
    for session in before.sessions.values():
        made.machine.sessions[session.id] = session
    for file in before.files.values():
        other = made.machine.files.get(file.name)
        if other is not None and other.id == file.id:
            other.finished = {at: size for at, size in file.finished.items() if at >= other.offset}


def _continues(found: Survey, log: ByOperationLog) -> bool:
    try:
        return continues(log, found.view(lay.CHANGES_FILE))
    except MalformedError:
        return False


def _apply_changes(found: Survey, made: Rebuild, last: StateID) -> None:
    """Apply the change log up to the first operation that does not fit."""
    for file in found.machine.files.values():
        if file.written:
            file.length = max(file.length, found.listing.data.get(file.name, 0))
    view = found.view(lay.CHANGES_FILE)
    end = len(view)
    while end:
        machine = found.machine.copy()
        probe = Survey(found.disk, found.path, found.listing, machine)
        try:
            read_changes(probe, view[:end], last)
        except DamageError as error:
            end = error.offset or 0
            continue
        found.machine = made.machine = machine
        assert probe.log is not None
        if any(item.severity is Severity.CORRUPT for item in probe.findings):
            end = probe.log.stop.offset
        break
    if end < len(view) and zeros_from(view, end) > end:
        made.log_end = end


# Data files


def _rebuild_chain(made: Rebuild, chain: list[File]) -> None:
    for file in sorted(chain, key=lambda one: one.id):
        there = file.name in made.found.listing.data or made.found.authority.tail(file.name)
        if not there and (file.length or not made.operations):
            made.gone.append(file)
            continue
        view, gap = _bytes(made, file)
        grows_from = made.described.get(file.name, 0) if file.written and not made.operations else None
        made.files.append(_rebuilt(made, file, view, grows_from=grows_from, gap=gap))


def _bytes(made: Rebuild, file: File) -> tuple[memoryview, tuple[int, int] | None]:
    """The bytes of a file with those that only the operation log has, and the gap between that neither has."""
    found = made.found
    disk = found.view(file.name)
    tail = found.authority.tail(file.name)
    if file.delay in made.strange:  # all of the file, and all of the log
        more = b"" if disk[len(disk) - len(tail) :] == tail else tail
        return memoryview(b"".join((disk, more))), (len(disk), len(disk)) if more else None
    if not tail:
        if made.operations and not made.doubtful:
            return disk[: file.length], None  # bytes behind it belong to no operation
        return disk, None
    synced = found.authority.synced(file.name, 0)
    upto = synced + len(tail)
    if disk[synced:upto] == tail:
        return disk if made.doubtful else disk[:upto], None
    begin = min(len(disk), synced)
    if synced - begin > _GAP_BYTES_MAX:
        return disk, None
    return memoryview(b"".join((disk[:begin], bytes(synced - begin), tail))), (begin, synced)


def _rebuilt(
    made: Rebuild,
    file: File,
    view: memoryview,
    *,
    grows_from: int | None,
    gap: tuple[int, int] | None = None,
    adopted: bool = False,
) -> Rebuilt:
    whole = view[: gap[0]] if gap else view
    saved = salvage.save_records(whole, file.name, file.replay, grows_from=grows_from)
    if gap is not None:
        rest = salvage.save_records(view[gap[1] :], file.name, file.replay, grows_from=None)
        saved = saved.followed_by(rest, gap[1])
    size = made.found.listing.data.get(file.name, 0)
    if made.doubtful:  # some state ids may be forgotten
        made.last = max(made.last, saved.greatest)
    lacks = gap is not None
    return Rebuilt(file, view, saved, saved.time, size, adopted, lacks, file.offset, file.length)


def _adopt(made: Rebuild, names: Container[str | None]) -> None:
    """Adopt files whose descriptor was lost with the damage."""
    known = {item.name for item in made.files}
    for name, size in sorted(made.found.listing.data.items()):
        if name in known or name not in names or not size:
            continue
        delay = lay.parse_name(name)
        assert delay is not None
        bound = salvage.earliest(name) or 1
        file = File(name, delay, lay.ZERO, lay.ZERO, 0, 0, 0, bound, bound)
        item = _rebuilt(made, file, made.found.view(name), grows_from=0, adopted=True)
        if len(item.saved.time):
            made.files.append(item)
        elif len(scan.scan_records(item.view, limit=1)[0]):  # a store would take it for sessions, and refuse
            made.strangers.append(name)


# Chains


def _mend_chains(made: Rebuild, damaged: list[Finding]) -> None:
    delays = sorted({item.file.delay for item in made.files})
    for delay in delays:
        chain = [item for item in made.files if item.file.delay == delay and not item.adopted]
        adopted = [item for item in made.files if item.file.delay == delay and item.adopted]
        for item in sorted(adopted, key=lambda one: (int(one.saved.time[0]), one.name)):
            first = int(item.saved.time[0])
            later = [at for at, one in enumerate(chain) if len(one.saved.time) and one.saved.time[0] > first]
            chain.insert(later[0] if later else len(chain), item)
        _mend_chain(made, chain)
        made.files = [item for item in made.files if item.file.delay != delay] + chain


def _mend_chain(made: Rebuild, chain: list[Rebuilt]) -> None:
    """Mend a chain: times that do not go back, one file that is written, bounds that hold."""
    times = salvage.mend_times(np.concatenate([item.saved.time for item in chain]))
    bound = 0
    for at, item in enumerate(chain):
        count = len(item.saved.time)
        item.times, times = times[:count], times[count:]
        file = item.file
        if at + 1 < len(chain) and file.written:
            file.flags &= ~lay.WRITTEN
            item.notes.append("it is no longer written, because another file follows")
        _settle_places(made, item)
        first = int(item.times[0]) if count else None
        replay = max(file.replay, bound)
        replay = replay if first is None else min(replay, first)
        if replay != file.replay and not item.adopted:
            item.notes.append(f"its bound becomes {replay}")
        file.replay = bound = replay
        file.last_time = int(item.times[-1]) if count else replay


def _settle_places(made: Rebuild, item: Rebuilt) -> None:
    """Adjust read position, length and done records to the holes that are taken out or filled."""
    file, saved = item.file, item.saved
    if file.delay in made.strange:  # its done records are those of another file
        file.offset, file.finished = 0, {}
    inside = [end for begin, end in saved.holes if begin <= file.offset < end]
    file.offset = offset = inside[0] if inside else saved.boundary(file.offset)
    if made.operations:
        file.length = saved.end
        finished = {at: size for at, size in file.finished.items() if offset <= at and at + size <= saved.end}
        finished |= {begin: end - begin for begin, end in saved.holes if begin >= offset}
        file.finished = finished
    else:
        file.length = saved.end - sum(end - begin for begin, end in saved.holes if begin >= offset)
        file.finished = {}


def filled_up_to(made: Rebuild, item: Rebuilt) -> int:
    """Fill holes before this offset, so that no place in the file moves."""
    return item.saved.end if made.operations else item.file.offset


def _number(made: Rebuild) -> None:
    """Give ids to adopted files, and make sure that no id is used twice."""
    last = max(made.last, made.machine.last, _greatest_event(made.found))
    last = max([last, *(item.file.last_id for item in made.files)])
    last = StateID(1, 0) if last.term == 0 else last
    for item in made.files:
        if item.adopted:
            last = last.following()
            item.file.id = item.file.last_id = last
    if made.files and not made.operations:
        # A crash may leave the old change log beside the new snapshot: so the snapshot must be newer than all of it.
        newest = max((item.file for item in made.files), key=lambda file: file.last_id)
        newest.last_id = max(newest.last_id, last)
    made.last = made.machine.last = last


def _greatest_event(found: Survey) -> StateID:
    """The greatest state id anywhere in the change log."""
    view = found.view(lay.CHANGES_FILE)
    try:
        events = scan.scan_log(view, checked=False).events
    except MalformedError:
        return lay.ZERO
    return max((events.state_id(row) for row in range(len(events))), default=lay.ZERO)


# Sessions


def _settle_sessions(made: Rebuild) -> None:
    """Keep the open sessions that did not end since; one whose record is lost keeps its data."""
    files = {item.name: item for item in made.files}
    for session in list(made.machine.sessions.values()):
        place = session.place
        if place is None:
            continue
        item = files.get(place.name)
        if lay.parse_name(place.name) in made.strange:
            session.place = None
        elif item is None:
            known = any(file.name == place.name for file in made.gone)
            if not known:  # its file was read and deleted since
                del made.machine.sessions[session.id]
                continue
            session.place = None
        elif place.offset < item.file.offset:
            del made.machine.sessions[session.id]
        elif (
            item.saved.boundary(place.offset) != place.offset or place.offset + place.size > item.file.length
        ) or any(begin <= place.offset < end for begin, end in item.saved.holes):
            session.place = None


def _rebuild_exhausted(made: Rebuild) -> None:
    found = made.found
    if lay.EXHAUSTED_FILE not in found.listing.known and not made.machine.exhausted:
        return
    on_disk = found.view(lay.EXHAUSTED_FILE)
    view = found.authority.exhausted_bytes(on_disk)
    grows_from = None if found.has_operation_log else 0
    saved = salvage.save_records(view, lay.EXHAUSTED_FILE, 1, grows_from=grows_from, ordered=False)
    length = saved.end - sum(end - begin for begin, end in saved.holes)
    file = File(lay.EXHAUSTED_FILE, 0, lay.ZERO, lay.ZERO, 0, 0, length, 0, 0)
    size = found.listing.known.get(lay.EXHAUSTED_FILE, 0)
    was = made.machine.exhausted if found.has_operation_log else size
    made.exhausted = Rebuilt(file, view, saved, saved.time, size, lacks=view != on_disk, was=was)
