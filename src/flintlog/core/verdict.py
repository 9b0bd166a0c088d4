"""Damage that a repair heals without a loss is repairable, whatever it looks like.

A dialect calls a thing corrupt when a store must not open it. Whether anything that was acknowledged is gone with it,
only the plan of a repair knows: the same bytes may stand in a snapshot, or in another log. So where a look says
corrupt, the plan is asked, and the rule of `core/finding.py` holds for every dialect.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from flintlog.core.dialect import Dialect
from flintlog.core.finding import Finding, Severity
from flintlog.core.inventory import Inventory
from flintlog.core.plan import Plan
from flintlog.disk import Disk


def judged(log: Dialect, disk: Disk, path: str, found: Inventory) -> Inventory:
    """What was found in a directory, where corrupt means that something is lost."""
    if found.verdict != Severity.CORRUPT or not _heals(log.plan_repair(disk, path)):
        return found
    return replace(found, findings=_lowered(found.findings))


def judged_plan(plan: Plan) -> Plan:
    """The same of a repair: its findings say what `verify` says."""
    return replace(plan, findings=_lowered(plan.findings)) if _heals(plan) else plan


def _heals(plan: Plan) -> bool:
    return bool(plan.steps) and not plan.lost and plan.refusal is None


def _lowered(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(
        replace(item, severity=Severity.REPAIRABLE) if item.severity is Severity.CORRUPT else item
        for item in findings
    )
