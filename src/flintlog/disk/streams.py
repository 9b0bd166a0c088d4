"""The three standard streams, of which the caller may have closed some."""

from __future__ import annotations

import io
import os
import sys


def fill_standard_streams() -> None:
    """Open closed streams on nothing. Otherwise the next file that is opened would take their place.

    `sys.stdin` stays None, so that no verb takes it for an empty input.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            number = os.open(os.devnull, os.O_RDWR)
            if name != "stdin":
                stream = io.FileIO(number, "w")
                setattr(sys, name, io.TextIOWrapper(stream, "utf-8", "backslashreplace", write_through=True))
