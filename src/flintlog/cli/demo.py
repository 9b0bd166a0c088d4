"""`demo`: sample logs in `.demo`: a walk with the commands an operator would type, or the main job on Spark."""

from __future__ import annotations

import argparse
import json
import posixpath
import shlex
import sys

from flintlog.cli.output import Output
from flintlog.cli.verb import Verb
from flintlog.disk import Disk
from flintlog.errors import EXIT_OK, EXIT_REPAIRABLE, RefusedError

_PLACE = ".demo"
_ORDERS = 12
_RECORD_START = 8  # behind the header of a segment
_TORN_BYTES = 10
_END_MARKER_BYTES = 4

# Each command with the exit status it ends with.
Walk = tuple[tuple[str, int], ...]

_FIRST_LOOK: Walk = (
    ("inspect {log}", EXIT_OK),
    ("dump {log} --limit 6", EXIT_OK),
    ("dump {log} --hex --limit 1", EXIT_OK),
    ("state {log}", EXIT_OK),
    ("verify {log}", EXIT_OK),
)
_AFTER_THE_CRASH: Walk = (
    ("verify {log}", EXIT_REPAIRABLE),
    ("repair {log}", EXIT_REPAIRABLE),
    ("repair {log} --apply", EXIT_OK),
    ("verify {log}", EXIT_OK),
)
_UPKEEP: Walk = (
    ("snapshot {log} --dry-run", EXIT_OK),
    ("snapshot {log}", EXIT_OK),
    ("inspect {log}", EXIT_OK),
    ("state {log}", EXIT_OK),
)


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--spark",
        action="store_true",
        help="the main job instead: logs of all dialects, killed, recovered and compacted on Spark, with a report and"
        " a picture (needs flintlog[spark] and Java)",
    )


def _run(arguments: argparse.Namespace, output: Output) -> int:
    disk = Disk()
    log = _free_place(disk)
    if arguments.spark:
        from flintlog.demo.walk import told, walk

        report = walk(log, lambda text: _say(text))
        print(json.dumps(report.json()) if arguments.json else told(report))
        return EXIT_OK
    _say(f"Two queues, {_ORDERS + 2} records, written to {log}")
    _write_queues(log)
    _walk(_FIRST_LOOK, log, as_json=arguments.json)
    _say("A crash tears a record that nobody was told about")
    _tear(disk, log)
    _walk(_AFTER_THE_CRASH, log, as_json=arguments.json)
    _say("Upkeep: the state in a snapshot")
    _walk(_UPKEEP, log, as_json=arguments.json)
    _say(f"Everything is in {log}; look around")
    return 0


def _free_place(disk: Disk) -> str:
    """A directory that no earlier demo used: nothing is ever overwritten."""
    taken = disk.list(_PLACE)
    number = 1
    while f"run-{number}" in taken:
        number += 1
    return f"{_PLACE}/run-{number}"


def _write_queues(log: str) -> None:
    from flintlog.dialects.taskflux.store import QueueStore  # brings NumPy and Numba along

    with QueueStore(log) as store:
        orders = store.create("orders", max_payload=1024)
        mail = store.create("mail", key_range=(0, 9))
        keys = [number % 3 for number in range(_ORDERS)]
        orders.add_many([f"order {number}".encode() for number in range(_ORDERS)], keys)
        mail.add(b"welcome", key=5)
        mail.add(b"urgent: disk almost full", key=0)
        for _ in range(4):
            order = orders.take()
            if order is not None:
                order.ack()
        orders.take()  # never acknowledged, so it is still there


def _tear(disk: Disk, log: str) -> None:
    """Put the beginning of a record where the next one would stand, as a crash in mid-write leaves it."""
    folder = disk.resolve(f"{log}/data/log")
    newest = posixpath.join(folder, disk.list(folder)[-1])
    with disk.open(newest, "write") as file:
        torn = file.pread(_TORN_BYTES, _RECORD_START)
        file.pwrite(torn, file.size() - _END_MARKER_BYTES)
        file.sync()


def _walk(walk: Walk, log: str, *, as_json: bool) -> None:
    from flintlog.cli.main import main  # which knows this verb in turn

    for command, expected in walk:
        words = shlex.split(command.format(log=log)) + (["--json"] if as_json else [])
        print(f"\n$ flintlog {shlex.join(words)}", flush=True)
        status = main(words)
        if status:
            print(f"(exit status {status})")
        if status != expected:
            raise RefusedError(
                f"`flintlog {shlex.join(words)}` ended with {status} instead of {expected}", file=log
            )


def _say(text: str) -> None:
    print(f"\n{text}.", file=sys.stderr, flush=True)


DEMO = Verb(
    name="demo",
    summary="write sample logs to .demo and walk through them",
    description=(
        "Writes sample queues to a new directory below .demo, shows them with the other verbs, tears a "
        "record as a crash does, repairs it and takes a snapshot. Prints each command in front of its output. "
        "With --spark: writes logs of all four dialects, kills their writers, exports, verifies, recovers and "
        "compacts them on Spark in local[*], damages and repairs a copy, and ends with a report and a picture."
    ),
    examples=("flintlog demo", "flintlog demo --spark"),
    add_options=_add_options,
    run=_run,
    takes_directory=False,
)
