"""Whose backups are these? A place holds backups of one log; another log must not be added to it.

A name that the dialect gives a log decides. Where there is none, entries at positions that both hold are compared: if
all are equal it is the same log, if all differ it is another. Where that leaves it open (nothing in common is left, or
history was rolled back), the path of the log decides, or `--full`, by which a person says that it is the same log.
"""

from __future__ import annotations

import errno
import posixpath
from collections.abc import Iterator, Sequence
from itertools import islice

from flintlog.core.backup.listing import Backup
from flintlog.core.backup.picture import Picture
from flintlog.core.dialect import EntryQuery
from flintlog.core.log import Log
from flintlog.core.position import Position
from flintlog.core.sequence import SequenceFollower
from flintlog.disk import assembled
from flintlog.errors import DiskError, FlintlogError, RefusedError

_SAMPLE = 64  # entries from the beginning of the range that both hold, and as many at its last position
_CONTENT = ("term", "operation", "stream", "key", "payload")  # without the place of the entry


def refuse_stranger(
    log: Log,
    picture: Picture,
    earlier: Sequence[tuple[str, Backup]],
    *,
    full: bool,
) -> None:
    """Raise where the backups of a place are of another log; `earlier` are those that can be read."""
    if not earlier:
        return
    at, newest = earlier[-1]
    if picture.identity is not None and newest.identity is not None:
        stranger, ours = picture.identity != newest.identity, True
    else:
        equal, compared = _compared(log, picture, earlier)
        # Where a position is more than a number, the same entry may look different later.
        numbered = isinstance(log.follower(), SequenceFollower) and len(picture.last or ()) == 1
        stranger = numbered and compared > 0 and equal == 0
        ours = full or newest.source == log.path or 0 < equal == compared
    if ours and not stranger:
        return
    why = "is another log" if stranger else "may be another log: they share too little to tell"
    way = "" if stranger else ", or give --full if it is the same log"
    raise RefusedError(
        f"these are backups of {newest.source}, and {log.path} {why}",
        file=posixpath.dirname(at),
        advice=f"Choose another place for its backups{way}",
    )


def _compared(log: Log, picture: Picture, earlier: Sequence[tuple[str, Backup]]) -> tuple[int, int]:
    """How many positions that log and newest backup both hold have equal entries, and how many were compared."""
    at, newest = earlier[-1]
    bounds = (picture.first, newest.first, picture.last, newest.last)
    if any(bound is None for bound in bounds):
        return 0, 0
    low, high = max(bounds[:2]), min(bounds[2:])  # type: ignore[type-var]
    holders = {item.content: place for place, each in earlier for item in each.files if item.held_by is None}
    view = {item.name: f"{holders.get(item.content, at)}/{item.name}" for item in newest.files}
    try:
        theirs = _entries(log.at(assembled(log.disk, at, view), at), low, high)
        ours = _entries(log, low, high)
    except FlintlogError as error:  # the backup is damaged, or files came and went: nothing is known
        if isinstance(error, DiskError) and error.errno != errno.ENOENT:
            raise
        return 0, 0
    common = ours.keys() & theirs.keys()
    return sum(bool(ours[place] & theirs[place]) for place in common), len(common)


def _entries(log: Log, low: Position | None, high: Position | None) -> dict[object, set[object]]:
    """Some entries of a range by position, without offsets and without empty entries, which prove nothing."""
    found: dict[object, set[object]] = {}
    for query in (EntryQuery(low, high), EntryQuery(high, high)):
        for row in islice(_rows(log, query), _SAMPLE):
            if any(row[name] is not None for name in ("stream", "key", "payload")):
                found.setdefault(row["position"], set()).add(tuple(row[name] for name in _CONTENT))
    return found


def _rows(log: Log, query: EntryQuery) -> Iterator[dict[str, object]]:
    for batch in log.rows(query):
        yield from batch.to_pylist()
