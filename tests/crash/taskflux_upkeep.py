"""Crash scenarios of upkeep: snapshot, repair and conversion finish, or leave what was there."""

from __future__ import annotations

from collections.abc import Sequence

from tests.crash.promises import applied
from tests.crash.queue_model import Shown, shown_by

from flintlog.core.log import Log
from flintlog.dialects.taskflux.dialect import DIALECT
from flintlog.dialects.taskflux.store import QueueStore, ReplicaLog
from flintlog.dialects.taskflux.survey import survey
from flintlog.dialects.taskflux.upkeep.migrate import plan_migrate
from flintlog.dialects.taskflux.upkeep.repair import plan_repair
from flintlog.dialects.taskflux.upkeep.snapshot import plan_snapshot
from flintlog.disk import Disk
from flintlog.testing import History, Scenario, Suite

ROOT = "/srv/spool"
DATA = f"{ROOT}/data"
TARGET = "/srv/converted"
FIRST_SEGMENT = f"{DATA}/log/0000000000000000000.log"
DAMAGED_AT = 120  # inside the second record of the first segment
PAYLOADS = [b"payload %d" % number * 4 for number in range(9)]
NOW = 1_800_000_000.0


def written(disk: Disk, history: History[str]) -> None:
    with QueueStore(
        ROOT, disk=disk, reserve_bytes=0, soft_limit=160, hard_limit=320, snapshot_threshold=99
    ) as store:
        for number, payload in enumerate(PAYLOADS):
            store.queue().add(payload, number % 2)


def written_with_snapshot(disk: Disk, history: History[str]) -> None:
    written(disk, history)
    with QueueStore(ROOT, disk=disk, reserve_bytes=0) as store:
        store.snapshot()
        store.queue().add(PAYLOADS[-1], 1)
    with ReplicaLog(ROOT, disk=disk, reserve_bytes=0) as log:
        log.set_term(3, 1)


def damaged(disk: Disk, history: History[str]) -> None:
    written(disk, history)
    with disk.open(FIRST_SEGMENT, "write") as file:
        byte = file.pread(1, DAMAGED_AT)
        file.pwrite(bytes([byte[0] ^ 1]), DAMAGED_AT)
        file.sync()


def damaged_everywhere(disk: Disk, history: History[str]) -> None:
    damaged(disk, history)
    for name in ("tflux.metadata", "tflux.snapshot"):
        with disk.open(f"{DATA}/{name}", "write") as file:
            file.pwrite(b"not what was written", 0)
            file.sync()


def without_a_segment(disk: Disk, history: History[str]) -> None:
    written(disk, history)
    names = disk.list(f"{DATA}/log")
    disk.unlink(f"{DATA}/log/{names[1]}")
    disk.sync_directory(f"{DATA}/log")


take_snapshot = applied("snapshot", lambda disk: plan_snapshot(disk, DATA))
repair = applied("repair", lambda disk: plan_repair(disk, DATA, lambda: NOW))
convert = applied("convert", lambda disk: plan_migrate(disk, DATA, "shipped", TARGET))


def shown(disk: Disk, path: str = ROOT) -> Shown:
    with QueueStore(path, disk=disk, reserve_bytes=0) as store:
        return shown_by(store)


class SnapshotOracle:
    """The queues are the same whether the snapshot came to be or not."""

    def recover(self, disk: Disk) -> Shown:
        return shown(disk)

    def check(self, observed: Shown, issued: Sequence[str], acknowledged: Sequence[str]) -> str | None:
        records = observed[0][2]
        expected = [(i + 1, i % 2, payload) for i, payload in enumerate(PAYLOADS)]
        return None if sorted(records) == sorted(expected) else f"{records} is not {expected}"

    def extend(self, disk: Disk, observed: Shown) -> Shown:
        with QueueStore(ROOT, disk=disk, reserve_bytes=0) as store:
            store.queue().add(b"one more", 7)
        spec, last_id, records = observed[0]
        return ((spec, last_id + 1, (*records, (last_id + 1, 7, b"one more"))),)


class RepairOracle:
    """Refused as before, or repaired; every original byte is kept or still in its place."""

    def __init__(self, kept_payloads: int) -> None:
        self._payloads = PAYLOADS[:kept_payloads]

    def recover(self, disk: Disk) -> tuple[str, Shown, bool]:
        verdict = Log(DIALECT, disk, ROOT).verify().verdict
        return verdict, shown(disk) if verdict == "clean" else (), _kept(disk)

    def check(
        self, observed: tuple[str, Shown, bool], issued: Sequence[str], acknowledged: Sequence[str]
    ) -> str | None:
        verdict, queues, kept = observed
        if verdict != "clean":
            return f"the repair was acknowledged and the directory is {verdict}" if acknowledged else None
        if sorted(record[2] for record in queues[0][2]) != sorted(self._payloads):
            return f"{queues} is not what stands before the damage"
        return None if kept else "an original file is gone"

    def extend(self, disk: Disk, observed: tuple[str, Shown, bool]) -> tuple[str, Shown, bool]:
        if observed[0] != "clean":
            plan_repair(disk, DATA, lambda: NOW + 60).apply()
        queues = observed[1] or shown(disk)
        with QueueStore(ROOT, disk=disk, reserve_bytes=0) as store:
            store.queue().add(b"one more", 7)
        spec, last_id, records = queues[0]
        return "clean", ((spec, last_id + 1, (*records, (last_id + 1, 7, b"one more"))),), True


def _kept(disk: Disk) -> bool:
    """Does every byte that was written still lie in the directory or aside?"""
    places = [f"{DATA}/log"] + [f"{DATA}/kept/{name}/log" for name in disk.list(f"{DATA}/kept")]
    found = {disk.read(f"{place}/{name}", 1 << 20) for place in places for name in disk.list(place)}
    return all(
        any(content.count(payload) for content in found) for payload in PAYLOADS if payload != PAYLOADS[1]
    )


class GapOracle(RepairOracle):
    """The same where a whole segment is missing from the start: only what is there can be kept."""

    def recover(self, disk: Disk) -> tuple[str, Shown, bool]:
        verdict, queues, _ = super().recover(disk)
        return verdict, queues, True


class ConvertOracle:
    """The target is whole or not there; the source is never touched."""

    def recover(self, disk: Disk) -> tuple[Shown, Shown | None]:
        if disk.stat(TARGET) is None:
            return shown(disk), None
        with ReplicaLog(TARGET, disk=disk, reserve_bytes=0) as log:
            assert (log.term, log.vote) == (3, 1), "term or vote is lost"
        return shown(disk), shown(disk, TARGET)

    def check(
        self, observed: tuple[Shown, Shown | None], issued: Sequence[str], acknowledged: Sequence[str]
    ) -> str | None:
        source, target = observed
        if [record[2] for record in sorted(source[0][2])] != [*PAYLOADS, PAYLOADS[-1]]:
            return "the source changed"
        if target is None:
            return "the target is gone" if acknowledged else None
        return None if target == source else "the target is not the source"

    def extend(self, disk: Disk, observed: tuple[Shown, Shown | None]) -> tuple[Shown, Shown | None]:
        assert survey(disk, DATA).layout.edition == "designed"
        with QueueStore(ROOT, disk=disk, reserve_bytes=0) as store:
            store.queue().add(b"one more", 7)
        spec, last_id, records = observed[0][0]
        return ((spec, last_id + 1, (*records, (last_id + 1, 7, b"one more"))),), observed[1]


SNAPSHOT = Suite(
    "tests.crash.taskflux_upkeep:SNAPSHOT",
    SnapshotOracle(),
    (Scenario("snapshot-verb", take_snapshot, prepare=written),),
)
REPAIR = Suite(
    "tests.crash.taskflux_upkeep:REPAIR",
    RepairOracle(kept_payloads=1),
    (
        Scenario("repair-a-record", repair, prepare=damaged),
        Scenario("repair-all-files", repair, prepare=damaged_everywhere),
    ),
)
REPAIR_GAP = Suite(
    "tests.crash.taskflux_upkeep:REPAIR_GAP",
    GapOracle(kept_payloads=3),
    (Scenario("repair-a-gap", repair, prepare=without_a_segment),),
)
CONVERT = Suite(
    "tests.crash.taskflux_upkeep:CONVERT",
    ConvertOracle(),
    (Scenario("convert", convert, prepare=written_with_snapshot),),
)
