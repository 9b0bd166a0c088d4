"""`backup` and `restore`: numbered copies of a log in a place, what they hold, and the way back."""

from __future__ import annotations

import argparse
import posixpath
import sys
from collections.abc import Iterator
from typing import Any

from flintlog.cli.output import Output, telling
from flintlog.cli.progress import progress, progress_option
from flintlog.cli.terminal import human_size
from flintlog.cli.verb import Verb, count, position
from flintlog.core.position import position_json, position_text
from flintlog.disk import Disk, transaction
from flintlog.errors import EXIT_OK, FlintlogError, RefusedError, UsageError

_LIST_COLUMNS = (
    "backup",
    "created",
    "kind",
    "dialect",
    "first",
    "last",
    "files",
    "copied_bytes",
    "held_bytes",
    "problem",
    "source",
)


def _backup_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", metavar="DIR", help="the log directory; or one of the words list and verify")
    parser.add_argument(
        "place", metavar="PLACE", help="the directory of its backups; made where it is not there"
    )
    parser.add_argument("number", metavar="N", nargs="?", type=count, help="with verify: only this backup")
    parser.add_argument("--full", action="store_true", help="copy everything, also what earlier backups hold")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be copied")
    progress_option(parser)


def _backup(arguments: argparse.Namespace, output: Output) -> int:
    disk = Disk()
    place = disk.resolve(arguments.place)
    if arguments.what == "verify":
        return _verify(disk, place, arguments, output)
    if arguments.number is not None:
        raise UsageError("a number goes with verify only", advice="flintlog backup verify PLACE N")
    if arguments.what == "list":
        return _list(disk, place, output)
    return _take(disk, disk.resolve(arguments.what), place, arguments, output)


def _take(disk: Disk, path: str, place: str, arguments: argparse.Namespace, output: Output) -> int:
    from flintlog.core.backup import take_backup

    with progress("backup", arguments.progress) as step, transaction(disk, publishes=True) as work:
        taken = take_backup(work, path, place, full=arguments.full, dry_run=arguments.dry_run, progress=step)
    backup = taken.backup
    value = {
        "backup": taken.name,
        "place": place,
        **backup.json(),
        "copied_bytes": backup.copied_bytes,
        "held_bytes": backup.held_bytes,
        "applied": taken.applied,
        "new": taken.new,
    }

    def words() -> Iterator[str]:
        if not taken.new:
            yield f"nothing new since {taken.name}"
            return
        verb = "made" if taken.applied else "would make"
        copied = [item for item in backup.files if item.held_by is None]
        yield f"{verb} {backup.kind} backup {taken.path} ({backup.dialect})"
        yield f"copied: {_files(len(copied))}, {human_size(backup.copied_bytes)}"
        if backup.held_bytes or len(copied) < len(backup.files):
            held = sorted({item.held_by for item in backup.files if item.held_by is not None})
            yield (
                f"held by {', '.join(held)}: {_files(len(backup.files) - len(copied))}, "
                f"{human_size(backup.held_bytes)}"
            )
        yield f"positions: {position_text(backup.first)} to {position_text(backup.last)}"

    output.summary(value, words())
    return EXIT_OK


def _files(count: int) -> str:
    return f"{count} file" if count == 1 else f"{count} files"


def _list(disk: Disk, place: str, output: Output) -> int:
    from flintlog.core.backup import check_place

    status = EXIT_OK
    rows: list[dict[str, Any]] = []
    for name, backup in check_place(disk, place):
        if isinstance(backup, FlintlogError):
            status = backup.exit_status
            rows.append({**dict.fromkeys(_LIST_COLUMNS), "backup": name, "problem": backup.what()})
            continue
        rows.append(
            {
                "backup": name,
                "created": backup.created,
                "kind": backup.kind,
                "dialect": backup.dialect,
                "first": position_json(backup.first),
                "last": position_json(backup.last),
                "files": len(backup.files),
                "copied_bytes": backup.copied_bytes,
                "held_bytes": backup.held_bytes,
                "problem": None,
                "source": backup.source,
            }
        )
    output.rows(_LIST_COLUMNS, [rows])
    return status


def _verify(disk: Disk, place: str, arguments: argparse.Namespace, output: Output) -> int:
    """Verify all backups of a place, or one; a damaged backup does not hide the others."""
    from flintlog.core.backup import check_backup, verify_backup

    def verify(name: str) -> int:
        with progress(f"verify {name}", arguments.progress) as step:
            checked = check_backup(disk, posixpath.join(place, name), progress=step)
            inventory = verify_backup(disk, checked, step)
        output.verification(inventory)
        return inventory.exit_status

    if arguments.number is not None:
        return verify(_name(disk, place, arguments.number))
    status = EXIT_OK
    for name in _names(disk, place):
        try:
            status = max(status, verify(name))
        except FlintlogError as error:
            sys.stdout.flush()
            print(f"flintlog: {error}", file=sys.stderr)
            status = max(status, error.exit_status)
    return status


def _names(disk: Disk, place: str) -> list[str]:
    from flintlog.core.backup import check_place

    return [name for name, _ in check_place(disk, place)]


def _name(disk: Disk, place: str, number: int) -> str:
    """The backup of that number."""
    found = next((name for name in _names(disk, place) if int(name) == number), None)
    if found is None:
        raise RefusedError(
            f"there is no backup {number}",
            file=place,
            advice=f"`flintlog backup list {place}` shows those there are",
        )
    return found


def _restore_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("place", metavar="PLACE", help="where the backups are")
    parser.add_argument("target", metavar="NEWDIR", help="a new or empty directory for the log")
    parser.add_argument(
        "--backup", type=count, metavar="N", help="this backup instead of the newest that fits"
    )
    parser.add_argument(
        "--to",
        type=position,
        metavar="POSITION",
        help="the log as it was at this position: LSN, index, TERM,INDEX or epoch",
    )
    parser.add_argument("--dry-run", action="store_true", help="check and decode everything, write nothing")
    progress_option(parser)


def _restore(arguments: argparse.Namespace, output: Output) -> int:
    from flintlog.core.backup import check_place, choose, plan_restore

    disk = Disk()
    place, target = disk.resolve(arguments.place), disk.resolve(arguments.target)
    if posixpath.join(target, "").startswith(posixpath.join(place, "")):
        raise UsageError(
            "the log would be among the backups", file=target, advice="Choose another place for it"
        )
    if arguments.backup is None:
        name = choose(place, check_place(disk, place), arguments.to)
    else:
        name = _name(disk, place, arguments.backup)
    with progress("restore", arguments.progress) as step:
        plan = plan_restore(disk, posixpath.join(place, name), target, to=arguments.to, progress=step)
        with telling(plan) as told:
            output.plan(told, apply=not arguments.dry_run)
    return EXIT_OK


BACKUP = Verb(
    name="backup",
    summary="copy a log, live or not, to a place with backups",
    description=(
        "Copies a log to the next number in PLACE. The first backup is full; later ones copy what those before "
        "them do not hold. A store may have the directory open: it is neither stopped nor locked, and what changes "
        "meanwhile is copied again. The copy is synced, read back and decoded before it gets its name, so a backup "
        "is there as a whole or not at all. The word list shows the backups of a place, verify reads every byte of "
        "them and decodes it. A log directory of such a name is written ./list."
    ),
    examples=(
        "flintlog backup queues /backups/queues",
        "flintlog backup queues /backups/queues --full",
        "flintlog backup list /backups/queues",
        "flintlog backup verify /backups/queues",
        "flintlog backup verify /backups/queues 2",
    ),
    add_options=_backup_options,
    run=_backup,
    takes_directory=False,
)

RESTORE = Verb(
    name="restore",
    summary="write a log from a backup to an empty place",
    description=(
        "Writes the log of the newest backup, or as it was at a position, to a new or empty directory. Before "
        "anything is written every byte is compared with the checksums, and everything is decoded; what was written "
        "is read back before it gets its name."
    ),
    examples=(
        "flintlog restore /backups/queues queues-restored --dry-run",
        "flintlog restore /backups/queues queues-restored",
        "flintlog restore /backups/queues queues-restored --to 500",
        "flintlog restore /backups/queues queues-restored --backup 2",
    ),
    add_options=_restore_options,
    run=_restore,
    takes_directory=False,
)
