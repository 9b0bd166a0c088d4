"""`repair`, `snapshot`, `compact` and `migrate`: a plan first, and then, when asked, its steps."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from flintlog.cli.engine import engine_options, workers
from flintlog.cli.output import Output, telling
from flintlog.cli.progress import UNKNOWN, Meter, progress, progress_option, watched
from flintlog.cli.verb import Verb, named_log, position
from flintlog.core.dialect import GivenState
from flintlog.core.log import Log
from flintlog.core.plan import Plan
from flintlog.disk import Disk
from flintlog.errors import EXIT_OK, DiskError, RefusedError, UsageError

_STANDARD_INPUT = "-"
_CHUNK_BYTES = 8 << 20


def _carry_out(plan: Plan, output: Output, tick: Meter, *, apply: bool) -> None:
    """Show the plan; with `apply`, apply it unless it is empty. A plan for a backup is refused."""
    tick.expected = UNKNOWN if plan.written_bytes is None else plan.written_bytes
    if apply and plan.refusal is None:
        plan.check()  # refuses before the plan is shown
    with telling(plan) as told:
        output.plan(told, apply=apply and plan.refusal is None and not plan.empty)
    if plan.refusal is not None:
        plan.check()


def _watched_log(arguments: argparse.Namespace, tick: Meter) -> Log:
    """The named log directory; the meter shows how much is written to it."""
    log = named_log(arguments)
    return log.at(watched(log.disk, tick))


def _repair_options(parser: argparse.ArgumentParser) -> None:
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument(
        "--apply", action="store_true", help="carry the plan out; the original bytes are kept aside"
    )
    choice.add_argument(
        "--dry-run", action="store_true", help="only print the plan (as without --apply); also of --undo"
    )
    parser.add_argument(
        "--undo",
        nargs="?",
        const="",
        metavar="NAME",
        help="take the newest repair back, or the one of this name in kept/: the original bytes are there again",
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="with --undo: also when something was written since, which is lost",
    )
    progress_option(parser)


def _repair(arguments: argparse.Namespace, output: Output) -> int:
    if arguments.undo is not None:
        if arguments.apply:
            raise UsageError("--undo is done at once", advice="Leave --apply out; --dry-run shows the plan")
        return _undo(arguments, output)
    if arguments.force:
        raise UsageError("--force is for --undo", advice="A repair never needs it")
    with progress("repair", arguments.progress) as tick:
        log = _watched_log(arguments, tick)
        plan = log.plan_repair()
        if not arguments.apply or plan.empty:
            _carry_out(plan, output, tick, apply=arguments.apply)
            return plan.exit_status
        from flintlog.core.rounds import repair

        plan.check()
        return output.repair(plan, lambda: repair(log, plan)).exit_status


def _undo(arguments: argparse.Namespace, output: Output) -> int:
    with progress("undo", arguments.progress) as tick:
        plan = _watched_log(arguments, tick).plan_undo(arguments.undo or None, force=arguments.force)
        _carry_out(plan, output, tick, apply=not arguments.dry_run)
    return EXIT_OK


def _dry_run_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="only print the plan")
    progress_option(parser)


def _snapshot_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--as-of",
        type=position,
        metavar="POSITION",
        help="the state at this position instead of the last one",
    )
    parser.add_argument(
        "--data",
        metavar="FILE",
        help="the state itself, where only the application knows it (zmqraft); - is the standard input",
    )
    engine_options(parser)
    _dry_run_option(parser)


def _given_state(name: str) -> GivenState:
    """The state in a file; an unreadable file is refused before planning."""
    if name == _STANDARD_INPUT:
        if sys.stdin is None:
            raise UsageError("the standard input is closed", advice="Pipe the state to --data -")
        if sys.stdin.isatty():
            raise UsageError("the standard input is a terminal", advice="Pipe the state to --data -")
        return GivenState("the standard input", None, _standard_input)
    disk = Disk()
    path = disk.resolve(name)
    found = disk.stat(path)
    if found is None or found.is_directory:
        raise UsageError("no file with a state stands here", file=path, advice="Check the path of --data")
    try:
        with disk.open(path) as file:
            file.pread(1, 0)
    except (DiskError, RefusedError) as error:  # RefusedError: a pipe, which Flintlog never waits for
        raise UsageError(
            f"the state cannot be read here: {error.message}", file=path, advice="Pipe it to --data -"
        ) from error

    def chunks() -> Iterator[bytes]:
        with disk.open(path) as file:
            yield from file.chunks(0, file.size())

    return GivenState(path, found.size, chunks)


def _standard_input() -> Iterator[bytes]:
    try:
        while chunk := sys.stdin.buffer.read(_CHUNK_BYTES):
            yield chunk
    except OSError as error:
        raise UsageError(f"the standard input cannot be read: {error.strerror}") from None


def _snapshot(arguments: argparse.Namespace, output: Output) -> int:
    log = named_log(arguments)
    given = None if arguments.data is None else _given_state(arguments.data)
    with workers(arguments) as who, progress("snapshot", arguments.progress) as tick:
        log = log if who is not None else log.at(watched(log.disk, tick))
        plan = log.plan_snapshot(arguments.as_of, given, who)
        _carry_out(plan, output, tick, apply=not arguments.dry_run)
    return EXIT_OK


def _compact(arguments: argparse.Namespace, output: Output) -> int:
    log = named_log(arguments)
    with workers(arguments) as who, progress("compact", arguments.progress) as tick:
        log = log if who is not None else log.at(watched(log.disk, tick))
        plan = log.plan_compact(who)
        _carry_out(plan, output, tick, apply=not arguments.dry_run)
    return EXIT_OK


def _compact_options(parser: argparse.ArgumentParser) -> None:
    engine_options(parser)
    _dry_run_option(parser)


def _migrate_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--edition", metavar="EDITION", help="the edition to write: designed or shipped")
    parser.add_argument("--to", metavar="NEWDIR", help="a new or empty directory to write to")
    _dry_run_option(parser)


def _migrate(arguments: argparse.Namespace, output: Output) -> int:
    if (arguments.edition is None) != (arguments.to is None):
        raise UsageError(
            "a change of the edition needs a new directory",
            advice="Name both --edition and --to; without them the directory is upgraded in its place",
        )
    with progress("migrate", arguments.progress) as tick:
        target = None if arguments.to is None else Disk.resolve(arguments.to)
        plan = _watched_log(arguments, tick).plan_migrate(arguments.edition, target)
        _carry_out(plan, output, tick, apply=not arguments.dry_run)
    return EXIT_OK


REPAIR = Verb(
    name="repair",
    summary="plan what makes the directory whole, then --apply",
    description=(
        "Prints what would make the directory open again and what that gives up; changes nothing without "
        "--apply. The exit status of a plan is 1 when nothing acknowledged is lost and 3 when something is. The "
        "originals of all files that change are kept in kept/TIME-REASON; --undo gives them back, byte for byte, "
        "unless the directory was written to since. A repair that fails or is interrupted is taken back at once."
    ),
    examples=(
        "flintlog repair queues",
        "flintlog repair queues --apply",
        "flintlog repair queues --undo",
        "flintlog repair queues --undo 20260301T031500Z-torn-tail --dry-run",
    ),
    add_options=_repair_options,
    run=_repair,
)

SNAPSHOT = Verb(
    name="snapshot",
    summary="write the state to a snapshot, drop what it covers",
    description=(
        "Writes the live state to a snapshot and removes the files that it makes superfluous. Everything up "
        "to the position counts as agreed: on a replica, give --as-of a position that is committed. Where only "
        "the application knows what the entries mean (zmqraft), it writes its state to a file, and --as-of says "
        "which index the file is of; the log goes on behind it. Of keys and values (limestone) it writes the sorted "
        "state at an epoch to data/snapshot and leaves everything else."
    ),
    examples=(
        "flintlog snapshot queues --dry-run",
        "flintlog snapshot queues",
        "flintlog snapshot queues --as-of 500",
        "flintlog snapshot peer --as-of 500 --data state.bin",
    ),
    add_options=_snapshot_options,
    run=_snapshot,
)

COMPACT = Verb(
    name="compact",
    summary="drop what is no longer needed",
    description=(
        "Removes the files that a snapshot covers. Where Flintlog knows what the entries mean (taskflux) it "
        "writes that snapshot first; where only the application does (zmqraft) the newest one counts. Sessions "
        "that wait (mpy6a) are in no snapshot: what is unread of old files is merged, and what is read goes. Of "
        "keys and values (limestone) the durable state is written to compacted files, and the logs go."
    ),
    examples=(
        "flintlog compact peer --dry-run",
        "flintlog compact peer",
        "flintlog compact store --engine spark --master spark://host:7077",
    ),
    add_options=_compact_options,
    run=_compact,
)

MIGRATE = Verb(
    name="migrate",
    summary="write another edition, or upgrade the version",
    description=(
        "With --edition and --to: writes the log in another edition to a new place and proves the two states "
        "equal before it is published. The directory itself stays as it is. Without them: brings the directory, in "
        "its place, to the version of the format that is written now (limestone), as opening a store does. Releases "
        "that know only the older version read it no more."
    ),
    examples=(
        "flintlog migrate queues --edition designed --to queues-designed --dry-run",
        "flintlog migrate accounts --dry-run",
        "flintlog migrate accounts",
    ),
    add_options=_migrate_options,
    run=_migrate,
)
