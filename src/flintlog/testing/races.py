"""Every pair and triple of a store's calls at the same time, under the scheduler, one seed after the other.

A `Subject` is a store with its calls. A race opens it on a machine in memory, makes some calls, each in its own thread,
then opens it again and judges its content. One line names a race that fails: `queues:add+close:seed=17`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations_with_replacement
from typing import Any

from flintlog.disk import Disk
from flintlog.errors import ClosedError, FlintlogError, UsageError
from flintlog.testing.kernel import MemoryKernel
from flintlog.testing.notes import Notes
from flintlog.testing.schedule import HangError, Scheduler

PATH = "/store"

Operation = Callable[[Any, Notes, random.Random], None]


@dataclass(frozen=True)
class Subject:
    """A store as races and lives use it.

    Each of `operations` makes a call or a few and notes what it puts in and takes out; any thread may use it at any
    time. `open` makes a store in a directory that may exist, `items` returns the content of a store that was just
    opened. The store has a `close`. `second_look` checks, in its own way, a directory that was judged and closed, and
    says what is wrong.
    """

    name: str
    open: Callable[[Disk, str], Any]
    items: Callable[[Any], Sequence[str]]
    operations: Mapping[str, Operation]
    second_look: Callable[[Disk, str], str | None] | None = None


@dataclass
class RaceReport:
    """Totals over all races."""

    races: int = 0
    acknowledged: int = 0
    violations: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.races:,} races, {self.acknowledged:,} changes acknowledged in them, "
            f"{len(self.violations)} violations"
        )


def explore_races(
    subject: Subject, *, threads: Sequence[int] = (2, 3), seeds: Iterable[int] = range(3), most: int = 5
) -> RaceReport:
    """Race every pair and every triple of the subject's operations, and each with `close`."""
    report = RaceReport()
    seeds = list(seeds)
    for count in threads:
        for names in combinations_with_replacement([*sorted(subject.operations), "close"], count):
            for seed in seeds:
                wrong, acknowledged = race(subject, names, seed)
                report.races += 1
                report.acknowledged += acknowledged
                if wrong is not None:
                    report.violations.append(f"{subject.name}:{'+'.join(names)}:seed={seed}: {wrong}")
                if len(report.violations) >= most:
                    return report
    return report


def race_again(subjects: Iterable[Subject], line: str) -> str | None:
    """Run the race of one line of a failure; what it says now."""
    name, _, rest = line.partition(":")
    names, _, seed = rest.partition(":seed=")
    for subject in subjects:
        if subject.name == name:
            return race(subject, names.split("+"), int(seed.partition(":")[0]))[0]
    raise UsageError(f"there is no subject {name!r}")


def race(subject: Subject, names: Sequence[str], seed: int) -> tuple[str | None, int]:
    """Make these calls at the same time. What went wrong, or None; and how many changes were acknowledged."""
    kernel = MemoryKernel()
    scheduler = Scheduler(seed)
    notes = Notes()
    chance = random.Random(seed)
    running = []
    try:
        with scheduler.running():
            store = subject.open(scheduler.disk(kernel), PATH)
            for operation in subject.operations.values():  # so that there is something
                operation(store, notes, chance)
            for at, name in enumerate(names):
                call = _call(subject, store, name, notes, random.Random(f"{seed}.{at}"))
                running.append(scheduler.start(call, f"{name}-{at}"))
            for thread in running:
                thread.join()
            store.close()
    except HangError as error:
        return str(error), notes.acknowledged
    for thread in running:
        if thread.error is not None and not isinstance(thread.error, ClosedError):
            return f"{thread.name} raised {thread.error!r}", notes.acknowledged
    kernel.kill_processes()
    return judge(subject, Disk(kernel), PATH, notes), notes.acknowledged


def _call(
    subject: Subject, store: Any, name: str, notes: Notes, chance: random.Random
) -> Callable[[], object]:
    if name == "close":
        return lambda: store.close()
    return lambda: subject.operations[name](store, notes, chance)


def judge(subject: Subject, disk: Disk, path: str, notes: Notes) -> str | None:
    """Open a directory and compare its content with the notes."""
    try:
        store = subject.open(disk, path)
    except FlintlogError as error:
        return f"it does not open: {error}"
    try:
        wrong = notes.judge(subject.items(store))
    finally:
        store.close()
    if wrong is None and subject.second_look is not None:
        return subject.second_look(disk, path)
    return wrong
