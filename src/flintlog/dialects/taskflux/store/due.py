"""Snapshots that the notes' rules ask for, made in a thread of their own or inside the call that made them due."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from flintlog.core import threads
from flintlog.dialects.taskflux.store.engine import Engine
from flintlog.errors import ClosedError, DiskError, FlintlogError

_log = logging.getLogger("flintlog.taskflux")


class DueSnapshots:
    """Calls `make` when a snapshot is due. After a refusal, because the snapshot is too large for its format, it waits
    until the log has one more segment: the log keeps everything."""

    def __init__(self, engine: Engine, make: Callable[[], int], *, in_background: bool) -> None:
        self._engine = engine
        self._make = make
        self._in_background = in_background
        self._lock = threads.StoreLock(
            engine.failstop
        )  # a thread is started, or the store closes before that
        self._thread: Any = None
        self._segments_refused = 0  # segments when a snapshot was refused

    def after_commit(self, commit_index: int) -> None:
        """Make a snapshot if one is due. No lock is held."""
        engine = self._engine
        if engine.failstop.closed or not engine.snapshot_due(commit_index):
            return
        if len(engine.log.segment_firsts) <= self._segments_refused:
            return
        if not self._in_background:
            self._try(raised=DiskError)
            return
        with self._lock:
            if not engine.failstop.closed and (self._thread is None or not self._thread.is_alive()):
                self._thread = threads.thread(self._try, "flintlog-snapshot")
                self._thread.start()

    def _try(self, raised: type[FlintlogError] | tuple[()] = ()) -> None:
        try:
            self._make()
        except raised:
            raise
        except ClosedError:
            return  # the next store checks again
        except FlintlogError as error:
            # A failed write has stopped the store; the next call will say so.
            self._segments_refused = len(self._engine.log.segment_firsts)
            _log.error("no snapshot: %s", error)

    def join(self) -> None:
        """Wait for the thread. The store is closed, so no other begins."""
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join()
