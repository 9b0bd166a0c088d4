"""Repair: make a damaged directory open again, say what that gives up, and keep every original byte.

Repair saves the entries before the first damage that no snapshot covers: no Raft log goes on behind a hole. Originals
are copied to `kept/<time>-<reason>/` first. Then the damaged file is cut, and the files behind it go, the lowest first:
until the last of them is gone there is a gap, and a store refuses the directory. At the end the directory is opened
once, which heals what opening heals.
"""

from __future__ import annotations

import posixpath
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import Any

import msgpack

from flintlog.core.finding import Damage, Finding, Severity, gravest
from flintlog.core.plan import Plan
from flintlog.core.position import span
from flintlog.core.repair import Draft, Files
from flintlog.core.surveys import UNSHARED, Surveys
from flintlog.dialects.zmqraft import layout as lay
from flintlog.dialects.zmqraft import scan
from flintlog.dialects.zmqraft.files import Stray, read_snapshot_file
from flintlog.dialects.zmqraft.scan import Table
from flintlog.dialects.zmqraft.state import PROPERTIES_OF, STATE_SIZE_MAX, load
from flintlog.dialects.zmqraft.store import RaftStore
from flintlog.dialects.zmqraft.survey import HEALED_BY_OPENING, Survey, substitute, survey
from flintlog.disk import Disk
from flintlog.errors import RefusedError

_RESTORE = "restore a backup, or let another peer send its snapshot"


def plan_repair(
    disk: Disk, path: str, clock: Callable[[], float] = time.time, seen: Surveys = UNSHARED
) -> Plan:
    """What would make the directory open again."""
    found = seen.take("whole", partial(survey, disk, path, read_all=True))
    findings = tuple(found.findings)
    found = _with_strays(found)
    draft = Draft()
    covered = _plan_snapshot(found, draft)
    _plan_covered(found, draft)
    last = _plan_log(found, draft)
    _plan_strays(found, draft)
    _plan_beginning(found, covered, draft)
    _plan_states(found, last, draft)
    _plan_opening(found.findings, draft)
    then = partial(_open_and_verify, path, found.listing.snapshot)
    return draft.plan("zmqraft", disk, path, findings, lock=(path, "read"), then=then, clock=clock)


def _open_and_verify(path: str, snapshot: str, disk: Disk) -> None:
    """Open the repaired directory and read all of it: a repair that leaves damage is taken back."""
    RaftStore(path, disk=disk, snapshot_name=snapshot).close()
    worst = gravest(survey(disk, path, read_all=True).findings)
    if worst is not None and worst.severity is not Severity.NOTE:
        raise RefusedError(
            f"the repair would leave this: {worst.message}", file=f"{path}/{worst.file}", advice=_RESTORE
        )


def _plan_opening(findings: Sequence[Finding], draft: Draft) -> None:
    for finding in findings:
        if finding.severity is Severity.REPAIRABLE and finding.code in HEALED_BY_OPENING:
            draft.add(HEALED_BY_OPENING[finding.code], finding.file or "", finding.message)


# The snapshot


def _plan_snapshot(found: Survey, draft: Draft) -> int:
    """Make sure that there is a snapshot from which the log goes on; returns its index."""
    wrong = {finding.code for finding in found.findings if finding.severity is Severity.CORRUPT}
    is_gone = found.snapshot is None or "snapshot-missing" in wrong
    if found.snapshot is not None and not wrong & {"snapshot-missing", "log-start"}:
        return found.snapshot.index
    name = substitute(found)
    if name is None or (name == "" and not is_gone):
        draft.refusal = f"the log needs a snapshot that is not there; {_RESTORE}"
        return 0
    if is_gone:
        draft.lost.append("the data of the snapshot; the state follows from the log and what takes its place")
    empty = lay.encode_snapshot_head(0, 0, 0) + lay.segment(lay.DATA_TOKEN, b"")
    snapshot = found.listing.snapshot

    def act(files: Files) -> None:
        if not name:
            files.replace(snapshot, [empty])
            return
        with files.open(name) as source:
            files.replace(snapshot, source.chunks(0, source.size()))

    reason = f"by {name}, from which the log goes on" if name else "by an empty one: the whole log is there"
    draft.add("replace", snapshot, reason, act)
    return read_snapshot_file(found.disk, found.path, name).index if name else 0


# The log


def _plan_covered(found: Survey, draft: Draft) -> None:
    """Remove damaged files that the snapshot covers, with all below them; nothing is lost."""
    damaged = [
        read.file.first
        for read in found.reads.values()
        if any(item.file == read.file.name and _is_covered_damage(item) for item in found.findings)
    ]
    if damaged:
        gone = [first for first in found.reads if found.range.superseded or first <= max(damaged)]
        aside = [first for first in gone if first in damaged or not found.range.superseded]
        _aside(found, aside, "the snapshot covers it, and it or a file behind it is damaged", draft)


def _is_covered_damage(finding: Finding) -> bool:
    return finding.severity is Severity.REPAIRABLE and finding.code not in HEALED_BY_OPENING


def _plan_log(found: Survey, draft: Draft) -> int:
    """Cut at the first damage in log order, and move everything behind it aside. Returns the last index that stays."""
    wrong = {item.file: item for item in found.findings[::-1] if item.severity is Severity.CORRUPT}
    files = found.range.files
    for at, first in enumerate(files):
        finding = wrong.get(found.reads[first].file.name)
        if finding is None or finding.code == "log-start":
            continue
        if finding.code in ("log-gap", "log-overlap"):
            end = files[at - 1] + found.count_of(files[at - 1])
            _aside_from(found, at, finding, draft)
            if end > first:
                draft.lost.append(f"what the later file says of index {span(first, end - 1)}")
            whole = False
        else:
            end, whole = _plan_damage(found, at, finding, draft)
        if whole and end in files:
            continue
        if not whole or first != files[-1]:
            _lose(found, end, draft)
        return max(end, found.range.first) - 1
    return found.range.last


def _with_strays(found: Survey) -> Survey:
    """The survey of the directory with the misplaced files that fit in their places."""
    placed: list[Stray] = []
    for stray in sorted(found.misplaced, key=lambda stray: stray.first):
        if _fits(found, stray):
            placed.append(stray)
            found = survey(found.disk, found.path, read_all=True, placed=placed)
    return found


def _fits(found: Survey, stray: Stray) -> bool:
    """Is a misplaced file whole, of this place and this log, and the only one for the place?"""
    first, count = stray.first, stray.count
    if not stray.agrees or count is None or [other.first for other in found.misplaced].count(first) > 1:
        return False
    view = found.view(stray.name, newest=True)
    table = scan.read_table(view, first)
    if isinstance(table, Damage):
        return False
    entries, damage = scan.read_entries(view, table)
    if damage is not None:
        return False
    covered = found.snapshot.index if found.snapshot else 0
    before = max((other for other in found.reads if other < first), default=None)
    end = 0 if before is None else before + found.count_of(before)
    if before is not None and end == first:
        goes_on = int(entries.term[0]) >= found.term_of(before, first - 1)
    else:
        goes_on = end < first <= covered + 1
    return goes_on and first + count <= min(
        (other for other in found.reads if other > first), default=first + count
    )


def _plan_strays(found: Survey, draft: Draft) -> None:
    """Move files that fit to their places, unless they are behind damage; move others aside."""
    aside = {step.file for step in draft.steps if step.action == "move aside"}
    for first, read in found.reads.items():
        if read.file.name not in (*aside, lay.index_path(first)):
            _move(found, read.file.name, lay.index_path(first), draft)
    for stray in found.misplaced:
        draft.aside(stray.name, "it does not fit behind the log")
        last = None if stray.count is None else stray.first + stray.count - 1
        begin = max(stray.first, found.range.first)
        indexes = f"{begin} on" if last is None else span(begin, last)
        draft.lost.append(f"index {indexes}, as {stray.name} has it")


def _move(found: Survey, name: str, target: str, draft: Draft) -> None:
    if found.disk.stat(posixpath.join(found.path, target)) is not None:
        draft.aside(target, "it is empty, and another file belongs here", "remove")

    def act(files: Files) -> None:
        source, place = (posixpath.join(found.path, each) for each in (name, target))
        files.disk.make_passing_directory(posixpath.dirname(place))
        files.disk.link(source, place)
        files.disk.sync_ancestors(place)
        files.remove(name)  # a crash may bring it back; a second copy does no harm

    draft.add("move", name, f"to {target}, where it goes on with the log", act)


def _plan_damage(found: Survey, at: int, finding: Finding, draft: Draft) -> tuple[int, bool]:
    """Keep what can be read of a file. Returns the index behind that, and whether it is all of the file."""
    files = found.range.files
    first = files[at]
    name = found.reads[first].file.name
    view = found.view(name, newest=True)
    renewed = renewed_head(view, first)
    if renewed is not None:
        head, count = renewed
        _rewrite(name, head, lay.TABLE_OFFSET, f"the header only: {finding.message}", draft)
        if first + count not in files:
            _aside(found, files[at + 1 :], f"stands behind {name}, which ends before it", draft)
        return first + count, True
    table = _sound_part(view, first, finding)
    if table is None:
        _aside_from(found, at, finding, draft)
        return first, False
    kept = len(table.ends)
    slots = table.ends.astype("<u4").tobytes() + bytes(lay.SLOT_SIZE * (table.capacity - kept))
    head = lay.encode_index_head(table.capacity, first) + slots
    _rewrite(name, head, len(head), f"the first {kept} slots stay: {finding.message}", draft)
    _aside(found, files[at + 1 :], f"stands behind {name}", draft)
    return first + kept, False


def _plan_beginning(found: Survey, covered: int, draft: Draft) -> None:
    """Begin a log anew behind the snapshot when no file of it is left."""
    aside = {step.file for step in draft.steps if step.action == "move aside"}
    is_gone = any(item.code == "log-missing" and item.severity is Severity.CORRUPT for item in found.findings)
    goes = found.reads and all(read.file.name in aside for read in found.reads.values())
    if not covered or not (is_gone or goes):
        return
    first = covered + 1
    capacity = lay.file_capacity(lay.CAPACITY_DEFAULT, first)
    head = lay.encode_index_head(capacity, first) + bytes(lay.SLOT_SIZE * capacity)
    name = lay.index_path(first)

    def act(files: Files) -> None:
        files.disk.make_directory(posixpath.dirname(posixpath.join(found.path, name)))
        files.replace(name, [head, lay.segment(lay.ENTRIES_TOKEN, b"")])

    if is_gone:
        draft.lost.append(f"index {first} on, if the log held it")
    draft.add("begin", name, "an empty log behind the snapshot", act)


def renewed_head(view: memoryview, first: int) -> tuple[bytes, int] | None:
    """The header under which a file with a damaged one is whole, and how many entries it then has.

    None when there is none, or more than one. The first index is believed: a file that says another one than its name
    may be a file of another place, and its entries must not become others.
    """
    if len(view) < lay.TABLE_OFFSET or not isinstance(scan.read_capacity(view, first), Damage):
        return None
    _, size, version, capacity, said = lay.INDEX_HEADER.unpack_from(view)
    if version != lay.VERSION or said != first:
        return None
    heads = []
    for candidate in {capacity, (size - 16) // lay.SLOT_SIZE}:
        if 0 < candidate <= lay.CAPACITY_FILE_MAX:
            head = lay.encode_index_head(candidate, first)
            whole = memoryview(head + bytes(view[lay.TABLE_OFFSET :]))
            table = scan.read_table(whole, first)
            if isinstance(table, Table) and scan.read_entries(whole, table)[1] is None:
                heads.append((head, len(table.ends)))
    return heads[0] if len(heads) == 1 else None


def _sound_part(view: memoryview, first: int, finding: Finding) -> Table | None:
    """The table of a file up to the entry that cannot be read; None when the file's head cannot be read."""
    table = scan.read_table(view, first)
    if isinstance(table, Damage):
        if table.code != "index-offsets":
            return None
        slot = (table.offset - lay.TABLE_OFFSET) // lay.SLOT_SIZE
        begun = bytearray(view)
        begun[table.offset : table.offset + lay.SLOT_SIZE] = bytes(lay.SLOT_SIZE)
        table = scan.read_table(memoryview(begun), first)
        if isinstance(table, Damage) or len(table.ends) != slot:
            return None
    entries, _ = scan.read_entries(view, table)
    return Table(first, table.capacity, table.data_start, table.ends[: len(entries)], False)


def _rewrite(name: str, head: bytes, behind: int, reason: str, draft: Draft) -> None:
    draft.rewrite("rewrite", name, reason, lambda source: chain([head], source.chunks(behind, source.size())))


def _aside_from(found: Survey, at: int, finding: Finding, draft: Draft) -> None:
    """Move a useless file of the log aside, and all behind it."""
    files = found.range.files
    _aside(found, files[at : at + 1], finding.message, draft)
    _aside(found, files[at + 1 :], f"stands behind {finding.file}", draft)


def _aside(found: Survey, files: Sequence[int], reason: str, draft: Draft) -> None:
    for first in files:
        draft.aside(found.reads[first].file.name, reason)


def _lose(found: Survey, first: int, draft: Draft) -> None:
    """Say which entries the repair gives up; those that the snapshot covers are not lost."""
    first = max(first, found.range.first)
    last_file = found.reads[found.range.files[-1]]
    if last_file.count is None:
        draft.lost.append(f"index {first} on, to the end of the log")
    elif first <= found.range.last:
        draft.lost.append(f"index {span(first, found.range.last)}")


# The state files


def _plan_states(found: Survey, last: int, draft: Draft) -> None:
    for name in PROPERTIES_OF:
        finding = next((item for item in found.findings if item.file == name and _is_damage(item)), None)
        if finding is not None:
            _renew_state(found, finding, last, draft)
        elif name == lay.APPLIED_STATE_FILE and found.applied > last:
            reason = f"the log ends at {last}; applied up to index {last}"
            if any(item.code == "applied-beyond" for item in found.findings):
                draft.lost.append(f"index {span(found.range.last + 1, found.applied)}, which was applied")
            _write_state(name, {"lastApplied": last}, reason, draft)


def _is_damage(finding: Finding) -> bool:
    return finding.severity is Severity.CORRUPT and finding.code != "applied-beyond"


def _renew_state(found: Survey, finding: Finding, last: int, draft: Draft) -> None:
    name = finding.file or ""
    raw = b""
    if name in found.listing.sizes:
        raw = found.disk.read(posixpath.join(found.path, name), STATE_SIZE_MAX)[: finding.offset]
    values = load(raw, PROPERTIES_OF[name], name).values
    if name == lay.RAFT_STATE_FILE:
        # This peer may have voted in any term that it knew, but not in the next.
        term = max(values["currentTerm"], found.last_term or 0) + 1
        values |= {"currentTerm": min(term, lay.NUMBER_MAX), "votedFor": None}
        draft.lost.append(f"terms, votes and peers that {name} told behind byte {len(raw)}")
        reason = f"{finding.message}; becomes term {values['currentTerm']}, no vote"
    else:
        values["lastApplied"] = min(values["lastApplied"], last)
        draft.lost.append(f"what was applied behind index {values['lastApplied']}, if {name} told it")
        reason = f"{finding.message}; applied up to index {values['lastApplied']}"
    _write_state(name, values, reason, draft)


def _write_state(name: str, values: dict[str, Any], reason: str, draft: Draft) -> None:
    draft.replace("rewrite", name, reason, msgpack.packb(values))
