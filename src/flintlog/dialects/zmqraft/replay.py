"""What the files of a peer mean together: which of them make the log, where it begins and ends.

Data in a snapshot and in entries belongs to the application, so the state of a log is its live range: the
entries behind the snapshot. The live log and the read verbs share this code.

What a crash can leave, and what it means:
- the newest file ends inside its head: it was being made; opening removes it;
- empty files at the end: made for entries that never came, or that were rolled back; opening removes them;
- files below a gap that the snapshot covers: left by an unfinished removal; opening removes them;
- a snapshot that the log does not reach, or disagrees with: it came from another peer, and the old log is still there;
  opening puts that log aside, as the installation would have done.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from flintlog.core.finding import Finding, Severity
from flintlog.core.position import span
from flintlog.dialects.zmqraft import layout as lay
from flintlog.dialects.zmqraft.findings import CODES
from flintlog.dialects.zmqraft.scan import SnapshotHead


@dataclass(frozen=True, slots=True)
class LogRange:
    """The index files of a peer by what they are; each is named by the index of its first slot."""

    files: tuple[int, ...]  # those that make the log, in order; they may still have gaps, see `findings`
    first: int  # the first entry behind the snapshot
    last: int  # the snapshot's index when nothing follows it
    empty: tuple[int, ...]
    leftovers: tuple[int, ...]
    superseded: bool  # the snapshot is of another history: none of the files counts
    findings: tuple[Finding, ...]
    holes: tuple[
        tuple[int, int], ...
    ] = ()  # first and last index of each gap: in no file, and not in the snapshot

    def needs(self, first: int, count: int | None) -> bool:
        """Would a file with these entries continue the log, or fill a hole in it?"""
        last = lay.NUMBER_MAX if count is None else first + count - 1
        return first <= last and (
            last > self.last or any(first <= end and begin <= last for begin, end in self.holes)
        )


def live_range(
    firsts: Sequence[int],
    snapshot: SnapshotHead,
    count_of: Callable[[int], int],
    term_of: Callable[[int, int], int],
    is_unused: Callable[[int], bool],
    superseded_by: Collection[tuple[int, int]] = (),
    *,
    end_is_known: bool = True,
) -> LogRange:
    """Find out which files make the log. `count_of(file)` counts its entries, `term_of(file, index)` reads a term,
    `is_unused(file)` says whether every slot is free.

    `superseded_by` are the snapshots that supersede this log by its own marks. When the end of the log is not known,
    only these marks show it.
    """
    files = list(firsts)
    empty: list[int] = []
    while len(files) > 1 and files[-1] > snapshot.index + 1 and is_unused(files[-1]):
        empty.append(files.pop())
    leftovers, gaps = _gaps(files, snapshot.index, count_of)
    del files[: len(leftovers)]
    findings = [_empty(file, files[-1] + count_of(files[-1])) for file in empty[::-1]]
    findings += [_leftover(file) for file in leftovers]
    findings += gaps
    last = files[-1] + count_of(files[-1]) - 1 if files else snapshot.index
    superseded = bool(files) and (
        (snapshot.index, snapshot.term) in superseded_by
        or (end_is_known and _is_superseded(files, last, snapshot, term_of))
    )
    if superseded:
        message = (
            f"the snapshot at index {snapshot.index} is not of this log; opening keeps the log as log-<time>"
        )
        findings = [_heal("log-superseded", message, files[0])]
    elif files and files[0] > snapshot.index + 1:
        findings.append(_start(files[0], snapshot.index))
    if superseded or not files:
        return LogRange((), snapshot.index + 1, snapshot.index, (), (), superseded, tuple(findings))
    return LogRange(
        tuple(files),
        max(files[0], snapshot.index + 1),
        max(last, snapshot.index),
        tuple(empty),
        tuple(leftovers),
        False,
        tuple(findings),
        tuple(_holes(files, snapshot.index, count_of)),
    )


def without_begun(found: LogRange, first: int, applied: int) -> LogRange | None:
    """The log without its newest file, which a crash left in the making; `found` is the log before that file.

    None when that cannot be: the file is not the next one, or entries of it were applied.
    """
    if found.superseded:
        return found
    if found.last + 1 != first or applied > found.last:
        return None
    begun = _heal("torn-file", "torn tail: the newest index file was being made", first)
    return replace(found, empty=(*found.empty, first), findings=(*found.findings, begun))


def applied_beyond(applied: int, last: int) -> Finding | None:
    """The finding for applied entries that the log does not have."""
    if applied <= last:
        return None
    message = f"index {applied} was applied and the log ends at {last}"
    return CODES.finding("applied-beyond", message, lay.APPLIED_STATE_FILE)


def missing_files(
    names: Collection[str], history: Collection[str], covered: int, has_log: bool, snapshot: str
) -> list[Finding]:
    """Findings for missing files; `names` are the snapshot and state files that exist, `snapshot` is the name of the
    snapshot.

    Opening makes again what a crash can take away. A file with a predecessor was durable once, and `raft.pers` was
    durable when `state.pers` was made: without them something is lost.
    """
    found = []
    for name in (lay.RAFT_STATE_FILE, lay.APPLIED_STATE_FILE):
        had_it = any(lay.is_predecessor(old, name) for old in history)
        if name not in names and (had_it or lay.APPLIED_STATE_FILE in names):
            message = f"{name} is gone, and with it what it told"
            found.append(CODES.finding("state-missing", message, name))
    if snapshot not in names and has_log:
        if any(lay.is_predecessor(old, snapshot) for old in history):
            severity, message = Severity.CORRUPT, "there is no snapshot, and there was one"
        else:
            severity, message = Severity.REPAIRABLE, "there is no snapshot; opening makes an empty one"
        found.append(CODES.finding("snapshot-missing", message, snapshot, severity=severity))
    if covered and not has_log:
        put_aside = any(lay.is_predecessor(old, lay.LOG_DIRECTORY) for old in history)
        if put_aside or lay.RAFT_STATE_FILE not in names:
            severity, message = Severity.REPAIRABLE, "there is no log behind the snapshot; opening begins one"
        else:
            severity, message = Severity.CORRUPT, "there is no log behind the snapshot, and there was one"
        found.append(CODES.finding("log-missing", message, lay.LOG_DIRECTORY, severity=severity))
    return found


def _gaps(
    files: Sequence[int], covered: int, count_of: Callable[[int], int]
) -> tuple[list[int], list[Finding]]:
    """The files below a gap that the snapshot covers, and the gaps that it does not cover."""
    found: list[Finding] = []
    for at in range(len(files) - 1, 0, -1):
        following = files[at - 1] + count_of(files[at - 1])
        if following == files[at]:
            continue
        if following < files[at] <= covered + 1:
            return list(files[:at]), found[::-1]
        found.append(_gap(files[at], following))
    return [], found[::-1]


def _holes(files: Sequence[int], covered: int, count_of: Callable[[int], int]) -> Iterator[tuple[int, int]]:
    end = covered + 1
    for first in files:
        if end < first:
            yield end, first - 1
        end = max(end, first + count_of(first))


def misplaced(name: str, first: int) -> Finding:
    """The finding for an index file that the log needs, in a wrong place."""
    return CODES.finding(
        "index-misplaced",
        f"the log goes on in this file, from index {first} on, and no peer looks for it here",
        name,
        16,
        lay.index_path(first),
        name,
    )


def _is_superseded(
    files: Sequence[int], last: int, snapshot: SnapshotHead, term_of: Callable[[int, int], int]
) -> bool:
    if snapshot.index > last:
        return last >= files[0] or files[-1] != snapshot.index + 1
    holder = max((file for file in files if file <= snapshot.index), default=None)
    return holder is not None and term_of(holder, snapshot.index) != snapshot.term


def _empty(first: int, following: int) -> Finding:
    # Directly behind the log it is the file of the next entry; the original opens no log with one further on.
    severity = Severity.NOTE if first == following else Severity.REPAIRABLE
    message = "an empty index file behind the end of the log"
    return CODES.finding("empty-file", message, lay.index_path(first), severity=severity)


def _leftover(first: int) -> Finding:
    message = "left over from an unfinished removal; opening removes it"
    return CODES.finding("leftover", message, lay.index_path(first))


def _heal(code: str, message: str, first: int) -> Finding:
    return CODES.finding(code, message, lay.index_path(first))


def _start(first: int, covered: int) -> Finding:
    return CODES.finding(
        "log-start",
        f"the log begins at index {first} and the snapshot ends at {covered}",
        lay.index_path(first),
        16,
        f"index {covered + 1} or lower",
        f"index {first}",
    )


def _gap(first: int, expected: int) -> Finding:
    if expected < first:
        code, message = "log-gap", f"missing before this file: index {span(expected, first - 1)}"
    else:
        code, message = "log-overlap", f"in the file before, too: index {span(first, expected - 1)}"
    return CODES.finding(code, message, lay.index_path(first), 16, f"index {expected}", f"index {first}")
