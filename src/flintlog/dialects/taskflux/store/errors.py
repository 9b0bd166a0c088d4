"""What a queue refuses, each with a code of its own."""

from __future__ import annotations

from flintlog.errors import RefusedError


class QueueMissingError(RefusedError):
    """There is no queue of that name."""

    code = "queue-missing"


class QueueExistsError(RefusedError):
    """A queue of that name is there already."""

    code = "queue-exists"


class RecordMissingError(RefusedError):
    """The queue has no such record."""

    code = "record-missing"


class LimitError(RefusedError):
    """A limit of the queue; the message names it."""

    code = "limit"


class QueueFullError(LimitError):
    """The queue's maximum size."""

    code = "queue-full"


class KeyRangeError(LimitError):
    """The queue's key range."""

    code = "key-range"


class PayloadSizeError(LimitError):
    """The queue's maximum payload."""

    code = "payload-size"
