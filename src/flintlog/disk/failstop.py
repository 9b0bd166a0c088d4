"""After a failed write nobody knows what is on the disk, so nothing more is written.

The kernel may drop dirty pages after a failed fsync and report success the next time; only reading the
files again, which opening does, tells what is there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from flintlog.errors import ClosedError, StoppedError


class FailStop:
    """Remembers the first failure inside `guard` and refuses every later `check`."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._cause: BaseException | None = None
        self._closed = False

    def check(self) -> None:
        """Raise unless the store may go on."""
        if self._cause is not None:
            raise StoppedError(
                f"this store stopped after an earlier failure: {self._cause}",
                file=self._path,
                advice="Close it and open the directory again; what was acknowledged is there",
            ) from self._cause
        if self._closed:
            raise ClosedError("this store is closed", file=self._path, advice="Open it again")

    @property
    def failed(self) -> bool:
        return self._cause is not None

    def close(self) -> None:
        self._closed = True

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Whatever is raised inside, an interrupt too, stops the store."""
        self.check()
        try:
            yield
        except BaseException as error:
            self._cause = self._cause or error
            raise
