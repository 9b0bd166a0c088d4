"""What the engine says without Spark, in the form in which Spark says it."""

from __future__ import annotations

from flintlog.core.dialect import EntryQuery, detect
from flintlog.core.log import Log
from flintlog.disk import Disk


def rows(frame):
    """What a DataFrame holds, in its order, as plain Python."""
    return frame.toArrow().to_pylist()


def entries_in_process(path, query=None):
    """What the engine says without Spark, with the column that Spark adds."""
    disk, query = Disk(), query or EntryQuery()
    found = detect(disk, str(path))
    return [
        {"source": str(path), **row}
        for split in Log(found, disk, str(path)).splits(query)
        for batch in Log(found, disk, str(path)).read_split(split, query)
        for row in batch.to_pylist()
    ]


def state_in_process(path, as_of=None):
    """The same for the state."""
    disk = Disk()
    found = detect(disk, str(path))
    return [
        {"source": str(path), **row}
        for batch in Log(found, disk, str(path)).state(as_of)
        for row in batch.to_pylist()
    ]
