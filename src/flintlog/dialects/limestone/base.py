"""The compacted files: which of them stand below the logs, and whether they match the catalog."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from flintlog.core.finding import Finding
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone.findings import CODES
from flintlog.dialects.limestone.judge import Tail, judge
from flintlog.dialects.limestone.layout import Catalog
from flintlog.dialects.limestone.scan import Snippets, Walk

if TYPE_CHECKING:
    from flintlog.dialects.limestone.survey import Survey


def find_base(found: Survey) -> None:
    """Find the compacted files that stand below the logs."""
    there = found.listing.compacted
    named = sorted(found.catalog.compacted)
    base = [name for name in named if name in there]
    if lay.COMPACTED_FILE in there and lay.COMPACTED_FILE not in base:
        base.append(lay.COMPACTED_FILE)  # shipped edition; in the designed one it is a log
    missing = [name for name in named if name not in there]
    if missing == [lay.COMPACTED_FILE] and found.listing.previous is not None and not base:
        base, missing = [lay.COMPACTED_PREVIOUS], []
        message = "a compaction was interrupted; the compacted file before it holds"
        found.findings.append(CODES.finding("compacted-previous", message, lay.COMPACTED_PREVIOUS))
    elif not base and not missing and found.listing.previous is not None:
        base = [lay.COMPACTED_PREVIOUS]
    for name in missing:
        message = "the catalog names this file and it is not there"
        found.findings.append(CODES.finding("compacted-missing", message, name))
    found.base = tuple(base)
    if found.catalog_name is not None:
        found.findings += _outside_the_catalog(found)


def _outside_the_catalog(found: Survey) -> Iterator[Finding]:
    """Compacted files that no catalog names; opening removes them. It may remove one of a later epoch than the
    catalog's only when its compaction did not finish and every log that it took in is still there."""
    logs = {log.name for log in found.listing.logs}
    undone = found.unfinished if found.unfinished and found.unfinished.detached <= logs else Catalog()
    for name in sorted(found.listing.compacted):
        epoch = compacted_epoch(found, name) if name not in {*found.base, *undone.compacted} else None
        if epoch is not None and epoch <= found.catalog.max_epoch and found.edition == "designed":
            message = "the catalog does not name this compacted file: it does not count"
            yield CODES.finding("compacted-unnamed", message, name)
        elif epoch is not None and epoch > found.catalog.max_epoch:
            message = f"it holds epoch {epoch}, and the catalog ends with {found.catalog.max_epoch}: it is an older one"
            yield CODES.finding(
                "catalog-old", message, name, 0, f"epoch {found.catalog.max_epoch}", f"epoch {epoch}"
            )


def compacted_epoch(found: Survey, name: str) -> int | None:
    """The epoch that a compacted file of the designed edition begins with; None when it cannot be read."""
    view = found.view(name, end=lay.MARKER_SIZE)
    if not lay.CMPCT_NAME.fullmatch(name) or len(view) < lay.MARKER_SIZE or view[0] != lay.BEGIN:
        return None
    return lay.decode_marker(view, 0)


def judge_base(found: Survey, name: str, walk: Walk) -> None:
    """A compacted file is synced before it counts: anything that stops the walk is damage, and so is an empty file."""
    if not len(walk.snippets) and walk.stop.good:
        message = "the file is empty, and a compacted file begins with a marker"
        found.findings.append(
            CODES.finding("entry-cut", message, name, 0, f"{lay.MARKER_SIZE} bytes", "0 bytes")
        )
    elif not walk.stop.good:
        tail = judge(found.view(name), walk, lay.NUMBER_MAX, end_markers=True)
        assert tail is not None
        found.findings.append(damage_of(name, tail))
    elif not _is_sorted_file(found, name, walk.snippets):
        message = "this is no compacted file of this catalog: it has other markers"
        found.findings.append(CODES.finding("compacted-other", message, name, 0))


def _is_sorted_file(found: Survey, name: str, snippets: Snippets) -> bool:
    """Is this one snippet without an end marker, of no later epoch than its compaction? Before version 6 of the shipped
    edition a compacted file may be a log like any other."""
    if name == lay.COMPACTED_FILE and found.end_markers:
        epoch = 0
    elif lay.CMPCT_NAME.fullmatch(name):
        epoch = found.catalog.max_epoch
    else:
        return True
    return len(snippets) == 1 and not snippets.closed[0] and int(snippets.epoch[0]) <= epoch


def damage_of(name: str, tail: Tail) -> Finding:
    """The finding for damage where durable data stood."""
    return CODES.of(replace(tail, torn=False), name)
