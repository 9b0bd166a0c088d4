"""The code blocks of a Markdown page, and a shell that plays the console ones."""

from __future__ import annotations

import atexit
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SHOWN_HOME = "/srv/app"  # where the pages say that the reader stands
_MOMENT = re.compile(r"\d{8}T\d{6}Z|\d{4}(?:-\d\d){2}T\d\d(?::\d\d){2}\+00:00")


@dataclass(frozen=True)
class Block:
    """A fenced block; `output` is the text block that follows it directly, or None."""

    language: str
    text: str
    output: str | None


def blocks(page: Path) -> list[Block]:
    """All fenced blocks that have a language, in order."""
    found = re.findall(
        r"^```(\w+)\n(.*?)^```\n(?:\n```text\n(.*?)^```$)?", page.read_text(), re.DOTALL | re.MULTILINE
    )
    return [Block(language, text, output or None) for language, text, output in found]


def commands(text: str) -> Iterator[tuple[str, str]]:
    """Each command of a console block, with the output that the page shows."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command, output


@functools.cache
def tools() -> Path:
    """A directory with the command `flintlog`, which is served by one warm process until this one ends."""
    folder = Path(tempfile.mkdtemp(prefix="flintlog-pages-"))
    atexit.register(shutil.rmtree, folder)
    door = [str(Path(__file__).with_name("warm_flintlog.py")), str(folder / "door")]
    server = subprocess.Popen(
        [sys.executable, *door],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=dict(os.environ, PYTHONPATH=str(ROOT / "src")),
    )
    atexit.register(server.wait)
    atexit.register(server.stdin.close)  # type: ignore[union-attr]
    assert server.stdout.readline() == b"ready\n"  # type: ignore[union-attr]
    script = folder / "flintlog"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -IS {" ".join(door)} "$@"\n')
    script.chmod(0o755)
    return folder


def play(command: str, home: Path) -> str:
    """What a command prints in `home`, with `flintlog` on the path; its own errors are part of it."""
    environment = dict(
        os.environ,
        PATH=f"{tools()}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        PYTHONPATH=str(ROOT / "src"),
    )
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=home,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        timeout=300,  # a watchdog, no measure
    )
    return done.stdout.replace(str(home), SHOWN_HOME)


def timeless(text: str) -> str:
    """The text with every moment replaced by the same one."""
    return _MOMENT.sub("00000000T000000Z", text)


def play_page(page: Path, home: Path, capsys: Any, skip: str = "\0") -> int:
    """Play all blocks of a page in their order, in `home`, which is the working directory; returns how many.

    Python must print the text block behind it, a command what stands below it. Blocks with `skip` in them are left out.
    """
    played = 0
    for block in blocks(page):
        if skip in block.text:
            continue
        if block.language == "python":
            exec(compile(block.text, page.name, "exec"), {})
            assert capsys.readouterr().out.replace(str(home), SHOWN_HOME) == (block.output or "")
            played += 1
        elif block.language == "console":
            for command, output in commands(block.text):
                assert timeless(play(command, home)) == timeless(output), command
                played += 1
    return played
