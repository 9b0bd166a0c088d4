"""A whole repair: rounds, and then the verdict.

A plan sees what can be seen before it is applied. Behind one damage another may lie, and only the next look finds it.
So a repair goes on by itself as long as the next round loses nothing more, and stops where a person has to decide.
Every round keeps its originals in a place of its own, and one undo takes back all of them.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass

from flintlog.core.inventory import Inventory
from flintlog.core.journal import continue_repair
from flintlog.core.kept import KEPT_DIRECTORY
from flintlog.core.log import Log
from flintlog.core.plan import Plan
from flintlog.disk import Disk
from flintlog.errors import FlintlogError, RefusedError

ROUNDS_MAX = 8  # each heals something: more than a few are a bug


@dataclass(frozen=True, slots=True)
class Repaired:
    """The rounds of one repair with what each has done, what verify says now, and the plan that was not applied.

    `further` is None when the directory is clean.
    """

    rounds: tuple[tuple[Plan, str], ...]
    after: Inventory
    further: Plan | None


def repair(log: Log, plan: Plan) -> Repaired:
    """Apply a plan, and after it every plan that loses nothing; verify the directory after each."""
    kept = posixpath.join(plan.path, KEPT_DIRECTORY)
    there = log.disk.list(kept)
    try:
        return _repair(log, plan)
    except KeyboardInterrupt as interrupt:  # an unfinished round has removed its copies
        if set(log.disk.list(kept)) <= {*there}:
            raise
        words = f"What was repaired stands; `flintlog repair {plan.path} --undo` takes it back"
        raise KeyboardInterrupt(words) from interrupt


def _repair(log: Log, plan: Plan) -> Repaired:
    rounds: list[tuple[Plan, str]] = []
    before: str | None = None
    while True:
        done, kept = _one_round(log.disk, plan, len(rounds))
        if before is not None and kept is not None:
            continue_repair(log.disk, kept, posixpath.basename(before))
        before = kept or before
        rounds.append((plan, done))
        after = log.verify()
        if after.verdict == "clean":
            return Repaired(tuple(rounds), after, None)
        plan = log.plan_repair()
        if plan.empty or plan.lost or plan.refusal is not None or len(rounds) == ROUNDS_MAX:
            return Repaired(tuple(rounds), after, plan)


def _one_round(disk: Disk, plan: Plan, number: int) -> tuple[str, str | None]:
    """Apply a plan; returns what it did, and where it keeps the originals."""
    place = posixpath.join(plan.path, KEPT_DIRECTORY)
    there = set(disk.list(place))
    try:
        done = plan.apply()
    except FlintlogError as error:
        if not number:
            raise
        raise RefusedError(
            f"round {number + 1} of the repair failed: {error.what()}",
            file=error.file,
            offset=error.offset,
            advice=f"What the round before it did stands; `flintlog repair {plan.path} --undo` takes it back",
        ) from error
    kept = sorted(name for name in disk.list(place) if name not in there)
    return done, posixpath.join(place, kept[-1]) if kept else None
