"""Drop what is no longer needed: a snapshot of taskflux is its compaction."""

from __future__ import annotations

from dataclasses import replace

from flintlog.core.plan import Plan
from flintlog.core.workers import Workers
from flintlog.dialects.taskflux.upkeep.snapshot import plan_snapshot
from flintlog.disk import Disk


def plan_compact(disk: Disk, data: str, workers: Workers | None = None) -> Plan:
    """A snapshot at the last LSN, which covers every closed segment."""
    return replace(plan_snapshot(disk, data, workers=workers), verb="compact")
