"""Notes of what was asked of a store and what it acknowledged, as things that are put in and taken out."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager


class Notes:
    """Things that were put in and taken out of a store, by any number of threads. Each thing has a name of its own."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self.adding: set[str] = set()  # asked for, finished or not
        self.added: set[str] = set()
        self.removing: set[str] = set()
        self.removed: set[str] = set()

    @contextmanager
    def add(self, *names: str) -> Iterator[None]:
        """Put it around a call that puts these in. They count as acknowledged when it returns."""
        self._note(self.adding, names)
        yield
        self._note(self.added, names)

    @contextmanager
    def remove(self, *names: str, for_good: bool = True) -> Iterator[None]:
        """Put it around a call that takes these out; not `for_good` when the store may bring them back."""
        self._note(self.removing, names)
        yield
        if for_good:
            self._note(self.removed, names)

    def _note(self, which: set[str], names: Sequence[str]) -> None:
        with self._mutex:
            which.update(names)

    @property
    def acknowledged(self) -> int:
        """How many additions and removals for good were acknowledged."""
        return len(self.added) + len(self.removed)

    def judge(self, there: Sequence[str]) -> str | None:
        """None when a store may hold exactly this now, else a sentence: lost, back again, invented, twice."""
        found = set(there)
        if lost := self.added - self.removing - found:
            return f"{len(lost)} acknowledged things are gone, one is {min(lost)!r}"
        if back := self.removed & found:
            return f"{len(back)} things are back that were taken out, one is {min(back)!r}"
        if invented := found - self.adding:
            return f"{len(invented)} things were never put in, one is {min(invented)!r}"
        if len(found) < len(there):
            return f"{len(there) - len(found)} things are there twice"
        return None
