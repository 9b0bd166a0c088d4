"""When a store takes no more work: after a failed write, when it is closed, and in a forked child.

After a failed write the content of the disk is unknown, so the store writes nothing more. The kernel may drop dirty
pages after a failed fsync and report success the next time; only reading the files again, as opening does, shows what
is there. A forked child has a copy of the memory but does not own the directory: it would write over the parent's
bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from flintlog.disk import forks
from flintlog.disk.interrupts import DEFERRED
from flintlog.errors import ClosedError, DiskError, ForkedError, StoppedError


class FailStop:
    """Remembers the first failure inside `guard` and refuses every later `check`.

    The thread whose write failed calls `on_stop`, once, to wake threads that sleep.
    """

    def __init__(self, path: str, on_stop: Callable[[], None] = lambda: None) -> None:
        self._path = path
        self._on_stop = on_stop
        self._cause: BaseException | None = None
        self._closed = False
        self._ended = False
        self._forked = False
        self._refuses = False  # one of the four
        forks.remember(self)

    def check(self) -> None:
        """Raise unless a new call may begin."""
        if self._refuses:
            self.check_process()
            self._check_cause()
            raise self._closed_error()

    def _closed_error(self) -> ClosedError:
        return ClosedError("this store is closed", file=self._path, advice="Open it again")

    def check_process(self) -> None:
        """Raise in a process that did not open the store. Call it before any lock: the fork may have copied it held."""
        if self._forked:
            raise ForkedError(
                "this store belongs to the process that opened it, and this one is a fork of that",
                file=self._path,
                advice="Close the store before you fork and open it again after that, or start the child by `spawn`",
            )

    def _check_cause(self) -> None:
        if self._cause is not None:
            raise StoppedError(
                f"this store stopped after an earlier failure: {_told(self._cause)}",
                file=self._path,
                advice="Close it and open the directory again; what was acknowledged is there",
            ) from self._cause

    @property
    def failed(self) -> bool:
        return self._cause is not None

    @property
    def closed(self) -> bool:
        """Is the store closed for new calls? Those that were begun may still write."""
        return self._closed

    @property
    def forked(self) -> bool:
        """Is this a forked child's copy of the store?"""
        return self._forked

    def close(self) -> bool:
        """Let no new call begin. False, for nothing to do, when it was closed already and in a forked child."""
        first = not self._closed and not self._forked
        self._closed = self._refuses = True
        return first

    def end(self) -> None:
        """Let no write begin any more: another process may own the directory now."""
        self._ended = self._refuses = True

    def guard(self) -> FailStop:
        """Put it around every change that others can see: an exception inside stops the store.

        Signal handlers wait, so that an interrupt finds the change done. Work that was begun before `close` may still
        enter.
        """
        return self

    def __enter__(self) -> None:
        DEFERRED.__enter__()
        try:
            self.check_write()
        except BaseException:
            DEFERRED.__exit__()
            raise

    def __exit__(self, kind: object, error: BaseException | None, *where: object) -> None:
        try:
            if error is not None:
                self.stop(error)
        finally:
            DEFERRED.__exit__()

    def check_write(self) -> None:
        """Raise unless a write may begin."""
        if self._refuses:
            self.check_process()
            self._check_cause()
            if self._ended:
                raise self._closed_error()

    @contextmanager
    def preparing(self) -> Iterator[None]:
        """Put it around long work under scratch names: a failed call stops the store, an interrupt does not."""
        self.check_write()
        try:
            yield
        except DiskError as error:
            self.stop(error)
            raise

    def stop(self, error: BaseException) -> None:
        """Refuse further work for this reason; the first one counts."""
        if self._cause is None:
            self._cause = error
            self._refuses = True
            self._on_stop()

    def _fork(self) -> None:
        self._forked = self._refuses = True


def _told(error: BaseException) -> str:
    return str(error) or type(error).__name__
