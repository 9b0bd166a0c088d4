"""Repair: make a damaged directory open again, say what that gives up, and keep every original byte.

Opening heals what a crash leaves; repair opens the directory after it has copied the files aside. Damage in a log costs
the bytes that cannot be read and nothing else. Originals are copied to `kept/<time>-<reason>/` first, then new content
takes the place of a file by one rename. At the end the directory is opened once.

| what is wrong | what is done |
|---|---|
| what opening heals | it is opened |
| a damaged log | written anew without the bytes that cannot be read |
| a damaged log that the compacted files cover | goes |
| a damaged compacted file | cut before the damage |
| the epoch file damaged or gone | every whole session counts: no file says which of them were acknowledged |
| the catalog damaged or gone | made again from the compacted files, if they are of one compaction |
| a log that a compaction left out | it is compacted; its old sessions go when logs that should decide over them are
gone |
| the manifest damaged | made again, if the files show the edition |
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from flintlog.core.finding import Finding, Severity
from flintlog.core.plan import Plan
from flintlog.core.position import span
from flintlog.core.repair import Draft
from flintlog.core.surveys import UNSHARED, Surveys
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone import scan
from flintlog.dialects.limestone.base import compacted_epoch, judge_base
from flintlog.dialects.limestone.epochs import LOST
from flintlog.dialects.limestone.layout import Catalog, Edition, Manifest
from flintlog.dialects.limestone.store import Datastore
from flintlog.dialects.limestone.store.creation import manifest_of, new_instance
from flintlog.dialects.limestone.survey import LogRead, Survey, survey
from flintlog.dialects.limestone.upkeep import verify
from flintlog.dialects.limestone.upkeep.salvage import Passage, salvage
from flintlog.disk import Disk, File, no_progress

HEALED_BY_OPENING = {
    "torn-tail": "cut",
    "not-durable": "forget",
    "epoch-torn": "cut",
    "manifest-back": "restore",
    "catalog-back": "restore",
    "catalog-incomplete": "rewrite",
    "compacted-previous": "restore",
    "compacted-unnamed": "remove",
}
_LOG_DAMAGE = ("entry-cut", "entry-type", "entry-outside")


def plan_repair(
    disk: Disk,
    path: str,
    clock: Callable[[], float] = time.time,
    instance: Callable[[], str] = new_instance,
    seen: Surveys = UNSHARED,
) -> Plan:
    """What would make the directory open again."""
    found = seen.take("whole", partial(survey, disk, path))
    assumed = _manifest_shown(found, instance)
    if assumed is not None:
        found = survey(disk, path, assumed=assumed)
    findings = tuple(found.findings)
    if not any(item.is_grave for item in findings):
        findings = verify.verify(disk, path, no_progress, None, seen, anew=False).findings
    draft = Draft()
    _plan_manifest(found, draft, assumed)
    _plan_catalog(found, draft)
    _plan_base(found, draft)
    _plan_epochs(found, draft)
    _plan_logs(found, draft)
    compacts = _plan_left_out(found, draft)
    _plan_opening(found, draft)
    draft.lost += [
        item.message for item in findings if item.code == "blob-missing"
    ]  # no repair brings it back
    if found.manifest is None and any(item.severity is Severity.UNSUPPORTED for item in findings):
        draft.refusal = "there is no manifest, and nothing else tells the version of the files; put it back"

    def heal(disk: Disk) -> None:
        with Datastore(path, snapshot=False, disk=disk, clock=clock, keep_superseded=True) as store:
            if compacts:
                store.compact()

    return draft.plan("limestone", disk, path, findings, lock=(path, "read"), then=heal, clock=clock)


def _plan_opening(found: Survey, draft: Draft) -> None:
    """What opening does."""
    changed = {step.file for step in draft.steps}
    renewed = lay.EPOCH_FILE in changed
    for finding in found.findings:
        name = finding.file or ""
        if finding.severity is not Severity.REPAIRABLE or finding.code not in HEALED_BY_OPENING:
            continue
        if name in changed or (renewed and finding.code == "not-durable"):
            continue
        changed.add(name)
        draft.add(HEALED_BY_OPENING[finding.code], name, finding.message)
    version = found.manifest.version if found.manifest is not None else None
    if (
        draft.steps
        and lay.MANIFEST_FILE not in changed
        and version not in (None, lay.VERSION_OF[found.edition])
    ):
        reason = f"opening makes version {version} version {lay.VERSION_OF[found.edition]}"
        draft.add("upgrade", lay.MANIFEST_FILE, reason)


def _rewrite(draft: Draft, action: str, name: str, reason: str, pieces: Sequence[Passage]) -> None:
    def content(source: File) -> Iterator[bytes]:
        for piece in pieces:
            if isinstance(piece, bytes):
                yield piece
            else:
                yield from source.chunks(*piece)

    draft.rewrite(action, name, reason, content)


# The manifest


def _manifest_shown(found: Survey, instance: Callable[[], str]) -> Manifest | None:
    """The manifest as the other files show that it was; None when they do not show it."""
    if all(item.code != "manifest-broken" for item in found.findings):
        return None
    edition = _edition_shown(found)
    return None if edition is None else manifest_of(edition, instance)


def _plan_manifest(found: Survey, draft: Draft, assumed: Manifest | None) -> None:
    broken = next((item for item in found.findings if item.code == "manifest-broken"), None)
    if broken is None:
        return
    if assumed is None:
        draft.refusal = (
            "the manifest is damaged, and the files do not show the edition; put the manifest back"
        )
        return
    reason = (
        f"{broken.message}; the files are of the {found.edition} edition: becomes version {assumed.version}"
    )
    draft.lost.append(
        "the identity of the instance, which becomes a new one"
        if found.edition == "shipped"
        else "the version in the manifest, which the files do not show"
    )
    draft.replace("rewrite", lay.MANIFEST_FILE, reason, assumed.encode())


def _edition_shown(found: Survey) -> Edition | None:
    """The edition, by files that only one edition writes; None when there is none."""
    listing = found.listing
    if any(map(lay.CMPCT_NAME.fullmatch, listing.compacted)):
        return "designed"
    if (listing.compacted or listing.previous is not None) and listing.catalogs:
        return "shipped"  # version 1, which has a file of this name too, has no catalog
    names = [*listing.compacted, *(log.name for log in listing.logs)]
    ends = [scan.walk(found.view(name, active=True)).snippets.closed for name in names]
    if any(bool(closed.any()) for closed in ends):
        return "shipped"
    return "designed" if any(len(closed) for closed in ends) else None


# The catalog and the compacted files


def _plan_catalog(found: Survey, draft: Draft) -> None:
    codes = ("catalog-lost", "catalog-name", "catalog-old")
    wrong = next((item for item in found.findings if item.code in codes), None)
    if wrong is None:
        return
    if wrong.severity is Severity.CORRUPT:
        draft.lost.append("what the catalog said: it is told again by the files that are there")
    sets: dict[int, list[str]] = {}
    for file in sorted(filter(lay.CMPCT_NAME.fullmatch, found.listing.compacted)):
        epoch = compacted_epoch(found, file)
        if epoch is None:
            draft.lost.append(f"keys in {file}, which cannot be read")
            draft.aside(file, "no compacted file begins so")
        elif wrong.code != "catalog-old" or epoch > found.catalog.max_epoch:
            sets.setdefault(epoch, []).append(file)
    if found.edition == "shipped" or not sets:
        if wrong.file in found.listing.catalogs:
            draft.aside(wrong.file or "", f"{wrong.message}; a new one is written")
        return
    if wrong.code == "catalog-old" and found.catalog_name == lay.CATALOG_BACK and found.unfinished is None:
        draft.refusal = (
            "the catalog is gone, and the one before it is too old; put it back, or restore a backup"
        )
        return
    if len(sets) > 1:
        draft.refusal = "there are compacted files of several compactions and no catalog; restore a backup"
        return
    [(epoch, files)] = sets.items()
    rotated = (read for read in found.logs if not read.file.active and read.file.channel is not None)
    detached = [read.file.name for read in rotated if not read.reaches_above(epoch)]
    catalog = Catalog(dict.fromkeys(files, lay.COMPACTED_VERSION), frozenset(detached), epoch, None)
    reason = f"{wrong.message}; made again from {', '.join(files)}, which hold epoch {epoch}"
    numbers = [int(match[1]) for file in files if (match := lay.CMPCT_NAME.fullmatch(file))]
    if numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        draft.lost.append(f"keys in compacted files between {files[0]} and {files[-1]} that are gone")
    draft.replace("rewrite", lay.CATALOG_FILE, reason, catalog.encode())
    for file in files:  # no catalog named it, so no look has read it
        walk = found.base_walks[file] = scan.walk(found.view(file))
        if not walk.stop.good:
            judge_base(found, file, walk)
    if lay.CATALOG_BACK in found.listing.catalogs:  # as long as it is there it holds
        draft.aside(lay.CATALOG_BACK, "the new catalog holds in its place")


def _plan_base(found: Survey, draft: Draft) -> None:
    renewed = any(step.file == lay.CATALOG_FILE for step in draft.steps)
    for finding in found.findings:
        if finding.code == "snippet-old":
            draft.refusal = (
                f"{finding.file} is another file, and nothing tells what stood there; restore a backup"
            )
        elif finding.code == "compacted-missing" and not renewed:
            draft.refusal = f"{finding.file} is gone, and nothing else holds its keys; restore a backup"
        elif finding.code == "compacted-other":
            draft.refusal = (
                f"{finding.file} is another file, and nothing else holds its keys; restore a backup"
            )
        elif finding.file in found.base_walks and finding.code in _LOG_DAMAGE:
            _plan_compacted(found, finding, draft)


def _plan_compacted(found: Survey, finding: Finding, draft: Draft) -> None:
    """Keep what is before the damage: a sorted file has one snippet, so nothing can be read behind it."""
    name, walk = finding.file or "", found.base_walks[finding.file or ""]
    at = walk.stop.offset
    pieces: list[Passage] = [(0, at)] if walk.stop.inside or walk.entries else [lay.encode_begin(0)]
    view = found.view(name)
    last = None
    for entries in scan.read_entries(view, walk.snippets):
        last = lay.decode(view, int(entries.offset[-1]))[0]
    where = "all keys" if last is None else f"all keys behind storage {last.storage}, key {last.key.hex()},"
    draft.lost.append(f"{where} in {name} that no log has")
    _rewrite(draft, "cut", name, f"at byte {at} of {len(view)}: {finding.message}", pieces)


# The epoch file


def _plan_epochs(found: Survey, draft: Draft) -> None:
    for item in found.findings:
        if item.code == "epoch-torn" and item.file != lay.EPOCH_FILE:  # opening does not cut it
            _rewrite(draft, "cut", item.file or "", item.message, [(0, item.offset or 0)])
    wrong = [item for item in found.findings if item.code in LOST]
    if not wrong or found.manifest is None:
        return
    reason = f"{wrong[0].message}; every session that is whole counts, up to epoch {found.reach}"
    if any(item.severity is Severity.CORRUPT for item in wrong):
        draft.lost.append("which epochs were acknowledged: every whole session counts, also one that was not")
    for item in wrong:
        if item.file != lay.EPOCH_FILE:
            draft.aside(item.file or "", item.message)
    record = lay.encode_durable(found.reach) if found.reach else b""
    draft.replace("write", lay.EPOCH_FILE, reason, record)


# Logs


def _plan_logs(found: Survey, draft: Draft) -> None:
    for read in found.logs:
        mine = [item for item in found.findings if item.file == read.file.name]
        damage = next((item for item in mine if item.code in _LOG_DAMAGE), None)
        odd = next((item for item in mine if item.code == "snippet-epochs"), None)
        if damage is not None and damage.severity is Severity.REPAIRABLE:
            draft.aside(read.file.name, damage.message)
        elif damage is not None:
            _plan_damage(found, read, damage, draft)
        elif odd is not None:
            _plan_odd(found, read, odd, draft)


def _plan_damage(found: Survey, read: LogRead, damage: Finding, draft: Draft) -> None:
    name = read.file.name
    view = found.view(name, active=read.file.active)
    saved = salvage(view, found.reach, end_markers=found.end_markers)
    for begin, end in saved.lost:
        draft.lost.append(f"what stood in {name} from byte {begin} to byte {end - 1}")
    reason = damage.message
    if saved.renewed:
        reason += f"; the begin marker at byte {saved.renewed[0]} is made again from the end marker"
        if damage.code == "entry-outside":  # not even the bytes of a begin marker are there
            draft.lost.append(f"what stood in {name} before byte {saved.renewed[0]}, if anything did")
    _rewrite(draft, "rewrite", name, f"without the bytes that cannot be read: {reason}", saved.pieces)


def _plan_odd(found: Survey, read: LogRead, finding: Finding, draft: Draft) -> None:
    """Make the end markers say what the begin markers say; the state stays."""
    snippets = read.snippets
    pieces: list[Passage] = []
    at = 0
    odd = (snippets.closed == 1) & (snippets.kind == lay.BEGIN) & (snippets.epoch != snippets.end_epoch)
    for which in np.flatnonzero(odd).tolist():
        end = int(snippets.end[which])
        pieces += [(at, end - lay.END_SIZE), lay.encode_end(int(snippets.epoch[which]))]
        at = end
    pieces.append((at, read.file.size))
    reason = f"{finding.message}; the end marker is made to say the same"
    _rewrite(draft, "rewrite", read.file.name, reason, pieces)


def _plan_left_out(found: Survey, draft: Draft) -> bool:
    """A log that a compaction did not see: compact it. When other logs are gone, drop its old sessions instead."""
    for finding in found.findings:
        if finding.code == "left-out":
            draft.add("compact", finding.file or "", finding.message)
        elif finding.code == "left-out-ambiguous":
            read = next(read for read in found.logs if read.file.name == finding.file)
            old = read.counted(-1, min(found.low, found.reach))
            kept = read.snippets[~np.isin(read.snippets.offset, old.offset)]
            pieces: list[Passage] = [(int(a), int(b)) for a, b in zip(kept.offset, kept.end, strict=True)]
            epochs = span(int(old.epoch.min()), int(old.epoch.max()))
            draft.lost.append(
                f"sessions of epoch {epochs} in {read.file.name}, where the compacted files do not have them"
            )
            reason = f"{finding.message}; nothing tells whether it or the compacted files are newer"
            _rewrite(draft, "rewrite", read.file.name, reason, pieces)
    return any(finding.code == "left-out" for finding in found.findings)
