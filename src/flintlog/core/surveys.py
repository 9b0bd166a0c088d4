"""The surveys of a log, so that several steps can use the same one.

A survey is used again only while the directory does not change, by `Moment`; in doubt a new one is taken. Code that
proves the bytes always takes a new one: bytes may rot without a change of any name or time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from flintlog.core.live import Moment

T = TypeVar("T")


class Surveys:
    """The newest survey of each kind. Callers share it, so they must not change it."""

    def __init__(self, moment: Callable[[], Moment] | None) -> None:
        self._moment = moment
        self._held: dict[str, tuple[Moment, Any]] = {}

    def take(self, kind: str, make: Callable[[], T], *, anew: bool = False, keep: bool = True) -> T:
        """The survey that is held, or a new one by `make`; with `anew` always a new one.

        Pass `keep=False` to change it: no other caller gets it then.
        """
        if self._moment is None:
            return make()
        found: Any
        moment, found = self._held.pop(kind, (None, None))
        if anew or moment is None or not moment.lasts():
            moment = found = None  # never two of them in memory
            moment, found = self._moment(), make()
        if keep and self._moment is not None:
            self._held[kind] = moment, found
        taken: T = found
        return taken

    def release(self) -> None:
        """Drop the surveys, and hold no later one."""
        self._moment = None
        self._held.clear()


UNSHARED = Surveys(None)
