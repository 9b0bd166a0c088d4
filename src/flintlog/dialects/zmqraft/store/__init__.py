"""The live engine of a peer, and its pieces."""

from flintlog.dialects.zmqraft.layout import Entry
from flintlog.dialects.zmqraft.state import APPLIED_PROPERTIES, RAFT_PROPERTIES, Property
from flintlog.dialects.zmqraft.store.file_log import FileLog
from flintlog.dialects.zmqraft.store.index_file import IndexFile
from flintlog.dialects.zmqraft.store.raft_store import HardState, RaftStore
from flintlog.dialects.zmqraft.store.snapshot_file import SnapshotFile
from flintlog.dialects.zmqraft.store.stamp import Stamps
from flintlog.dialects.zmqraft.store.state_file import StateFile
from flintlog.dialects.zmqraft.store.token_file import TokenFile

__all__ = [
    "APPLIED_PROPERTIES",
    "RAFT_PROPERTIES",
    "Entry",
    "FileLog",
    "HardState",
    "IndexFile",
    "Property",
    "RaftStore",
    "SnapshotFile",
    "Stamps",
    "StateFile",
    "TokenFile",
]
