"""Crash scenarios of loads: what tasks staged counts as a whole, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from tests.crash.limestone_store import ROOT
from tests.crash.limestone_store import opened, rows_of

from flintlog import QueueStore
from flintlog.core.load import Batch, Staged, refuse_gone, sweep
from flintlog.dialects.limestone.store import load as limestone
from flintlog.dialects.taskflux.store import load as taskflux
from flintlog.disk import Disk
from flintlog.testing import History, Scenario, Suite

SPOOL = "/srv/spool"
Shown = tuple[int, ...]  # how often each row is there
ROWS = (b"a", b"b", b"c", b"d")
STREAM = "nightly"


class Dialect(NamedTuple):
    """How one dialect is loaded, and what it then shows."""

    room: Any
    root: str
    options: dict[str, bool]
    frame: Callable[[Sequence[bytes]], pa.RecordBatch]
    rows: Callable[[Disk], list[bytes]]


def _keys(disk: Disk) -> list[bytes]:
    with opened(disk, snapshot=False):
        return [row["key"] for row in rows_of(disk, ROOT) if row["value"] == row["key"]]


def _payloads(disk: Disk) -> list[bytes]:
    with QueueStore(SPOOL, disk=disk, reserve_bytes=0) as store:
        return [record.payload for record in store.queue().records()]


def _puts(rows: Sequence[bytes]) -> pa.RecordBatch:
    return pa.record_batch({"storage_id": pa.array([1] * len(rows)), "key": rows, "value": rows})


def _adds(rows: Sequence[bytes]) -> pa.RecordBatch:
    return pa.record_batch({"payload": pa.array(rows, pa.binary())})


LOADED = {
    "limestone": Dialect(limestone, ROOT, {}, _puts, _keys),
    "taskflux": Dialect(taskflux, SPOOL, {"create_queues": False}, _adds, _payloads),
}


def staged(disk: Disk, spoken: Dialect, edition: str) -> tuple[Any, list[Staged]]:
    """Two tasks have done their work."""
    plan = spoken.room.plan(disk, spoken.root, edition, **spoken.options)
    pieces = [
        spoken.room.stage(
            disk, plan, f"{plan.scratch}/load.job.{part}", part, [spoken.frame(ROWS[2 * part :][:2])]
        )
        for part in range(2)
    ]
    return plan, pieces


def act_of(
    spoken: Dialect, edition: str, batches: Sequence[int], between: Callable[[Disk], None] | None
) -> Any:
    def act(disk: Disk, history: History[int]) -> None:
        for number in batches:
            plan, pieces = staged(disk, spoken, edition)
            if between is not None:
                between(disk)
            history.issue(number)
            spoken.room.commit(disk, plan, pieces, Batch(STREAM, number))
            history.acknowledge(number)
            sweep(disk, plan.scratch, "job")

    return act


class LoadOracle:
    """Each batch counts as a whole, once, and is told by its mark."""

    def __init__(self, name: str) -> None:
        self._spoken = LOADED[name]

    def recover(self, disk: Disk) -> Shown:
        rows = self._spoken.rows(disk)
        return tuple(rows.count(row) for row in ROWS)

    def check(self, observed: Shown, issued: Sequence[int], acknowledged: Sequence[int]) -> str | None:
        at_least, at_most = len(set(acknowledged)), len(set(issued))
        if len(set(observed)) > 1:
            return f"a part of a batch is there: {observed}"
        if self._spoken.room is limestone:
            at_least, at_most = min(at_least, 1), min(at_most, 1)  # a key is there once
        return None if at_least <= observed[0] <= at_most else f"{observed} of {acknowledged} in {issued}"

    def extend(self, disk: Disk, observed: Shown) -> Shown:
        plan = self._spoken.room.plan(disk, self._spoken.root, None, **self._spoken.options)
        frame = self._spoken.frame([b"more"])
        piece = self._spoken.room.stage(disk, plan, f"{plan.scratch}/load.more.0", 0, [frame])
        refuse_gone(disk, [piece])
        self._spoken.room.commit(disk, plan, [piece], None)
        return observed


def another_writes(disk: Disk) -> None:
    """The log moves on between staging and the commit, beyond the epoch that was planned."""
    with opened(disk, snapshot=False) as store:
        for _ in range(3):
            with store.channel().session() as session:
                session.put(1, ROWS[0], b"older")
            store.switch_epoch()


def _suite(name: str) -> Suite:
    spoken = LOADED[name]
    scenarios = []
    for edition in ("designed", "shipped"):
        scenarios.append(Scenario(f"{edition}-loads", act_of(spoken, edition, (0, 1), None)))
        scenarios.append(Scenario(f"{edition}-loads-a-batch-again", act_of(spoken, edition, (0, 0), None)))
    if name == "limestone":
        scenarios.append(Scenario("loads-behind-another", act_of(spoken, "designed", (0,), another_writes)))
    return Suite(f"tests.crash.loads:{name.upper()}", LoadOracle(name), tuple(scenarios))


LIMESTONE = _suite("limestone")
TASKFLUX = _suite("taskflux")
