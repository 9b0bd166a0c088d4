"""The live store: channels, epochs, snapshots, compaction, backups."""

from flintlog.core.backup import Backup
from flintlog.dialects.limestone.store.auto import Automatic
from flintlog.dialects.limestone.store.backup import back_up, check_backup, restore, restore_files
from flintlog.dialects.limestone.store.channel import Channel, Session
from flintlog.dialects.limestone.store.datastore import Datastore
from flintlog.dialects.limestone.store.snapshot import Snapshot

__all__ = [
    "Automatic",
    "Backup",
    "Channel",
    "Datastore",
    "Session",
    "Snapshot",
    "back_up",
    "check_backup",
    "restore",
    "restore_files",
]
