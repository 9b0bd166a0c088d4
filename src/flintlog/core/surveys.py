"""The surveys of a log, so that one that was taken serves the next step too.

A survey is served again only as long as the directory stands still, which `Moment` tells; in doubt another is taken.
What proves the bytes themselves always takes a new one: they may rot without a change of any name or time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from flintlog.core.live import Moment

T = TypeVar("T")


class Surveys:
    """The newest survey of each kind. One who gets it leaves it as it is; others get it too."""

    def __init__(self, moment: Callable[[], Moment] | None) -> None:
        self._moment = moment
        self._held: dict[str, tuple[Moment, Any]] = {}

    def take(self, kind: str, make: Callable[[], T], *, anew: bool = False, keep: bool = True) -> T:
        """The survey that is held, or what `make` returns; with `anew` always that.

        Pass `keep=False` to change it: it is not served again then.
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
        """Hold none, and no later one."""
        self._moment = None
        self._held.clear()


UNSHARED = Surveys(None)
