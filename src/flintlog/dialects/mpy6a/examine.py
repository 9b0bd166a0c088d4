"""Compares the data files of a directory with its logs: every record, their order, and where each file ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from flintlog.core.finding import Damage
from flintlog.dialects.mpy6a import layout as lay
from flintlog.dialects.mpy6a import scan
from flintlog.dialects.mpy6a.authority import ByNote, short
from flintlog.dialects.mpy6a.content import Content
from flintlog.dialects.mpy6a.findings import CODES
from flintlog.dialects.mpy6a.replay import File
from flintlog.dialects.mpy6a.seen import Survey
from flintlog.dialects.mpy6a.windows import waits
from flintlog.disk import Progress

EXAMINE_BYTES = 256 << 20  # so much opening examines; older files are checked when they are read
_EXHAUSTED_BEFORE = 1  # exhausted sessions are in no order of time


def sort_chains(found: Survey) -> None:
    """Sort the files of every delay; only the last one may be written."""
    for delay, chain in found.machine.chains.items():
        chain.sort(key=lambda file: (file.replay, file.id))
        writers = [file for file in chain if file.written]
        if len(writers) > 1:
            names = ", ".join(file.name for file in writers)
            found.add(
                "two-writers",
                f"the delay of {delay} s has two files that are written: {names}",
                writers[0].name,
            )
        elif writers and chain[-1] is not writers[0]:
            found.add(
                "writer-not-last",
                f"the file that is written is not the last of its delay; {chain[-1].name} is",
                writers[0].name,
            )


Reader = Callable[[Sequence[tuple[Content, int]]], Iterator["FileSummary"]]


def examine(
    found: Survey, examine_bytes: int | None, progress: Progress, reader: Reader | None = None
) -> None:
    """Examine the size of every file, and the records of the newest ones up to so many bytes; a `reader` reads all."""
    left = examine_bytes if reader is None else None
    total = sum(file.length for file in found.machine.files.values())
    done = 0
    read: Iterator[FileSummary] | None = None
    if reader is not None:
        files = [file for chain in found.machine.chains.values() for file in reversed(chain)]
        read = reader([_reading(found, file) for file in files if _fits(found, file)])
    for chain in found.machine.chains.values():
        first_times: int | None = None  # of the file that follows
        for at in range(len(chain) - 1, -1, -1):
            file = chain[at]
            whole = at == len(chain) - 1 or left is None or file.length <= left
            times = _examine_file(found, file, whole, read)
            if whole and left is not None:
                left -= file.length
            if times is not None:
                first, last = times
                if first_times is not None and last > first_times:
                    found.add(
                        "file-order",
                        f"its first session is due before the last one of {file.name}",
                        chain[at + 1].name,
                        0,
                        f"{last} or later",
                        str(first_times),
                    )
                first_times = first
                file.last_time = max(file.last_time, last)
            done += file.length
            progress(done, total)


def _reading(found: Survey, file: File) -> tuple[Content, int]:
    """A file to read, and from where on its end may be torn."""
    return found.content(file), found.authority.torn_from(file)


def _fits(found: Survey, file: File) -> bool:
    return found.authority.misfit(file, found.listing.data.get(file.name)) is None


def _examine_file(
    found: Survey, file: File, whole: bool, read: Iterator[FileSummary] | None
) -> tuple[int, int] | None:
    """Examine one file. Returns the replay times of its first and last record, if it was read whole and has records."""
    size = found.listing.data.get(file.name)
    misfit = found.authority.misfit(file, size)
    if misfit is not None:
        found.findings.append(misfit)
        return None
    unsettled = found.authority.unsettled(file, size or 0)
    if unsettled is not None:
        found.findings.append(unsettled)
    if not whole:
        return None
    return _judge_records(found, file, read_records(_reading(found, file)) if read is None else next(read))


@dataclass(frozen=True, slots=True)
class FileSummary:
    """What the records of a file say together, as a task returns it."""

    count: int
    waiting: int
    first: int | None  # when the first one is due
    last: int  # and the last one; their bound when there is none
    newest: lay.StateID  # the greatest session id
    on_boundary: bool  # does a record begin at the read position?
    stop: scan.Stop
    damage: Damage | None


def read_records(item: tuple[Content, int]) -> FileSummary:
    """Read a file, whose end may be torn behind an offset."""
    content, growing = item
    file, view = content.file, content.view()
    before = file.replay
    count = waiting = 0
    newest = lay.ZERO
    first: int | None = None
    on_boundary = file.offset == 0
    stop: scan.Stop | None = None
    for records, stop in scan.record_batches(view, before=before):  # noqa: B007
        count += len(records)
        waiting += int(waits(file, records.offset).sum())
        if len(records):
            first = int(records.replay_time[0]) if first is None else first
            before = int(records.replay_time[-1])
            later = records[records.term < lay.UINT64_MAX]  # nothing follows the greatest
            term = int(later.term.max(initial=0))
            index = int(later.index[later.term == term].max(initial=0))
            newest = max(newest, lay.StateID(term, index))
            on_boundary = on_boundary or bool((records.offset == file.offset).any())
    assert stop is not None
    damage = scan.judge_records(view, stop, before, written=stop.offset >= growing)
    return FileSummary(count, waiting, first, before, newest, on_boundary, stop, damage)


def _judge_records(found: Survey, file: File, read: FileSummary) -> tuple[int, int] | None:
    if file.written and isinstance(found.authority, ByNote):
        found.authority.newest[file.name] = read.newest
    found.entries[file.name] = read.count
    found.waiting[file.name] = read.waiting
    damage = read.damage
    if damage is not None:
        if damage.code == "record-order" and read.first is None and not damage.torn:
            message = "the first session is due before the descriptor's bound"
            damage = replace(damage, code="replay-bound", message=message)
        found.findings.append(CODES.of(damage, file.name))
        if not damage.torn:
            return None
        if read.stop.offset < file.offset:
            found.findings.append(
                short(file, read.stop.offset, "the file is read further than it has records")
            )
            return None
        file.length = read.stop.offset
    if not read.on_boundary and file.offset != file.length:
        found.add("offset-boundary", "the read position is inside a record", file.name, file.offset)
    return None if read.first is None else (read.first, read.last)


def compare_exhausted(found: Survey) -> None:
    """Check that all exhausted sessions are there, and that each is a record."""
    misses = found.authority.misses_exhausted(found.listing.known.get(lay.EXHAUSTED_FILE, 0))
    if misses is not None:
        found.findings.append(misses)
        return
    view = found.authority.exhausted_bytes(found.view(lay.EXHAUSTED_FILE))
    count = 0
    stop: scan.Stop | None = None
    for records, stop in scan.record_batches(view, before=_EXHAUSTED_BEFORE, ordered=False):  # noqa: B007
        count += len(records)
    assert stop is not None
    found.entries[lay.EXHAUSTED_FILE] = count
    if not found.has_operation_log:
        found.machine.exhausted = stop.offset
    damage = scan.judge_records(view, stop, _EXHAUSTED_BEFORE, written=not found.has_operation_log)
    if damage is not None:
        found.findings.append(CODES.of(damage, lay.EXHAUSTED_FILE))
