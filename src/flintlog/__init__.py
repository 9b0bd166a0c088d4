"""Flintlog: durable logs in Python, worked on with Spark.

`flintlog.open` opens a log directory of any dialect for reading, `flintlog.read` gives it to Spark, `flintlog.write`
lets Spark add to it. The stores, what they hand out and every error are here by name, imported when they are asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flintlog.core.log import Log, Rows
    from flintlog.core.log import open_log as open
    from flintlog.dialects.limestone.store import Datastore
    from flintlog.dialects.mpy6a.store import Session, SessionStore, Topic
    from flintlog.dialects.taskflux.store import Queue, QueueStore, ReplicaLog, Taken
    from flintlog.dialects.zmqraft.store import RaftStore
    from flintlog.errors import (
        ClosedError,
        DamageError,
        DiskError,
        FlintlogError,
        ForkedError,
        LockedError,
        NotALogError,
        RefusedError,
        SettingsError,
        StoppedError,
        UnsupportedError,
        UsageError,
    )
    from flintlog.pipeline.reading import read
    from flintlog.pipeline.saving import write

__version__ = "0.1.0"

__all__ = [
    "ClosedError",
    "DamageError",
    "Datastore",
    "DiskError",
    "FlintlogError",
    "ForkedError",
    "LockedError",
    "Log",
    "NotALogError",
    "Queue",
    "QueueStore",
    "RaftStore",
    "RefusedError",
    "ReplicaLog",
    "Rows",
    "Session",
    "SessionStore",
    "SettingsError",
    "StoppedError",
    "Taken",
    "Topic",
    "UnsupportedError",
    "UsageError",
    "open",
    "read",
    "write",
]

_HOMES = {
    "Datastore": "flintlog.dialects.limestone.store",
    "Log": "flintlog.core.log",
    "Queue": "flintlog.dialects.taskflux.store",
    "QueueStore": "flintlog.dialects.taskflux.store",
    "RaftStore": "flintlog.dialects.zmqraft.store",
    "ReplicaLog": "flintlog.dialects.taskflux.store",
    "Rows": "flintlog.core.log",
    "Session": "flintlog.dialects.mpy6a.store",
    "SessionStore": "flintlog.dialects.mpy6a.store",
    "Taken": "flintlog.dialects.taskflux.store",
    "Topic": "flintlog.dialects.mpy6a.store",
    "open": "flintlog.core.log",
    "read": "flintlog.pipeline.reading",
    "write": "flintlog.pipeline.saving",
}
_CALLED = {"open": "open_log"}  # what has another name at home


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = importlib.import_module(_HOMES.get(name, "flintlog.errors"))
    return getattr(home, _CALLED.get(name, name))
