"""The command `flintlog VERB DIR`: reads the arguments, runs the verb, turns an error into one line.

Loads neither Arrow nor Numba nor Spark, so that `--help` and a wrong path answer at once.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import textwrap
import traceback
from collections.abc import Sequence
from typing import TextIO

from flintlog import __version__
from flintlog.cli.backup import BACKUP, RESTORE
from flintlog.cli.completion import COMPLETION
from flintlog.cli.diff import DIFF
from flintlog.cli.doctor import DOCTOR
from flintlog.cli.dump import DUMP
from flintlog.cli.export import EXPORT
from flintlog.cli.look import INSPECT, VERIFY
from flintlog.cli.output import choose_output
from flintlog.cli.state import STATE
from flintlog.cli.tail import TAIL
from flintlog.cli.terminal import visible
from flintlog.cli.upkeep import COMPACT, MIGRATE, REPAIR, SNAPSHOT
from flintlog.cli.verb import Verb
from flintlog.cli.web import WEB
from flintlog.disk.streams import fill_standard_streams
from flintlog.errors import EXIT_REFUSED, FlintlogError

VERBS: tuple[Verb, ...] = (
    INSPECT,
    DUMP,
    TAIL,
    STATE,
    VERIFY,
    REPAIR,
    SNAPSHOT,
    COMPACT,
    MIGRATE,
    BACKUP,
    RESTORE,
    EXPORT,
    DIFF,
    WEB,
    DOCTOR,
    COMPLETION,
)

EXIT_INTERRUPTED = 130  # as a shell reports SIGINT
EXIT_READER_GONE = 141  # as a shell reports SIGPIPE

_HELP_WIDTH = 80

EXIT_STATUSES = """\
exit status:
  0  fine
  1  damage found, and repairable; or replicas that differ
  2  wrong usage
  3  damage that needs a decision, or an operation refused
  4  not a log directory, or a version this release does not know"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; returns the exit status."""
    fill_standard_streams()
    arguments = argparse.Namespace(debug=False)
    try:
        arguments = _parsed(argv)
        status = _run(arguments)
        sys.stdout.flush()
        return status
    except FlintlogError as error:
        return _fail(str(error), error.exit_status, arguments)
    except KeyboardInterrupt as interrupt:
        told = str(interrupt) or "nothing was changed"
        return _fail(f"interrupted; {told[0].lower()}{told[1:]}", EXIT_INTERRUPTED, arguments)
    except BrokenPipeError:
        _drop_output()
        return EXIT_READER_GONE
    except OSError as error:  # an error of the log directory is a FlintlogError
        _drop_output()
        return _fail(f"the output could not be written: {error.strerror}", EXIT_REFUSED, arguments)
    except Exception as error:
        what = f"{type(error).__name__}: {error}. This is a fault in flintlog; --debug shows where"
        return _fail(what, EXIT_REFUSED, arguments)


def build_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="flintlog",
        description="Looks at, checks and keeps write-ahead log directories. The dialect is detected.",
        epilog=f"example:\n  flintlog verify queues\n\n{EXIT_STATUSES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--version", action="version", version=f"flintlog {__version__}", help="show the version and exit"
    )
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", dest="verb", required=True)
    for verb in VERBS:
        _add_verb(verbs, verb)
    return parser


def _add_verb(verbs: argparse._SubParsersAction[argparse.ArgumentParser], verb: Verb) -> None:
    examples = "\n".join(f"  {example}" for example in verb.examples)
    parser = verbs.add_parser(
        verb.name,
        help=verb.summary,
        description=textwrap.fill(verb.description, _HELP_WIDTH),
        epilog=f"example:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=verb.run)
    if verb.takes_directory:
        named = parser.add_argument("directory", metavar="DIR", help="the log directory")
    verb.add_options(parser)
    words = [action for action in parser._actions if not action.option_strings]
    # A verb that takes a second word needs both: one word alone could be either.
    if verb.takes_directory and len(words) == 1:
        named.nargs, named.required, named.default = "?", False, "."
        named.help = "the log directory (. if not given)"
    parser.add_argument("--json", action="store_true", help="print JSON, one object per line")
    parser.add_argument("--debug", action="store_true", help="show the trace of an error")


def _parsed(argv: Sequence[str] | None) -> argparse.Namespace:
    try:
        return build_parser().parse_args(argv)
    except SystemExit:
        sys.stdout.flush()  # help or version: a failed write is reported as for every verb
        raise


def _run(arguments: argparse.Namespace) -> int:
    status: int = arguments.run(arguments, choose_output(as_json=arguments.json))
    return status


def _drop_output(stream: TextIO | None = None) -> None:
    """Close the standard output, so that Python does not try to write the rest at exit."""
    with contextlib.suppress(OSError):
        (stream or sys.stdout).close()


def _fail(what: str, status: int, arguments: argparse.Namespace) -> int:
    if not sys.stdout.closed:
        try:
            sys.stdout.flush()  # what the verb found before the error comes first
        except OSError:
            _drop_output()
    try:
        if arguments.debug:
            traceback.print_exc()
        print(f"flintlog: {visible(' '.join(what.split()))}", file=sys.stderr)
    except (OSError, ValueError):  # no message can be printed, but the status stays; ValueError: it is closed
        _drop_output(sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
