"""Runs a scenario through all its crash images, and proves that a store needs each of its syncs.

`explore` recovers and judges every distinct image. `prove_syncs` takes the syncs away, one line of source at a time,
and looks for an image that shows the loss. A sync whose loss shows nowhere is either not needed or not tested.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from flintlog.testing.calls import Sync, SyncDirectory
from flintlog.testing.crash import PAGE_BYTES, Image, images
from flintlog.testing.device import Device
from flintlog.testing.examine import BrokenPromiseError, Examiner, Expectation
from flintlog.testing.oracle import Oracle, Recording, Scenario, Suite, record
from flintlog.testing.sites import Sites, trimmed

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise that one image breaks; `line` makes the image again."""

    line: str
    promise: str
    detail: str
    elided: str | None = None

    def command(self, target: str) -> str:
        """The command that reproduces it."""
        elided = f' --elide "{self.elided}"' if self.elided else ""
        return f'python -m flintlog.testing reproduce {target} "{self.line}"{elided}'

    def __str__(self) -> str:
        return f"{self.line}: {self.promise}: {self.detail}"


@dataclass(frozen=True)
class Report:
    """Totals of an exploration. `images` counts those that differ in content or in what was acknowledged by then."""

    scenario: str
    boundaries: int = 0
    images: int = 0
    states: int = 0
    nested: int = 0
    recoveries: int = 0
    seconds: float = 0.0
    violations: tuple[Violation, ...] = ()
    sites: frozenset[str] = field(default=frozenset(), repr=False)

    def __str__(self) -> str:
        return (
            f"{self.scenario}: {self.boundaries} boundaries, {self.images} images ({self.states} states), "
            f"{self.nested} more in recovery, {self.recoveries} recoveries, "
            f"{len(self.violations)} violations, {self.seconds:.1f} s"
        )

    def explain(self, target: str) -> str:
        """The violations, each with the command that shows it."""
        return "\n".join(f"{violation}\n    {violation.command(target)}" for violation in self.violations)


@dataclass(frozen=True, slots=True)
class Proof:
    """A sync site, and the violation that appears when its syncs are taken away; None when none does."""

    site: str
    violation: Violation | None


def explore(
    scenario: Scenario[Any],
    oracle: Oracle[Any, Any],
    *,
    elide: str | None = None,
    torn_bytes: int = PAGE_BYTES,
    nested: bool = True,
    violations_max: int = 20,
    part: tuple[int, int] = (0, 1),
) -> Report:
    """Recover and judge every crash image of a scenario; stop at `violations_max` violations.

    With `part=(i, n)` only every n-th distinct state is examined: n processes share one scenario.
    """
    started = time.perf_counter()
    sites = Sites(scenario.packages)
    recording = record(scenario, elide=elide, sites=sites)
    examiner = Examiner(oracle, sites=sites, elide=elide, nested=nested)
    violations: list[Violation] = []
    images_seen = 0
    states: set[object] = set()
    for image, key, expectation in distinct_images(recording, torn_bytes=torn_bytes, part=part):
        images_seen += 1
        states.add(key)
        try:
            examiner.examine(image, key, expectation)
        except BrokenPromiseError as broken:
            violations.append(Violation(str(image), broken.promise, broken.detail, elide))
            if len(violations) >= violations_max:
                break
    made = {call.site for call in recording.log if isinstance(call, Sync | SyncDirectory)}
    return Report(
        scenario.name,
        boundaries=len(recording.log) + 1 if part[0] == 0 else 0,
        images=images_seen,
        states=len(states),
        nested=examiner.nested_images,
        recoveries=examiner.recoveries,
        seconds=time.perf_counter() - started,
        violations=tuple(violations),
        sites=frozenset(examiner.sync_sites | made),
    )


def distinct_images(
    recording: Recording[Any], *, torn_bytes: int = PAGE_BYTES, part: tuple[int, int] = (0, 1)
) -> Iterator[tuple[Image, object, Expectation]]:
    """Each image that differs in content or in what was acknowledged, with its key."""
    seen: set[tuple[object, int]] = set()
    ordinals: dict[object, int] = {}
    history = recording.history
    expectation = Expectation((), ())
    call = -1
    for image in images(recording, torn_bytes=torn_bytes):
        if image.call != call:
            call = image.call
            expectation = Expectation(history.issued(call), history.acknowledged(call))
        key = image_key(image)
        moment = (key, len(expectation.acknowledged))
        if moment in seen:
            continue
        seen.add(moment)
        ordinal = ordinals.setdefault(key, len(ordinals))
        if ordinal % part[1] == part[0]:
            yield image, key, expectation


def image_key(image: Image) -> object:
    """Equal for images that no store can tell apart."""
    if not image.pending:
        return image.state.digest()
    device = Device(image.state)
    device.take_all(image.pending)
    return (image.state.digest(), device.visible().digest())


def explore_suite(suite: Suite, *, processes: int = 1) -> list[Report]:
    """Explore every scenario of a suite, on several processes, which find the suite by its target."""
    parts = [(scenario.name, (part, processes)) for scenario in suite.scenarios for part in range(processes)]
    with _workers(processes) as spread:
        reports = spread(_explore_part, [(suite.target, name, part) for name, part in parts])
    return [merged([r for r in reports if r.scenario == scenario.name]) for scenario in suite.scenarios]


def merged(reports: Sequence[Report]) -> Report:
    """The report over several parts or scenarios."""
    names = list(dict.fromkeys(report.scenario for report in reports))
    return Report(
        names[0] if len(names) == 1 else f"{len(names)} scenarios",
        boundaries=sum(report.boundaries for report in reports),
        images=sum(report.images for report in reports),
        states=sum(report.states for report in reports),
        nested=sum(report.nested for report in reports),
        recoveries=sum(report.recoveries for report in reports),
        seconds=sum(report.seconds for report in reports),
        violations=tuple(violation for report in reports for violation in report.violations),
        sites=frozenset().union(*(report.sites for report in reports)),
    )


def sync_sites(scenario: Scenario[Any], oracle: Oracle[Any, Any], *, frames: int | None = 1) -> list[str]:
    """The places in the source that sync, in the scenario and in recoveries of its images.

    A place is the chain of lines up to the first `frames` outside `disk/`; None tells whole chains apart.
    """
    report = explore(scenario, oracle, torn_bytes=0, nested=False, violations_max=1 << 30)
    return sorted({trimmed(site, frames) for site in report.sites})


def prove_syncs(suite: Suite, *, frames: int | None = 1, processes: int = 1) -> list[Proof]:
    """For every sync site of a suite, the violation that appears without it in some scenario."""
    with _workers(processes) as spread:
        found = spread(_sites_of, [(suite.target, scenario.name, frames) for scenario in suite.scenarios])
        reached: dict[str, list[str]] = {}
        for scenario, sites in zip(suite.scenarios, found, strict=True):
            for site in sites:
                reached.setdefault(site, []).append(scenario.name)
        return spread(_prove, [(suite.target, site, tuple(names)) for site, names in sorted(reached.items())])


def prove_sync(suite: Suite, site: str, scenarios: Iterable[str]) -> Proof:
    """Take one site away: first a coarse look at each scenario; if none shows the loss, tear at every byte."""
    names = list(scenarios)
    for torn_bytes in (0, PAGE_BYTES):
        for name in names:
            report = explore(
                suite.scenario(name), suite.oracle, elide=site, torn_bytes=torn_bytes, violations_max=1
            )
            if report.violations:
                return Proof(site, report.violations[0])
    return Proof(site, None)


def _explore_part(task: tuple[str, str, tuple[int, int]]) -> Report:
    target, name, part = task
    suite = Suite.load(target)
    return explore(suite.scenario(name), suite.oracle, part=part)


def _sites_of(task: tuple[str, str, int | None]) -> list[str]:
    target, name, frames = task
    suite = Suite.load(target)
    return sync_sites(suite.scenario(name), suite.oracle, frames=frames)


def _prove(task: tuple[str, str, tuple[str, ...]]) -> Proof:
    target, site, names = task
    return prove_sync(Suite.load(target), site, names)


@contextmanager
def _workers(processes: int) -> Iterator[Callable[[Callable[[Any], Any], list[Any]], list[Any]]]:
    if processes == 1:
        yield lambda work, tasks: [work(task) for task in tasks]
        return
    # Not by a fork: a process with threads (Arrow has some) must not fork.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        yield lambda work, tasks: list(pool.map(work, tasks))
