"""What time it is for a store, and when a session is due."""

from __future__ import annotations

import math
from collections.abc import Callable

from flintlog.dialects.mpy6a.replay import Machine
from flintlog.dialects.mpy6a.store.errors import TimeUnknownError
from flintlog.dialects.mpy6a.store.session import is_time
from flintlog.errors import UsageError


class Times:
    """The time of a clock, or the last time that the store was given."""

    def __init__(self, clock: Callable[[], float] | None) -> None:
        self._clock = clock
        self._told: float | None = None

    @property
    def has_clock(self) -> bool:
        return self._clock is not None

    def now(self, now: float | None = None) -> float:
        """This time if given, else that of the clock, else the last one given."""
        if now is None:
            now = self._clock() if self._clock is not None else self._told
        if now is None:
            raise TimeUnknownError(
                "the store was not told what time it is", advice="Give it a clock (clock=time.time), or `now`"
            )
        if not is_time(now):
            raise UsageError(f"{now!r} is not a time in seconds since 1970")
        self._told = now
        return now

    def due_after(self, machine: Machine, delay: int, now: float | None) -> int:
        """When a session that is stored now is due; never before earlier sessions of its delay."""
        return max(math.ceil(self.now(now)) + delay, machine.latest_time(delay))
