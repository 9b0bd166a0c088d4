"""Loading: many tasks stage rows beside a log, and one commit makes all of them count, or none.

A dialect that can be loaded has a room `store/load`:

| it has | which |
|---|---|
| `COLUMNS` | the columns of the rows that it takes |
| `OPTIONS` | the words of the options that it takes besides the common ones; each is true or false |
| `plan(disk, path, edition, **options)` | refuses what cannot be, before any task begins; returns plain data for the
tasks |
| `stage(disk, plan, place, part, batches)` | in task `part`: writes the file `place`; nothing reads it yet |
| `commit(disk, plan, staged, batch)` | lets all that is staged count; False where the batch counted already |

A plan has a `scratch`: the directory inside the log where files are staged. A task may run twice, late or beside
itself: each attempt has a file of its own, and only what the driver names in `commit` counts.
"""

from __future__ import annotations

import posixpath
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from flintlog.core.inside import member
from flintlog.disk import Disk
from flintlog.errors import RefusedError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

ORDER_MAX = 2**63 - 1
WAIT_SECONDS = 60.0  # how long a commit waits for another writer
PLAN_WAIT_SECONDS = 5.0  # how long planning waits: nothing is staged yet
_PREFIX = "load."
_LATE_SECONDS = 7 * 24 * 3600  # no job takes longer


class Batch(NamedTuple):
    """A batch of a stream. Its number is stored with its rows, so that a batch that comes again counts once."""

    stream: str  # the lasting name of the stream
    number: int


@dataclass(frozen=True, slots=True)
class Staged:
    """What a task wrote: the part of the rows that it is, the file, and how many rows and bytes stand in it."""

    part: int
    place: str
    rows: int
    size: int
    checksum: int = 0  # of its bytes, where the commit copies them


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the rows that a log takes. Any type that Arrow can cast without a loss will do."""

    name: str
    type: pa.DataType
    meaning: str
    required: bool = True
    nulls: bool = False  # a row may be without it

    def take(self, given: pa.Array) -> pa.Array:
        """A column of a frame, cast to this type."""
        import pyarrow as pa

        if given.null_count and not self.nulls:
            raise UsageError(
                f"a row has no {self.name}", advice=f"Fill or drop the rows where {self.name} is null"
            )
        why = ""
        try:
            if not pa.types.is_binary(self.type) or is_text(given.type):
                return given.cast(self.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            why = f": {error}"
        raise UsageError(
            f"the column {self.name!r} is {given.type} and cannot be {self.type}{why}",
            advice="Cast it in the query",
        )


def is_text(kind: pa.DataType) -> bool:
    """Are values of this type bytes or text?"""
    import pyarrow as pa

    names = (
        "binary",
        "large_binary",
        "fixed_size_binary",
        "binary_view",
        "string",
        "large_string",
        "string_view",
    )
    return pa.types.is_null(kind) or any(getattr(pa.types, f"is_{name}")(kind) for name in names)


class Plan(Protocol):
    """What the driver finds out once, for every task."""

    @property
    def scratch(self) -> str: ...


def new_job() -> str:
    """A token that no other job has, in the names of its staged files."""
    return uuid.uuid4().hex


def staged_name(plan: Plan, job: str) -> str:
    """A new name for what one attempt of a task writes."""
    return posixpath.join(plan.scratch, f"{_PREFIX}{job}.{uuid.uuid4().hex}")


def sweep(disk: Disk, scratch: str, job: str | None = None) -> None:
    """Remove the files that this job staged, and any staged file older than a week: its job died."""
    late = (time.time() - _LATE_SECONDS) * 1e9
    for name in disk.list(scratch):
        if not name.startswith(_PREFIX):
            continue
        place = posixpath.join(scratch, name)
        found = disk.stat(place)
        if found is None or found.is_directory:
            continue
        is_late = found.written is not None and found.written < late
        if is_late or (job is not None and name.startswith(f"{_PREFIX}{job}.")):
            disk.unlink(place)


def refuse_gone(disk: Disk, staged: Iterable[Staged]) -> None:
    """Raise where a staged file is not what its task wrote."""
    for piece in staged:
        found = member(disk, piece.place)
        if found is None or found.size != piece.size:
            raise RefusedError(
                "a file that a task staged is gone" if found is None else "a staged file has another size",
                file=piece.place,
                advice="Nothing of the batch counts; write it again, and check that all workers see this directory",
            )


def check_columns(given: pa.Schema, columns: Sequence[Column], dialect: str) -> None:
    """Raise unless the columns of a frame are those that a log takes."""
    known = {column.name: column for column in columns}
    for field in given:
        if given.names.count(field.name) > 1:
            raise UsageError(f"the frame has two columns {field.name!r}", advice="Drop or rename one of them")
        if field.name not in known:
            raise UsageError(
                f"a {dialect} log takes no column {field.name!r}",
                advice=f"Select its columns: {', '.join(known)}",
            )
        known[field.name].take(_none_of(field))
    for column in columns:
        if column.required and column.name not in given.names:
            raise UsageError(
                f"the frame has no column {column.name!r}",
                advice=f"A {dialect} log takes the columns {', '.join(known)}",
            )


def _none_of(field: pa.Field) -> pa.Array:
    """An empty column, to see whether its type fits."""
    import pyarrow as pa

    return pa.nulls(0, field.type)


def rows_of(batches: Iterable[pa.RecordBatch], columns: Sequence[Column]) -> Iterator[dict[str, pa.Array]]:
    """Batches as columns of the types that a log takes, without those that the frame leaves out."""
    for batch in batches:
        if batch.num_rows:
            names = batch.schema.names
            yield {one.name: one.take(batch.column(one.name)) for one in columns if one.name in names}
