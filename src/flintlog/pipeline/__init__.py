"""Logs on Spark: the data source `flintlog` and the session the jobs run in.

| module | holds |
|---|---|
| `options.py` | what a reader may ask for, checked |
| `filters.py` | filters of a query to a narrower question to the dialect |
| `source.py` | the data source: plans splits on the driver, reads them as Arrow batches in tasks |
| `session.py` | a Spark session with settings that fit small and middle-sized logs |

Nothing here reads a byte of a log: the dialects do, by the seam in `core.dialect`.
"""
