"""What a store tells the kit about itself: scenarios that drive it, an oracle that judges what it recovers.

A scenario issues operations and notes when each was acknowledged. So the kit knows at any moment of the record what
must be there after a crash (acknowledged) and what may be (issued). The oracle chooses the value that stands for the
content of a store; the kit only compares two of them with `==`.
"""

from __future__ import annotations

import importlib
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from flintlog.disk import Disk
from flintlog.errors import UsageError
from flintlog.testing.calls import Call
from flintlog.testing.device import State
from flintlog.testing.kernel import MemoryKernel
from flintlog.testing.sites import Sites

Item = TypeVar("Item")
ItemIn = TypeVar("ItemIn", contravariant=True)
Observed = TypeVar("Observed")


class Oracle(Protocol[ItemIn, Observed]):
    """Judges one store. Each method gets a whole machine and leaves the store closed."""

    def recover(self, disk: Disk) -> Observed:
        """Open the store, return what it shows, close it. A plain value: it is compared and kept."""
        ...

    def check(
        self, observed: Observed, issued: Sequence[ItemIn], acknowledged: Sequence[ItemIn]
    ) -> str | None:
        """None, or a sentence: something acknowledged is missing, there is a hole, something was invented."""
        ...

    def extend(self, disk: Disk, observed: Observed) -> Observed:
        """Open the store, make one acknowledged change, close it; return what every recovery must show now.

        Work the value out from `observed` and the change; do not read it from the store.
        """
        ...


class History(Generic[Item]):
    """What a scenario asked for and what was acknowledged, each with the number of calls made by then."""

    def __init__(self, clock: Callable[[], int] = lambda: 0) -> None:
        self._clock = clock
        self._issued: tuple[list[int], list[Item]] = ([], [])
        self._acknowledged: tuple[list[int], list[Item]] = ([], [])
        self.probes: tuple[Callable[[], object], ...] = ()

    def issue(self, item: Item) -> None:
        """Note an operation right before it is called."""
        self._issued[0].append(self._clock())
        self._issued[1].append(item)

    def acknowledge(self, item: Item) -> None:
        """Note an operation right after it returned."""
        self._acknowledged[0].append(self._clock())
        self._acknowledged[1].append(item)

    def opened(self, *probes: Callable[[], object]) -> None:
        """Note that a store is open, with operations that must all refuse after one of its writes failed."""
        self.probes = probes

    def issued(self, calls: int | None = None) -> list[Item]:
        """What was issued after this many calls; for None all of it."""
        return _until(self._issued, calls)

    def acknowledged(self, calls: int | None = None) -> list[Item]:
        """What was acknowledged after this many calls; for None all of it."""
        return _until(self._acknowledged, calls)


def _until(noted: tuple[list[int], list[Item]], calls: int | None) -> list[Item]:
    times, items = noted
    return list(items) if calls is None else items[: bisect_right(times, calls)]


@dataclass(frozen=True)
class Scenario(Generic[Item]):
    """A short life of a store, the same calls each time it is run.

    `prepare` runs first, unrecorded, and all that it writes is durable. `tolerated` names the calls whose failure a
    store may survive without raising. Lines of `packages` name the site of a sync. `atomic_bytes` is the size of the
    aligned pieces that a write never tears: 1 unless the format relies on more.
    """

    name: str
    run: Callable[[Disk, History[Item]], None]
    prepare: Callable[[Disk, History[Item]], None] | None = None
    tolerated: frozenset[str] = frozenset({"close"})
    packages: tuple[str, ...] = ("flintlog",)
    atomic_bytes: int = 1

    def prepared(self) -> tuple[State, History[Item]]:
        """The machine the scenario starts on and what was acknowledged on it."""
        kernel = MemoryKernel()
        history: History[Item] = History()
        if self.prepare is not None:
            self.prepare(Disk(kernel), history)
        return kernel.visible(), history


@dataclass(frozen=True)
class Suite:
    """The scenarios of one store with its oracle. `target` is its place: `package.module:NAME`."""

    target: str
    oracle: Oracle[Any, Any]
    scenarios: tuple[Scenario[Any], ...]

    def scenario(self, name: str) -> Scenario[Any]:
        """The scenario of this name."""
        for scenario in self.scenarios:
            if scenario.name == name:
                return scenario
        known = ", ".join(scenario.name for scenario in self.scenarios)
        raise UsageError(f"no scenario {name!r} in {self.target}", advice=f"It has: {known}")

    @staticmethod
    def load(target: str) -> Suite:
        """The suite at `package.module:NAME`."""
        module, _, name = target.partition(":")
        found = getattr(importlib.import_module(module), name or "SUITE", None)
        if not isinstance(found, Suite):
            raise UsageError(
                f"{target} is not a flintlog.testing.Suite", advice="Name it as package.module:NAME"
            )
        return found


@dataclass(frozen=True)
class Recording(Generic[Item]):
    """A scenario that was run: the machine before, every call, and the history."""

    scenario: Scenario[Item]
    base: State
    log: tuple[Call, ...]
    history: History[Item] = field(repr=False)


def record(
    scenario: Scenario[Item], *, elide: str | None = None, sites: Sites | None = None
) -> Recording[Item]:
    """Run a scenario and keep what it did."""
    base, before = scenario.prepared()
    kernel = MemoryKernel(base, sites=sites or Sites(scenario.packages), elide=elide)
    history: History[Item] = History(lambda: len(kernel.log))
    for item in before.issued():
        history.issue(item)
    for item in before.acknowledged():
        history.acknowledge(item)
    scenario.run(Disk(kernel), history)
    return Recording(scenario, base, tuple(kernel.log), history)
