"""The live engine: open and recover, append, commit, snapshot, close."""

from flintlog.dialects.taskflux.store.queue import Queue, Taken
from flintlog.dialects.taskflux.store.queue_store import QueueStore
from flintlog.dialects.taskflux.store.replica import Entry, ReplicaLog

__all__ = ["Entry", "Queue", "QueueStore", "ReplicaLog", "Taken"]
