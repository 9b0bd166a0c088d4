"""What a new file says of its making (when, where, by which software), and the names of predecessors.

Time, host name and process id are arguments, so that the same operations make the same bytes.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from flintlog.dialects.zmqraft import layout as lay
from flintlog.disk import Disk

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def base36(number: int) -> str:
    text = ""
    while True:
        number, digit = divmod(number, 36)
        text = _DIGITS[digit] + text
        if not number:
            return text


@dataclass
class Stamps:
    """Makes META segments, names for predecessors and scratch names."""

    clock: Callable[[], float] = time.time
    hostname: str = field(default_factory=socket.gethostname)
    software: str | None = "flintlog"
    process: int = field(default_factory=os.getpid)
    _last: str = ""
    _repeats: int = 0
    _scratch: int = 0

    def _moment(self) -> tuple[str, int]:
        milliseconds = round(self.clock() * 1000)
        seconds, rest = divmod(milliseconds, 1000)
        return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)), rest

    def meta(self) -> bytes:
        """META for a file made now."""
        moment, rest = self._moment()
        return lay.meta_segment(f"{moment}.{rest:03d}Z", self.hostname, self.software)

    def predecessor(self, disk: Disk, path: str) -> str:
        """A free name under which the file that is now at `path` is kept."""
        name = self._stamped(path)
        while disk.stat(name) is not None:  # taken by an earlier process in the same millisecond
            name = self._stamped(path)
        return name

    def _stamped(self, path: str) -> str:
        moment, rest = self._moment()
        text = f"{moment[:10]}-{moment[11:].replace(':', '')}-{rest:03d}"
        self._repeats = self._repeats + 1 if text == self._last else 0
        self._last = text
        return f"{path}-{text}{base36(self._repeats)}"

    def scratch(self, path: str) -> str:
        """A name for a file that will take the place of `path`."""
        self._scratch += 1
        return f"{path}.tmp-{self.process}-{base36(self._scratch)}"
