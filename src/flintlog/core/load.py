"""Loading: many tasks stage rows beside a log, and one commit makes all of them count, or none.

A dialect that can be loaded has a room `store/load`:

| it has | which |
|---|---|
| `COLUMNS` | the Arrow schema of the rows that it takes; a column that may be null is optional |
| `OPTIONS` | the words of the options that it takes besides the common ones |
| `plan(disk, path, options)` | refuses what cannot be, before any task begins; gives plain data that travels to the tasks |
| `stage(disk, plan, place, part, batches)` | runs in task number `part`: writes the file `place`, durably, and gives a `Staged`; nothing reads it yet |
| `commit(disk, path, plan, staged, batch)` | takes the lock, makes what is staged count as a whole, and says whether the batch was new |

Staged files stand in a directory of the job's own inside the log directory. A task may run twice, late or beside
itself: each attempt has a place of its own, and only what the driver names in `commit` counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Batch(NamedTuple):
    """A batch of a stream. Its number is stored with its rows, so that a batch that comes again counts once."""

    stream: str  # what the stream is called for good: Spark's id of the query
    number: int


@dataclass(frozen=True, slots=True)
class Staged:
    """What a task wrote: the part of the rows that it is, the file, and how many rows and bytes stand in it."""

    part: int
    place: str
    rows: int
    size: int
