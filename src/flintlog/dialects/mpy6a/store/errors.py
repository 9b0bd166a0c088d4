"""What a store of sessions refuses, each with a code of its own."""

from __future__ import annotations

from flintlog.errors import RefusedError, UsageError


class SessionFinishedError(RefusedError):
    """The session was deleted or stored already."""

    code = "session-finished"


class SessionTooLongError(RefusedError):
    """More data than one session may hold."""

    code = "session-too-long"


class TopicUnknownError(UsageError):
    """No such topic was given to the store."""

    code = "topic-unknown"


class TimeUnknownError(UsageError):
    """The store does not know what time it is."""

    code = "time-unknown"


class NotLeadingError(RefusedError):
    """A follower takes operations from its leader only."""

    code = "not-leading"


class GapError(RefusedError):
    """The operations do not follow those that the store has."""

    code = "gap"
