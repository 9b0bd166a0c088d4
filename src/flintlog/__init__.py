"""Flintlog: durable logs in Python, worked on with Spark.

`flintlog.open` opens a log directory of any dialect for reading, and `flintlog.read` gives it to Spark. The stores live
in their dialects: `from flintlog.dialects.taskflux.store import QueueStore`. All are here by name, imported when they
are asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flintlog.core.log import Log, Rows
    from flintlog.core.log import open_log as open
    from flintlog.dialects.limestone.store import Datastore
    from flintlog.dialects.mpy6a.store import Session, SessionStore, Topic
    from flintlog.dialects.taskflux.store import QueueStore, ReplicaLog
    from flintlog.dialects.zmqraft.store import RaftStore
    from flintlog.pipeline.reading import read

__all__ = [
    "Datastore",
    "Log",
    "QueueStore",
    "RaftStore",
    "ReplicaLog",
    "Rows",
    "Session",
    "SessionStore",
    "Topic",
    "open",
    "read",
]

_HOMES = {
    "Datastore": "flintlog.dialects.limestone.store",
    "Log": "flintlog.core.log",
    "QueueStore": "flintlog.dialects.taskflux.store",
    "RaftStore": "flintlog.dialects.zmqraft.store",
    "ReplicaLog": "flintlog.dialects.taskflux.store",
    "Rows": "flintlog.core.log",
    "Session": "flintlog.dialects.mpy6a.store",
    "SessionStore": "flintlog.dialects.mpy6a.store",
    "Topic": "flintlog.dialects.mpy6a.store",
    "open": "flintlog.core.log",
    "read": "flintlog.pipeline.reading",
}
_CALLED = {"open": "open_log"}  # what has another name at home


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), _CALLED.get(name, name))
