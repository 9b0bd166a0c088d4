"""What a verb of the command line is: its words, its options, and the function that runs it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass

from flintlog.cli.output import Output
from flintlog.core.log import Log, open_log
from flintlog.core.position import Position, parse_position
from flintlog.errors import UsageError

Run = Callable[[argparse.Namespace, Output], int]


@dataclass(frozen=True, slots=True)
class Verb:
    """One word after `flintlog`. `run` returns the exit status."""

    name: str
    summary: str
    description: str
    examples: tuple[str, ...]
    add_options: Callable[[argparse.ArgumentParser], None]
    run: Run
    takes_directory: bool = True


def named_log(arguments: argparse.Namespace) -> Log:
    """The named log directory."""
    return open_log(arguments.directory)


def no_options(parser: argparse.ArgumentParser) -> None:
    """For a verb without options of its own."""


def position(text: str) -> Position:
    """A position among the arguments."""
    try:
        return parse_position(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def count(text: str) -> int:
    """A count among the arguments: zero or more."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return min(int(text), sys.maxsize)  # no sequence of Python is longer
