"""Jobs over whole logs. Each takes a Spark session; where it says so, None stands for this process."""

from flintlog.pipeline.jobs.diff import DiffReport, Replica, diff
from flintlog.pipeline.jobs.export import ExportReport, export

__all__ = ["DiffReport", "ExportReport", "Replica", "diff", "export"]
