"""Following a zmqraft log: entries by their index."""

from __future__ import annotations

from flintlog.core.follow import Follower
from flintlog.core.log import Log
from flintlog.core.sequence import SequenceFollower


def follower(log: Log) -> Follower:
    """A follower of this log."""
    return SequenceFollower(log)
