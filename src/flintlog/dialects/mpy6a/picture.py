"""Which bytes of a directory make its sessions at one moment: for a copy of it, also while a store writes."""

from __future__ import annotations

from flintlog.core.backup.picture import Part, Picture
from flintlog.core.surveys import Surveys
from flintlog.dialects.mpy6a import layout as lay
from flintlog.dialects.mpy6a.authority import ByNote, ByOperationLog
from flintlog.dialects.mpy6a.layout import StateID
from flintlog.dialects.mpy6a.replay import File
from flintlog.dialects.mpy6a.seen import Survey
from flintlog.dialects.mpy6a.survey import sound_survey, survey_at
from flintlog.disk import Disk
from flintlog.errors import RefusedError


def picture(disk: Disk, path: str, as_of: StateID | None, seen: Surveys) -> Picture:
    """The operation log up to an operation, and the files beside it as that operation left them.

    It takes a survey of its own, which holds the files open.

    Of each data file it takes the beginning, as the checkpoint synced it; the operation log has what came since, and
    the events of the change log. So it does not matter how far the writer is with those files.
    """
    with sound_survey(disk, path, examine_bytes=0) as found:
        return _picture(found, path, as_of)


def _picture(now: Survey, path: str, as_of: StateID | None) -> Picture:
    found = now if as_of is None or not now.has_operation_log else survey_at(now, as_of)
    log = found.authority
    if isinstance(log, ByNote):
        return _strict(now, as_of)
    parts = [_data(now, log, file) for file in found.machine.files.values()]
    if found.machine.exhausted:
        aside = log.exhausted
        parts.append(Part(lay.EXHAUSTED_FILE, aside, tail=tuple(log.set_aside), made=not aside))
    parts.append(Part(lay.SNAPSHOT_FILE, head=lay.encode_snapshot(log.descriptors), made=True))
    parts.append(Part(lay.CHANGES_FILE, head=lay.encode_changes(log.changes, beside=True), made=True))
    parts.append(Part(lay.OPERATIONS_FILE, _end(found, log)))
    return Picture(
        path, None, None, tuple(found.first or found.machine.last), tuple(found.machine.last), tuple(parts)
    )


def _data(now: Survey, log: ByOperationLog, file: File) -> Part:
    synced = log.synced(file.name, 0)
    present = now.machine.files.get(file.name)
    if synced and (present is None or present.id != file.id):
        raise RefusedError(
            "sessions of that time were read since, and their file was deleted",
            file=f"{now.path}/{file.name}",
            advice="Give a later position, or restore an older backup",
        )
    tail = tuple(log.tails.get(file.name, ()))
    return Part(file.name, synced, tail=tail, made=not synced)


def _end(found: Survey, log: ByOperationLog) -> int:
    """Where the last operation that counts ends."""
    assert found.log is not None
    events = found.log.events
    row = len(events) - 1
    while row > log.opened and events.state_id(row) > found.machine.last:
        row -= 1
    return events.end(row)


def _strict(found: Survey, as_of: StateID | None) -> Picture:
    """The note's files alone. Records behind what the change log says count too, so data files are copied after it."""
    last = found.last
    if as_of is not None and as_of != last:
        found.refuse_missing(as_of)
        raise RefusedError(
            "a strict directory has no operation log, and only that tells an earlier state",
            file=found.path,
            advice="Restore without --to, or an older backup",
        )
    known = found.listing.known
    parts = []
    if lay.SNAPSHOT_FILE in known:
        parts.append(Part(lay.SNAPSHOT_FILE, known[lay.SNAPSHOT_FILE]))
    parts.append(Part(lay.CHANGES_FILE, 0 if found.log is None else found.log.end))
    parts += [Part(file.name, file.length, made=not file.length) for file in found.machine.files.values()]
    if lay.EXHAUSTED_FILE in known:
        parts.append(Part(lay.EXHAUSTED_FILE, found.machine.exhausted))
    return Picture(found.path, None, None, tuple(last), tuple(last), tuple(parts))


def is_member(name: str) -> bool:
    """Can a picture have a file of this name?"""
    known = (lay.SNAPSHOT_FILE, lay.CHANGES_FILE, lay.OPERATIONS_FILE, lay.EXHAUSTED_FILE)
    return name in known or lay.parse_name(name) is not None
