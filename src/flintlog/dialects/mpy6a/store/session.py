"""`Topic` and `Session`: what an application sees of a store of sessions."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, overload

import numpy as np

from flintlog.dialects.mpy6a import layout as lay
from flintlog.dialects.mpy6a.layout import StateID
from flintlog.dialects.mpy6a.operations import Place
from flintlog.dialects.mpy6a.store.errors import SessionTooLongError
from flintlog.errors import UsageError

if TYPE_CHECKING:
    from flintlog.dialects.mpy6a.store.session_store import SessionStore

SESSION_BYTES_MAX = 16 << 20
_log = logging.getLogger(__name__)
_TOPIC_MIN, _TOPIC_MAX = -(1 << 31), (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Topic:
    """Sessions of one kind: how long they wait before a replay, and how often they are replayed.

    After `attempts_max` replays a session becomes exhausted and is not replayed again.
    """

    number: int
    delay: int
    attempts_max: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.number, int) or not _TOPIC_MIN <= self.number <= _TOPIC_MAX:
            raise UsageError(f"topic {self.number!r} is not a number of 32 bits")
        check_delay(self.delay)
        most = self.attempts_max
        if most is not None and (not isinstance(most, int) or most < 1):
            raise UsageError(
                f"topic {self.number}: a session must be replayed at least once, not {most!r} times"
            )


def check_delay(delay: int) -> int:
    """A delay that a file name can hold; raises for others."""
    if not isinstance(delay, int) or isinstance(delay, bool) or not 1 <= delay <= lay.DELAY_MAX:
        raise UsageError(
            f"a delay cannot have {delay!r} seconds", advice=f"Give 1 to {lay.DELAY_MAX} whole seconds"
        )
    return delay


class IdRange(Sequence[StateID]):
    """The ids of sessions that were put together."""

    def __init__(self, first: StateID, count: int) -> None:
        self.first = first
        self._count = count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, at: int) -> StateID: ...

    @overload
    def __getitem__(self, at: slice) -> list[StateID]: ...

    def __getitem__(self, at: int | slice) -> StateID | list[StateID]:
        if isinstance(at, slice):
            return [self.first.following(index) for index in range(self._count)[at]]
        return self.first.following(range(self._count)[at])


def is_time(now: object) -> bool:
    """Is this a time in seconds since 1970, to which every delay can be added?"""
    return isinstance(now, int | float | np.integer | np.floating) and bool(
        0 < now < lay.TIME_MAX - lay.DELAY_MAX
    )


def checked_data(data: object) -> bytes:
    """A session's data; raises for anything but bytes before anything is changed."""
    if not isinstance(data, bytes):
        if not isinstance(data, bytearray | memoryview) or memoryview(data).itemsize != 1:
            raise UsageError(f"a session holds bytes, not {type(data).__name__}")
        data = bytes(data)
    check_size(len(data))
    return data


def check_size(size: int) -> None:
    """Raise for more bytes than one session may hold."""
    if size > SESSION_BYTES_MAX:
        raise SessionTooLongError(
            f"a session of {size} bytes is too long", advice=f"Keep it under {SESSION_BYTES_MAX} bytes"
        )


def warn_exhausted(record: lay.Record) -> None:
    """Log a warning: the callback for exhausted sessions without `on_exhausted`."""
    _log.warning(
        "session %s of topic %d was replayed %d times and is set aside",
        record.id,
        record.topic,
        record.attempts,
    )


class Session:
    """One session that is open: new, or due again. It ends with `delete` or `store`.

    A session that is new, or was changed since it came back, survives the process: `SessionStore.sessions` lists it. A
    replayed one that is not ended comes again after a restart, with what was appended to it.
    """

    __slots__ = ("_data", "_store", "attempts", "ended", "id", "place", "replay_time", "topic")

    def __init__(
        self,
        store: SessionStore,
        session_id: StateID,
        topic: int,
        *,
        attempts: int = 0,
        data: bytes = b"",
        replay_time: int | None = None,
        place: Place | None = None,
    ) -> None:
        self._store = store
        self._data = data
        self.id = session_id
        self.topic = topic
        self.attempts = attempts  # replays that failed so far
        self.replay_time = replay_time  # when it became due; None for a new session
        self.place = place  # where its record waits until it is ended
        self.ended = False

    def is_of(self, store: SessionStore) -> bool:
        """Did this store hand this session out?"""
        return self._store is store

    @property
    def data(self) -> bytes:
        """The session's data so far."""
        changed = self._store.changed_data(self)
        return self._data if changed is None else changed

    @property
    def last_change(self) -> StateID | None:
        """The operation that last changed it; None when it came back and was not changed since."""
        return self._store.last_change(self)

    @property
    def stored_data(self) -> bytes:
        """The data in its record."""
        return self._data

    def append(self, data: bytes) -> None:
        """Add to the session; durable on return."""
        self._store.change(self, data, replace=False)

    def replace(self, data: bytes) -> None:
        """Replace the session's data; durable on return."""
        self._store.change(self, data, replace=True)

    def delete(self) -> None:
        """End the session for good; durable on return."""
        self._store.delete(self)

    def store(self, delay: int | None = None, *, now: float | None = None) -> int:
        """End work on the session for now; it is due again after `delay` seconds. Durable on return.

        Without `delay` the topic's counts. Returns the replay time.
        """
        return self._store.store(self, delay, now=now)

    def __repr__(self) -> str:
        return f"<Session {self.id} topic={self.topic} attempts={self.attempts}>"
