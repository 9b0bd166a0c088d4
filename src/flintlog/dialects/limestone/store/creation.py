"""A new directory, and the change of a manifest to a later version.

The manifest comes first and by one rename: with it the directory is one of ours, and what else belongs to a new
the next opening makes one.
"""

from __future__ import annotations

import posixpath
import uuid
from collections.abc import Callable

from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone.files import Listing
from flintlog.dialects.limestone.layout import Edition, Manifest
from flintlog.dialects.limestone.survey import Survey
from flintlog.disk import Disk

MANIFEST_SCRATCH = lay.MANIFEST_FILE + ".new"
Instance = Callable[[], str]


def new_instance() -> str:
    """The identity of a new directory of the shipped edition."""
    return str(uuid.uuid4())


def is_blank(listing: Listing) -> bool:
    """Is there nothing that a log directory has? Scratch of a creation that a crash ended does not count."""
    return not (
        listing.manifests or listing.catalogs or listing.logs or listing.epochs or listing.compacted
    ) and set(listing.foreign) <= {MANIFEST_SCRATCH}


def manifest_of(edition: Edition, instance: Instance) -> Manifest:
    version = lay.VERSION_OF[edition]
    return Manifest(version) if edition == "designed" else Manifest(version, "1.1", instance())


def create(disk: Disk, path: str, manifest: Manifest) -> None:
    """Make an empty directory one of ours."""
    disk.publish(
        posixpath.join(path, lay.MANIFEST_FILE),
        [manifest.encode()],
        scratch=posixpath.join(path, MANIFEST_SCRATCH),
    )


def restore_manifest(found: Survey) -> None:
    """A change of the manifest that a crash ended: the one before it is the truth. The caller syncs the names."""
    main, back = found.place(lay.MANIFEST_FILE), found.place(lay.MANIFEST_BACK)
    if found.manifest_name == lay.MANIFEST_BACK:
        found.disk.rename(back, main)
    elif lay.MANIFEST_BACK in found.listing.manifests:
        found.disk.unlink(back)


def name_first_compacted(found: Survey) -> bool:
    """Give the compacted file of version 1 the name of the log that it is; says whether there was one. From then on no
    name is in the directory that the other edition has too. The caller syncs it."""
    old = [log for log in found.listing.logs if log.name in (lay.COMPACTED_FILE, lay.COMPACTED_PREVIOUS)]
    for log in old:
        number = 0
        while found.disk.stat(found.place(name := lay.rotated_name(0, 0, number))) is not None:
            number += 1
        found.disk.rename(found.place(log.name), found.place(name))
    return bool(old)


def upgrade(found: Survey, instance: Instance) -> bool:
    """Bring an older version of an edition to the one that is written; says whether anything was done."""
    assert found.manifest is not None
    if found.manifest.version == lay.VERSION_OF[found.edition]:
        return False
    disk, path = found.disk, found.path
    main, back = found.place(lay.MANIFEST_FILE), found.place(lay.MANIFEST_BACK)
    if found.edition == "shipped":
        kept = found.manifest.instance
        create(disk, path, manifest_of("shipped", (lambda: kept) if kept else instance))
        return True
    disk.rename(main, back)
    disk.sync_directory(path)
    with disk.open(main, "create") as file:
        file.truncate(0)
        file.pwrite(manifest_of("designed", instance).encode(), 0)
        file.sync()
    disk.sync_directory(path)
    disk.unlink(back)  # this commits; the caller syncs the names
    return True
