"""What is here, and every check there is over every byte."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flintlog.core.finding import Finding
from flintlog.core.inventory import FileItem, Inventory
from flintlog.core.live import look
from flintlog.core.surveys import Surveys
from flintlog.core.workers import Workers
from flintlog.dialects.limestone import files
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone.findings import CODES
from flintlog.dialects.limestone.replay import Live, State, epoch_of
from flintlog.dialects.limestone.scan import Snippets
from flintlog.dialects.limestone.survey import LogRead, Survey, survey
from flintlog.disk import Disk, Progress

if TYPE_CHECKING:
    from flintlog.dialects.limestone.distributed import Looking

_BLOBS_NAMED_MAX = 100  # at most so many findings of one kind
# What a store may be writing: a session, a record of an epoch, a switch of catalogs or manifests.
_PASSING = {
    "torn-tail",
    "not-durable",
    "epoch-torn",
    "epoch-short",
    "catalog-back",
    "catalog-incomplete",
    "manifest-back",
    "compacted-previous",
    "compacted-unnamed",
}


def inspect(disk: Disk, path: str, seen: Surveys) -> Inventory:
    """Files, roles, epochs; goes through all logs without making the state."""

    def glance() -> Inventory:
        return _inventory(seen.take("whole", partial(survey, disk, path)), {})

    return look(disk, path, glance, glance, _PASSING)


def verify(
    disk: Disk,
    path: str,
    progress: Progress,
    workers: Workers | None,
    seen: Surveys,
    *,
    anew: bool = True,
) -> Inventory:
    """Check every file and every record, the state that they make, and the blobs that it names."""
    if workers is None:
        whole = partial(survey, Disk(disk.kernel, progress), path)
        return look(
            disk,
            path,
            lambda: _everything(seen.take("whole", whole, anew=anew), _parts),
            lambda: _inventory(seen.take("whole", partial(survey, disk, path)), {}),
            _PASSING,
        )
    from flintlog.dialects.limestone.distributed import Looking, Looks  # brings Arrow along

    looks = Looks(workers)

    def everything() -> Inventory:
        looking = Looking(looks, disk, path, progress=progress)
        return _everything(looking.survey, lambda found: _parts_by_workers(looking))

    return look(
        disk, path, everything, lambda: _inventory(survey(disk, path, walker=looks.walks), {}), _PASSING
    )


# Of a part of the state: live keys, bytes of their values, and the blobs that they name (file, offset, number).
_Part = tuple[int, int, Iterable[tuple[str, int, int]]]


def _everything(found: Survey, parts_of: Callable[[Survey], Iterable[_Part]]) -> Inventory:
    if any(finding.is_grave for finding in found.findings):
        return _inventory(found, {})
    return _inventory(found, *_state_facts(found, parts_of(found)))


def _state_facts(found: Survey, parts: Iterable[_Part]) -> tuple[dict[str, object], list[Finding]]:
    """The number of live keys and the bytes of their values; and findings for named blobs that are missing."""
    keys = size = 0
    there = files.blobs(found.disk, found.path)
    missing: list[Finding] = []
    for part_keys, part_size, blobs in parts:
        keys += part_keys
        size += part_size
        for name, offset, number in blobs:
            if number not in there and len(missing) < _BLOBS_NAMED_MAX:
                message = f"the entry names blob {number}, and {lay.blob_path(number)} is not there"
                missing.append(CODES.finding("blob-missing", message, name, offset))
    return {"keys": keys, "value_bytes": size}, missing


def _parts(found: Survey) -> Iterator[_Part]:
    from flintlog.dialects.limestone import tables  # brings Arrow along

    state = State(found)
    for live in state:
        fields = tables.fields_of(state.views, live)
        yield len(live), int(fields.value_length.sum()), _blobs(state, live, fields.blob_count)


def _blobs(state: State, live: Live, count: NDArray[Any]) -> Iterator[tuple[str, int, int]]:
    for at in np.flatnonzero(count).tolist():
        file, offset = int(live.file[at]), int(live.offset[at])
        entry, _ = lay.decode(state.views[file], offset)
        for number in entry.blobs:
            yield state.names[file], offset, number


def _parts_by_workers(looking: Looking) -> Iterator[_Part]:
    from flintlog.dialects.limestone.distributed import Distribution

    distribution = Distribution(looking, epoch_of(looking.survey, None))
    for part in distribution.facts():
        names = [(distribution.files[file].name, offset, number) for file, offset, number in part.blobs]
        yield part.keys, part.value_bytes, names


def _inventory(found: Survey, facts: dict[str, object], missing: Iterable[Finding] = ()) -> Inventory:
    epochs = [
        int(epoch)
        for read in found.logs
        for some in [read.counted(-1, found.durable)]
        if len(some)
        for epoch in (some.epoch.min(), some.epoch.max())
    ]
    known = found.manifest is not None
    return Inventory(
        "limestone",
        found.edition if known else None,
        found.path,
        tuple(_items(found)),
        (min(epochs),) if epochs else None,
        (found.durable,) if found.durable else None,
        (*found.findings, *missing, *_odd_files(found)),
        {
            "version": found.manifest.version if found.manifest else None,
            "durable_epoch": found.durable,
            "last_epoch": found.last_epoch,
            "compacted_epoch": found.low if found.low >= 0 else None,
            **facts,
        },
    )


def _odd_files(found: Survey) -> Iterator[Finding]:
    listing = found.listing
    left = sorted({*listing.scratch, *listing.odd_epochs, *_leftovers(found)})
    for name in left:
        yield CODES.finding("leftover", "left over from an unfinished operation", name)
    for log in listing.logs:
        if log.channel is None:
            message = "no writer names a log so; it is read as one, as the original does"
            yield CODES.finding("odd-name", message, log.name)
    for name in listing.foreign:
        yield CODES.finding("foreign", "no part of a limestone directory; not touched", name)


def _leftovers(found: Survey) -> Iterator[str]:
    """Compacted files, catalogs and manifests that do not count; the original keeps its old catalog on purpose."""
    told = {finding.file for finding in found.findings}
    for name in found.listing.compacted:
        if name not in found.base and name not in told:
            yield name
    if found.listing.previous is not None and lay.COMPACTED_PREVIOUS not in found.base:
        yield lay.COMPACTED_PREVIOUS
    if lay.MANIFEST_BACK in found.listing.manifests and found.manifest_name != lay.MANIFEST_BACK:
        yield lay.MANIFEST_BACK


def _items(found: Survey) -> Iterator[FileItem]:
    listing = found.listing
    for name, size in listing.manifests.items():
        yield FileItem(name, "manifest", size)
    for name, size in listing.catalogs.items():
        yield FileItem(name, "catalog", size)
    for name, size in {**listing.epochs, **listing.odd_epochs}.items():
        yield FileItem(name, "epoch" if name in listing.epochs else "leftover", size)
    sizes = dict(listing.compacted)
    if listing.previous is not None:
        sizes[lay.COMPACTED_PREVIOUS] = listing.previous
    for name, size in sizes.items():
        if name in found.base_walks:
            yield _log_item(name, "compacted", size, found.base_walks[name].snippets)
        else:
            yield FileItem(name, "leftover", size)
    if found.logs:
        for read in found.logs:
            yield _log_item(read.file.name, _role(read), read.file.size, read.snippets)
    else:
        for log in listing.logs:
            yield FileItem(log.name, "active" if log.active else "rotated", log.size)
    if listing.snapshot is not None:
        yield FileItem(lay.SNAPSHOT_FILE, "snapshot", listing.snapshot)
    if listing.witness is not None:
        yield FileItem(lay.WITNESS_FILE, "epoch", listing.witness)
    for name, size in listing.scratch.items():
        yield FileItem(name, "leftover", size)
    for name, size in listing.foreign.items():
        yield FileItem(name, "foreign", size)


def _role(read: LogRead) -> str:
    if read.listed:
        return "superseded"
    return "active" if read.file.active else "rotated"


def _log_item(name: str, role: str, size: int, snippets: Snippets) -> FileItem:
    counted = snippets[snippets.kind == lay.BEGIN]
    entries = int(snippets.entries.sum())
    if not len(counted):
        return FileItem(name, role, size, None, None, entries)
    epochs = counted.positions()
    return FileItem(name, role, size, (int(epochs.min()),), (int(epochs.max()),), entries)
