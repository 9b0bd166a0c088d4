"""`diff`: replicas against each other, position by position. Hashes of contents travel, payloads do not.

| dialect | compared | by | equal when |
|---|---|---|---|
| taskflux, zmqraft | entries | position | term, operation, stream, key and payload are |
| mpy6a | operations since the newest checkpoint of any replica | state id | the operation and all its fields are |
| limestone | the state at the lowest durable epoch of any replica | storage and key | the value and the blobs are |

The entries of limestone logs cannot be compared: channels differ, and compaction drops old entries without changing the
state. Their states can, at an epoch that all replicas have reached.

It does not compare entries that one replica has dropped for a snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from flintlog.core.dialect import NO_PAYLOAD, EntryQuery
from flintlog.core.follow import Delivery, Follower, Limits, beginning
from flintlog.core.log import Log, open_log
from flintlog.core.position import Position, position_json, position_of
from flintlog.disk import Disk
from flintlog.errors import UsageError
from flintlog.pipeline.jobs.export import newest_position, read_delivery
from flintlog.pipeline.options import local_path

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_STATES = ("limestone",)
_KEYS = {"mpy6a": ("term", "position"), "limestone": ("stream", "key")}
_CHECKPOINT = ("base", "open")
REPLICAS_MAX = 62  # one number has a bit for each
Verdict = Literal["equal", "behind", "diverged"]


@dataclass(frozen=True, slots=True)
class Replica:
    """One of the directories, and how it differs from the others."""

    source: str
    last: Any  # its last position (limestone: its durable epoch), as JSON has it
    rows: int  # how many of its entries or keys were compared
    missing: int  # what it lacks and others have
    alone: int  # what only it has


@dataclass(frozen=True, slots=True)
class DiffReport:
    """How replicas differ. `behind`: one is a beginning of another; `diverged`: they contradict each other."""

    dialect: str
    compared: Literal["entries", "state"]
    replicas: tuple[Replica, ...]
    first: Any  # the comparison begins here; None: at the beginning, or it compares states
    last: Any  # the last position that all replicas have; for states the one at which they are compared
    differing: int  # entries or keys with different contents, up to `last`
    divergence: dict[str, Any] | None  # the first of them
    verdict: Verdict

    @property
    def equal(self) -> bool:
        """Do all replicas hold the same?"""
        return self.verdict == "equal"

    def json(self) -> dict[str, Any]:
        """The fields of `--json`."""
        return {**asdict(self), "replicas": [asdict(replica) for replica in self.replicas]}


@dataclass(frozen=True, slots=True)
class _Plan:
    """What to read of each replica, and the range in which they can be compared."""

    dialect: str
    sources: tuple[str, ...]
    lasts: tuple[Position | None, ...]
    work: tuple[tuple[int, Delivery], ...]  # the replica and a delivery of it
    first: Position | None
    last: Position | None

    @property
    def states(self) -> bool:
        return self.dialect in _STATES

    @property
    def keys(self) -> tuple[str, ...]:
        return _KEYS.get(self.dialect, ("position",))


def diff(
    spark: SparkSession | None, paths: Sequence[str], *, disk: Disk | None = None
) -> tuple[DiffReport, pa.Table | DataFrame]:
    """Compare two or more replicas. Without a session this process does the work.

    Returns the report, and a row for each entry or key that is not the same in all replicas: the columns that identify
    it, `differs` (the contents do; otherwise it is missing somewhere) and `sources` (the replicas that have it).
    """
    sources = tuple(local_path(path) for path in paths)
    if len(set(sources)) < 2:
        raise UsageError("two directories at least are compared", advice="Name the replicas")
    if len(sources) > REPLICAS_MAX:
        raise UsageError(f"at most {REPLICAS_MAX} directories are compared at once")
    plan = _plan(disk or Disk(), sources)
    return _here(plan, disk or Disk()) if spark is None else _on_spark(spark, plan)


# Planning


def _plan(disk: Disk, sources: tuple[str, ...]) -> _Plan:
    logs = [open_log(source, disk=disk) for source in sources]
    spoken = logs[0].dialect
    for log in logs:
        if log.dialect != spoken:
            raise UsageError(f"{sources[0]} is a {spoken} log and {log.path} is a {log.dialect} log")
    if spoken in _STATES:
        return _plan_states(logs)
    lasts: list[Position | None] = []
    firsts: list[Position] = []
    work = []
    for at, log in enumerate(logs):
        follower = log.follower()
        end = follower.advance(beginning(), Limits(), "fail")
        lasts.append(position_of(end.get("position")))
        deliveries = follower.deliveries(beginning(), end, EntryQuery(), "fail")
        if deliveries:
            firsts.append(_first_of(follower, deliveries[0]))
        work += [(at, delivery) for delivery in deliveries]
    first = max(firsts, default=None)
    known = [last for last in lasts if last is not None]
    last = min(known) if len(known) == len(lasts) else None
    return _Plan(spoken, sources, tuple(lasts), tuple(work), first, last)


def _first_of(follower: Follower, delivery: Delivery) -> Position:
    """Where the entries of a replica begin: behind its checkpoint, if it has one."""
    query = replace(delivery.query, skip=NO_PAYLOAD)
    for batch in follower.read(replace(delivery, query=query, marks=(), count=None)):
        number, term = batch.column("position")[0].as_py(), batch.column("term")[0].as_py()
        if len(delivery.query.last or ()) == 2:
            return (term, number + (1 if batch.column("operation")[0].as_py() in _CHECKPOINT else 0))
        return (number,)
    return (0,)


def _plan_states(logs: Sequence[Log]) -> _Plan:
    lasts = tuple(newest_position(log) for log in logs)
    as_of = min(last or (0,) for last in lasts)
    work = tuple((at, Delivery(EntryQuery(last=as_of))) for at in range(len(logs)))
    return _Plan(logs[0].dialect, tuple(log.path for log in logs), lasts, work, None, as_of)


# Rows that are compared


def _schema() -> pa.Schema:
    import pyarrow as pa

    return pa.schema(
        [
            pa.field("replica", pa.int64(), nullable=False),
            pa.field("term", pa.int64()),
            pa.field("position", pa.int64()),
            pa.field("stream", pa.string()),
            pa.field("key", pa.binary()),
            pa.field("digest", pa.int64(), nullable=False),
        ]
    )


def fingerprints(plan: _Plan, replica: int, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of one replica with a digest in the place of their contents."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from flintlog.columns import digest, ndjson

    rows = batch.num_rows
    number = pa.repeat(pa.scalar(1 << replica, pa.int64()), rows)
    if plan.states:
        blobs = ndjson.lines(batch.select(["blob_ids"]))
        contents = digest.digest(batch.column("value"), blobs)
        storage = batch.column("storage_id").cast(pa.string())
        none = pa.nulls(rows, pa.int64())
        return pa.RecordBatch.from_arrays(
            [number, none, none, storage, batch.column("key"), contents], schema=_schema()
        )
    term, position, operation = (batch.column(name) for name in ("term", "position", "operation"))
    # Without checksums that an edition computes over its own bytes.
    own = digest.text_of(batch.column(plan.dialect), without=("checksum",))
    words = pc.binary_join_element_wise(
        pc.fill_null(term.cast(pa.string()), ""),
        operation,
        pc.fill_null(batch.column("stream"), ""),
        own,
        "\x1f",
    )
    contents = digest.digest(batch.column("payload"), words, batch.column("key"))
    keep = _in_range(plan, term, position, operation)
    made = pa.RecordBatch.from_arrays(
        [number, term, position, pa.nulls(rows, pa.string()), pa.nulls(rows, pa.binary()), contents],
        schema=_schema(),
    )
    return made.filter(keep)


def _in_range(plan: _Plan, term: pa.Array, position: pa.Array, operation: pa.Array) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    keep = pc.invert(pc.is_in(operation, pa.array(_CHECKPOINT)))
    if plan.first is None:
        return keep
    if len(plan.first) == 1:
        return pc.and_(keep, pc.greater_equal(position, plan.first[0]))
    same = pc.and_(pc.equal(term, plan.first[0]), pc.greater_equal(position, plan.first[1]))
    return pc.and_(keep, pc.or_(pc.greater(term, plan.first[0]), same))


def _read(plan: _Plan, at: int, disk: Disk) -> Iterator[pa.RecordBatch]:
    replica, delivery = plan.work[at]
    view = "state" if plan.states else "entries"
    log = open_log(plan.sources[replica], disk=disk, speaking=plan.dialect)
    for batch in read_delivery(log, view, delivery):
        yield fingerprints(plan, replica, batch)


# In this process


def _here(plan: _Plan, disk: Disk) -> tuple[DiffReport, pa.Table]:
    import pyarrow as pa
    import pyarrow.compute as pc

    batches = [batch for at in range(len(plan.work)) for batch in _read(plan, at, disk)]
    table = pa.Table.from_batches(batches, schema=_schema())
    counted = table.group_by("replica").aggregate([("digest", "count")]).to_pylist()
    seen = {row["replica"]: row["digest_count"] for row in counted}
    grouped = table.group_by(list(plan.keys)).aggregate(
        [("replica", "sum"), ("digest", "min"), ("digest", "max")]
    )
    everyone = (1 << len(plan.sources)) - 1
    differs = pc.not_equal(grouped["digest_min"], grouped["digest_max"])
    found = grouped.filter(pc.or_(differs, pc.not_equal(grouped["replica_sum"], everyone)))
    found = found.sort_by([(name, "ascending") for name in plan.keys])
    masks = found["replica_sum"]
    different = pc.not_equal(found["digest_min"], found["digest_max"])
    counts = {row["values"]: row["counts"] for row in pc.value_counts(masks).to_pylist()}
    contradicting = found if plan.states else found.filter(different)
    first = contradicting.slice(0, 1).select(list(plan.keys)).to_pylist()
    rows = found.select(list(plan.keys)).append_column("differs", different)
    rows = rows.append_column("sources", _sources_column(plan, masks.combine_chunks().to_numpy()))
    return _report(plan, seen, counts, contradicting.num_rows, first[0] if first else None), rows


def _sources_column(plan: _Plan, masks: Any) -> pa.Array:
    import numpy as np
    import pyarrow as pa

    bits = (masks[:, None] >> np.arange(len(plan.sources))) & 1
    offsets = np.concatenate([[0], np.cumsum(bits.sum(axis=1))]).astype(np.int32)
    return pa.ListArray.from_arrays(offsets, pa.array(plan.sources).take(pa.array(np.nonzero(bits)[1])))


def _report(
    plan: _Plan,
    seen: dict[int, int],
    counts: dict[int, int],
    differing: int,
    divergence: dict[str, Any] | None,
) -> DiffReport:
    """`counts` says how many differing keys are in which replicas, which are bits of a number."""
    replicas = []
    for at, source in enumerate(plan.sources):
        bit = 1 << at
        replicas.append(
            Replica(
                source=source,
                last=position_json(plan.lasts[at]),
                rows=seen.get(bit, 0),
                missing=sum(count for mask, count in counts.items() if not mask & bit),
                alone=counts.get(bit, 0),
            )
        )
    same_end = len(set(plan.lasts)) == 1 and not any(replica.missing for replica in replicas)
    verdict: Verdict = "diverged" if differing else "equal" if same_end else "behind"
    return DiffReport(
        dialect=plan.dialect,
        compared="state" if plan.states else "entries",
        replicas=tuple(replicas),
        first=position_json(plan.first),
        last=position_json(plan.last),
        differing=differing,
        divergence=divergence,
        verdict=verdict,
    )


# On Spark


def _on_spark(spark: SparkSession, plan: _Plan) -> tuple[DiffReport, DataFrame]:
    from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
    from pyspark.sql.pandas.types import from_arrow_schema

    tasks = max(len(plan.work), 1)
    task = partial(_run_task, plan)
    frame = spark.range(0, tasks, 1, tasks).mapInArrow(task, from_arrow_schema(_schema()))
    grouped = frame.groupBy(*plan.keys).agg(
        F.sum("replica").alias("mask"),
        (F.min("digest") != F.max("digest")).alias("differs"),
    )
    everyone = (1 << len(plan.sources)) - 1
    # One pass over the logs: sums over all keys, and how many of each kind differ.
    bits = [
        F.sum((F.col("mask").bitwiseAND(1 << at) != 0).cast("long")).alias(f"r{at}")
        for at in range(len(plan.sources))
    ]
    alike = (F.col("mask") == everyone) & ~F.col("differs")
    by_kind = grouped.groupBy("mask", "differs").agg(
        *bits, F.count("*").alias("rows"), F.min(F.struct(*plan.keys)).alias("first")
    )
    seen: dict[int, int] = {}
    counts: dict[int, int] = {}
    differing, divergence = 0, None
    for row in by_kind.collect():
        for at in range(len(plan.sources)):
            seen[1 << at] = seen.get(1 << at, 0) + row[f"r{at}"]
        if row["mask"] == everyone and not row["differs"]:
            continue
        counts[row["mask"]] = counts.get(row["mask"], 0) + row["rows"]
        if row["differs"] or plan.states:
            differing += row["rows"]
            found = tuple(_plain(value) for value in row["first"])
            divergence = min(divergence, found) if divergence is not None else found
    names = [
        F.when(F.col("mask").bitwiseAND(1 << at) != 0, F.lit(source))
        for at, source in enumerate(plan.sources)
    ]
    rows = (
        grouped.where(~alike)
        .orderBy(*plan.keys)
        .select(*plan.keys, "differs", F.array_compact(F.array(*names)).alias("sources"))
    )
    first = None if divergence is None else dict(zip(plan.keys, divergence, strict=True))
    return _report(plan, seen, counts, differing, first), rows


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, bytearray) else value


def _run_task(plan: _Plan, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in numbers:
        for at in batch.column(0).to_pylist():
            if at < len(plan.work):
                yield from _read(plan, at, Disk())
