"""How far a long verb is, with its rate and the time left: on a terminal only, nothing in a pipe.

With `--progress json` a program reads it: one object per line on the standard error.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from flintlog.cli.terminal import human_size
from flintlog.disk import Disk, Kernel, KernelInFront

_REDRAW_SECONDS = 0.1
UNKNOWN = -1  # the total of work whose end is not known
_ERASE = "\r\x1b[K"


class Meter:
    """Long work calls it with the bytes done and the bytes in all. This one shows nothing.

    `expected` stands in for a total that the caller does not know.
    """

    expected = UNKNOWN

    def __call__(self, done: int, total: int) -> None:
        """`done` of `total` bytes are done."""

    def total(self, total: int) -> int:
        return self.expected if total == UNKNOWN else total


class ProgressLine(Meter):
    """One line, drawn again and again in the same place."""

    def __init__(self, what: str, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._what = what
        self._stream = stream
        self._clock = clock
        self._started = clock()
        self._drawn_at = self._started  # work that ends at once draws nothing
        self._drawn = False
        self._last = (0, UNKNOWN)

    def __call__(self, done: int, total: int) -> None:
        now = self._clock()
        total = self.total(total)
        if total != self._last[1] or done < self._last[0]:  # other work, with a rate of its own
            self._started = now
        self._last = (done, total)
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


class ProgressObjects(Meter):
    """One JSON object per line: while it works, and at the end."""

    def __init__(self, what: str, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._what = what
        self._stream = stream
        self._clock = clock
        self._started = self._told_at = clock()
        self._last = (0, UNKNOWN)

    def __call__(self, done: int, total: int) -> None:
        self._last = (done, self.total(total))
        if self._clock() - self._told_at >= _REDRAW_SECONDS:
            self._tell(finished=False)

    def finish(self) -> None:
        """The last line; after an error there is none."""
        self._tell(finished=True)

    def _tell(self, *, finished: bool) -> None:
        done, total = self._last
        self._told_at = self._clock()
        value = {
            "verb": self._what,
            "done_bytes": done,
            "total_bytes": None if total == UNKNOWN else max(done, total),
            "seconds": round(self._told_at - self._started, 3),
            "finished": finished,
        }
        self._stream.write(json.dumps(value) + "\n")
        self._stream.flush()


def progress_option(parser: argparse.ArgumentParser) -> None:
    """Add the option of verbs that may take long."""
    parser.add_argument(
        "--progress",
        choices=("auto", "json", "none"),
        default="auto",
        metavar="FORM",
        help="auto (a line on a terminal, the default), json (objects on the standard error), or none",
    )


def output_form(form: str) -> str:
    """The form for a verb that prints rows as it goes: on the same terminal the line would stand among the rows."""
    return "none" if form == "auto" and sys.stdout.isatty() else form


@contextmanager
def progress(what: str, form: str = "auto") -> Iterator[Meter]:
    """A meter to hand to a dialect, in the form asked for."""
    if form == "json":
        objects = ProgressObjects(what, sys.stderr)
        yield objects
        objects.finish()
        return
    if form == "none" or not sys.stderr.isatty():
        yield Meter()
        return
    line = ProgressLine(what, sys.stderr)
    try:
        yield line
    finally:
        line.erase()


def watched(disk: Disk, tick: Meter) -> Disk:
    """The same disk, which tells `tick` what it reads and writes."""
    return disk if type(tick) is Meter else Disk(_CountingKernel(disk.kernel, tick), tick)


class _CountingKernel(KernelInFront):
    """Hands every call on, and tells how many bytes were written."""

    def __init__(self, kernel: Kernel, tick: Meter) -> None:
        super().__init__(kernel)
        self._tick = tick
        self._written = 0

    def pwrite(self, handle: int, data: memoryview, offset: int) -> int:
        done = self._kernel.pwrite(handle, data, offset)
        self._written += done
        self._tick(self._written, UNKNOWN)
        return done


def progress_text(what: str, done: int, total: int, elapsed_seconds: float) -> str:
    """`verify: 40% of 1.0 GiB, 512.0 MiB/s, 1 s left`; of an unknown total `compact: 1.0 GiB written, 512.0 MiB/s`."""
    share = min(100, 100 * done // total) if total > 0 else 100
    rate = done / elapsed_seconds if elapsed_seconds > 0 else 0.0
    if total == UNKNOWN:
        return f"{what}: {human_size(done)} written, {human_size(int(rate))}/s"
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
