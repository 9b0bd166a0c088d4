"""Crash scenarios of `FileLog` alone, without the state files beside it."""

from __future__ import annotations

from collections.abc import Sequence

from tests.crash.zmqraft_peer import NOW, ROOT

from flintlog.dialects.zmqraft.layout import Entry
from flintlog.dialects.zmqraft.store import FileLog, Stamps
from flintlog.disk import Disk
from flintlog.testing import History, Scenario, Suite

DATAS = [b"entry %d" % number for number in range(11)]
COVERED = 9
Observed = tuple[int, tuple[bytes, ...]]


def opened(disk: Disk) -> FileLog:
    return FileLog(ROOT, disk=disk, capacity=4, stamps=Stamps(lambda: NOW, "host", process=7))


def written(disk: Disk, history: History[str]) -> None:
    disk.make_passing_directory(ROOT)
    log = opened(disk)
    log.append([Entry(1, data).encode() for data in DATAS])
    log.close()


def compact(disk: Disk, history: History[str]) -> None:
    log = opened(disk)
    history.opened(lambda: log.append([Entry(9, b"probe").encode()]))
    history.issue("snapshot")
    log.install_snapshot(COVERED, 1, b"state")
    history.acknowledge("snapshot")
    log.prune()
    log.close()


class LogOracle:
    """The snapshot is the old one or the new one, and no entry behind it is missing."""

    def recover(self, disk: Disk) -> Observed:
        log = opened(disk)
        observed = log.snapshot.index, tuple(entry.data for entry in log.entries(log.first))
        log.prune()
        log.close()
        return observed

    def check(self, observed: Observed, issued: Sequence[str], acknowledged: Sequence[str]) -> str | None:
        allowed = {len(acknowledged), len(issued)}
        whole = {(COVERED * done, tuple(DATAS[COVERED * done :])) for done in allowed}
        return None if observed in whole else f"{observed} is none of {whole}"

    def extend(self, disk: Disk, observed: Observed) -> Observed:
        log = opened(disk)
        log.append([Entry(2, b"one more").encode()])
        log.close()
        return observed[0], (*observed[1], b"one more")


SUITE = Suite(
    "tests.crash.zmqraft_log:SUITE",
    LogOracle(),
    (Scenario("log-alone", compact, prepare=written, atomic_bytes=4),),
)
