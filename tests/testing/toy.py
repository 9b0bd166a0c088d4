"""A store as small as one can be: a header, then records of length, checksum and bytes, in one file.

`ToyLog` keeps every promise. The flags of `Habits` each break one, as careless stores do.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

from flintlog.disk import Disk, FailStop, write_all
from flintlog.errors import DiskError
from flintlog.testing import History, Scenario, Suite

HEADER = b"TOYLOG1\n"
ROOT = "/toy/log"


@dataclass(frozen=True)
class Habits:
    """What a store does; every False is a mistake."""

    syncs_records: bool = True
    syncs_names: bool = True
    acknowledges_after_sync: bool = True
    cuts_torn_tail: bool = True
    checks_sums: bool = True
    syncs_at_recovery: bool = True
    stops_after_failure: bool = True
    tells_failed_syncs: bool = True
    keeps_errors_in_tree: bool = True


RIGHT = Habits()


class ToyLog:
    def __init__(self, disk: Disk, habits: Habits = RIGHT, root: str = ROOT) -> None:
        self._habits = habits
        self._root = root
        self._stop = FailStop(root)
        self._unsynced = False
        disk.make_directory(root)
        if disk.stat(f"{root}/records") is None:
            self._create(disk)
        elif habits.syncs_at_recovery:
            disk.sync_directory(root)
        self._file = disk.open(f"{root}/records", "write")
        self.records: list[bytes] = []
        self._end = len(HEADER)
        self._recover()

    def _create(self, disk: Disk) -> None:
        path, scratch = f"{self._root}/records", f"{self._root}/scratch"
        if self._habits.syncs_names:
            disk.publish(path, [HEADER], scratch=scratch)
            return
        with disk.open(scratch, "create") as file:
            write_all(file, [HEADER])
            file.sync()
        disk.rename(scratch, path)

    def _recover(self) -> None:
        content = self._file.pread(self._file.size(), 0)
        if not content.startswith(HEADER):
            raise ValueError("not a toy log")
        while (record := self._record(content)) is not None:
            self.records.append(record)
            self._end += 8 + len(record)
        if self._end < len(content) and self._habits.cuts_torn_tail:
            self._file.truncate(self._end)
        if self._habits.syncs_at_recovery:
            self._file.sync()

    def _record(self, content: bytes) -> bytes | None:
        size = int.from_bytes(content[self._end : self._end + 4], "big")
        record = content[self._end + 8 : self._end + 8 + size]
        checksum = int.from_bytes(content[self._end + 4 : self._end + 8], "big")
        if size == 0:
            return None
        if self._habits.checks_sums and (len(record) < size or zlib.crc32(record) != checksum):
            return None
        return record

    def append(self, *records: bytes) -> None:
        guard = self._stop.guard() if self._habits.stops_after_failure else nullcontext()
        with guard, self._mistakes():
            self._append(records)

    @contextmanager
    def _mistakes(self) -> Iterator[None]:
        try:
            yield
        except DiskError as error:
            if not self._habits.keeps_errors_in_tree:
                raise OSError(error.errno, "bare") from error
            if self._habits.tells_failed_syncs or error.call != "fsync":
                raise

    def _append(self, records: Sequence[bytes]) -> None:
        if self._unsynced:
            self._file.sync()
        for record in records:
            encoded = len(record).to_bytes(4, "big") + zlib.crc32(record).to_bytes(4, "big") + record
            self._file.pwrite(encoded, self._end)
            self._end += len(encoded)
            self.records.append(record)
        if self._habits.syncs_records:
            if self._habits.acknowledges_after_sync:
                self._file.sync()
            else:
                self._unsynced = True

    def close(self) -> None:
        self._stop.close()
        self._file.close()


@dataclass(frozen=True)
class ToyOracle:
    habits: Habits = RIGHT

    def recover(self, disk: Disk) -> tuple[bytes, ...]:
        log = ToyLog(disk, self.habits)
        log.close()
        return tuple(log.records)

    def check(
        self, observed: tuple[bytes, ...], issued: Sequence[bytes], acknowledged: Sequence[bytes]
    ) -> str | None:
        if list(observed) != list(issued[: len(observed)]):
            return f"{observed} is no prefix of {issued}"
        if len(observed) < len(acknowledged):
            return f"{len(acknowledged)} records were acknowledged, {len(observed)} are there"
        return None

    def extend(self, disk: Disk, observed: tuple[bytes, ...]) -> tuple[bytes, ...]:
        log = ToyLog(disk, self.habits)
        log.append(b"one more")
        log.close()
        return (*observed, b"one more")


def appends(habits: Habits, name: str, records: Sequence[bytes]) -> Scenario[bytes]:
    def run(disk: Disk, history: History[bytes]) -> None:
        log = ToyLog(disk, habits)
        history.opened(lambda: log.append(b"probe"))
        for record in records:
            history.issue(record)
            log.append(record)
            history.acknowledge(record)
        log.close()

    return Scenario(name, run, packages=("flintlog", "tests.testing.toy"))


def batches(habits: Habits) -> Scenario[bytes]:
    def run(disk: Disk, history: History[bytes]) -> None:
        log = ToyLog(disk, habits)
        history.opened(lambda: log.append(b"probe"))
        batch = (b"as long.", b"as one more", b"and more")
        for record in batch:
            history.issue(record)
        log.append(*batch)
        for record in batch:
            history.acknowledge(record)
        log.close()

    return Scenario("batch", run, packages=("flintlog", "tests.testing.toy"))


def reopens(habits: Habits) -> Scenario[bytes]:
    first = appends(habits, "first", [b"first", b"second"])
    second = appends(habits, "second", [b"third" * 50, b"fourth"])

    def prepare(disk: Disk, history: History[bytes]) -> None:
        first.run(disk, history)

    return Scenario("reopen", second.run, prepare=prepare, packages=second.packages)


def suite(habits: Habits, name: str = "SUITE") -> Suite:
    records = [bytes([65 + i]) * (20 + 11 * i) for i in range(6)]
    scenarios = (
        appends(habits, "append", records),
        batches(habits),
        reopens(habits),
        appends(habits, "large", [b"x" * 9000]),
    )
    return Suite(f"tests.testing.toy:{name}", ToyOracle(habits), scenarios)


SUITE = suite(RIGHT)
BAD_SUM = suite(Habits(checks_sums=False), "BAD_SUM")
