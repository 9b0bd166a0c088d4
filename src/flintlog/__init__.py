"""Flintlog: durable logs in Python, worked on with Spark.

The stores live in their dialects: `from flintlog.dialects.taskflux.store import QueueStore`. They are also
here by name, imported when they are asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flintlog.dialects.limestone.store import Datastore
    from flintlog.dialects.mpy6a.store import Session, SessionStore, Topic
    from flintlog.dialects.taskflux.store import QueueStore, ReplicaLog
    from flintlog.dialects.zmqraft.store import RaftStore

__all__ = ["Datastore", "QueueStore", "RaftStore", "ReplicaLog", "Session", "SessionStore", "Topic"]

_HOMES = {
    "Datastore": "flintlog.dialects.limestone.store",
    "QueueStore": "flintlog.dialects.taskflux.store",
    "RaftStore": "flintlog.dialects.zmqraft.store",
    "ReplicaLog": "flintlog.dialects.taskflux.store",
    "Session": "flintlog.dialects.mpy6a.store",
    "SessionStore": "flintlog.dialects.mpy6a.store",
    "Topic": "flintlog.dialects.mpy6a.store",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
