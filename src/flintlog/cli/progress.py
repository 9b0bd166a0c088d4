"""How far a long verb is, with its rate and the time left: on a terminal only, nothing in a pipe."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from flintlog.cli.terminal import human_size
from flintlog.core.dialect import Progress, no_progress

_REDRAW_SECONDS = 0.1
_ERASE = "\r\x1b[K"


class ProgressLine:
    """One line that is drawn over itself."""

    def __init__(self, what: str, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._what = what
        self._stream = stream
        self._clock = clock
        self._started = clock()
        self._drawn_at = self._started  # what ends at once draws nothing
        self._drawn = False

    def __call__(self, done: int, total: int) -> None:
        now = self._clock()
        if now - self._drawn_at < _REDRAW_SECONDS:
            return
        self._drawn_at = now
        self._drawn = True
        self._stream.write(_ERASE + progress_text(self._what, done, total, now - self._started))
        self._stream.flush()

    def erase(self) -> None:
        """Leave the line as it was before."""
        if self._drawn:
            self._stream.write(_ERASE)
            self._stream.flush()


@contextmanager
def progress(what: str) -> Iterator[Progress]:
    """A progress to hand to a dialect, drawn on the standard error when that is a terminal."""
    if not sys.stderr.isatty():
        yield no_progress
        return
    line = ProgressLine(what, sys.stderr)
    try:
        yield line
    finally:
        line.erase()


def progress_text(what: str, done: int, total: int, elapsed_seconds: float) -> str:
    """`verify: 40% of 1.0 GiB, 512.0 MiB/s, 1 s left`."""
    share = min(100, 100 * done // total) if total > 0 else 100
    rate = done / elapsed_seconds if elapsed_seconds > 0 else 0.0
    text = f"{what}: {share}% of {human_size(total)}, {human_size(int(rate))}/s"
    if rate > 0:
        text += f", {_duration(max(0, total - done) / rate)} left"
    return text


def _duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"
