"""The epoch files: which epoch is durable, whether records are lost, and which epoch judges the logs then.

*The rule of what opening may forget.* Sessions above the durable epoch go when a store opens. A crash can leave any
number of them: while one session is open, its epoch and all later ones are not durable, and other sessions end
meanwhile. None of them was acknowledged, as long as the epoch files are what was written. So they go (copied first)
unless something shows that an epoch above the recorded one was durable:

1. the witness of the epoch file says so, or
2. a session that the catalog's maximum epoch covers is above the recorded one.

Then opening refuses. A lost record that no session needs does no harm: the compacted files hold those sessions.

*The rule of what counts without them.* Where records are lost, or the file is gone, repair counts every whole session.
So the logs are judged as if the last epoch of a whole session were durable: what cannot be read below it is damage, and
what ends a log above it is torn. The witness counts where a session bears it out.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from flintlog.core.finding import Finding
from flintlog.core.live import suppress_gone
from flintlog.dialects.limestone import files
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone.findings import CODES
from flintlog.dialects.limestone.judge import walks_behind
from flintlog.disk import Disk

if TYPE_CHECKING:
    from flintlog.dialects.limestone.survey import LogRead, Survey

LOST = (
    "epoch-missing",
    "epoch-type",
    "epoch-short",
)  # no file says which sessions are durable


def read_durable(found: Survey, listing: files.Listing) -> None:
    """The durable epoch, by the epoch files."""
    largest: int | None = None
    for names in (listing.epochs, listing.odd_epochs):
        for name in names:
            epoch, finding = files.read_epochs(found.view(name, active=name == lay.EPOCH_FILE), name)
            if epoch is not None:
                largest = max(largest or 0, epoch)
            if finding is not None and (names is listing.epochs or largest is None):
                found.findings.append(finding)
        if largest is not None:
            break  # files with odd names count only when the others have no record
    found.durable = found.reach = largest or 0
    if largest is None and not listing.epochs and any(log.size for log in listing.logs):
        message = "there is no epoch file to say which sessions are durable; put it back if you have it"
        found.findings.append(CODES.finding("epoch-missing", message, lay.EPOCH_FILE))


def read_witness(disk: Disk, path: str) -> int:
    """An epoch that was durable, by the witness; 0 when there is none."""
    raw = b""
    with suppress_gone():
        raw = disk.read(posixpath.join(path, lay.WITNESS_FILE), lay.MARKER_SIZE + 1)
    return files.read_witness(raw)


def judge_epochs(found: Survey) -> None:
    """Apply the rules of this module's docstring to logs that were walked."""
    found.findings += _lost_records(found)
    if found.has_lost_epochs:
        epochs = (epoch for read in found.logs for epoch in _whole_epochs(found, read))
        found.reach = max([found.durable, found.catalog.max_epoch, *epochs])


def _lost_records(found: Survey) -> Iterator[Finding]:
    shown = max(found.witness, found.low if _covers_pending(found) else 0)
    if shown > found.durable and any(len(read.pending(found.durable)) for read in found.logs):
        message = f"epoch {shown} was durable, and the epoch files end with {found.durable}: records are lost"
        expected, seen = f"epoch {shown}", f"epoch {found.durable}"
        yield CODES.finding("epoch-short", message, lay.EPOCH_FILE, None, expected, seen)


def _covers_pending(found: Survey) -> bool:
    """Is a session above the durable epoch at or below the catalog's maximum?"""
    pending = [read.pending(found.durable).epoch for read in found.logs]
    return found.low >= 0 and any((epochs <= np.uint64(found.low)).any() for epochs in pending)


def _whole_epochs(found: Survey, read: LogRead) -> Iterator[int]:
    """The greatest epochs of whole sessions of a log, also behind damage."""
    walks = [read.walk]
    if not read.walk.stop.good:
        walks += walks_behind(found.view(read.file.name, active=read.file.active), read.walk)
    for walk in walks:
        counts = walk.snippets.kind == lay.BEGIN
        counts[len(walk.whole) :] &= walk.snippets.epoch[len(walk.whole) :] <= np.uint64(found.witness)
        yield int(walk.snippets.epoch[counts].max(initial=0))
