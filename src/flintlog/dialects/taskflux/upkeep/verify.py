"""What is here, and every check there is over every byte."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from flintlog.core.finding import Finding
from flintlog.core.inventory import FileItem, Inventory
from flintlog.core.live import look
from flintlog.core.surveys import Surveys
from flintlog.core.workers import Workers
from flintlog.dialects.taskflux import layout as lay
from flintlog.dialects.taskflux.files import bad_creates
from flintlog.dialects.taskflux.findings import CODES
from flintlog.dialects.taskflux.state import State
from flintlog.dialects.taskflux.survey import Survey, survey
from flintlog.disk import Disk, Progress
from flintlog.errors import DamageError

_PASSING = {"torn-tail", "torn-header", "metadata-missing", "log-gap", "log-overlap", "log-start"}


def inspect(disk: Disk, data: str, seen: Surveys) -> Inventory:
    """Files, roles, ranges; reads the part of the log that no snapshot covers."""

    def glance() -> Inventory:
        return _inventory(seen.take("part", partial(survey, disk, data)))

    return look(disk, data, glance, glance, _PASSING)


def verify(disk: Disk, data: str, progress: Progress, workers: Workers | None, seen: Surveys) -> Inventory:
    """Check every file, record and delta, and whether they make a state. One process is faster than workers."""

    def everything() -> Inventory:
        whole = partial(survey, disk, data, read_all=True, progress=progress)
        found = seen.take("whole", whole, anew=True)
        # Replay decodes only the queues that are alive at the end; this decodes all that were created.
        return _inventory(
            found,
            [finding for segment in found.segments for finding in bad_creates(segment, found.layout)],
        )

    return look(disk, data, everything, lambda: _inventory(survey(disk, data)), _PASSING)


def judge_state(found: Survey, findings: Iterable[Finding]) -> tuple[State | None, list[Finding]]:
    """Replay what the survey read. An entry that stops it becomes a finding, an odd entry a note."""
    if any(finding.is_grave for finding in findings):
        return None, []  # entries behind damage mean nothing without the lost ones
    try:
        state = found.replayed()
    except DamageError as error:
        return None, [CODES.of(error)]
    return state, [*state.notes]


def _inventory(found: Survey, bad: Iterable[Finding] = ()) -> Inventory:
    findings = [*found.findings, *bad]
    state, more = judge_state(found, findings)
    known = {(finding.file, finding.offset) for finding in findings}
    findings += [finding for finding in more if (finding.file, finding.offset) not in known]
    findings += _odd_files(found)
    return Inventory(
        "taskflux",
        found.layout.edition,
        found.listing.data,
        tuple(_items(found)),
        (found.first,) if found.last >= found.first else None,
        (found.last,) if found.last >= 0 else None,
        tuple(findings),
        _facts(found, state),
    )


def _odd_files(found: Survey) -> list[Finding]:
    odd = (
        ("leftover", "left over from an unfinished removal; a snapshot covers it", found.leftovers),
        ("leftover", "left over in the scratch directory", found.listing.scratch),
        ("foreign", "no part of a taskflux directory; not touched", found.listing.foreign),
    )
    return [CODES.finding(code, message, name) for code, message, names in odd for name in names]


def _items(found: Survey) -> list[FileItem]:
    items = []
    read = {segment.first: segment for segment in found.segments}
    files = found.listing.segments
    for at, file in enumerate(files):
        segment = read.get(file.first)
        role = (
            "leftover" if file.name in found.leftovers else ("active" if at + 1 == len(files) else "closed")
        )
        last = files[at + 1].first - 1 if at + 1 < len(files) else file.first - 1
        last = segment.last if segment is not None else last
        count = last - file.first + 1
        items.append(
            FileItem(
                file.name,
                role,
                file.size,
                (file.first,) if count else None,
                (last,) if count else None,
                count,
            )
        )
    if found.listing.metadata_size is not None:
        items.append(FileItem(lay.METADATA_FILE, "metadata", found.listing.metadata_size))
    if found.listing.snapshot_size is not None:
        index = (found.base.index,) if found.has_snapshot else None
        records = sum(len(queue.records) for queue in found.base.queues) if found.has_snapshot else None
        items.append(
            FileItem(lay.SNAPSHOT_FILE, "snapshot", found.listing.snapshot_size, None, index, records)
        )
    return items


def _facts(found: Survey, state: State | None) -> dict[str, object]:
    facts: dict[str, object] = {
        "term": found.metadata.term if found.metadata else None,
        "vote": found.metadata.vote if found.metadata else None,
        "snapshot": found.base.index if found.has_snapshot else None,
    }
    if state is not None:
        live = sum(int(queue.records.payload_length.sum()) for queue in state.queues)
        total = sum(file.size for file in found.listing.segments) + (found.listing.snapshot_size or 0)
        facts |= {
            "queues": len(state.queues),
            "records": state.record_count,
            "live_bytes": live,
            "dead_bytes": max(total - live, 0),
        }
    return facts
