"""The steps of the demo. Each is what a user would type; the jobs run on Spark."""

from __future__ import annotations

import posixpath
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from flintlog.core.finding import Severity
from flintlog.core.log import open_log
from flintlog.demo.picture import picture
from flintlog.disk import Disk
from flintlog.errors import RefusedError
from flintlog.testing.kill import kill_rounds, nothing_lost_nothing_invented

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DIALECTS = ("taskflux", "zmqraft", "mpy6a", "limestone")
WHAT = {
    "taskflux": "three priority queues",
    "zmqraft": "the log of a Raft peer",
    "mpy6a": "calls to be tried again",
    "limestone": "balances by user, two channels",
}
_FLIPPED = 0x40
T = TypeVar("T")


@dataclass(slots=True)
class Log:
    """One of the four logs, and what became of it."""

    dialect: str
    path: str
    acknowledged: int = 0  # one by one, before the process was killed
    torn: tuple[str, ...] = ()  # what verify saw behind the kill
    verdict: str = ""  # after recovery
    entries: int = 0
    live: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    upkeep: str = ""
    exported: int = 0


@dataclass(slots=True)
class Damage:
    """A byte that was changed behind everybody's back, and what was made of it."""

    file: str = ""
    offset: int = 0
    message: str = ""
    lost: tuple[str, ...] = ()
    verdict: str = ""  # after repair
    kept: int = 0  # live entries after it


@dataclass(slots=True)
class Report:
    """Everything the demo found."""

    place: str
    logs: list[Log]
    damage: Damage = field(default_factory=Damage)
    seconds: dict[str, float] = field(default_factory=dict)
    operations: list[tuple[str, str, int]] = field(default_factory=list)

    def json(self) -> dict[str, Any]:
        from dataclasses import asdict

        return asdict(self)


def walk(place: str, say: Callable[[str], None]) -> Report:
    """Write, kill, recover, verify, read, compact, export, damage, repair; and say so."""
    disk = Disk()
    logs = [Log(name, posixpath.join(place, name)) for name in DIALECTS]
    report = Report(place, logs)
    say(f"Four logs are written to {place}, and each writer is killed in the middle of its work")
    _timed(report, "write and kill", lambda: _each(logs, lambda log: _write(disk, log)))
    say("Spark starts in local[*]")
    spark = _timed(report, "start Spark", _start)
    try:
        say("The logs as the kill left them are exported to Parquet, and asked in SQL")
        _timed(report, "export", lambda: _export(spark, report))
        say("Every byte is checked on Spark, each store is opened once, which recovers it, and checked again")
        _timed(report, "verify and recover", lambda: _each(logs, lambda log: _recover(spark, disk, log)))
        say("The state of each log, made on Spark")
        _timed(report, "state", lambda: _each(logs, lambda log: _state(spark, log)))
        say("What is no longer needed goes: snapshot and compaction on Spark")
        _timed(report, "compact", lambda: _each(logs, lambda log: _compact(spark, disk, log)))
        say("One byte in a copy of the queues is changed; verify finds it, repair keeps what it can")
        _timed(report, "damage and repair", lambda: _damage(spark, disk, report))
    finally:
        spark.stop()
    target = disk.resolve(posixpath.join(place, "report.html"))
    disk.publish(target, [picture(report, WHAT).encode()], scratch=f"{target}.new")
    return report


def _timed(report: Report, name: str, work: Callable[[], T]) -> T:
    begin = time.monotonic()
    done = work()
    report.seconds[name] = time.monotonic() - begin
    return done


def _each(logs: list[Log], work: Callable[[Log], None]) -> None:
    for log in logs:
        work(log)


def _start() -> SparkSession:
    from flintlog.pipeline.session import session

    return session("local[*]", "flintlog demo")


def _write(disk: Disk, log: Log) -> None:
    """Let a process write until it is killed, and see that nothing acknowledged is gone."""
    killed = kill_rounds(
        "flintlog.demo.writer",
        [log.dialect, log.path],
        recover=lambda: list(_late(disk, log)),
        check=nothing_lost_nothing_invented,
        rounds=1,
        seed=len(log.dialect),
    )
    if killed.violations:
        raise RefusedError(killed.violations[0], file=log.path)
    log.acknowledged = killed.acknowledged


def _late(disk: Disk, log: Log) -> Iterator[str]:
    """The entries of the part that was told one by one, as they stand in the log."""
    column = {"zmqraft": "data", "mpy6a": "data", "limestone": "key", "taskflux": "payload"}[log.dialect]
    for batch in open_log(log.path, speaking=log.dialect).state():
        for value in batch.column(column).to_pylist():
            if value.startswith(b"late "):
                yield value.decode()


def _recover(spark: SparkSession, disk: Disk, log: Log) -> None:
    from flintlog.pipeline import jobs

    found = jobs.verify(spark, log.path)
    if any(finding.severity is Severity.CORRUPT for finding in found.findings):
        raise RefusedError(f"the crash damaged this log: {found.findings[0].message}", file=log.path)
    log.torn = tuple(
        f"{finding.code}: {finding.file}, byte {finding.offset}"
        for finding in found.findings
        if finding.severity is Severity.REPAIRABLE
    )
    _open(log)
    log.verdict = jobs.verify(spark, log.path).verdict
    log.bytes_before = _size(disk, log.path)


def _open(log: Log) -> None:
    """Opening recovers; nothing else is done."""
    from flintlog import Datastore, QueueStore, RaftStore, SessionStore

    stores: dict[str, Callable[[str], Any]] = {
        "taskflux": lambda path: QueueStore(path, snapshot_threshold=1_000),
        "zmqraft": RaftStore,
        "mpy6a": SessionStore,
        "limestone": lambda path: Datastore(path, snapshot=False),
    }
    stores[log.dialect](log.path).close()


def _state(spark: SparkSession, log: Log) -> None:
    from flintlog.pipeline import jobs

    log.live = jobs.state(spark, log.path).count()


def _export(spark: SparkSession, report: Report) -> None:
    from flintlog.pipeline import jobs

    frames = []
    for log in report.logs:
        target = posixpath.join(report.place, "exported", log.dialect)
        log.exported = jobs.export(spark, log.path, target).rows
        log.entries = log.exported
        frames.append(spark.read.parquet(target).select("dialect", "operation"))
    everything = frames[0]
    for frame in frames[1:]:
        everything = everything.union(frame)
    everything.createOrReplaceTempView("entries")
    rows = spark.sql(
        "SELECT dialect, operation, count(*) AS entries FROM entries GROUP BY dialect, operation ORDER BY 1, 3 DESC"
    ).collect()
    report.operations = [(row[0], row[1], row[2]) for row in rows]


def _compact(spark: SparkSession, disk: Disk, log: Log) -> None:
    from flintlog.pipeline import jobs

    log.upkeep = jobs.compact(spark, log.path)
    log.bytes_after = _size(disk, log.path)
    if jobs.state(spark, log.path).count() != log.live:
        raise RefusedError("the compacted log does not hold the same state", file=log.path)


def _damage(spark: SparkSession, disk: Disk, report: Report) -> None:
    from flintlog.demo import writer
    from flintlog.pipeline import jobs

    place = posixpath.join(report.place, "damaged")
    _queues(place, writer.QUEUES[0])
    folder = disk.resolve(posixpath.join(place, "data", "log"))
    segment = posixpath.join(folder, disk.list(folder)[1])
    with disk.open(segment, "write") as file:
        middle = file.size() // 2
        file.pwrite(bytes([file.pread(1, middle)[0] ^ _FLIPPED]), middle)
        file.sync()
    [finding] = [
        finding for finding in jobs.verify(spark, place).findings if finding.severity is Severity.CORRUPT
    ]
    path = disk.resolve(place)
    plan = open_log(path, disk=disk).plan_repair()
    damage = report.damage
    damage.file, damage.offset, damage.message = finding.file or "", finding.offset or 0, finding.message
    damage.lost = plan.lost
    plan.apply()
    damage.verdict = jobs.verify(spark, place).verdict
    damage.kept = jobs.state(spark, place).count()


def _queues(place: str, name: str) -> None:
    """A log of several segments."""
    from flintlog import QueueStore

    with QueueStore(place, soft_limit=4_096, hard_limit=4_096, snapshot_threshold=1_000) as store:
        queue = store.create(name)
        for number in range(300):
            queue.add(b"order %06d" % number, key=number % 3)


def _size(disk: Disk, path: str) -> int:
    size = 0
    for name in disk.list(path):
        place = posixpath.join(path, name)
        stat = disk.stat(place)
        if stat is not None:
            size += _size(disk, place) if stat.is_directory else stat.size
    return size


def told(report: Report) -> str:
    """The report in words."""
    lines = ["", "What happened", ""]
    for log in report.logs:
        torn = ", what nobody was told about was cut" if log.torn else ""
        lines.append(
            f"  {log.dialect:<10} {WHAT[log.dialect]:<32} {log.entries:>7,} entries, {log.live:>6,} alive; "
            f"{log.acknowledged:,} acknowledged one by one before the kill, none lost{torn}"
        )
        lines.append(
            f"  {'':<10} {_bytes(log.bytes_before)} became {_bytes(log.bytes_after)}: {log.upkeep}; "
            f"now {log.verdict}"
        )
    damage = report.damage
    lines += [
        "",
        f"  damage     {damage.file}, byte {damage.offset}: {damage.message}",
        f"  {'':<10} repair gave up {'; '.join(damage.lost) or 'nothing'}; {damage.kept:,} records kept, "
        f"now {damage.verdict}",
        "",
        "  " + ", ".join(f"{name} {seconds:.1f} s" for name, seconds in report.seconds.items()),
        "",
        f"The logs, the Parquet files and the report with its picture are in {report.place}; "
        f"open {report.place}/report.html",
    ]
    return "\n".join(lines)


def _bytes(size: int) -> str:
    from flintlog.cli.terminal import human_size

    return human_size(size)
