"""Bring a directory to the version that its edition is written in, in its place. Opening a store does the same."""

from __future__ import annotations

from flintlog.core.plan import Plan, Step
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone.store import Datastore
from flintlog.dialects.limestone.survey import survey
from flintlog.disk import Disk
from flintlog.errors import RefusedError


def plan_upgrade(disk: Disk, path: str) -> Plan:
    """The manifest gets the newest version of its edition; the state stays. The older release reads it no more."""
    found = survey(disk, path)
    found.refuse_damage()
    assert found.manifest is not None
    old, new = found.manifest.version, lay.VERSION_OF[found.edition]
    if old == new:
        raise RefusedError(
            f"version {old} is the newest of the {found.edition} edition; there is nothing to upgrade",
            file=path,
            advice="Name --edition and --to for the other edition",
        )
    steps = [Step("write", lay.MANIFEST_FILE, f"version {old} becomes version {new}")]
    if found.edition == "designed":
        steps.insert(
            0, Step("rename", lay.MANIFEST_FILE, f"to {lay.MANIFEST_BACK}, which holds until it goes")
        )
        steps.append(Step("remove", lay.MANIFEST_BACK, "from then on the new manifest holds"))
        first = [
            log.name for log in found.listing.logs if log.name in (lay.COMPACTED_FILE, lay.COMPACTED_PREVIOUS)
        ]
        steps = [
            *(Step("rename", name, "gets the name of a rotated log, which it is") for name in first),
            *steps,
        ]
    elif old < lay.VERSION_OF_END_MARKERS:
        reason = "gets the name of a rotated log: from now on snippets have end markers"
        steps += [Step("rename", log.name, reason) for log in found.listing.logs if log.active and log.size]

    def act(disk: Disk) -> str:
        with Datastore(path, snapshot=False, disk=disk):
            return f"version {old} became version {new}"

    facts = {"edition": found.edition, "from": old, "to": new}
    return Plan(
        "migrate",
        "limestone",
        path,
        tuple(steps),
        act,
        findings=tuple(found.findings),
        facts=facts,
        disk=disk,
    )
