"""`completion`: a script that lets a shell complete verbs, options and directories, written from the parsers."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

from flintlog.cli.output import Output
from flintlog.cli.verb import Verb
from flintlog.errors import EXIT_OK


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=tuple(_SCRIPTS), metavar="SHELL", help="bash, zsh or fish")


def _run(arguments: argparse.Namespace, output: Output) -> int:
    lines = list(_SCRIPTS[arguments.shell]())
    output.summary({"shell": arguments.shell, "script": "\n".join(lines) + "\n"}, lines)
    return EXIT_OK


def _verbs() -> dict[str, tuple[Verb, list[argparse.Action]]]:
    from flintlog.cli.main import VERBS, verb_parser  # they know this verb too

    return {verb.name: (verb, list(verb_parser(verb)._actions)) for verb in VERBS}


def _bash() -> Iterator[str]:
    verbs = _verbs()
    yield "# flintlog completion for bash: source <(flintlog completion bash)"
    yield "_flintlog() {"
    yield '    local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" options="" places=""'
    yield "    if [ $COMP_CWORD -eq 1 ]; then"
    yield f'        COMPREPLY=($(compgen -W "{" ".join(verbs)} --help --version" -- "$word"))'
    yield "        return"
    yield "    fi"
    yield '    case "${COMP_WORDS[1]} $before" in'
    for name, (_, actions) in verbs.items():
        for action in actions:
            if action.choices and action.option_strings:
                pattern = "|".join(f'"{name} {option}"' for option in action.option_strings)
                yield f'        {pattern}) COMPREPLY=($(compgen -W "{_words(action)}" -- "$word")); return;;'
    yield "    esac"
    yield '    case "${COMP_WORDS[1]}" in'
    for name, (_, actions) in verbs.items():
        options = [option for action in actions for option in action.option_strings]
        places = [_words(action) for action in actions if not action.option_strings and action.choices]
        yield f'        {name}) options="{" ".join(options)}" places="{" ".join(places)}";;'
    yield "    esac"
    yield '    case "$word" in'
    yield '        -*) COMPREPLY=($(compgen -W "$options" -- "$word"));;'
    yield '        *) COMPREPLY=($(compgen -W "$places" -- "$word") $(compgen -f -- "$word"));;'
    yield "    esac"
    yield "}"
    yield "complete -o filenames -F _flintlog flintlog"


def _words(action: argparse.Action) -> str:
    return " ".join(map(str, action.choices or ()))


def _zsh() -> Iterator[str]:
    verbs = _verbs()
    yield "#compdef flintlog"
    yield "_flintlog() {"
    yield "    local -a verbs options"
    yield "    verbs=("
    for name, (verb, _) in verbs.items():
        yield f"        {_quoted(f'{name}:{verb.summary}')}"
    yield "    )"
    yield "    if (( CURRENT == 2 )); then _describe verb verbs; return; fi"
    yield '    case "$words[2]" in'
    for name, (_, actions) in verbs.items():
        described = [
            _quoted(f"{option}:{action.help}") for action in actions for option in action.option_strings
        ]
        yield f"        {name}) options=({' '.join(described)});;"
    yield "    esac"
    yield '    if [[ "$words[CURRENT]" == -* ]]; then _describe option options; else _files; fi'
    yield "}"
    yield "compdef _flintlog flintlog"


def _fish() -> Iterator[str]:
    yield "# flintlog completion for fish: flintlog completion fish | source"
    for name, (verb, actions) in _verbs().items():
        yield f"complete -c flintlog -n __fish_use_subcommand -f -a {name} -d {_quoted(verb.summary)}"
        for action in actions:
            for option in action.option_strings:
                kind = f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
                value = f" -x -a {_quoted(_words(action))}" if action.choices else ""
                seen = _quoted(f"__fish_seen_subcommand_from {name}")
                yield f"complete -c flintlog -n {seen} {kind}{value} -d {_quoted(action.help or '')}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "") + "'"


_SCRIPTS: dict[str, Callable[[], Iterator[str]]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}

COMPLETION = Verb(
    name="completion",
    summary="a script for your shell that completes verbs and options",
    description=(
        "Prints a script that lets bash, zsh or fish complete verbs, options and file names. Load it in the file "
        "that your shell reads when it starts."
    ),
    examples=(
        "flintlog completion bash > ~/.flintlog-completion",
        "flintlog completion fish > ~/.config/fish/completions/flintlog.fish",
    ),
    add_options=_add_options,
    run=_run,
    takes_directory=False,
)
