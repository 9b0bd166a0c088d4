"""Open connections, and how long a client may take. Slow clients never keep others out.

The server waits twice for a client: for the head of its request, and until it has taken the answer. Each wait is
bounded as a whole, so a byte now and then does not prolong it. When all places are taken, a new client gets the place
of the one that the server has waited for the longest: first of clients that have not asked yet, then of those that take
an answer.
"""

from __future__ import annotations

import contextlib
import io
import socket
import threading
import time
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many clients are served at once, and how many seconds each may take to ask and to take the answer."""

    connections: int = 64
    request_seconds: float = 10
    answer_seconds: float = 60


class Phase(IntEnum):
    """What the server waits for on a connection; the first in this order is dropped first."""

    REQUEST = 0
    ANSWER = 1
    NOTHING = 2  # the server works


class Connections:
    """The open connections."""

    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        self._lock = threading.Lock()
        self._all: dict[socket.socket, tuple[Phase, float]] = {}

    @property
    def served(self) -> int:
        with self._lock:
            return len(self._all)

    def enter(self, connection: socket.socket) -> bool:
        """Take a place, if need be from the slowest client; False if the server is working for all clients."""
        with self._lock:
            if len(self._all) >= self._maximum and not self._drop_slowest():
                return False
            self._all[connection] = (Phase.REQUEST, time.monotonic())
            return True

    def leave(self, connection: socket.socket) -> None:
        """Give up the place; call it before the connection is closed."""
        with self._lock:
            self._all.pop(connection, None)

    def reached(self, connection: socket.socket, phase: Phase) -> None:
        with self._lock:
            if connection in self._all:
                self._all[connection] = (phase, time.monotonic())

    def _drop_slowest(self) -> bool:
        slowest = min(self._all, key=lambda connection: self._all[connection])
        if self._all[slowest][0] is Phase.NOTHING:
            return False
        del self._all[slowest]
        with contextlib.suppress(OSError):  # the client closed it
            slowest.shutdown(socket.SHUT_RDWR)
        return True


class TimedFile(io.RawIOBase):
    """A connection as a file. All its reads and writes end at one deadline, with a `TimeoutError`."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__()
        self._connection = connection
        self._deadline = 0.0

    def allow(self, seconds: float) -> None:
        """Set the time left from now on, for all reads and writes together."""
        self._deadline = time.monotonic() + seconds

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        self._bound()
        return self._connection.recv_into(buffer)

    def write(self, data: ReadableBuffer) -> int:
        """Write all of it within the time left, because the timeout of `sendall` covers the whole."""
        self._bound()
        self._connection.sendall(data)
        return memoryview(data).nbytes

    def _bound(self) -> None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the client took too long")
        self._connection.settimeout(left)
