"""What the engine says without Spark, in the form in which Spark says it."""

from __future__ import annotations

from flintlog.core.dialect import EntryQuery, detect
from flintlog.core.log import Log
from flintlog.disk import Disk


def rows(frame):
    """What a DataFrame holds, in its order, as plain Python."""
    return frame.toArrow().to_pylist()


NARROW = ("position", "term", "operation", "stream", "key", "payload", "file", "offset", "length")


def entries_in_process(path, query=None, details=False):
    """What the engine says without Spark, in the columns that Spark shows; `details` are all of them."""
    disk, query = Disk(), query or EntryQuery()
    found = detect(disk, str(path))
    everything = [
        {"source": str(path), **row, "payload": row.get("payload")}
        for split in Log(found, disk, str(path)).splits(query)
        for batch in Log(found, disk, str(path)).read_split(split, query)
        for row in batch.to_pylist()
    ]
    return everything if details else [{name: row[name] for name in NARROW} for row in everything]


def details_in_process(path, query=None):
    """The same in all columns."""
    return entries_in_process(path, query, details=True)


def state_in_process(path, as_of=None):
    """The same for the state."""
    disk = Disk()
    found = detect(disk, str(path))
    return [
        {"source": str(path), **row}
        for batch in Log(found, disk, str(path)).state(as_of)
        for row in batch.to_pylist()
    ]
