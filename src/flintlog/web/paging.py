"""A page of entries or of the state. What one request reads, holds and sends is bounded for any log.

A page of entries ends with a cursor: file and byte of the last entry that it read. The next page goes on there, also
when the log has grown meanwhile. A page of the state costs a replay. So the server keeps some more pages than were
asked for; as long as it has them they are of one moment, although a store writes.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from flintlog.cli.decoders import Decoding
from flintlog.cli.dump import REVERSE_SPLIT_BYTES, reversed_split
from flintlog.cli.rows import Row
from flintlog.core.dialect import EntryQuery, Split
from flintlog.core.log import Log
from flintlog.core.position import Position
from flintlog.errors import FlintlogError, RefusedError, UsageError
from flintlog.web.rows import rows_of, shown

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_MAX = 500
PAGE_LETTERS_MAX = 1 << 20
SEARCH_BYTES_MAX = 256 << 20  # of the log, read for one page: then the user is asked to go on
_STATE_ROWS_KEPT = 2000
_STATE_LETTERS_KEPT = 4 << 20
_STATES_KEPT = 4


@dataclass(frozen=True, slots=True)
class Cursor:
    """The last place that was read."""

    file: str
    offset: int

    @classmethod
    def parse(cls, text: str | None) -> Cursor | None:
        if text is None:
            return None
        file, _, offset = text.rpartition(":")
        if not file or not (offset.isascii() and offset.isdecimal() and len(offset) <= 19):
            raise UsageError("after is not a cursor", advice="Take the one that a page ends with")
        return cls(file, int(offset))

    def __str__(self) -> str:
        return f"{self.file}:{self.offset}"


@dataclass(slots=True)
class Page:
    """Rows, where the next page begins, and the error that ended this one."""

    rows: list[dict[str, Any]]
    next: str | None = None
    searched_bytes: int = 0
    error: FlintlogError | None = None


def entry_page(
    log: Log,
    query: EntryQuery,
    columns: list[str],
    *,
    limit: int,
    reverse: bool,
    after: Cursor | None,
    decoding: Decoding | None,
) -> Page:
    """The entries of a query behind a cursor; an error comes after the rows before it."""
    page = Page([])
    room = _Room(limit, PAGE_LETTERS_MAX)
    if reverse:
        query = replace(query, split_bytes=REVERSE_SPLIT_BYTES)
    try:
        splits = _behind(log.splits(query), after, reverse=reverse)
        for split in splits:
            if page.searched_bytes >= SEARCH_BYTES_MAX:
                return page
            for row in _rows(log, split, query, after, reverse=reverse):
                if not room.left:
                    return page
                page.rows.append(room.take(shown(row, columns, decoding)))
                page.next = str(Cursor(row["file"], row["offset"]))
            page.searched_bytes += split.end - split.start
            page.next = str(Cursor(split.file, split.start if reverse else max(split.end - 1, 0)))
    except FlintlogError as error:
        page.error = error
    page.next = None
    return page


def _behind(splits: list[Split], after: Cursor | None, *, reverse: bool) -> list[Split]:
    """The splits that are still to be read, in the order of reading."""
    if reverse:
        splits = splits[::-1]
    if after is None:
        return splits
    places = [at for at, split in enumerate(splits) if split.file == after.file]
    if not places:
        raise RefusedError(
            f"{after.file} is no longer part of the log: it was removed or renamed since the last page",
            advice="Begin again at the first page",
        )
    for at in places:
        if splits[at].start < after.offset if reverse else splits[at].end > after.offset + 1:
            return splits[at:]
    return splits[places[-1] + 1 :]


def _rows(log: Log, split: Split, query: EntryQuery, after: Cursor | None, *, reverse: bool) -> Iterator[Row]:
    import pyarrow.compute as pc

    if reverse:
        batches = reversed_split(log, split, query)
    else:
        batches = log.read_split(split, query)
    for batch in batches:
        if after is not None and split.file == after.file:
            compare = pc.less if reverse else pc.greater
            batch = batch.filter(compare(batch.column("offset"), after.offset))
        yield from rows_of(batch)


class _Room:
    """The room left on a page: at least one row, then as many as the numbers of rows and letters allow."""

    def __init__(self, rows: int, letters: int) -> None:
        self._rows = rows
        self._letters = letters

    @property
    def left(self) -> bool:
        return self._rows > 0 and self._letters > 0

    def take(self, row: dict[str, Any]) -> dict[str, Any]:
        self._rows -= 1
        self._letters -= len(json.dumps(row))
        return row


@dataclass(frozen=True, slots=True)
class _Kept:
    start: int
    rows: list[dict[str, Any]]
    ended: bool


class StatePages:
    """Pages of states by row number, with rows read ahead for the next ones."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, Position | None], _Kept] = OrderedDict()

    def page(self, log: Log, as_of: Position | None, start: int, limit: int) -> Page:
        """Reads the first page always anew; takes later ones from the rows read ahead."""
        key = (log.path, as_of)
        with self._lock:
            kept = self._kept.get(key) if start else None
        if kept is None or not kept.start <= start < kept.start + max(len(kept.rows), 1):
            kept = _read_ahead(log, as_of, start)
            with self._lock:
                self._kept[key] = kept
                self._kept.move_to_end(key)
                while len(self._kept) > _STATES_KEPT:
                    self._kept.popitem(last=False)
        return _cut_page(kept, start, limit)


def _read_ahead(log: Log, as_of: Position | None, start: int) -> _Kept:
    columns = log.state_schema.names
    room = _Room(_STATE_ROWS_KEPT, _STATE_LETTERS_KEPT)
    rows: list[dict[str, Any]] = []
    for row in _from(log.state(as_of), start):
        if not room.left:
            return _Kept(start, rows, ended=False)
        rows.append(room.take(shown(row, columns)))
    return _Kept(start, rows, ended=True)


def _from(batches: Iterable[pa.RecordBatch], start: int) -> Iterator[Row]:
    for batch in batches:
        if start < batch.num_rows:
            yield from rows_of(batch.slice(start))
        start = max(0, start - batch.num_rows)


def _cut_page(kept: _Kept, start: int, limit: int) -> Page:
    page = Page([])
    room = _Room(limit, PAGE_LETTERS_MAX)
    at = start - kept.start
    while at < len(kept.rows) and room.left:
        page.rows.append(room.take(kept.rows[at]))
        at += 1
    if at < len(kept.rows) or not kept.ended:
        page.next = str(kept.start + at)
    return page
