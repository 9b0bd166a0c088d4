"""The steps of the demo. Each is what a user would type; the jobs run on Spark."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from examples.demo import writer
from examples.demo.picture import picture

from flintlog import Datastore, QueueStore, RaftStore, SessionStore
from flintlog.cli.terminal import human_size
from flintlog.core.finding import Severity
from flintlog.core.log import open_log
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
    """A byte that something else changed, and what the repair made of it."""

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
    written: int = 0  # rows that Spark wrote to a new log, twice, and that count once
    seconds: dict[str, float] = field(default_factory=dict)
    operations: list[tuple[str, str, int]] = field(default_factory=list)

    def json(self) -> dict[str, Any]:
        return asdict(self)


def walk(place: Path, say: Callable[[str], None]) -> Report:
    """Write, kill, recover, verify, read, write on Spark, compact, export, damage, repair; and say so."""
    logs = [Log(name, str(place / name)) for name in DIALECTS]
    report = Report(str(place), logs)
    say(f"Four logs are written to {place}, and each writer is killed in the middle of its work")
    _timed(report, "write and kill", lambda: _each(logs, lambda log: _write(log)))
    say("Spark starts in local[*]")
    spark = _timed(report, "start Spark", _start)
    try:
        say("The logs as the kill left them are exported to Parquet, and asked in SQL")
        _timed(report, "export", lambda: _export(spark, report))
        say("Every byte is checked on Spark, each store is opened once, which recovers it, and checked again")
        _timed(report, "verify and recover", lambda: _each(logs, lambda log: _recover(spark, log)))
        say("The state of each log, made on Spark")
        _timed(report, "state", lambda: _each(logs, lambda log: _state(spark, log)))
        say("Spark writes the balances to a new log, twice the same batch: it counts once")
        _timed(report, "write with Spark", lambda: _fill(spark, report))
        say("What is no longer needed goes: snapshot and compaction on Spark")
        _timed(report, "compact", lambda: _each(logs, lambda log: _compact(spark, log)))
        say("One byte in a copy of the queues is changed; verify finds it, repair keeps what it can")
        _timed(report, "damage and repair", lambda: _damage(spark, report))
    finally:
        spark.stop()
    (place / "report.html").write_text(picture(report, WHAT), encoding="utf-8")
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


def _write(log: Log) -> None:
    """Let a process write until it is killed, and see that nothing acknowledged is gone."""
    killed = kill_rounds(
        "examples.demo.writer",
        [log.dialect, log.path],
        recover=lambda: list(_late(log)),
        check=nothing_lost_nothing_invented,
        rounds=1,
        seed=len(log.dialect),
    )
    if killed.violations:
        raise RefusedError(killed.violations[0], file=log.path)
    log.acknowledged = killed.acknowledged


def _late(log: Log) -> Iterator[str]:
    """The entries of the part that the writer reported one by one, as they are in the log."""
    column = {"zmqraft": "data", "mpy6a": "data", "limestone": "key", "taskflux": "payload"}[log.dialect]
    for batch in open_log(log.path, speaking=log.dialect).state():
        for value in batch.column(column).to_pylist():
            if value.startswith(b"late "):
                yield value.decode()


def _recover(spark: SparkSession, log: Log) -> None:
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
    log.bytes_before = _size(log)


def _open(log: Log) -> None:
    """Open the log, which recovers it."""
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
        target = str(Path(report.place) / "exported" / log.dialect)
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


def _fill(spark: SparkSession, report: Report) -> None:
    import flintlog

    [log] = [log for log in report.logs if log.dialect == "limestone"]
    target = str(Path(report.place) / "written")
    rows = flintlog.read(spark, log.path, view="state", columns=["storage_id", "key", "value"])
    for _ in range(2):
        batch = {"dialect": log.dialect, "stream": "balances", "batch": "1"}
        rows.write.format("flintlog").mode("append").options(**batch).save(target)
    copied = flintlog.read(spark, target, view="state", columns=["storage_id", "key", "value"])
    report.written = copied.count() - 1  # the mark of the batch is an entry, too
    if rows.subtract(copied).count() or report.written != log.live:
        raise RefusedError("the log that Spark wrote does not hold the same state", file=target)


def _compact(spark: SparkSession, log: Log) -> None:
    from flintlog.pipeline import jobs

    log.upkeep = jobs.compact(spark, log.path)
    log.bytes_after = _size(log)
    if jobs.state(spark, log.path).count() != log.live:
        raise RefusedError("the compacted log does not hold the same state", file=log.path)


def _damage(spark: SparkSession, report: Report) -> None:
    from flintlog.pipeline import jobs

    place = str(Path(report.place) / "damaged")
    _queues(place, writer.QUEUES[0])
    segment = sorted(Path(place, "data", "log").iterdir())[1]
    with segment.open("r+b") as file:
        middle = file.seek(segment.stat().st_size // 2)
        [byte] = file.read(1)
        file.seek(middle)
        file.write(bytes([byte ^ _FLIPPED]))
    [finding] = [
        finding for finding in jobs.verify(spark, place).findings if finding.severity is Severity.CORRUPT
    ]
    plan = open_log(place).plan_repair()
    damage = report.damage
    damage.file, damage.offset, damage.message = finding.file or "", finding.offset or 0, finding.message
    damage.lost = plan.lost
    plan.apply()
    damage.verdict = jobs.verify(spark, place).verdict
    damage.kept = jobs.state(spark, place).count()


def _queues(place: str, name: str) -> None:
    """A log of several segments."""
    with QueueStore(place, soft_limit=4_096, hard_limit=4_096, snapshot_threshold=1_000) as store:
        queue = store.create(name)
        for number in range(300):
            queue.add(b"order %06d" % number, key=number % 3)


def _size(log: Log) -> int:
    return sum(path.stat().st_size for path in Path(log.path).rglob("*") if path.is_file())


def told(report: Report) -> str:
    """The report in words."""
    lines = ["", "What happened", ""]
    for log in report.logs:
        torn = ", the record that was not acknowledged was cut" if log.torn else ""
        lines.append(
            f"  {log.dialect:<10} {WHAT[log.dialect]:<32} {log.entries:>7,} entries, {log.live:>6,} alive; "
            f"{log.acknowledged:,} acknowledged one by one before the kill, none lost{torn}"
        )
        lines.append(
            f"  {'':<10} {human_size(log.bytes_before)} became {human_size(log.bytes_after)}: {log.upkeep}; "
            f"now {log.verdict}"
        )
    damage = report.damage
    lines += [
        "",
        f"  written    {report.written:,} balances by Spark to a new log, twice; they count once",
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
