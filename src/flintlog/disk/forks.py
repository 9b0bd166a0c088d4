"""Objects that a forked child must not use; each hears of the fork before the child's first step.

The weak references have no callback: Python would run it when an object is collected, and lose an interrupt that came
inside it.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Forkable(Protocol):
    def _fork(self) -> None:
        """Called in the child."""


_known: dict[int, weakref.ref[Forkable]] = {}


def remember(item: Forkable) -> None:
    """Tell this object in every forked child, until it is forgotten or collected."""
    _known[id(item)] = weakref.ref(item)


def forget(item: Forkable) -> None:
    _known.pop(id(item), None)


def known() -> list[Forkable]:
    """The objects that are remembered and still alive."""
    there = [reference() for reference in list(_known.values())]
    return [item for item in there if item is not None]


def _forked() -> None:
    for item in known():
        item._fork()


os.register_at_fork(after_in_child=_forked)
