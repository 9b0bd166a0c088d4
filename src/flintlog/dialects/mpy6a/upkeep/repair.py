"""Repair: make a damaged directory open again, say what that gives up, and keep every original byte.

Opening heals what a crash leaves. `rebuild.py` heals damage: it rebuilds the directory. Originals are copied to
`kept/<time>-<reason>/` first. Without an operation log the data files are written then, the snapshot, and an empty
change log: until the snapshot stands, the directory refuses to open or opens to the same sessions. An operation log
decides, so it is written between the data files: before it the files with bytes that only the old log had, after it the
files with holes that the new log counts as done. At the end the directory is opened once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from flintlog.columns.zeros import zeros_from
from flintlog.core.finding import Finding, Severity
from flintlog.core.plan import Plan
from flintlog.core.repair import Draft, Files
from flintlog.core.surveys import UNSHARED, Surveys
from flintlog.dialects.mpy6a import layout as lay
from flintlog.dialects.mpy6a import operations as ops
from flintlog.dialects.mpy6a.store.engine import Engine
from flintlog.dialects.mpy6a.survey import survey
from flintlog.dialects.mpy6a.upkeep import salvage
from flintlog.dialects.mpy6a.upkeep.rebuild import Rebuild, Rebuilt, filled_up_to, rebuild
from flintlog.disk import Disk, FailStop

# What opening does about each finding that a crash leaves.
_HEALED_BY_OPENING = {"file-behind": "write", "file-ahead": "cut", "note-behind": "rewrite"}


def plan_repair(
    disk: Disk, path: str, clock: Callable[[], float] = time.time, seen: Surveys = UNSHARED
) -> Plan:
    """What would make the directory open again."""
    found, _ = seen.take("whole", lambda: (survey(disk, path), None), keep=False)  # `rebuild` changes it
    findings = tuple(found.findings)
    draft = Draft()
    if any(finding.severity is Severity.CORRUPT for finding in findings):
        _plan_rebuild(rebuild(found), findings, draft)
    else:
        _plan_opening(findings, draft)

    strict = lay.OPERATIONS_FILE not in found.listing.known

    def heal(disk: Disk) -> None:
        Engine(disk, path, FailStop(path), strict=strict, log_bytes=1 << 62, reserve_bytes=0).close()

    return draft.plan("mpy6a", disk, path, findings, lock=(path, "read"), then=heal, clock=clock)


def _plan_opening(findings: tuple[Finding, ...], draft: Draft) -> None:
    for finding in findings:
        if finding.severity is Severity.REPAIRABLE:
            draft.add(_HEALED_BY_OPENING.get(finding.code, "cut"), finding.file or "", finding.message)


# A directory put together anew


def _plan_rebuild(made: Rebuild, findings: tuple[Finding, ...], draft: Draft) -> None:
    _say_logs(made, findings, draft)
    for file in made.gone:
        _say_gone(made, file.name, file.length - file.offset, draft)
    for name in made.strangers:
        draft.add("move aside", name, "nothing describes it, and no session in it can be")
        draft.lost.append(
            f"{name}: all {made.found.listing.data[name]} bytes, if there were sessions in them"
        )
    for item in made.files:
        _say_file(made, item, draft)
    if made.exhausted is not None:
        _say_file(made, made.exhausted, draft)
    draft.actions = [lambda files: _carry_out(made, files)]


def _carry_out(made: Rebuild, files: Files) -> None:
    items = [*made.files, *([made.exhausted] if made.exhausted is not None else [])]
    changed = [item for item in items if item.changed]
    for name in made.strangers:
        files.remove(name)  # durable by the opening at the end
    if not made.operations:
        for item in changed:
            files.replace(item.name, _content(made, item))
        files.replace(lay.SNAPSHOT_FILE, [lay.encode_snapshot(made.descriptors)])
        files.replace(lay.CHANGES_FILE, [lay.encode_changes([], beside=False)])
        return
    for item in changed:
        if item.lacks and item is not made.exhausted:
            files.replace(item.name, [bytes(item.view)])
    if made.exhausted is not None and made.exhausted.changed:
        files.replace(made.exhausted.name, _content(made, made.exhausted))
    base, sessions = made.base()
    files.replace(lay.OPERATIONS_FILE, ops.checkpoint(made.last, base, sessions))
    for item in changed:
        if item is not made.exhausted:
            files.replace(item.name, _content(made, item))


def _content(made: Rebuild, item: Rebuilt) -> Iterator[bytes]:
    filled = 0 if item is made.exhausted else filled_up_to(made, item)
    return salvage.content(item.view, item.saved, item.times, filled, item.file.replay)


# What an operator reads


def _say_logs(made: Rebuild, findings: tuple[Finding, ...], draft: Draft) -> None:
    found, known = made.found, made.found.listing.known
    wrong = {item.file: item for item in findings[::-1] if item.severity is Severity.CORRUPT}
    decides = lay.OPERATIONS_FILE if made.operations else lay.SNAPSHOT_FILE
    reasons = [
        item.message if item.file in (None, *known) else f"{item.file}: {item.message}"
        for item in findings
        if item.severity is Severity.CORRUPT and _of_descriptors(item)
    ]
    reasons += [f"{item.name}: {note}" for item in made.files for note in item.notes]
    count = len(made.files)
    reason = "; ".join(dict.fromkeys(reasons)) or "as they are after the other steps"
    draft.add("rewrite", decides, f"{count} file{'' if count == 1 else 's'} described: {reason}")
    operations = wrong.get(lay.OPERATIONS_FILE)
    if operations is not None:
        view = found.view(lay.OPERATIONS_FILE)
        begin = operations.offset or 0
        size = zeros_from(view, begin) - begin
        if size:
            draft.lost.append(
                f"operations in {lay.OPERATIONS_FILE} from byte {begin} on, {size} bytes: sessions that were begun or"
                " changed there, as far as no data file has them"
            )
        if not found.has_operation_log:
            draft.lost.append("the sessions that were open, and that others were done with out of turn")
    if any(item.code == "note-ahead" for item in findings):
        draft.lost.append(
            f"operations behind {found.machine.last}: sessions that were begun or changed there, as far as no data file"
            " has them"
        )
    snapshot = wrong.get(lay.SNAPSHOT_FILE)
    if snapshot is not None and snapshot.code != "snapshot-duplicate" and not made.operations:
        draft.lost.append(
            f"descriptors in {lay.SNAPSHOT_FILE} that cannot be read: which files there were, and what of them was read"
        )
    _say_changes(made, wrong.get(lay.CHANGES_FILE), draft)


def _of_descriptors(finding: Finding) -> bool:
    return finding.file in (None, lay.SNAPSHOT_FILE, lay.OPERATIONS_FILE, lay.CHANGES_FILE) or (
        finding.code in ("offset-boundary", "replay-bound", "writer-not-last", "file-short", "file-long")
    )


def _say_changes(made: Rebuild, finding: Finding | None, draft: Draft) -> None:
    if finding is None or made.operations:
        return
    view = made.found.view(lay.CHANGES_FILE)
    begin = made.log_end if made.log_end is not None else 0
    draft.add("begin", lay.CHANGES_FILE, finding.message)
    if len(view) > begin:
        draft.lost.append(
            f"operations in {lay.CHANGES_FILE} from byte {begin} on, {len(view) - begin} bytes: read positions among"
            " them stay behind, so sessions that were done with come again"
        )
    elif finding.code == "changes-missing":
        draft.lost.append(
            f"what {lay.CHANGES_FILE} said: read positions stay behind, so sessions that were done with come again"
        )


def _say_gone(made: Rebuild, name: str, unread: int, draft: Draft) -> None:
    draft.add("forget", name, "the file is not there")
    if made.doubtful:
        draft.lost.append(f"{name}: what of it was not read, unless an operation that is lost deleted it")
    elif unread:
        draft.lost.append(f"{name}: {unread} bytes that were not read")
    elif not made.operations:  # the note's files do not say how long a file has become
        draft.lost.append(f"{name}: every session that waited in it; nothing says how many")


def _say_file(made: Rebuild, item: Rebuilt, draft: Draft) -> None:
    saved, name = item.saved, item.name
    holes = [(begin, end) for begin, end in saved.holes if end > item.read_to]
    for begin, end in holes:
        draft.lost.append(f"{name}: bytes {begin} to {end - 1}, {end - begin} in all")
    size = max(item.on_disk, len(item.view), item.was)
    cut = (made.described.get(name, 0) if saved.torn else size) - saved.end
    if cut > 0 and not _ahead(made, item):
        draft.lost.append(f"{name}: {cut} bytes from byte {saved.end} on")
    if item.file.offset < item.read_to and saved.end >= item.read_to:
        draft.lost.append(f"{name}: that byte {item.file.offset} on was read; it comes again")
    if item.adopted:
        draft.add("adopt", name, "nothing describes it any more; it is read from its beginning")
        draft.lost.append(f"{name}: what of it was read; it comes again")
    if item.retimed:
        draft.lost.append(
            f"{name}: when {item.retimed} of its sessions {'was' if item.retimed == 1 else 'were'} due"
        )
    if saved.holes or item.retimed:
        draft.add("rewrite", name, _rewritten(item))
    elif saved.end < item.on_disk:
        draft.add("cut", name, f"at byte {saved.end} of {item.on_disk}")
    elif item.lacks:
        draft.add("write", name, "what only the operation log has of it")


def _ahead(made: Rebuild, item: Rebuilt) -> bool:
    """Do the bytes that are cut belong to no operation?"""
    return made.operations and not made.doubtful and item.saved.end == item.was


def _rewritten(item: Rebuilt) -> str:
    parts = []
    if item.saved.holes:
        count = len(item.saved.holes)
        parts.append(f"without {count} part{'' if count == 1 else 's'} that cannot be read")
    if item.retimed:
        count = item.retimed
        parts.append(
            f"{count} session{' takes' if count == 1 else 's take'} the time of the next one, because time never goes"
            " back"
        )
    if item.saved.end < item.on_disk:
        parts.append(f"cut at byte {item.saved.end} of {item.on_disk}")
    return ", ".join(parts)
