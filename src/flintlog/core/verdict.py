"""Damage that a repair heals without a loss is repairable, even if a look calls it corrupt.

A dialect calls a directory corrupt when a store must not open it. Only the plan of a repair knows whether anything
acknowledged is gone: the same bytes may stand in a snapshot, or in another log. So where a look says corrupt, the plan
is asked, and the rule of `core/finding.py` holds for every dialect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from flintlog.core.finding import Finding, Severity
from flintlog.core.inventory import Inventory
from flintlog.core.live import Moment, settled
from flintlog.core.log import Log
from flintlog.core.plan import Plan
from flintlog.disk import Disk
from flintlog.errors import RefusedError

_LOOKS_MAX = 5
_PAUSE_SECONDS = 0.02


def judged(found: Inventory, plan_repair: Callable[[], Plan]) -> Inventory:
    """The findings of a directory, in which corrupt means that something is lost."""
    if found.verdict != Severity.CORRUPT or not _heals(plan_repair()):
        return found
    return replace(found, findings=_lowered(found.findings))


def judged_plan(log: Log, make: Callable[[], Plan]) -> Plan:
    """The plan of a repair, with findings that say what `verify` says.

    An unfinished write is no damage. So a plan counts only when a second look finds the same, or when the directory is
    the same a moment later.
    """
    moment = Moment(log.disk, log.root)
    plan = settled(log.disk, log.path, make)
    for _ in range(_LOOKS_MAX):
        before = _places(plan)
        if not before:
            break
        log.disk.pause(_PAUSE_SECONDS)
        if moment.lasts():
            break
        moment = Moment(log.disk, log.root)
        plan = settled(log.disk, log.path, make)
        if _places(plan) == before:
            break
    else:
        raise RefusedError(
            "the directory changes while it is looked at",
            file=log.path,
            advice="Nothing was changed; close the store that writes here, then repair",
        )
    plan = replace(plan, act=partial(_act_if_unchanged, log, plan, moment, make))
    return replace(plan, findings=_lowered(plan.findings)) if _heals(plan) else plan


def _act_if_unchanged(log: Log, plan: Plan, moment: Moment, make: Callable[[], Plan], disk: Disk) -> str:
    """Apply a plan if the same plan still follows from the directory: a store may have healed it and gone on."""
    now = plan if moment.lasts() else settled(log.disk, log.path, make)
    if (now.steps, now.lost, now.refusal) != (plan.steps, plan.lost, plan.refusal):
        raise RefusedError(
            "the directory has changed since the repair was planned",
            file=plan.path,
            advice="Nothing was changed; plan it again",
        )
    return now.act(disk)


def _places(plan: Plan) -> set[tuple[str, str | None, int | None]]:
    return {
        (item.code, item.file, item.offset) for item in plan.findings if item.severity is not Severity.NOTE
    }


def _heals(plan: Plan) -> bool:
    return bool(plan.steps) and not plan.lost and plan.refusal is None


def _lowered(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(item.lowered() for item in findings)
