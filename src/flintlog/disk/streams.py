"""The three streams that a program begins with, where its caller closed some of them."""

from __future__ import annotations

import io
import os
import sys


def fill_standard_streams() -> None:
    """Let closed streams lead nowhere. Otherwise the next file that is opened would stand in their place.

    `sys.stdin` stays None, so that nothing is taken for an empty input.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            number = os.open(os.devnull, os.O_RDWR)
            if name != "stdin":
                stream = io.FileIO(number, "w")
                setattr(sys, name, io.TextIOWrapper(stream, "utf-8", "backslashreplace", write_through=True))
