"""Crash scenarios of verbs that meet a full disk and take back what they did: whatever call the crash hits."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from tests.crash import limestone_upkeep, mpy6a_sessions, taskflux_upkeep, zmqraft_upkeep

from flintlog.core.log import Log
from flintlog.dialects.mpy6a.dialect import DIALECT as MPY6A_DIALECT
from flintlog.disk import NOTHING_CHANGED, Disk, Kernel, KernelInFront, TransactionKernel, transaction
from flintlog.errors import DiskError
from flintlog.testing import History, MemoryKernel, Oracle, Scenario, Suite

Verb = Callable[[Disk, History[Any]], None]


class FillingKernel(KernelInFront):
    """Has room for so many writes."""

    def __init__(self, kernel: Kernel, room: int | None = None) -> None:
        super().__init__(kernel)
        self._room = room
        self.writes = 0

    def pwrite(self, handle: int, data: memoryview, offset: int) -> int:
        if self.writes == self._room:
            raise OSError(errno.ENOSPC, "no room left")
        self.writes += 1
        return super().pwrite(handle, data, offset)


@dataclass(frozen=True)
class TakenBack:
    """A verb on a disk that is full just before the verb could only be finished."""

    verb: Verb
    prepare: Verb

    def __call__(self, disk: Disk, history: History[Any]) -> None:
        full = Disk(FillingKernel(disk.kernel, self._room() - 1))
        with pytest.raises(DiskError, match=NOTHING_CHANGED), transaction(full) as work:
            self.verb(work, history)

    def _room(self) -> int:
        """How many writes there are before the work is final, found on a disk of its own."""
        disk = Disk(MemoryKernel())
        self.prepare(disk, History())
        kernel = FillingKernel(disk.kernel)
        writes: list[int] = []
        self.verb(Disk(TransactionKernel(kernel, on_final=lambda: writes.append(kernel.writes))), History())
        return writes[0]


def _scenario(name: str, verb: Verb, prepare: Verb, atomic_bytes: int = 1) -> Scenario[Any]:
    return Scenario(name, TakenBack(verb, prepare), prepare=prepare, atomic_bytes=atomic_bytes)


def _suite(variable: str, oracle: Oracle[Any, Any], *scenarios: Scenario[Any]) -> Suite:
    return Suite(f"tests.crash.taken_back:{variable}", oracle, scenarios)


def merge(disk: Disk, history: History[Any]) -> None:
    Log(MPY6A_DIALECT, disk, mpy6a_sessions.ROOT).plan_compact(None).apply()


LIMESTONE = _suite(
    "LIMESTONE",
    limestone_upkeep.CompactOracle(),
    _scenario("take-a-compaction-back", limestone_upkeep.compact, limestone_upkeep.written),
    _scenario(
        "take-a-shipped-compaction-back", limestone_upkeep.compact, limestone_upkeep.written_as_shipped, 32
    ),
)
TASKFLUX = _suite(
    "TASKFLUX",
    taskflux_upkeep.SnapshotOracle(),
    _scenario("take-a-snapshot-back", taskflux_upkeep.take_snapshot, taskflux_upkeep.written),
)
ZMQRAFT = _suite(
    "ZMQRAFT",
    zmqraft_upkeep.SameOracle(zmqraft_upkeep.WITHOUT_SNAPSHOT),
    _scenario("take-a-given-snapshot-back", zmqraft_upkeep.snapshot, zmqraft_upkeep.written, 4),
)
MPY6A = _suite(
    "MPY6A",
    mpy6a_sessions.SessionOracle(),
    _scenario("take-a-merge-back", merge, partial(mpy6a_sessions.remains, strict=False)),
)
