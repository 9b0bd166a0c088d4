"""Writes into pages what their blocks print now: `python -m scripts.pages.fill_pages docs/runbooks.md docs/verbs/*.md`.

For sessions that were changed, or that a change of the program has made say something else. Look at the difference
afterwards: it is what a reader will see. Moments that differ are left as they are.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import tempfile
from pathlib import Path

from scripts.pages.page_blocks import ROOT, SHOWN_HOME, blocks, commands, play, timeless

_BLOCK = re.compile(r"^```(python|console)\n(.*?)^```\n(?:\n```text\n.*?^```\n)?", re.DOTALL | re.MULTILINE)
_LOGS = ROOT / "docs" / "verbs" / "README.md"  # what every page of that folder begins with


def filled(page: Path, home: Path) -> str:
    """The page with the output of every block, played in `home`, which is the working directory."""

    def fill(found: re.Match[str]) -> str:
        language, text = found.groups()
        if "spark" in text:
            return found[0]
        if language == "python":
            printed = run(text).replace(str(home), SHOWN_HOME)
            return f"```python\n{text}```\n" + (f"\n```text\n{printed}```\n" if printed else "")
        lines = []
        for command, shown in commands(text):
            printed = play(command, home)
            lines.append(f"$ {command}\n{shown if timeless(shown) == timeless(printed) else printed}")
        return f"```console\n{''.join(lines)}```\n"

    if page.parent == _LOGS.parent and page != _LOGS:
        for block in blocks(_LOGS):
            run(block.text)
    return _BLOCK.sub(fill, page.read_text())


def run(text: str) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(text, "page", "exec"), {})
    return printed.getvalue()


def main(names: list[str]) -> None:
    for page in [Path(name).resolve() for name in names]:
        with tempfile.TemporaryDirectory() as folder:
            home = Path(folder).resolve() / "app"
            home.mkdir()
            os.chdir(home)
            page.write_text(filled(page, home))
        print(page)


if __name__ == "__main__":
    main(sys.argv[1:])
