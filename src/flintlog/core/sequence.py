"""Following a log whose entries are numbered: LSN, index, state id.

A cursor of such a log:

| field | meaning |
|---|---|
| `position` | the last one that was delivered |
| `marks` | some entries that were delivered, each [position, term, CRC-32 of its bytes] |
| `void` | a truncation was found on the way here: delivered entries from this position on were void |
| `lost` | [the first position that was removed before it could be delivered, the first one that is left] |

A Raft log may take entries back until they are committed, and no file says which are. So a follower delivers them all,
and checks with every step that its last mark is still in the log. If not, the marks before it show from where on the
log has changed: entries with the same position and term are the same, and delivered terms are known because the last
entry of each is a mark. The first entry is a mark too, and some before the last: 1, 2, 4, ... back.
"""

from __future__ import annotations

import posixpath
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from flintlog.core.dialect import NO_PAYLOAD, EntryQuery, Split
from flintlog.core.follow import (
    LOST,
    TRUNCATE,
    Cursor,
    Delivery,
    Limits,
    OnLoss,
    Report,
    looking_again,
    lost,
    make_durable,
    replaced,
    report_batch,
)
from flintlog.core.log import Log
from flintlog.core.position import Position, position_json, position_of, span

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

_TERMS_MAX = 8
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Mark:
    """An entry by which the log is recognised. `place` (file, offset, length) is set until the checksum is."""

    position: Position
    term: int
    checksum: int | None = None
    place: tuple[str, int, int] | None = None


@dataclass(slots=True)
class _Progress:
    """What a step has taken so far."""

    position: Position | None
    marks: list[Mark]
    void: Position | None = None
    lost: tuple[Position, Position] | None = None
    entries: int = 0
    bytes: int = 0


class SequenceFollower:
    """Follows a log whose entries have consecutive numbers."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._known: Cursor | None = None  # the newest cursor of this process: no need to check it

    # What a dialect may override

    def splits(self, query: EntryQuery) -> list[Split]:
        """One split for each file that holds entries of the query; the first one holds the first position."""
        return self._log.splits(replace(query, split_bytes=sys.maxsize))

    def first_of(self, splits: list[Split]) -> Position | None:
        """The first position that the log can still deliver; None when it has no file for it."""
        return (splits[0].first,) if splits else None

    def ids(self, batch: pa.RecordBatch) -> tuple[NDArray[Any], NDArray[Any]]:
        """Terms and positions of entries."""
        term = batch.column("term").to_numpy(zero_copy_only=False)
        return term, batch.column("position").to_numpy()

    def position(self, term: int, number: int) -> Position:
        return (number,)

    def after(self, position: Position | None) -> Position | None:
        """The first position behind this one."""
        return None if position is None else (*position[:-1], position[-1] + 1)

    def entry_at(self, splits: list[Split], position: Position) -> Mark | None:
        """The entry at a position, which the first split holds."""
        query = EntryQuery(first=position, last=position, skip=NO_PAYLOAD)
        for split in splits[:1]:
            for batch in self._log.read_split(split, query):
                terms, numbers = self.ids(batch)
                return mark_of(self, batch, terms, numbers, len(numbers) - 1)
        return None

    counts = True  # positions have no gaps

    # Planning

    def advance(self, start: Cursor, limits: Limits, on_loss: OnLoss) -> Cursor:
        cursor = looking_again(self._log.disk, lambda: self._advance(start, limits, on_loss))
        self._known = cursor
        return cursor

    def _advance(self, start: Cursor, limits: Limits, on_loss: OnLoss) -> Cursor:
        taken = _Progress(position_of(start.get("position")), _marks(start))
        if self._mark_stands(taken.marks) is False:
            self._go_back(taken)
        splits = self.splits(EntryQuery(first=self.after(taken.position), skip=NO_PAYLOAD))
        first = self.first_of(splits)
        expected = self.after(taken.position)
        if expected is not None and first is not None and first > expected:
            if on_loss == "fail":
                raise lost(self._log.path, self._words(expected, first))
            taken.lost = (expected, first)
            taken.position = self._before(first)
        synced = self._take(splits, taken, limits)
        if not taken.entries and taken.void is None and taken.lost is None:
            return start
        make_durable(self._log.disk, self._log.root, synced)
        return self._cursor(taken)

    def _before(self, position: Position) -> Position:
        return (*position[:-1], position[-1] - 1)

    def _take(self, splits: list[Split], taken: _Progress, limits: Limits) -> set[str]:
        """Walk over entries until a limit is reached. Returns the files that may not be on the device yet."""
        import numpy as np

        growing: set[str] = set()
        until = None if limits.until is None else position_of(limits.until.get("position"))
        query = EntryQuery(first=self.after(taken.position), last=until, skip=NO_PAYLOAD)
        if until is not None and query.first is not None and query.first > until:
            return growing
        for split in splits:
            for batch in self._log.read_split(split, query):
                sizes = np.cumsum(batch.column("length").to_numpy())
                rows = batch.num_rows
                if limits.entries is not None:
                    rows = min(rows, limits.entries - taken.entries)
                if limits.bytes is not None:
                    fit = int(np.searchsorted(sizes, limits.bytes - taken.bytes, side="right"))
                    rows = min(rows, max(fit, 0 if taken.entries else 1))
                if rows <= 0:
                    return growing
                terms, numbers = self.ids(batch)
                first = [] if taken.marks else [0]
                taken.marks += _candidates(self, batch, terms[:rows], numbers[:rows], first)
                taken.position = taken.marks[-1].position
                taken.entries += rows
                taken.bytes += int(sizes[rows - 1])
                if split.last is None:
                    growing.add(split.file)
                taken.marks = self._thinned(taken.marks)
                if rows < batch.num_rows or not limits.room(taken.entries, taken.bytes):
                    return growing
        return growing

    def _thinned(self, marks: list[Mark]) -> list[Mark]:
        """The marks to keep: the first, the last of each of the newest terms, one at each doubling distance back."""
        oldest, newest = marks[0], marks[-1]
        kept: dict[Position, Mark] = {}
        terms: dict[int, None] = {}
        distances: set[int] = set()
        for mark in reversed(marks):
            same = mark.position[:-1] == newest.position[:-1]
            distance = (newest.position[-1] - mark.position[-1]).bit_length() if same else 64
            if mark.term not in terms and len(terms) < _TERMS_MAX:
                terms[mark.term] = None
            elif distance in distances:
                continue
            distances.add(distance)
            kept[mark.position] = mark
        kept[oldest.position] = oldest  # it shows whether the log was begun anew
        return list(reversed(kept.values()))

    def _cursor(self, taken: _Progress) -> Cursor:
        marks = [mark if mark.checksum is not None else self._with_checksum(mark) for mark in taken.marks]
        cursor: Cursor = {
            "position": None if taken.position is None else position_json(taken.position),
            "marks": [[position_json(mark.position), mark.term, mark.checksum] for mark in marks],
        }
        if taken.void is not None:
            cursor["void"] = position_json(taken.void)
        if taken.lost is not None:
            cursor["lost"] = [position_json(position) for position in taken.lost]
        return cursor

    # Truncation

    def _mark_stands(self, marks: list[Mark]) -> bool | None:
        """Is the newest mark in the log? None when its file was removed, so that nothing can tell."""
        if not marks:
            return None
        mark = marks[-1]
        splits = self.splits(EntryQuery(first=mark.position, skip=NO_PAYLOAD))
        first = self.first_of(splits)
        if first is None or mark.position < first:
            return None
        found = self.entry_at(splits, mark.position)
        return found is not None and self._same(found, mark)

    def _same(self, found: Mark, mark: Mark) -> bool:
        return found.term == mark.term and self._with_checksum(found).checksum == mark.checksum

    def _go_back(self, taken: _Progress) -> None:
        """Find the first delivered entry that is void, and set the step back in front of it."""
        missing: Mark | None = None
        while taken.marks and self._mark_stands(taken.marks) is False:
            missing = taken.marks.pop()
        last = taken.marks[-1].position if taken.marks else None
        if missing is not None:
            last = self._agreed(last, missing)
        if last is None:  # no delivered entry is found: the log was begun anew
            splits = self.splits(EntryQuery(skip=NO_PAYLOAD))
            first = self.first_of(splits)
            taken.void = min(first or missing.position, missing.position) if missing else first
            taken.position = None
            return
        taken.void = self.after(last)
        taken.position = last
        if not taken.marks or taken.marks[-1].position < last:  # now the last of its term that counts
            end = self.entry_at(self.splits(EntryQuery(first=last, skip=NO_PAYLOAD)), last)
            taken.marks += [end] if end is not None else []

    def _agreed(self, last: Position | None, missing: Mark) -> Position | None:
        """How far the log behind `last` has the missing mark's term; by Raft's rule these entries were delivered."""
        import numpy as np

        if not self.counts or last is None:
            return last
        splits = self.splits(EntryQuery(first=self.after(last), skip=NO_PAYLOAD))
        query = EntryQuery(first=self.after(last), last=missing.position, skip=NO_PAYLOAD)
        agreed = last
        for split in splits:
            for batch in self._log.read_split(split, query):
                terms, numbers = self.ids(batch)
                other = np.flatnonzero(terms != missing.term)
                if len(other):
                    return (int(numbers[other[0]]) - 1,)
                agreed = (int(numbers[-1]),)
        # The same position and term with other bytes: this is no Raft log, and terms prove nothing.
        return last if agreed == missing.position else agreed

    # Reading

    def deliveries(self, start: Cursor, end: Cursor, query: EntryQuery, on_loss: OnLoss) -> list[Delivery]:
        return looking_again(self._log.disk, lambda: self._pieces(start, end, query, on_loss))

    def _pieces(self, start: Cursor, end: Cursor, query: EntryQuery, on_loss: OnLoss) -> list[Delivery]:
        if start == end:
            return []
        position = position_of(start.get("position"))
        first, last = self.after(position), position_of(end.get("position"))
        reports: list[Report] = []
        if "void" in end:
            void = position_of(end["void"])
            assert void is not None
            reports.append(Report(TRUNCATE, void))
            first = void
        if "lost" in end:
            gone, goes_on = (position_of(part) for part in end["lost"])
            assert gone is not None and goes_on is not None
            reports.append(self._loss(gone, goes_on))
            first = goes_on
        marks = _marks(end)
        if self._known != end and self._mark_stands(marks) is False:
            # The step was planned in an earlier run, and the log was cut since. Deliver what is left of it.
            taken = _Progress(last, marks)
            self._go_back(taken)
            assert taken.void is not None
            reports.append(Report(TRUNCATE, taken.void))
            last, marks = taken.position, taken.marks
        deliveries = [Delivery(query, report=report) for report in reports]
        if last is None or (first is not None and first > last):
            return deliveries
        asked = replace(EntryQuery(first=first, last=last), skip=query.skip)
        splits = self.splits(asked)
        begins = self.first_of(splits)
        if begins is None or (first is not None and begins > first):
            goes_on = self.after(last) if begins is None else begins
            gone = first or last
            assert goes_on is not None
            if on_loss == "fail":
                raise lost(self._log.path, self._words(gone, goes_on))
            deliveries.append(Delivery(query, report=self._loss(gone, goes_on)))
            asked = replace(asked, first=goes_on)
        return deliveries + [self._piece(split, asked, marks) for split in splits]

    def _loss(self, gone: Position, goes_on: Position) -> Report:
        return Report(LOST, gone, goes_on[-1] - gone[-1] if self.counts else 0)

    def _piece(self, split: Split, query: EntryQuery, marks: list[Mark]) -> Delivery:
        assert query.last is not None
        if not self.counts:
            held = [mark for mark in marks if query.first is None or mark.position >= query.first]
            return Delivery(query, split, marks=_plain(held))
        first = max(split.first, query.first[0] if query.first else split.first)
        last = min(query.last[0], split.last) if split.last is not None else query.last[0]
        held = [mark for mark in marks if first <= mark.position[0] <= last]
        return Delivery(query, split, marks=_plain(held), count=max(last - first + 1, 0))

    def read(self, delivery: Delivery) -> Iterator[pa.RecordBatch]:
        if delivery.report is not None:
            yield report_batch(self._log.entry_schema, self._log.dialect, delivery.report)
        if delivery.split is None:
            return
        open_marks = {position: (term, checksum) for position, term, checksum in delivery.marks}
        seen = 0
        for batch in self._log.read_split(delivery.split, delivery.query):
            self._check(batch, open_marks)
            seen += batch.num_rows
            yield batch
        if open_marks or (delivery.count is not None and seen != delivery.count):
            raise replaced(
                posixpath.join(self._log.root, delivery.split.file),
                f"entries up to {self._log.unit} {delivery.query.last}",
            )

    def _check(self, batch: pa.RecordBatch, marks: dict[Position, tuple[int, int]]) -> None:
        """Take out the marks that this batch holds. Marks that are left at the end are an error."""
        if not marks:
            return
        terms, numbers = self.ids(batch)
        for position, (term, checksum) in list(marks.items()):
            for row in (numbers == position[-1]).nonzero()[0].tolist():
                found = mark_of(self, batch, terms, numbers, row)
                if found.position != position:
                    continue
                if found.term == term and self._with_checksum(found).checksum == checksum:
                    marks.pop(position, None)

    def _with_checksum(self, mark: Mark) -> Mark:
        assert mark.place is not None
        name, offset, length = mark.place
        checksum = 0
        with self._log.disk.open(posixpath.join(self._log.root, name)) as file:
            for at in range(offset, offset + length, _CHUNK_BYTES):
                checksum = zlib.crc32(file.pread(min(_CHUNK_BYTES, offset + length - at), at), checksum)
        return replace(mark, checksum=checksum, place=None)

    def _words(self, first: Position, behind: Position) -> str:
        if self.counts:
            return f"the entries of {self._log.unit} {span(first[0], behind[0] - 1)}"
        return f"operations from {self._log.unit} {list(first)} on, in front of {list(behind)},"


def _marks(cursor: Cursor) -> list[Mark]:
    found = []
    for position, term, checksum in cursor.get("marks", ()):
        where = position_of(position)
        assert where is not None
        found.append(Mark(where, term, checksum))
    return found


def _plain(marks: list[Mark]) -> tuple[tuple[Position, int, int], ...]:
    return tuple((mark.position, mark.term, mark.checksum or 0) for mark in marks)


def mark_of(
    log: SequenceFollower, batch: pa.RecordBatch, terms: NDArray[Any], numbers: NDArray[Any], row: int
) -> Mark:
    """One entry of a batch as a mark."""
    place = tuple(batch.column(name)[row].as_py() for name in ("file", "offset", "length"))
    return Mark(log.position(int(terms[row]), int(numbers[row])), int(terms[row]), None, place)


def _candidates(
    log: SequenceFollower,
    batch: pa.RecordBatch,
    terms: NDArray[np.integer[Any]],
    numbers: NDArray[np.integer[Any]],
    more: list[int],
) -> list[Mark]:
    """The entries of a batch that may stay marks: the last of each term, 0, 1, 2, 4, ... before the end, and `more`."""
    import numpy as np

    rows = len(numbers)
    ends = np.flatnonzero(terms[1:] != terms[:-1])[-_TERMS_MAX:].tolist()
    back = [rows - 1, *(rows - 1 - (1 << power) for power in range(rows.bit_length()) if (1 << power) < rows)]
    return [mark_of(log, batch, terms, numbers, row) for row in sorted({*more, *ends, *back})]
