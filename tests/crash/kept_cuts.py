"""A log whose torn end is cut by opening: at every moment its bytes are at their place or in `kept/opened`."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from flintlog.core.kept import keep_cut
from flintlog.disk import Disk
from flintlog.testing import History, Scenario, Suite

ROOT = "/log"
NAME = f"{ROOT}/lines"
GOOD = b"good line\n"
TORN = b"the beginning of a line that"


def opened(disk: Disk) -> None:
    """Cut what is torn, as a store does when it is opened."""
    with disk.open(NAME, "write") as file:
        if file.size() > len(GOOD):
            keep_cut(disk, ROOT, file, len(GOOD))
            file.truncate(len(GOOD))
            file.sync()


class KeptOracle:
    """What was torn is at its place or kept; `extend` tears the log again, with other bytes."""

    def recover(self, disk: Disk) -> tuple[bytes, frozenset[bytes]]:
        opened(disk)
        place = f"{ROOT}/kept/opened"
        kept = frozenset(
            disk.read(f"{place}/{name}", 1 << 20) for name in disk.list(place) if not name.endswith(".new")
        )
        return disk.read(NAME, 1 << 20), kept

    def check(
        self, observed: tuple[bytes, frozenset[bytes]], issued: Sequence[bytes], acknowledged: Sequence[bytes]
    ) -> str | None:
        line, kept = observed
        if line != GOOD:
            return f"the log is {line!r}"
        return None if TORN in kept else f"{TORN!r} is not among {set(kept)}"

    def extend(self, disk: Disk, observed: tuple[bytes, frozenset[bytes]]) -> tuple[bytes, frozenset[bytes]]:
        more = b"%08x" % zlib.crc32(repr(sorted(observed[1])).encode())
        with disk.open(NAME, "write") as file:
            file.pwrite(more, len(GOOD))
            file.sync()
        return GOOD, observed[1] | {more}


def torn(disk: Disk, history: History[bytes]) -> None:
    disk.make_directory(ROOT)
    with disk.open(NAME, "create") as file:
        file.pwrite(GOOD + TORN, 0)
        file.sync()
    disk.sync_directory(ROOT)


def run(disk: Disk, history: History[bytes]) -> None:
    opened(disk)


SUITE = Suite("tests.crash.kept_cuts:SUITE", KeptOracle(), (Scenario("opens-a-torn-log", run, prepare=torn),))
