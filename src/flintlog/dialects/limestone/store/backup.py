"""Copies of a live directory, whole or with what is new, and the way back.

A backup is a directory of plain files with a list of them in `flintlog-backup.json`, which is written last: without
it a backup is not there. Rotated logs, rotated epoch files, blobs and the compacted files of the designed edition never
change, so a later backup names those that an earlier one holds and copies only the others.

A chain may cross an upgrade of the format: the logs of an older version are read by every later one, and the manifest
of the newest backup counts. It may not cross editions: that is refused before anything is read or written.
"""

from __future__ import annotations

import hashlib
import json
import os
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from flintlog.dialects.limestone import files
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone.store.datastore import Datastore
from flintlog.dialects.limestone.survey import survey
from flintlog.disk import Disk
from flintlog.errors import DamageError, RefusedError, UsageError

LIST_FILE = "flintlog-backup.json"
_LIST_SIZE_MAX = 256 << 20
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Copied:
    """One file of a backup. `held_by` is the directory name of the earlier backup that has its bytes."""

    name: str
    size: int
    sha256: str
    held_by: str | None = None


@dataclass(frozen=True, slots=True)
class Backup:
    """What a backup holds."""

    edition: str
    version: int
    epoch: int
    files: tuple[Copied, ...]

    @property
    def copied_bytes(self) -> int:
        """How much this backup itself holds."""
        return sum(item.size for item in self.files if item.held_by is None)


def back_up(
    store: Datastore, target: str | os.PathLike[str], *, since: Sequence[str | os.PathLike[str]] = ()
) -> Backup:
    """Copy a live directory to an empty place; with `since`, only what those backups do not hold."""
    disk = store.disk
    path = disk.resolve(target)
    _refuse_taken(disk, path)
    earlier = [disk.resolve(item) for item in since]
    known: dict[str, tuple[str, Copied]] = {}
    for place in earlier:
        held = read_backup(disk, place)
        if held.edition != store.edition:
            raise RefusedError(
                f"the backup is of the {held.edition} edition, and the directory of the {store.edition} one",
                file=place,
                advice="Begin a new chain with a full backup",
            )
        known |= {item.name: (place, item) for item in held.files if item.held_by is None}
    disk.make_directory(path)
    with store.held():
        found = survey(disk, store.path, walk=False)
        assert found.manifest is not None
        copied = tuple(_copies(disk, store.path, path, list(_names(disk, store.path)), known))
        done = Backup(store.edition, found.manifest.version, found.durable, copied)
    content = {"format": _FORMAT, "dialect": "limestone", **asdict(done)}
    listing = posixpath.join(path, LIST_FILE)
    disk.publish(listing, [json.dumps(content, indent=1).encode()], scratch=listing + ".new")
    return done


def read_backup(disk: Disk, path: str) -> Backup:
    """The list of a backup."""
    place = posixpath.join(path, LIST_FILE)
    if disk.stat(place) is None:
        raise RefusedError(
            "there is no backup here, or one that was not finished",
            file=path,
            advice=f"A backup has a {LIST_FILE}",
        )
    try:
        content = json.loads(disk.read(place, _LIST_SIZE_MAX))
        items = tuple(Copied(**item) for item in content["files"])
        backup = Backup(content["edition"], content["version"], content["epoch"], items)
        for item in items:
            _check_name(item.name)
        if content["format"] != _FORMAT or content["dialect"] != "limestone":
            raise ValueError("another kind of backup")
    except (ValueError, KeyError, TypeError) as error:
        raise DamageError(
            "this is not the list of a backup", code="backup-list", file=place, found=str(error)
        ) from None
    return backup


def restore(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    chain: Sequence[str | os.PathLike[str]] = (),
    epoch: int | None = None,
    disk: Disk | None = None,
) -> Backup:
    """Make an empty place what the directory was at the time of a backup, or at an earlier epoch of it.

    `chain` are the backups that this one builds on. Everything is read and compared before anything is written.
    """
    disk = disk or Disk()
    path, origin = disk.resolve(target), disk.resolve(source)
    backup = read_backup(disk, origin)
    places = {posixpath.basename(disk.resolve(item)): disk.resolve(item) for item in chain}
    for place in places.values():
        held = read_backup(disk, place)
        if held.edition != backup.edition:
            raise RefusedError(
                f"the chain goes from the {held.edition} edition to the {backup.edition} one", file=place
            )
    sources: dict[str, str] = {}
    for item in backup.files:
        if item.held_by is not None and item.held_by not in places:
            raise RefusedError(
                f"{item.name} is in the backup {item.held_by}",
                file=origin,
                advice="Name that backup in the chain too",
            )
        holder = origin if item.held_by is None else places[item.held_by]
        sources[item.name] = _compared(disk, posixpath.join(holder, item.name), item)
    _check_epoch(disk, origin, backup, sources, epoch)
    _write(disk, path, sources, backup.epoch if epoch is None else epoch, cut=epoch is not None)
    return backup


def restore_files(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    entries: Mapping[str, str] | None = None,
    *,
    disk: Disk | None = None,
) -> None:
    """Make an empty place from plain copies of files: all of `source`, or `entries` of source name to target name."""
    disk = disk or Disk()
    origin, path = disk.resolve(source), disk.resolve(target)
    names = dict(entries) if entries is not None else {name: name for name in disk.list(origin)}
    if lay.MANIFEST_FILE not in names.values():
        raise RefusedError("there is no manifest among these files", file=origin)
    sources: dict[str, str] = {}
    for name, destination in names.items():
        place = posixpath.join(origin, name)
        stat = disk.stat(place)
        if stat is None or stat.is_directory:
            raise RefusedError("this is not a file", file=place)
        blob = lay.BLOB_NAME.fullmatch(posixpath.basename(name))
        sources[_check_name(lay.blob_path(int(blob[1], 16)) if blob else destination)] = place
    manifest = lay.decode_manifest(disk.read(sources[lay.MANIFEST_FILE], lay.MANIFEST_SIZE_MAX))
    if not lay.VERSION_MIN <= manifest.version <= lay.VERSION_MAX:
        raise RefusedError(f"version {manifest.version} is not known", file=sources[lay.MANIFEST_FILE])
    _write(disk, path, sources, None, cut=False)


# Copying


def _names(disk: Disk, path: str) -> Iterator[tuple[str, bool]]:
    """The files that belong to a backup, and whether they can change later."""
    found = files.list_files(disk, path)
    yield lay.MANIFEST_FILE, True
    if lay.CATALOG_FILE in found.catalogs:
        yield lay.CATALOG_FILE, True
    for name in sorted(found.compacted):
        yield name, name == lay.COMPACTED_FILE
    for log in found.logs:
        if not log.active:
            yield log.name, False
    for name in sorted(found.epochs):
        if name != lay.EPOCH_FILE:
            yield name, False
    for number in sorted(files.blobs(disk, path)):
        yield lay.blob_path(number), False


def _copies(
    disk: Disk,
    source: str,
    target: str,
    names: Sequence[tuple[str, bool]],
    known: Mapping[str, tuple[str, Copied]],
) -> Iterator[Copied]:
    for name, mutable in names:
        place = posixpath.join(source, name)
        stat = disk.stat(place)
        if stat is None:
            continue  # a blob that was collected meanwhile
        held = known.get(name)
        if held is not None and not mutable and held[1].size == stat.size:
            holder, item = held
            yield Copied(name, item.size, item.sha256, posixpath.basename(holder))
        else:
            yield _copy(disk, place, posixpath.join(target, name), name)
    disk.sync_directory(target)


def _copy(disk: Disk, source: str, target: str, name: str) -> Copied:
    disk.make_directory(posixpath.dirname(target))
    digest = hashlib.sha256()
    with disk.open(source) as file, disk.create_scratch(target) as copy:
        size = file.size()
        at = 0
        for chunk in file.chunks(0, size):
            digest.update(chunk)
            copy.pwrite(chunk, at)
            at += len(chunk)
        copy.sync()
    disk.sync_directory(posixpath.dirname(target))
    return Copied(name, size, digest.hexdigest())


# Restoring


def _compared(disk: Disk, place: str, item: Copied) -> str:
    digest = hashlib.sha256()
    if disk.stat(place) is None:
        raise DamageError("a file of the backup is missing", code="backup-file-missing", file=place)
    with disk.open(place) as file:
        size = file.size()
        for chunk in file.chunks(0, size):
            digest.update(chunk)
    if (size, digest.hexdigest()) != (item.size, item.sha256):
        raise DamageError(
            "a file of the backup is not what was copied",
            code="backup-file",
            file=place,
            expected=f"{item.size} bytes, {item.sha256[:16]}",
            found=f"{size} bytes, {digest.hexdigest()[:16]}",
        )
    return place


def _check_epoch(
    disk: Disk, origin: str, backup: Backup, sources: Mapping[str, str], epoch: int | None
) -> None:
    if epoch is None:
        return
    if epoch > backup.epoch:
        raise UsageError(f"the backup reaches to epoch {backup.epoch}, not to {epoch}")
    raw = disk.read(sources[lay.CATALOG_FILE], lay.CATALOG_SIZE_MAX) if lay.CATALOG_FILE in sources else b""
    catalog = lay.decode_catalog(raw) if raw else lay.Catalog()
    if catalog.compacted and epoch < catalog.max_epoch:
        raise RefusedError(
            f"epoch {epoch} is no longer there: the log was compacted up to epoch {catalog.max_epoch}",
            file=origin,
            advice="Restore a backup from before that compaction",
        )


def _write(disk: Disk, path: str, sources: Mapping[str, str], epoch: int | None, *, cut: bool) -> None:
    """Copy everything, the manifest last: with it the directory is there."""
    _refuse_taken(disk, path)
    disk.make_directory(path)
    for name, place in sources.items():
        rotated_epoch = name.startswith(lay.EPOCH_FILE)
        if name != lay.MANIFEST_FILE and not (cut and rotated_epoch):
            _copy(disk, place, posixpath.join(path, name), name)
    if epoch is not None:
        with disk.create_scratch(posixpath.join(path, lay.EPOCH_FILE)) as file:
            if epoch:
                file.pwrite(lay.encode_durable(epoch), 0)
            file.sync()
    disk.sync_directory(path)
    target = posixpath.join(path, lay.MANIFEST_FILE)
    raw = disk.read(sources[lay.MANIFEST_FILE], lay.MANIFEST_SIZE_MAX)
    disk.publish(target, [raw], scratch=target + ".new")


def _refuse_taken(disk: Disk, path: str) -> None:
    if disk.stat(posixpath.join(path, LIST_FILE)) is not None or disk.stat(
        posixpath.join(path, lay.MANIFEST_FILE)
    ):
        raise RefusedError("this place is taken", file=path, advice="Name an empty or a new directory")


def _check_name(name: str) -> str:
    """A file name as a directory of ours has it; a list comes from outside."""
    blob = name.startswith(f"{lay.BLOB_DIRECTORY}/")
    if blob:
        match = lay.BLOB_NAME.fullmatch(posixpath.basename(name))
        good = match is not None and name == lay.blob_path(int(match[1], 16))
    else:
        good = bool(name) and "/" not in name and name not in (".", "..")
    if not good:
        raise RefusedError(f"{name!r} is not the name of a file of this format")
    return name
