"""`completion`: a script that lets a shell complete verbs, options and directories. shtab makes it from the parsers."""

from __future__ import annotations

import argparse

from flintlog.cli.output import Output
from flintlog.cli.verb import Verb
from flintlog.errors import EXIT_OK

_SHELLS = ("bash", "zsh", "fish")
# What the shell completes for each metavar.
_KINDS = {
    "DIR": "DIRECTORY",
    "NEWDIR": "DIRECTORY",
    "PLACE": "DIRECTORY",
    "TARGET": "DIRECTORY",
    "FILE": "FILE",
}


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=_SHELLS, metavar="SHELL", help="bash, zsh or fish")


def _run(arguments: argparse.Namespace, output: Output) -> int:
    import shtab

    from flintlog.cli.main import build_parser  # which knows this verb too

    parser = build_parser()
    _name_places(parser)
    script = shtab.complete(parser, arguments.shell)
    output.summary({"shell": arguments.shell, "script": script}, script.splitlines())
    return EXIT_OK


def _name_places(parser: argparse.ArgumentParser) -> None:
    """Tell shtab which words are directories and files."""
    import shtab

    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for verb in action.choices.values():
                _name_places(verb)
        elif action.metavar in _KINDS:
            action.complete = getattr(shtab, _KINDS[action.metavar])  # type: ignore[attr-defined]


COMPLETION = Verb(
    name="completion",
    summary="a script for your shell that completes verbs and options",
    description=(
        "Prints a script that lets bash, zsh or fish complete verbs, options, directories and files. Load it in the "
        "file that your shell reads when it starts."
    ),
    examples=(
        "flintlog completion bash > ~/.flintlog-completion",
        "flintlog completion fish > ~/.config/fish/completions/flintlog.fish",
    ),
    add_options=_add_options,
    run=_run,
    takes_directory=False,
)
