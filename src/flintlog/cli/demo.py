"""`demo`: sample logs in `.demo`: a walk with the commands an operator would type, or the main job on Spark."""

from __future__ import annotations

import argparse
import json
import shlex
import sys

from flintlog.cli.output import Output
from flintlog.cli.verb import Verb
from flintlog.core.dialect import dialect_names
from flintlog.disk import Disk
from flintlog.errors import EXIT_OK, EXIT_REPAIRABLE, RefusedError, UsageError

_PLACE = ".demo"
_FIRST = "taskflux"

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
_AT_THE_END: Walk = (("inspect {log}", EXIT_OK), ("state {log}", EXIT_OK))


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "dialect",
        metavar="DIALECT",
        nargs="?",
        choices=dialect_names(),
        help=f"what the log speaks: {', '.join(dialect_names())} ({_FIRST} if not given)",
    )
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
        if arguments.dialect is not None:
            raise UsageError("the main job has all dialects", advice="Leave the dialect or --spark out")
        from flintlog.demo.walk import told, walk
        from flintlog.pipeline.session import refuse_without_java

        refuse_without_java()
        report = walk(log, lambda text: _say(text))
        print(json.dumps(report.json()) if arguments.json else told(report))
        return EXIT_OK
    from flintlog.demo.samples import SAMPLES

    sample = SAMPLES[arguments.dialect or _FIRST]
    _say(f"{sample.what}, written to {log}")
    sample.write(log)
    _walk(_FIRST_LOOK, log, as_json=arguments.json)
    _say("A crash tears a record that nobody was told about")
    sample.tear.apply(disk, log)
    _walk(_AFTER_THE_CRASH, log, as_json=arguments.json)
    _say("Upkeep")
    if sample.state is not None:
        state = disk.resolve(_state_file(log))
        disk.publish(state, [sample.state], scratch=f"{state}.new")
    _walk(tuple((command, EXIT_OK) for command in sample.upkeep), log, as_json=arguments.json)
    _walk(_AT_THE_END, log, as_json=arguments.json)
    _say(f"Everything is in {log}; look around")
    return EXIT_OK


def _free_place(disk: Disk) -> str:
    """A directory that no earlier demo used: nothing is ever overwritten."""
    taken = disk.list(_PLACE)
    number = 1
    while f"run-{number}" in taken:
        number += 1
    return f"{_PLACE}/run-{number}"


def _state_file(log: str) -> str:
    return f"{log}-state"


def _walk(walk: Walk, log: str, *, as_json: bool) -> None:
    from flintlog.cli.main import main  # which knows this verb in turn

    for command, expected in walk:
        words = shlex.split(command.format(log=log, state=_state_file(log))) + (["--json"] if as_json else [])
        print(f"\n$ flintlog {shlex.join(words)}", flush=True)
        status = main(words)
        if sys.stdout.closed:  # whoever read this has gone
            raise BrokenPipeError
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
        "Writes a sample log to a new directory below .demo, shows it with the other verbs, tears a "
        "record as a crash does, repairs it and does some upkeep. Prints each command in front of its output. "
        "With --spark: writes logs of all four dialects, kills their writers, exports, verifies, recovers and "
        "compacts them on Spark in local[*], damages and repairs a copy, and ends with a report and a picture."
    ),
    examples=("flintlog demo", "flintlog demo limestone", "flintlog demo --spark"),
    add_options=_add_options,
    run=_run,
    takes_directory=False,
)
