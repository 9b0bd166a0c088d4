"""Crash scenarios of the verbs on a directory of sessions: they finish, or leave what was there."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.crash.mpy6a_sessions import ROOT, T0, TOPICS
from tests.crash.promises import applied, contents

from flintlog.core.log import Log
from flintlog.core.workers import Threads
from flintlog.dialects.mpy6a import layout as lay
from flintlog.dialects.mpy6a import scan
from flintlog.dialects.mpy6a.dialect import DIALECT
from flintlog.dialects.mpy6a.store import SessionStore
from flintlog.dialects.mpy6a.upkeep.repair import plan_repair
from flintlog.disk import Disk
from flintlog.errors import DamageError
from flintlog.testing import History, Scenario, Suite

NOW = 1_700_009_999.0
FIRST, SECOND = "30@2023111422.data", "30@2023111422-1.data"
EARLY = [b"session %d" % number for number in range(6)]
LATE = [b"late %d" % number for number in range(2)]
OPENED = b"an open one"


def _fill(disk: Disk, *, strict: bool) -> None:
    """Two files, the first read in part; the logs hold something; with a log also an open session."""
    store = SessionStore(ROOT, topics=TOPICS, strict=strict, on_exhausted=print, reserve_bytes=0, disk=disk)
    for number, data in enumerate(EARLY[:3]):
        store.put(1, data, now=T0 + number)
    store.rotate(30, now=T0 + 5)
    for number, data in enumerate(EARLY[3:]):
        store.put(1, data, now=T0 + 5 + number)
    store.snapshot()
    (session,) = store.due(now=T0 + 30, limit=1)
    session.delete()
    for number, data in enumerate(LATE):
        store.put(1, data, now=T0 + 20 + number)
    if not strict:
        store.new(1, OPENED)
    # It is not closed: the process dies here, and lets go of the lock.
    store._engine._lock_file.close()


def _poke(disk: Disk, name: str, offset: int, data: bytes) -> None:
    with disk.open(f"{ROOT}/{name}", "write") as file:
        file.pwrite(data, offset)


def _offset(disk: Disk, name: str, number: int) -> int:
    """Where an event of a log, or a record of a data file, begins."""
    view = memoryview(disk.read(f"{ROOT}/{name}", 1 << 20))
    if name.endswith(".data"):
        return int(scan.scan_records(view)[0].offset[number])
    return int(scan.scan_log(view, checked=name == lay.OPERATIONS_FILE).events.offset[number])


def prepared(
    strict: bool, name: str, number: int, offset: int, data: bytes
) -> Callable[[Disk, History[str]], None]:
    """A directory with some bytes of one file overwritten."""

    def prepare(disk: Disk, history: History[str]) -> None:
        _fill(disk, strict=strict)
        _poke(disk, name, _offset(disk, name, number) + offset, data)

    return prepare


repair = applied("repair", lambda disk: plan_repair(disk, ROOT, lambda: NOW))


def written(disk: Disk, history: History[str]) -> None:
    _fill(disk, strict=True)


compact_by_workers = applied("compact", lambda disk: Log(DIALECT, disk, ROOT).plan_compact(Threads(1)))
Observed = tuple[str, frozenset[bytes], bool]


class RepairOracle:
    """Refused as before, or repaired: what waits is what can be read, and every original session is kept."""

    def __init__(self, *lost: bytes, again: Sequence[bytes] = ()) -> None:
        waiting = {*EARLY[1:], *LATE} - set(lost)
        self._fewest = frozenset(waiting)
        self._most = frozenset({*waiting, *again})

    def recover(self, disk: Disk) -> Observed:
        try:
            _opened(disk).close()
        except DamageError:
            assert Log(DIALECT, disk, ROOT).verify().verdict != "clean"
            return "corrupt", frozenset(), _kept(disk)
        return "clean", _waiting(disk), _kept(disk)

    def check(self, observed: Observed, issued: Sequence[str], acknowledged: Sequence[str]) -> str | None:
        verdict, waiting, kept = observed
        if not kept:
            return "an original session is gone"
        if verdict == "corrupt":
            return "the repair was acknowledged and the directory is corrupt" if acknowledged else None
        if not self._fewest <= waiting <= self._most:
            return f"{sorted(waiting)} is not between {sorted(self._fewest)} and {sorted(self._most)}"
        return None

    def extend(self, disk: Disk, observed: Observed) -> Observed:
        if observed[0] == "corrupt":
            plan_repair(disk, ROOT, lambda: NOW + 60).apply()
        with _opened(disk) as store:
            store.put(1, b"one more", now=T0 + 99)
        waiting = _waiting(disk)
        assert self._fewest | {b"one more"} <= waiting <= self._most | {b"one more"}, sorted(waiting)
        return "clean", waiting, True


def _opened(disk: Disk) -> SessionStore:
    strict = disk.stat(f"{ROOT}/{lay.OPERATIONS_FILE}") is None
    return SessionStore(ROOT, topics=TOPICS, strict=strict, on_exhausted=print, disk=disk)


def _waiting(disk: Disk) -> frozenset[bytes]:
    rows = [row["data"] for batch in Log(DIALECT, disk, ROOT).state() for row in batch.to_pylist()]
    assert len(rows) == len(set(rows)), rows
    return frozenset(rows)


def _kept(disk: Disk) -> bool:
    content = b"".join(contents(disk, ROOT))
    return all(data in content for data in (*EARLY, *LATE))


def _suite(name: str, oracle: RepairOracle, *scenarios: Scenario[str]) -> Suite[str, Observed]:
    return Suite(f"tests.crash.mpy6a_upkeep:{name}", oracle, scenarios)


PIECE = 16  # writes of a repair are torn at these; what it replaces is kept aside anyway
_TERM = (8, bytes(8))  # of a record
_LENGTH = (16, b"\xff\x7f")  # of an event

RECORD = _suite(
    "RECORD",
    RepairOracle(EARLY[4]),
    Scenario(
        "repair-a-record-of-the-note", repair, prepare=prepared(True, SECOND, 1, *_TERM), atomic_bytes=PIECE
    ),
    Scenario("repair-a-record", repair, prepare=prepared(False, SECOND, 1, *_TERM), atomic_bytes=PIECE),
)
READ = _suite(
    "READ",
    RepairOracle(),
    Scenario(
        "repair-a-record-that-was-read-of-the-note",
        repair,
        prepare=prepared(True, FIRST, 0, *_TERM),
        atomic_bytes=PIECE,
    ),
    Scenario(
        "repair-a-record-that-was-read", repair, prepare=prepared(False, FIRST, 0, *_TERM), atomic_bytes=PIECE
    ),
    Scenario(
        "repair-times-of-the-note", repair, prepare=prepared(True, SECOND, 1, 0, b"\x01"), atomic_bytes=PIECE
    ),
    Scenario("repair-times", repair, prepare=prepared(False, SECOND, 1, 0, b"\x01"), atomic_bytes=PIECE),
)


class CompactOracle(RepairOracle):
    """What waits is the same whether files were merged or not; what is done with may go."""

    def recover(self, disk: Disk) -> Observed:
        verdict, waiting, _ = super().recover(disk)
        return verdict, waiting, True


COMPACT = _suite(
    "COMPACT", CompactOracle(), Scenario("compact-by-workers", compact_by_workers, prepare=written)
)
LOGS = _suite(
    "LOGS",
    RepairOracle(again=EARLY[:1]),
    Scenario(
        "repair-the-change-log",
        repair,
        prepare=prepared(True, lay.CHANGES_FILE, 0, *_LENGTH),
        atomic_bytes=PIECE,
    ),
    Scenario(
        "repair-the-operation-log",
        repair,
        prepare=prepared(False, lay.OPERATIONS_FILE, 2, 20, b"\xff"),
        atomic_bytes=PIECE,
    ),
    Scenario(
        "repair-the-checkpoint",
        repair,
        prepare=prepared(False, lay.OPERATIONS_FILE, 0, 20, b"\xff"),
        atomic_bytes=PIECE,
    ),
)
