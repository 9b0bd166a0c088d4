"""Write a directory anew in the other edition, prove the two states equal, and only then give it its name.

It writes the state at the durable epoch as one compaction of the new edition, without the history before it. Everything
is written to `<target>.new`, read back, compared, and renamed.

Without an edition, a directory gets the newest version of its own edition, in its place; opening a store does the same.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator

import numpy as np

from flintlog.core.new_place import new_place, refuse_taken
from flintlog.core.plan import Plan, Step
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone import tables
from flintlog.dialects.limestone.layout import Catalog, Edition
from flintlog.dialects.limestone.merge import by_bytes, numeric
from flintlog.dialects.limestone.replay import State
from flintlog.dialects.limestone.store import Datastore
from flintlog.dialects.limestone.store.creation import manifest_of, new_instance
from flintlog.dialects.limestone.store.sorted_file import sorted_file
from flintlog.dialects.limestone.survey import Survey, survey
from flintlog.disk import Disk
from flintlog.errors import RefusedError, UsageError

_EDITIONS: dict[str, Edition] = {"designed": "designed", "shipped": "shipped"}


def plan_migrate(
    disk: Disk,
    path: str,
    edition: str | None = None,
    target: str = "",
    instance: Callable[[], str] = new_instance,
) -> Plan:
    """Write the state of `path` in `edition` to `target`, an empty or a new place."""
    if edition is None:
        return _plan_version(disk, path)
    if edition not in _EDITIONS:
        raise UsageError(f"{edition!r} is not an edition", advice=f"Known: {', '.join(_EDITIONS)}")
    new = _EDITIONS[edition]
    found = survey(disk, path)
    found.refuse_damage()
    assert found.manifest is not None
    if found.edition == new and found.manifest.version == lay.VERSION_OF[new]:
        raise RefusedError(f"this directory is of the {edition} edition already", file=path)
    refuse_taken(disk, target)
    numbers = sorted(_blobs(found))
    if numbers and new == "designed":
        raise RefusedError(
            f"{len(numbers)} blobs are named by live entries, and the designed edition has none",
            file=path,
            advice="Keep this directory in its own edition",
        )
    compacted = lay.COMPACTED_FILE if new == "shipped" else lay.cmpct_name(0)
    steps = [
        Step("write", lay.MANIFEST_FILE, f"edition {edition}, version {lay.VERSION_OF[new]}"),
        Step("write", compacted, f"the state at epoch {found.durable}, without the history before it"),
        Step("write", lay.CATALOG_FILE, "names the compacted file"),
        Step("write", lay.EPOCH_FILE, f"epoch {found.durable}"),
        *(Step("copy", lay.blob_path(number), "a live entry names it") for number in numbers),
        Step("publish", target, "after both states were read and found equal"),
    ]

    def act(disk: Disk) -> str:
        with new_place(disk, target) as building:
            _write(disk, found, new, building, compacted, numbers, instance)
            _prove(found, survey(disk, building))
        return f"{target} holds the same state in edition {edition}"

    return Plan(
        "migrate", "limestone", path, tuple(steps), act, written_bytes=found.size, publishes=True, disk=disk
    )


def _plan_version(disk: Disk, path: str) -> Plan:
    """Write the newest version of the edition to the manifest; the state stays. Older releases cannot read it then."""
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
        first = [
            log.name for log in found.listing.logs if log.name in (lay.COMPACTED_FILE, lay.COMPACTED_PREVIOUS)
        ]
        steps = [
            *(Step("rename", name, "gets the name of a rotated log, which it is") for name in first),
            Step("rename", lay.MANIFEST_FILE, f"to {lay.MANIFEST_BACK}, which holds until it goes"),
            *steps,
            Step("remove", lay.MANIFEST_BACK, "from then on the new manifest holds"),
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


def _blobs(found: Survey) -> set[int]:
    """The blobs that live entries name."""
    named: set[int] = set()
    if found.edition == "designed":
        return named
    state = State(found)
    for live in state:
        fields = tables.fields_of(state.views, live)
        for at in np.flatnonzero(fields.blob_count).tolist():
            named.update(lay.decode(state.views[int(live.file[at])], int(live.offset[at]))[0].blobs)
    return named


def _write(
    disk: Disk,
    found: Survey,
    new: Edition,
    path: str,
    compacted: str,
    numbers: list[int],
    instance: Callable[[], str],
) -> None:
    shipped = new == "shipped"
    state = State(found, order=by_bytes if shipped else numeric)
    kept = found.manifest.instance if found.manifest is not None else ""
    manifest = manifest_of(new, (lambda: kept) if kept else instance)
    reached = found.durable if shipped else found.greatest(found.durable)
    catalog = Catalog(
        {compacted: lay.COMPACTED_VERSION},
        max_epoch=reached,
        max_blob=max([found.catalog.max_blob or 0, *numbers]) if shipped else None,
    )
    sorted_state = sorted_file(state, 0 if shipped else reached, zero_versions=shipped)
    disk.write_new(posixpath.join(path, compacted), sorted_state)
    disk.write_new(posixpath.join(path, lay.CATALOG_FILE), [catalog.encode()])
    disk.write_new(posixpath.join(path, lay.EPOCH_FILE), [lay.encode_durable(found.durable)])
    disk.write_new(posixpath.join(path, lay.MANIFEST_FILE), [manifest.encode()])
    for number in numbers:
        place = lay.blob_path(number)
        disk.make_directory(posixpath.join(path, posixpath.dirname(place)))
        with disk.open(posixpath.join(found.path, place)) as source:
            disk.write_new(posixpath.join(path, place), source.chunks(0, source.size()))
        disk.sync_directory(posixpath.join(path, posixpath.dirname(place)))


def _prove(old: Survey, new: Survey) -> None:
    """Raise unless both states have equal keys with equal values and blobs."""
    new.refuse_damage()
    theirs, held = _records(old, new.edition), memoryview(b"")
    for chunk in _records(new, new.edition):
        ours = memoryview(chunk)
        while ours:
            held = held or memoryview(next(theirs, b""))
            size = min(len(ours), len(held))
            if not size or ours[:size] != held[:size]:
                _refuse(new)
            ours, held = ours[size:], held[size:]
    if held or next(theirs, None) is not None:
        _refuse(new)


def _records(found: Survey, edition: Edition) -> Iterator[bytes | bytearray]:
    """The live entries in the order of storages and keys; without versions where the edition has none."""
    return (chunk for chunk in sorted_file(State(found), 0, zero_versions=edition == "shipped") if chunk)


def _refuse(new: Survey) -> None:
    raise RefusedError(
        "the converted directory does not hold the same as the original; it was not published",
        file=new.path,
        advice="This is a defect of Flintlog; the original was not touched",
    )
