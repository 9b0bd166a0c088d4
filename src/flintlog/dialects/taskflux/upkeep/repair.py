"""Repair: make a damaged directory open again, say what that gives up, and keep every original byte.

Repair saves the entries before the damage. Those behind it have no meaning any more: replay counts the ids, so one lost
A shifts every later id of its queue, and removals would hit other records.

Originals are copied to `kept/<time>-<reason>/` before anything changes. Then later segments go, and at the end the cut
segment replaces the damaged one in one rename. Until then a store refuses the directory as before.
"""

from __future__ import annotations

import posixpath
import time
from collections.abc import Callable
from functools import partial
from itertools import chain

import numpy as np

from flintlog.core.finding import Finding, Severity
from flintlog.core.plan import Plan
from flintlog.core.position import span
from flintlog.core.repair import Draft
from flintlog.core.surveys import UNSHARED, Surveys
from flintlog.dialects.taskflux import layout as lay
from flintlog.dialects.taskflux import rules
from flintlog.dialects.taskflux.files import HEADER_DAMAGED, Segment, SegmentFile, finding_in
from flintlog.dialects.taskflux.survey import LOG_EMPTIED, Survey, survey
from flintlog.dialects.taskflux.upkeep.verify import judge_state
from flintlog.disk import Disk


def plan_repair(
    disk: Disk, data: str, clock: Callable[[], float] = time.time, seen: Surveys = UNSHARED
) -> Plan:
    """What would make the directory open again."""
    found = seen.take("whole", partial(survey, disk, data, read_all=True))
    _, more = judge_state(found, found.findings)
    findings = (*found.findings, *more)
    draft = Draft()
    _plan_snapshot(found, draft)
    _plan_covered(found, draft)
    _plan_log(found, findings, draft)
    _plan_metadata(found, draft)  # last, because this file carries the lock
    log = posixpath.join(data, lay.LOG_DIRECTORY)
    draft.actions.append(lambda files: files.disk.sync_directory(log))
    return draft.plan(
        "taskflux",
        disk,
        data,
        findings,
        lock=(posixpath.join(data, lay.METADATA_FILE), "create"),
        scratch=found.layout.scratch,
        clock=clock,
    )


def _plan_metadata(found: Survey, draft: Draft) -> None:
    damaged = next((item for item in found.findings if item.file == lay.METADATA_FILE), None)
    if damaged is None:
        return
    term = found.next_term
    draft.lost.append("the vote of this node, and its term if that was above the log's")
    reason = f"{damaged.message}; becomes term {term}, no vote"
    draft.replace("rewrite", lay.METADATA_FILE, reason, found.layout.encode_metadata(term, None))


def _plan_snapshot(found: Survey, draft: Draft) -> None:
    damaged = next((item for item in found.findings if item.file == lay.SNAPSHOT_FILE), None)
    if damaged is None:
        return
    if damaged.severity is not Severity.REPAIRABLE:
        if found.first or not found.segments:
            draft.refusal = (
                f"the snapshot is damaged ({damaged.message}) and the log does not reach back to LSN 0: "
                "restore a backup, or let another replica send its snapshot"
            )
            return
        draft.lost.append(f"what the snapshot holds beyond LSN {found.last}, where the log ends, if anything")
    draft.replace("empty", lay.SNAPSHOT_FILE, damaged.message)


def _plan_log(found: Survey, findings: tuple[Finding, ...], draft: Draft) -> None:
    """Cut at the first damage in log order; everything behind it goes aside."""
    names = {
        segment.file.name: at for at, segment in enumerate(found.segments) if at >= len(_needless(found))
    }
    wrong = [item for item in findings if item.file in names and item.severity is not Severity.NOTE]
    if not wrong:
        for emptied in (item for item in findings if item.code == LOG_EMPTIED):
            draft.lost.append(f"LSN {found.base.index + 1} on, to the end of the log")
            _begin_log(found, emptied, draft)
        return
    # First the beginning of the log: without it nothing behind it matters.
    wrong.sort(key=lambda item: (names[item.file or ""], item.code != "log-start", item.offset or 0))
    while wrong and wrong[0].code == HEADER_DAMAGED:
        header = wrong.pop(0)
        _renew_header(found.segments[names[header.file or ""]].file, header, draft, found)
    if wrong:
        _plan_damage(found, names[wrong[0].file or ""], wrong[0], draft)


def _plan_damage(found: Survey, at: int, first: Finding, draft: Draft) -> None:
    """Plan what the first damage in the log costs."""
    if first.code == "torn-tail":
        _cut(found.segments[at], found.segments[at].end, first, draft)
    elif first.code == "torn-header":
        _restart(found.segments[at].file, first, draft, found)
    elif first.code == "log-start" and not found.has_snapshot:
        draft.refusal = f"{first.message}; restore a backup, or let another replica send its snapshot"
    elif first.code in ("log-start", "snapshot-conflict"):
        begun = _begin_log(found, first, draft)
        _aside([segment for segment in found.segments if segment.first != begun], first, draft)
        _lose(found.base.index + 1, found.segments, draft)
    elif first.code in ("log-gap", "log-overlap"):
        _aside(found.segments[at:], first, draft)
        _lose(found.segments[at - 1].last + 1, found.segments[at:], draft)
    else:
        _give_up(found, at, first, draft)


def _needless(found: Survey) -> list[Segment]:
    """The segments up to the last damaged one below the snapshot; nothing in them is needed."""
    covered = rules.superfluous([segment.first for segment in found.segments], found.base.index + 1)
    damaged = [at for at in range(covered) if finding_in(found.segments[at], newest=False) is not None]
    return found.segments[: damaged[-1] + 1] if damaged else []


def _plan_covered(found: Survey, draft: Draft) -> None:
    gone = _needless(found)
    if gone:
        reason = finding_in(gone[-1], newest=False)
        assert reason is not None
        _aside(gone, reason, draft)


def _begin_log(found: Survey, reason: Finding, draft: Draft) -> int:
    """Begin an empty segment behind the snapshot, because a log always has one; returns its first LSN."""
    first = found.base.index + 1
    _restart(SegmentFile(f"{lay.LOG_DIRECTORY}/{lay.segment_name(first)}", first, 0), reason, draft, found)
    return first


def _give_up(found: Survey, at: int, first: Finding, draft: Draft) -> None:
    segment = found.segments[at]
    offset = first.offset or 0
    _aside(found.segments[at + 1 :], first, draft)
    if offset < lay.SEGMENT_HEADER_SIZE:
        _lose(segment.first, found.segments[at:], draft)
        if at == 0 and segment.first > 0 and segment.first > found.base.index + 1:
            draft.refusal = f"{first.message}, and nothing before it is left; restore a backup"
        elif at == 0:
            _restart(segment.file, first, draft, found)
        else:
            _aside([segment], first, draft)
        return
    gone = segment.first + int(np.searchsorted(segment.records.offset, offset))
    _lose(gone, found.segments[at:], draft)
    _cut(segment, offset, first, draft)


def _lose(first: int, segments: list[Segment], draft: Draft) -> None:
    """Say which LSNs the repair gives up; behind damage in the last segment they cannot be counted."""
    last = segments[-1]
    if last.damage is None or last.damage.torn:
        lost = span(first, max(last.last, first))
    elif last.damage.resumes is None:
        lost = span(first, max(last.last + 1, first))
    else:
        lost = f"{first} on, to the end of the log"
    draft.lost.append(f"LSN {lost}")


def _cut(segment: Segment, offset: int, reason: Finding, draft: Draft) -> None:
    draft.rewrite(
        "cut",
        segment.file.name,
        f"at byte {offset} of {segment.file.size}: {reason.message}",
        lambda source: chain(source.chunks(0, offset), [lay.END_MARKER]),
    )


def _renew_header(file: SegmentFile, reason: Finding, draft: Draft, found: Survey) -> None:
    header = found.layout.segment_header()
    draft.rewrite(
        "rewrite",
        file.name,
        f"the header only: {reason.message}",
        lambda source: chain([header], source.chunks(len(header), source.size())),
    )


def _restart(file: SegmentFile, reason: Finding, draft: Draft, found: Survey) -> None:
    words = f"as an empty segment: {reason.message}"
    draft.replace("rewrite", file.name, words, found.layout.segment_header(), lay.END_MARKER)


def _aside(segments: list[Segment], reason: Finding, draft: Draft) -> None:
    for segment in reversed(segments):
        draft.aside(segment.file.name, f"cannot be applied: {reason.message}")
