"""Which bytes of a directory make its keys and values at one epoch: for a copy of it, also while a store writes."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from functools import partial

import numpy as np

from flintlog.core.backup.picture import ChangedError, Part, Picture
from flintlog.core.surveys import Surveys
from flintlog.dialects.limestone import files
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone.survey import LogRead, Survey, survey
from flintlog.disk import Disk


def picture(disk: Disk, path: str, as_of: int | None, seen: Surveys) -> Picture:
    """Manifest, catalog, compacted files, logs, blobs, and an epoch file with the one epoch that counts.

    It reads the durable epoch before the logs, and leaves out later sessions at the end of a log, behind which nothing
    is durable. A store may rename, replace and remove files, but never changes what is durable in them, so another file
    under a name shows the change.
    """
    found = seen.take("whole", partial(survey, disk, path))
    found.refuse_damage()
    found.refuse_forgetting()
    low, epoch = max(found.low, 0), found.durable
    if as_of is not None:
        found.refuse_missing(as_of)
        epoch = min(as_of, epoch)
    names = [(name, _size(disk, path, name)) for name in found.base]
    names += [(log.file.name, _reach(log, epoch)) for log in found.logs]
    return make_picture(found, epoch, names, first=low)


def make_picture(
    found: Survey, epoch: int, names: Sequence[tuple[str, int]], *, first: int | None = None
) -> Picture:
    """The picture of compacted files and logs up to these sizes, with the files that belong to them."""
    assert found.manifest is not None and found.manifest_name is not None  # else unsupported
    disk, path = found.disk, found.path
    parts = [Part(name, size) for name, size in names]
    parts += [Part(lay.blob_path(number), size) for number, size in sorted(files.blobs(disk, path).items())]
    if found.catalog_name is not None:
        parts.append(Part(lay.CATALOG_FILE, head=found.catalog.encode(), made=True))
    parts.append(Part(lay.EPOCH_FILE, head=lay.encode_durable(epoch) if epoch else b"", made=True))
    manifest = disk.read(posixpath.join(path, found.manifest_name), lay.MANIFEST_SIZE_MAX)
    parts.append(Part(lay.MANIFEST_FILE, head=manifest, made=True))
    low = max(found.low, 0) if first is None else first
    return Picture(
        path,
        found.edition,
        found.manifest.version,
        (low,),
        (epoch,),
        tuple(parts),
        found.manifest.instance or None,
    )


def _reach(log: LogRead, epoch: int) -> int:
    """The end of the last durable snippet of a log; the end of the log when every snippet is durable."""
    snippets = log.snippets
    durable = snippets.epoch <= np.uint64(epoch)
    if log.tail is not None and log.tail.torn:
        durable &= snippets.offset != log.tail.begin
    if log.tail is None and durable.all():
        return log.walk.stop.offset
    return int(snippets.end[durable].max(initial=0))


def _size(disk: Disk, path: str, name: str) -> int:
    stat = disk.stat(posixpath.join(path, name))
    if stat is None:
        raise ChangedError("this file was removed while the directory was read", file=name)
    return stat.size


def is_member(name: str) -> bool:
    """Can a picture have a file of this name?"""
    if "/" in name:
        match = lay.BLOB_NAME.fullmatch(posixpath.basename(name))
        return match is not None and name == lay.blob_path(int(match[1], 16))
    known = (lay.MANIFEST_FILE, lay.CATALOG_FILE, lay.COMPACTED_PREVIOUS, lay.EPOCH_FILE)
    return name in known or lay.is_wal_name(name) or lay.is_compacted_name(name)
