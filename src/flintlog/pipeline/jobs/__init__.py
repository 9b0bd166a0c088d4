"""Jobs over whole logs. Each takes a Spark session; some also take None and work in this process."""

from flintlog.pipeline.jobs.diff import DiffReport, Replica, diff
from flintlog.pipeline.jobs.export import ExportReport, export
from flintlog.pipeline.jobs.upkeep import (
    compact,
    findings,
    snapshot,
    state,
    verify,
)

__all__ = [
    "DiffReport",
    "ExportReport",
    "Replica",
    "compact",
    "diff",
    "export",
    "findings",
    "snapshot",
    "state",
    "verify",
]
