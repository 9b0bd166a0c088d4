"""Makes `spark.read.format("flintlog")` work without a register call.

PySpark imports every package named `pyspark_*` in a process of its own and registers its `DefaultSource`.
"""

from flintlog.pipeline.source import FlintlogDataSource as DefaultSource

__all__ = ["DefaultSource"]
