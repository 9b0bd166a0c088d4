"""The live store of sessions."""

from flintlog.dialects.mpy6a.layout import Record, StateID
from flintlog.dialects.mpy6a.store.following import Item, Operations, Progress
from flintlog.dialects.mpy6a.store.replays import Replays
from flintlog.dialects.mpy6a.store.session import Session, Topic
from flintlog.dialects.mpy6a.store.session_store import IdRange, SessionStore

__all__ = [
    "IdRange",
    "Item",
    "Operations",
    "Progress",
    "Record",
    "Replays",
    "Session",
    "SessionStore",
    "StateID",
    "Topic",
]
