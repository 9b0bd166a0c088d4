"""Verifications beside the server: at most one for each directory, with its progress."""

from __future__ import annotations

import threading
import time
from typing import Any

from flintlog.cli.progress import UNKNOWN
from flintlog.core.inventory import Inventory
from flintlog.core.log import Log
from flintlog.errors import FlintlogError
from flintlog.web.faults import Faults, error_json


class _StoppedError(Exception):
    """Raised in the progress of a verification that was stopped."""


class Verification:
    """The verification of one directory: idle, running, done, failed or stopped."""

    def __init__(self, log: Log, faults: Faults) -> None:
        self._log = log
        self._faults = faults
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._status = "idle"
        self._bytes = (0, 0)
        self._started = self._ended = 0.0
        self._finished_at: str | None = None
        self._inventory: Inventory | None = None
        self._error: dict[str, Any] | None = None

    def start(self) -> None:
        """Begin, unless one is running."""
        with self._lock:
            if self._status == "running":
                return
            self._stop.clear()
            self._status, self._bytes = "running", (0, 0)
            self._inventory = self._error = self._finished_at = None
            self._started = time.monotonic()
            threading.Thread(target=self._run, name="verify", daemon=True).start()

    def stop(self) -> None:
        """Ask a running one to end; it ends at the next step of its progress."""
        self._stop.set()

    def json(self) -> dict[str, Any]:
        with self._lock:
            running = self._status == "running"
            done, total = self._bytes
            return {
                "status": self._status,
                "done_bytes": done,
                "total_bytes": None if total == UNKNOWN else total,
                "seconds": round((time.monotonic() if running else self._ended) - self._started, 3),
                "finished": self._finished_at,
                "inventory": None if self._inventory is None else self._inventory.json(),
                "error": self._error,
            }

    def _tick(self, done: int, total: int) -> None:
        if self._stop.is_set():
            raise _StoppedError
        with self._lock:
            self._bytes = (done, total)

    def _run(self) -> None:
        try:
            found = self._log.verify(self._tick)
            self._end("done", inventory=found)
        except _StoppedError:
            self._end("stopped")
        except FlintlogError as error:
            self._end("failed", error=error_json(error))
        except Exception as error:
            self._end("failed", error=self._faults.tell(error))

    def _end(
        self, status: str, inventory: Inventory | None = None, error: dict[str, Any] | None = None
    ) -> None:
        with self._lock:
            self._status, self._inventory, self._error = status, inventory, error
            self._ended = time.monotonic()
            self._finished_at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
