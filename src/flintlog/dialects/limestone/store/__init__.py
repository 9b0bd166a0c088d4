"""The live store: channels, epochs, snapshots, compaction."""

from flintlog.dialects.limestone.store.channel import Channel, Session
from flintlog.dialects.limestone.store.datastore import Datastore
from flintlog.dialects.limestone.store.snapshot import Snapshot

__all__ = ["Channel", "Datastore", "Session", "Snapshot"]
