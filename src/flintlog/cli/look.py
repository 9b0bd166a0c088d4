"""`inspect` and `verify`: what is here, and is it whole."""

from __future__ import annotations

import argparse

from flintlog.cli.engine import engine_options, workers
from flintlog.cli.output import Output
from flintlog.cli.progress import progress, progress_option
from flintlog.cli.verb import Verb, named_log, no_options


def _inspect(arguments: argparse.Namespace, output: Output) -> int:
    log = named_log(arguments)
    inventory = log.inspect()
    output.inventory(inventory)
    return inventory.exit_status


def _verify_options(parser: argparse.ArgumentParser) -> None:
    engine_options(parser)
    progress_option(parser)


def _verify(arguments: argparse.Namespace, output: Output) -> int:
    log = named_log(arguments)
    with workers(arguments) as who, progress("verify", arguments.progress) as tick:
        inventory = log.verify(tick, who)
    output.verification(inventory)
    return inventory.exit_status


INSPECT = Verb(
    name="inspect",
    summary="what is here: files, roles, ranges, sizes, health",
    description=(
        "Shows the files of a log directory with their roles, ranges and sizes, and its health in one line. "
        "Reads what no snapshot covers. Changes nothing and works on a live directory."
    ),
    examples=("flintlog inspect queues", "flintlog inspect queues --json"),
    add_options=no_options,
    run=_inspect,
)

VERIFY = Verb(
    name="verify",
    summary="every file clean, or its first bad byte",
    description=(
        "Reads every byte and checks everything the dialect knows. Changes nothing and works on a live "
        "directory. The exit status is the verdict: 0 clean, 1 repairable, 3 corrupt, 4 unsupported."
    ),
    examples=(
        "flintlog verify queues",
        "flintlog verify queues --json",
        "flintlog verify store --engine spark",
    ),
    add_options=_verify_options,
    run=_verify,
)
