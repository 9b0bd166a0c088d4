"""Epochs that switch by themselves: an application puts, and waits for what it put.

All threads put into one open session, so that they share its sync. One thread begins the next epoch every few
milliseconds, if something was put, and ends the session of the one before. There are two channels, used in turn: while
one is synced, puts go to the other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from flintlog.core import threads
from flintlog.core.closes import Closes
from flintlog.dialects.limestone.layout import Version
from flintlog.dialects.limestone.store.channel import Channel, Session
from flintlog.disk import DEFERRED
from flintlog.errors import ClosedError, RefusedError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from flintlog.dialects.limestone.store.datastore import Datastore

INTERVAL_SECONDS = 0.005


class _Writer:
    """A channel and its session."""

    def __init__(self, channel: Channel) -> None:
        self.lock = threads.lock()
        self._channel = channel
        self._session: Session | None = None
        self.closed = False

    def write(self, change: Callable[[Session], None]) -> int:
        self._channel.store.failstop.check()
        with DEFERRED, self.lock:
            if self.closed:
                raise RefusedError("epochs no longer switch by themselves: this was closed")
            if self._session is None:
                self._session = self._channel.begin()
            change(self._session)
            return self._session.epoch

    def end(self, before: int) -> None:
        """End the session, if there is one from before this epoch."""
        with DEFERRED, self.lock:
            if self._session is not None and self._session.epoch < before:
                self._session = None
                self._channel.end()


class Automatic(Closes):
    """A store whose epochs switch by themselves. Thread-safe; closing it makes durable what was put."""

    def __init__(self, store: Datastore, *, interval: float = INTERVAL_SECONDS) -> None:
        if not 0 < interval <= threading.TIMEOUT_MAX:
            raise UsageError(f"the interval must be above 0 seconds, not {interval}")
        self.store = store
        self._interval = interval
        self._writers = [_Writer(store.channel()), _Writer(store.channel())]
        self._stop = threads.event()
        self._thread = threads.thread(self._run, "flintlog-epochs", daemon=True)
        with DEFERRED:
            self._thread.start()

    def put(self, storage: int, key: bytes, value: bytes, version: Version | None = None) -> int:
        """Give a key a value; returns the epoch to wait for."""
        return self._writer().write(lambda session: session.put(storage, key, value, version))

    def put_many(
        self,
        storage: int,
        keys: Sequence[bytes] | pa.Array,
        values: Sequence[bytes] | pa.Array,
        version: Version | None = None,
    ) -> int:
        """Give many keys values; returns the epoch to wait for."""
        return self._writer().write(lambda session: session.put_many(storage, keys, values, version))

    def remove(self, storage: int, key: bytes, version: Version | None = None) -> int:
        """Take a key away; returns the epoch to wait for."""
        return self._writer().write(lambda session: session.remove(storage, key, version))

    def wait(self, epoch: int, timeout: float | None = None) -> bool:
        """Return when everything put in this epoch survives a crash; False when the time is over."""
        return self.store.wait_durable(epoch, timeout)

    def close(self) -> None:
        """Make durable what was put, and stop; in a forked child nothing."""
        if self.store.failstop.forked:
            return
        self._stop.set()
        self._thread.join()
        for writer in self._writers:
            with writer.lock:
                writer.closed = True
        if not (self.store.failstop.failed or self.store.failstop.closed):
            self._switch()

    def _writer(self) -> _Writer:
        return self._writers[self.store.epoch % 2]

    def _run(self) -> None:
        while not self._stop.wait(self._interval):
            try:
                self.store.failstop.check()
                self._switch()
            except ClosedError:
                return
            except Exception as error:  # whatever it is, epochs go no further: those who wait or put are told
                self.store.failstop.stop(error)
                return

    def _switch(self) -> None:
        """Begin the next epoch, unless nothing waits for this one to end: each costs a sync."""
        epoch = self.store.epoch if self.store.is_idle else self.store.switch_epoch()
        for writer in self._writers:
            writer.end(epoch)
