"""The way back: check a backup byte by byte, decode all of it, and only then write it to an empty place."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flintlog.core.backup.copying import digest, fill
from flintlog.core.backup.listing import Backup, Copied, read_list
from flintlog.core.dialect import dialect
from flintlog.core.finding import gravest
from flintlog.core.log import Log
from flintlog.core.new_place import new_place, refuse_taken
from flintlog.core.plan import Plan, Step
from flintlog.core.position import Position, position_json, position_text
from flintlog.disk import Disk, Progress, assembled, no_progress
from flintlog.errors import DamageError, FlintlogError, RefusedError

if TYPE_CHECKING:
    from flintlog.core.inventory import Inventory

_ROTTEN = "Restore another backup (--backup N); the next `flintlog backup` of the log copies this file anew"


@dataclass(frozen=True, slots=True)
class Checked:
    """A backup whose every byte was compared with its list; `files` says where each file is."""

    path: str
    backup: Backup
    files: dict[str, str]

    def log(self, disk: Disk, path: str) -> Log:
        """The files at `path`, as a log of the backup's dialect."""
        return Log(dialect(self.backup.dialect), disk, path)

    def view(self, disk: Disk) -> Disk:
        """The backup as one directory at its own path, with the files that other backups hold."""
        return assembled(disk, self.path, self.files)


def check_backup(
    disk: Disk, path: str, *, chain: Iterable[str] | None = None, progress: Progress = no_progress
) -> Checked:
    """Read every file of a backup and compare it with the list.

    `chain` are the backups that this one builds on; None takes those that its list names, beside it.
    """
    backup = _read_durable(disk, path)
    if chain is None:
        names = {item.held_by for item in backup.files if item.held_by is not None}
        chain = [posixpath.join(posixpath.dirname(path), posixpath.basename(name)) for name in sorted(names)]
    holders = {item.content: path for item in backup.files if item.held_by is None}
    for place in chain:
        for item in read_of_kind(disk, place, backup.dialect, backup.edition).files:
            if item.held_by is None:
                holders.setdefault(item.content, place)
    total = sum(item.size for item in backup.files)
    done = 0
    files = {}
    for item in backup.files:
        files[item.name] = _compared(disk, holders, path, item)
        done += item.size
        progress(done, total)
    return Checked(path, backup, files)


def _read_durable(disk: Disk, path: str) -> Backup:
    """The list of a backup. Syncs its name first: the process that made the backup may have died before that."""
    backup = read_list(disk, path)
    disk.sync_ancestors(path)
    return backup


def read_of_kind(disk: Disk, place: str, name: str, edition: str | None) -> Backup:
    """The list of a backup; refused when it is not of the chain's dialect and edition."""
    held = _read_durable(disk, place)
    if held.dialect != name:
        raise RefusedError(f"this is a backup of a {held.dialect} log, and the chain of {name}", file=place)
    if held.edition != edition:
        raise RefusedError(
            f"the backup is of the {held.edition} edition, and the chain of the {edition} one",
            file=place,
            advice="Begin a new chain with a full backup",
        )
    return held


def _compared(disk: Disk, holders: dict[tuple[str, int, str], str], path: str, item: Copied) -> str:
    """The place of a file's bytes, which are read and compared with the list."""
    if item.content not in holders:
        raise RefusedError(
            f"{item.name} is in the backup {item.held_by}, which does not hold it",
            file=path,
            advice="Put that backup back beside this one, or name it in the chain too",
        )
    place = posixpath.join(holders[item.content], item.name)
    found = digest(disk, place)
    if found is None:
        raise DamageError(
            "a file of the backup is missing", code="backup-file-missing", file=place, advice=_ROTTEN
        )
    if found != (item.size, item.sha256):
        raise DamageError(
            "a file of the backup is not what was copied",
            code="backup-file",
            file=place,
            expected=f"{item.size} bytes, {item.sha256[:16]}",
            found=f"{found[0]} bytes, {found[1][:16]}",
            advice=_ROTTEN,
        )
    return place


def verify_backup(disk: Disk, checked: Checked, progress: Progress = no_progress) -> Inventory:
    """Every check of the dialect over the files of a backup."""
    return checked.log(checked.view(disk), checked.path).verify(progress)


def prove(log: Log, progress: Progress = no_progress) -> Inventory:
    """Raise unless everything in a copy can be decoded and a store would open it; returns what it holds."""
    found = log.verify(progress)
    worst = gravest(found.findings)
    if worst is not None and worst.is_grave:
        raise worst.error(log.path)
    return found


def choose(place: str, there: Sequence[tuple[str, Backup | FlintlogError]], to: Position | None) -> str:
    """The newest backup, or the newest that holds a position."""
    if to is None:
        name, backup = there[-1]
        if isinstance(backup, FlintlogError):
            backup.advice = "Name an older one with --backup"
            raise backup
        return name
    for name, backup in reversed(there):
        if isinstance(backup, Backup) and backup.holds(to):
            return name
    ranges = ", ".join(
        f"{name}: {position_text(backup.first)} to {position_text(backup.last)}"
        for name, backup in there
        if isinstance(backup, Backup)
    )
    raise RefusedError(
        f"no backup here holds position {position_text(to)}", file=place, advice=f"There are {ranges}"
    )


def plan_restore(
    disk: Disk,
    path: str,
    target: str,
    *,
    to: Position | None = None,
    chain: Iterable[str] | None = None,
    progress: Progress = no_progress,
) -> Plan:
    """Restore a log to an empty place, as it was at the time of a backup or at a position.

    Before it returns the plan, it compares every byte with the list and decodes everything.
    """
    refuse_taken(disk, target)
    checked = check_backup(disk, path, chain=chain, progress=progress)
    view = checked.view(disk)
    log = checked.log(view, path)
    with log:
        prove(log, progress)
        picture = log.picture(to)
    if picture.edition != checked.backup.edition:
        raise DamageError(
            "the files are not of the edition that the list says",
            code="backup-list",
            file=path,
            expected=str(checked.backup.edition),
            found=str(picture.edition),
        )
    sizes = {item.name: item.size for item in checked.backup.files}

    def act(disk: Disk) -> str:
        with new_place(disk, target) as building:
            files = posixpath.join(building, checked.backup.inside)
            fill(view, picture, files, to=disk, progress=progress)
            if checked.backup.inside:  # `new_place` syncs only the place itself
                disk.sync_directory(files)
            with checked.log(disk, building) as written:
                # A log may have a position and nothing to list.
                last = prove(written).last or written.picture().last
            if last != picture.last:
                raise DamageError(
                    "what was written is not what was planned",
                    code="restore",
                    file=building,
                    expected=str(picture.last),
                    found=str(last),
                )
        return f"{target} holds positions up to {position_text(picture.last)}"

    steps = tuple(
        Step(
            "write",
            posixpath.join(checked.backup.inside, part.name),
            _reason(checked, part.name, part.length, sizes),
        )
        for part in picture.parts
    )
    facts = {
        "backup": posixpath.basename(path),
        "target": target,
        "first": position_json(picture.first),
        "last": position_json(picture.last),
        "written_bytes": sum(part.length for part in picture.parts),
    }
    return Plan(
        "restore",
        checked.backup.dialect,
        path,
        steps,
        act,
        facts=facts,
        of_backup=True,
        publishes=True,
        disk=disk,
    )


def _reason(checked: Checked, name: str, size: int, sizes: dict[str, int]) -> str:
    if name not in checked.files:
        return "made anew"
    holder = posixpath.basename(checked.files[name].removesuffix(f"/{name}"))
    return f"from {holder}" if sizes[name] == size else f"from {holder}, {size} of {sizes[name]} bytes"


def restore_backup(
    disk: Disk, path: str, target: str, *, to: Position | None = None, chain: Iterable[str] | None = None
) -> Backup:
    """Carry out the plan of a restore; gives the list of the backup."""
    plan_restore(disk, path, target, to=to, chain=chain).apply()
    return read_list(disk, path)
