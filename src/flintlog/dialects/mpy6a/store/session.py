"""`Topic` and `Session`: what an application sees of a store of sessions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flintlog.dialects.mpy6a import layout as lay
from flintlog.dialects.mpy6a.layout import StateID
from flintlog.dialects.mpy6a.operations import Place
from flintlog.errors import UsageError

if TYPE_CHECKING:
    from flintlog.dialects.mpy6a.store.session_store import SessionStore

_TOPIC_MIN, _TOPIC_MAX = -(1 << 31), (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Topic:
    """Sessions of one kind: how long they wait before a replay, and how often they are replayed.

    A session whose replays reached `attempts_max` is set aside instead of being replayed once more.
    """

    number: int
    delay: int
    attempts_max: int | None = None

    def __post_init__(self) -> None:
        if not _TOPIC_MIN <= self.number <= _TOPIC_MAX:
            raise UsageError(f"topic {self.number} does not fit in 32 bits")
        check_delay(self.delay)
        if self.attempts_max is not None and self.attempts_max < 1:
            raise UsageError(
                f"topic {self.number}: a session is replayed at least once, not {self.attempts_max} times"
            )


def check_delay(delay: int) -> int:
    """A delay as files can be bound to it."""
    if not 1 <= delay <= lay.DELAY_MAX:
        raise UsageError(f"a delay of {delay} seconds cannot be", advice=f"Give 1 to {lay.DELAY_MAX} seconds")
    return delay


class Session:
    """One session that is open: new, or due again. It ends with `delete` or `store`.

    A new session survives the process: `SessionStore.sessions` lists those that are open. A replayed one that is not
    ended comes again after a restart, with what was appended to it.
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
        self.replay_time = replay_time  # when it became due; None for a new one
        self.place = place  # where its record waits until it is ended
        self.ended = False

    @property
    def data(self) -> bytes:
        """What was put into the session so far."""
        changed = self._store.changed_data(self)
        return self._data if changed is None else changed

    @property
    def stored_data(self) -> bytes:
        """What its record holds."""
        return self._data

    def append(self, data: bytes) -> None:
        """Add to the session; durable on return."""
        self._store.change(self, data, replace=False)

    def replace(self, data: bytes) -> None:
        """Put this in the place of what it holds; durable on return."""
        self._store.change(self, data, replace=True)

    def delete(self) -> None:
        """The session is done; durable on return."""
        self._store.delete(self)

    def store(self, delay: int | None = None, *, now: float | None = None) -> int:
        """End work on the session for now; it is due again after `delay` seconds. Durable on return.

        Without `delay` the topic's counts. Returns the replay time.
        """
        return self._store.store(self, delay, now=now)

    def __repr__(self) -> str:
        return f"<Session {self.id} topic={self.topic} attempts={self.attempts}>"
