"""What a writing verb does: all of it, or nothing.

An error or Ctrl-C takes back what was done so far. When the work is so far that it can only be finished, the first
Ctrl-C waits for that; the second one stops at once, which is as safe as a crash.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from flintlog.core.plan import Plan
from flintlog.disk import Disk, ReversibleKernel
from flintlog.errors import DiskError, FlintlogError, tell

NOTHING_CHANGED = "Nothing was changed"
WHOLE = "Everything is whole, as it was or with the work done, and it is safe to run it again"
FINISHED = "It came when the work could only be finished, and so that was done"


class Deed:
    """One deed, done through `disk`.

    `publishes`: a file that gets its name is there for others to see. `by_workers`: the disk stays a plain one, because
    workers take it with them, and what they do is not taken back.
    """

    def __init__(self, disk: Disk, *, publishes: bool = False, by_workers: bool = False) -> None:
        self._patience = _Patience()
        self._kernel = ReversibleKernel(disk.kernel, publishes=publishes, on_final=self._patience.begin)
        self._kernel.final = by_workers
        self.disk = disk if by_workers else Disk(self._kernel, disk.progress)

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Do it inside of this."""
        with self._patience:
            try:
                yield
            except (FlintlogError, KeyboardInterrupt) as error:
                if self._kernel.touched or isinstance(error, KeyboardInterrupt | DiskError):
                    self._patience.begin()
                    tell(error, self._taken_back())
                raise
            finally:
                self._kernel.release()

    def of(self, plan: Plan) -> Plan:
        """The same plan, carried out as this deed."""

        def act() -> str:
            with self():
                return plan.act()

        return replace(plan, act=act)

    def _taken_back(self) -> str:
        if self._kernel.final:
            return WHOLE
        try:
            self._kernel.take_back()
        except FlintlogError as error:
            return f"It could not all be taken back ({error.what()}). {WHOLE}"
        return NOTHING_CHANGED


class _Patience:
    """From `begin` on, the first Ctrl-C waits for the end of the block."""

    def __init__(self) -> None:
        self._before: Callable[..., Any] | int | None = None
        self._came = False

    def begin(self) -> None:
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background: nothing to wait for
            return
        if self._before is None and threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._wait)

    def _wait(self, *_: object) -> None:
        self._came = True
        self._restore()

    def _restore(self) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            self._before = None

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, *_: object) -> None:
        self._restore()
        if self._came and kind is None:
            raise KeyboardInterrupt(FINISHED)
