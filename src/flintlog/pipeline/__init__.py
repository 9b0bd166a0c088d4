"""Logs on Spark: the data source `flintlog`, streams, jobs, and the session they run in.

| module | holds |
|---|---|
| `paths.py` | an address to a disk and a path on it; patterns |
| `options.py` | what a reader may ask for, checked |
| `where.py` | conditions on rows, and what the dialect need not read |
| `views.py` | the columns of the views, and the rows of views of a whole directory |
| `source.py` | the data source: plans splits on the driver, reads them as Arrow batches in tasks |
| `stream_options.py`, `streaming.py` | the same source as a stream that follows live logs |
| `writing.py` | rows of a DataFrame to a log: staged by tasks, one commit for all |
| `target.py`, `delta.py` | where exports are, and how each happens once |
| `saving.py` | `flintlog.write`: a frame to a log, from any thread |
| `reading.py` | `flintlog.read`: a view as a DataFrame, planned anew with each call |
| `workers.py` | the tasks of a session as `core.workers.Workers` |
| `jobs/` | work over whole logs: `verify`, `state`, `snapshot`, `compact`, `export`, `diff` |
| `telling.py` | errors that end with our sentence when Spark shows them |
| `session.py` | a Spark session with settings that fit small and middle-sized logs |

Only the dialects read the bytes of a log, by the seam in `core.dialect`.
"""
