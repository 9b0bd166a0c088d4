"""What cannot be done to a peer's directory from outside, and why."""

from __future__ import annotations

from flintlog.core.plan import Plan
from flintlog.errors import RefusedError


def _refusal(verb: str, path: str, why: str) -> Plan:
    def apply() -> str:
        raise RefusedError(why, file=path)

    return Plan(verb, "zmqraft", path, (), apply, refusal=why)


def refuse_snapshot(path: str) -> Plan:
    """The data of a snapshot is the application's."""
    why = (
        "what a snapshot of a zmqraft log holds only the application knows: let it write one; "
        "`flintlog compact` then removes the files that it covers"
    )
    return _refusal("snapshot", path, why)


def refuse_convert(path: str) -> Plan:
    """There is nothing to convert to."""
    return _refusal("migrate", path, "zmqraft has one edition only")
