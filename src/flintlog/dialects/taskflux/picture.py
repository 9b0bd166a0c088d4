"""Which bytes of a directory make the log at one moment: for a copy of it, also while a store writes."""

from __future__ import annotations

import posixpath
from functools import partial

from flintlog.core.backup.picture import Part, Picture
from flintlog.core.surveys import Surveys
from flintlog.dialects.taskflux import layout as lay
from flintlog.dialects.taskflux.files import METADATA_SIZE_MAX, Segment
from flintlog.dialects.taskflux.survey import Survey, survey
from flintlog.disk import Disk


def picture(disk: Disk, data: str, as_of: int | None, seen: Surveys) -> Picture:
    """Metadata, snapshot, the segments that belong to the log; the last of them up to its last record that counts.

    A store replaces a snapshot and removes segments by name, and never changes them: another file under the name, or
    none, shows that. The metadata is read after the log, so that its term is never behind it.
    """
    found = seen.take("part", partial(survey, disk, data))
    found.refuse_damage()
    last = found.last
    if as_of is not None:
        found.refuse_missing(as_of)
        last = as_of
    parts = [Part(file.name, file.size) for file in found.covered]
    kept = [item for item in found.segments if item.first <= max(last, 0) and not item.uninitialised]
    parts += [Part(segment.file.name, segment.file.size) for segment in kept[:-1]]
    parts += [_segment(segment, last) for segment in kept[-1:]]
    if not parts and found.metadata is not None:  # a log is never without a segment
        empty = found.layout.segment_header() + lay.END_MARKER
        parts.append(Part(f"{lay.LOG_DIRECTORY}/{lay.segment_name(last + 1)}", head=empty, made=True))
    if found.listing.snapshot_size:
        parts.append(Part(lay.SNAPSHOT_FILE, found.listing.snapshot_size))
    settings = disk.stat(posixpath.join(data, lay.SETTINGS_FILE))
    if settings is not None:
        parts.append(Part(lay.SETTINGS_FILE, settings.size))
    parts.append(Part(lay.METADATA_FILE, head=_metadata(disk, found), made=True))
    return Picture(
        data,
        found.layout.edition,
        None,
        (found.base.index if found.has_snapshot else 0,) if last >= 0 else None,
        (last,) if last >= 0 else None,
        tuple(parts),
    )


def _metadata(disk: Disk, found: Survey) -> bytes:
    """Term and vote as they are now; if there are none, those with which a store would begin."""
    if found.metadata is not None:
        place = posixpath.join(found.listing.data, lay.METADATA_FILE)
        return disk.read(place, METADATA_SIZE_MAX)[: found.layout.metadata_size]
    return found.layout.encode_metadata(found.next_term, None)


def _segment(segment: Segment, last: int) -> Part:
    """The last segment of a copy: its records up to an LSN, and the end marker behind them."""
    count = last - segment.first + 1
    end = int(segment.records.offset[count]) if count < len(segment.records) else segment.end
    return Part(segment.file.name, end, tail=(lay.END_MARKER,))


def is_member(name: str) -> bool:
    """Can a picture have a file of this name?"""
    folder, _, file = name.rpartition("/")
    if folder:
        return folder == lay.LOG_DIRECTORY and lay.parse_segment_name(file) is not None
    return name in (lay.METADATA_FILE, lay.SNAPSHOT_FILE, lay.SETTINGS_FILE)
