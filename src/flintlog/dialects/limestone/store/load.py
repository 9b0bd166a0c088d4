"""Loading a directory from many tasks: each writes a session of its own, and one epoch makes all of them count.

A batch of a stream leaves a mark in the same epoch: an entry in the storage `BATCHES` that says how far the stream is.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flintlog.columns.payloads import Payloads
from flintlog.core.dialect import EntryQuery
from flintlog.core.load import (
    ORDER_MAX,
    PLAN_WAIT_SECONDS,
    WAIT_SECONDS,
    Batch,
    Column,
    Staged,
    refuse_gone,
    rows_of,
    staged_name,
)
from flintlog.dialects.limestone import entries, files
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone.batch import encode_changes
from flintlog.dialects.limestone.layout import Edition
from flintlog.dialects.limestone.scan import Words
from flintlog.dialects.limestone.store import creation, staged
from flintlog.dialects.limestone.store.datastore import Datastore
from flintlog.dialects.limestone.survey import survey
from flintlog.disk import Buffer, Disk, take_lock
from flintlog.errors import RefusedError, UsageError

BATCHES = 2**63 - 1  # the storage of the marks
COLUMNS = (
    Column("storage_id", pa.uint64(), "the storage"),
    Column("key", pa.binary(), "the key"),
    Column("value", pa.binary(), "its value; null takes the key away", nulls=True),
    Column(
        "order",
        pa.int64(),
        "of several rows with one key the highest counts; without it the last one of the last task",
        required=False,
    ),
)
OPTIONS: tuple[str, ...] = ()
_SCRATCH = "compaction_temp"
_SMALL_BYTES = 256 << 10  # of a staged file that is joined with others
_JOINED = "joined"  # the job that joins them
_ROWS_SHIFT = 40  # of a task that count within it; the bits above are the task


@dataclass(frozen=True, slots=True)
class Plan:
    """Where to load, and the epoch that the load will have if nothing else writes before it is committed."""

    root: str
    edition: Edition
    epoch: int

    @property
    def scratch(self) -> str:
        return posixpath.join(self.root, _SCRATCH)


def plan(disk: Disk, path: str, edition: Edition | None) -> Plan:
    """Make the directory where there is none; refuse one that another process writes to."""
    if creation.is_blank(files.list_files(disk, path)):
        Datastore(path, edition=edition, snapshot=False, disk=disk).close()
    found = survey(disk, path, walk=False)
    found.refuse_damage()
    if edition is not None and edition != found.edition:
        raise RefusedError(
            f"this directory is of the {found.edition} edition, not {edition}",
            file=path,
            advice="Leave the option edition out",
        )
    take_lock(disk, path, "read", path, PLAN_WAIT_SECONDS).close()
    manifest = posixpath.join(path, lay.MANIFEST_FILE)
    if disk.stat(manifest) is not None:
        take_lock(disk, manifest, "write", path, PLAN_WAIT_SECONDS).close()
    made = Plan(path, found.edition, max(found.durable, found.catalog.max_epoch) + 2)
    disk.make_passing_directory(made.scratch)
    return made


def stage(disk: Disk, plan: Plan, place: str, part: int, batches: Iterable[pa.RecordBatch]) -> Staged:
    """Write the rows of a task as a session."""
    count = 0

    def encoded() -> Iterator[bytearray]:
        nonlocal count
        for row in rows_of(batches, COLUMNS):
            rows = len(row["key"])
            storages = row["storage_id"].to_numpy()
            if (storages == BATCHES).any():
                raise UsageError(
                    f"a row is of storage {BATCHES}, which holds the marks of loads",
                    advice=f"Leave them out: where storage_id <> {BATCHES}",
                )
            yield encode_changes(
                storages,
                Payloads.of(row["key"]),
                Payloads.of(row["value"].fill_null(b"")),
                row["value"].is_valid().to_numpy(zero_copy_only=False),
                plan.epoch,
                _minor(row.get("order"), part, count, rows),
            )
            count += rows

    size = staged.write(disk, place, plan.root, plan.epoch, encoded(), end=plan.edition == "shipped")
    return Staged(part, place, count, size)


def _minor(order: pa.Array | None, part: int, done: int, rows: int) -> Words:
    if order is None:
        return np.arange(done, done + rows, dtype=np.uint64) + np.uint64(part << _ROWS_SHIFT)
    if pc.min(order).as_py() < 0:
        raise UsageError(
            "the column 'order' has a negative number", advice=f"Give numbers from 0 to {ORDER_MAX}"
        )
    given: Words = order.to_numpy().astype(np.uint64)
    return given


def commit(disk: Disk, plan: Plan, pieces: Sequence[Staged], batch: Batch | None) -> bool:
    """Let the sessions of these tasks count, all or none; durable on return. False where the batch is there already."""
    refuse_gone(disk, pieces)
    with Datastore(plan.root, snapshot=False, wait=WAIT_SECONDS, disk=disk) as store:
        if batch is not None and newest_batch(disk, plan.root, batch.stream) >= batch.number:
            return False
        places = [piece.place for piece in pieces if piece.rows and piece.size > _SMALL_BYTES]
        small = [piece.place for piece in pieces if piece.rows and piece.size <= _SMALL_BYTES]
        if small or batch is not None:
            places.append(_joined(disk, plan, small, batch))
        if places:
            store.wait_durable(store.load(places))
        for place in small:
            disk.unlink(place)
    return True


def _joined(disk: Disk, plan: Plan, small: Sequence[str], batch: Batch | None) -> str:
    """One session of small ones, and of the mark that says up to where a stream was loaded: a file less for each."""

    def parts() -> Iterator[Buffer]:
        for place in small:
            yield staged.changes_of(disk, place, plan.epoch)
        if batch is not None:
            text = json.dumps({"batch": batch.number}).encode()
            yield lay.put(BATCHES, batch.stream.encode(), text, (plan.epoch, batch.number)).encode()

    target = staged_name(plan, _JOINED)
    staged.write(disk, target, plan.root, plan.epoch, parts(), end=plan.edition == "shipped")
    return target


def newest_batch(disk: Disk, root: str, stream: str) -> int:
    """The number of the last batch of a stream that counts; -1 when there is none."""
    query = EntryQuery(
        operations=frozenset({"put"}), streams=frozenset({str(BATCHES)}), skip=frozenset({"file", "offset"})
    )
    found = -1
    for split in entries.splits(disk, root, query):
        for rows in entries.read_split(disk, root, split, query):
            counts = pc.is_in(rows["limestone"].field("status"), pa.array(["durable", "compacted"]))
            mine = rows.filter(pc.and_(counts, pc.equal(rows["key"], stream.encode())))
            found = max([found, *(_number(text) for text in mine["payload"].to_pylist())])
    return found


def _number(text: bytes) -> int:
    try:
        return int(json.loads(text)["batch"])
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return -1  # an application wrote it
