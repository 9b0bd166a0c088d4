"""The verbs that this release does not have for limestone: they refuse before they touch anything."""

from __future__ import annotations

from flintlog.core.plan import Plan
from flintlog.errors import RefusedError


def refuse(verb: str, path: str) -> Plan:
    """No plan, and the reason."""
    why = f"this release reads limestone directories and has no {verb} for them"

    def apply() -> str:
        raise RefusedError(why, file=path)

    return Plan(verb, "limestone", path, (), apply, refusal=why)
