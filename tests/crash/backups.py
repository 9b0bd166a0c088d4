"""Crash scenarios of `backup` and `restore`: there as a whole, or not at all, for every dialect."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.backup_logs import LOGS, Log

from flintlog.core.backup import backups_in, check_backup, plan_restore, take_backup
from flintlog.core.backup.listing import Backup
from flintlog.disk import Disk
from flintlog.errors import FlintlogError
from flintlog.testing import History, Scenario, Suite

LOG, PLACE, TARGET = "/srv/log", "/backups/place", "/other/new"
ITEMS = 3
Shown = tuple[object, ...]
PAGE = 1 << 12  # a copy that arrives in part is one that is not whole, wherever it ends


def _written(kind: Callable[..., Log], disk: Disk, items: int = ITEMS) -> None:
    log = kind(LOG, disk)
    for _ in range(items):
        log.add()
        log.added += 1
    log.close()


def _more(kind: Callable[..., Log], disk: Disk) -> None:
    log = kind(LOG, disk)
    log.added = ITEMS
    log.add()
    log.close()


class BackupOracle:
    """Every backup of the place holds what its list says; the log is as it was; the next backup is made."""

    def __init__(self, kind: type[Log], before: int) -> None:
        self._kind = kind
        self._before = before  # backups that were there

    def recover(self, disk: Disk) -> Shown:
        names = []
        for name, backup in backups_in(disk, PLACE):
            if not isinstance(backup, Backup):
                return (str(backup),)
            try:
                check_backup(disk, f"{PLACE}/{name}")
            except FlintlogError as error:
                return (str(error),)
            names.append(name)
        return (*names, len(self._kind.items(disk, LOG)))

    def check(self, observed: Shown, issued: Sequence[str], acknowledged: Sequence[str]) -> str | None:
        names = [f"{number + 1:04d}" for number in range(self._before + 1)]
        allowed = [names] if acknowledged else [names, names[:-1]]
        if [*observed[:-1]] not in allowed:
            return f"the backups are {observed}"
        return None if observed[-1] == ITEMS + self._before else f"the log holds {observed[-1]} items"

    def extend(self, disk: Disk, observed: Shown) -> Shown:
        taken = take_backup(disk, LOG, PLACE)
        return (*observed[:-1], taken.name, observed[-1]) if taken.new else observed


class RestoreOracle:
    """The restored log holds what it shall, or is not there."""

    def __init__(self, kind: type[Log], items: int) -> None:
        self._kind = kind
        self._items = items

    def recover(self, disk: Disk) -> Shown:
        if disk.stat(TARGET) is None:
            return ("none",)
        self._kind(TARGET, disk).close()  # whoever opens it makes its name durable
        return ("there", *self._kind.items(disk, TARGET))

    def check(self, observed: Shown, issued: Sequence[str], acknowledged: Sequence[str]) -> str | None:
        if observed == ("none",):
            return "the restore was acknowledged and is not there" if acknowledged else None
        return None if observed == ("there", *range(self._items)) else f"found {observed}"

    def extend(self, disk: Disk, observed: Shown) -> Shown:
        if observed == ("none",):
            return observed
        log = self._kind(TARGET, disk)
        log.added = self._items
        log.add()
        log.close()
        return (*observed, self._items)


def _suites(name: str, kind: type[Log]) -> list[Suite[Any]]:
    def written(disk: Disk, history: History[Any]) -> None:
        _written(kind, disk)

    def backed_up(disk: Disk, history: History[Any]) -> None:
        _written(kind, disk)
        take_backup(disk, LOG, PLACE)
        _more(kind, disk)

    def chained(disk: Disk, history: History[Any]) -> None:
        backed_up(disk, history)
        take_backup(disk, LOG, PLACE)

    def backs_up(disk: Disk, history: History[Any]) -> None:
        history.issue("backup")
        take_backup(disk, LOG, PLACE)
        history.acknowledge("backup")

    def restores(disk: Disk, history: History[Any]) -> None:
        history.issue("restore")
        plan_restore(disk, f"{PLACE}/0002", TARGET).apply()
        history.acknowledge("restore")

    def suite(word: str, oracle: Any, scenario: Scenario[Any]) -> Suite[Any]:
        return Suite(f"tests.crash.backups:{name.upper()}_{word}", oracle, (scenario,))

    return [
        suite(
            "BACKUP",
            BackupOracle(kind, 0),
            Scenario(f"{name}-full-backup", backs_up, prepare=written, atomic_bytes=PAGE),
        ),
        suite(
            "CHAIN",
            BackupOracle(kind, 1),
            Scenario(f"{name}-incremental-backup", backs_up, prepare=backed_up, atomic_bytes=PAGE),
        ),
        suite(
            "RESTORE",
            RestoreOracle(kind, ITEMS + 1),
            Scenario(f"{name}-restore-of-a-chain", restores, prepare=chained, atomic_bytes=PAGE),
        ),
    ]


TASKFLUX_BACKUP, TASKFLUX_CHAIN, TASKFLUX_RESTORE = _suites("taskflux", LOGS["taskflux"])  # type: ignore[arg-type]
ZMQRAFT_BACKUP, ZMQRAFT_CHAIN, ZMQRAFT_RESTORE = _suites("zmqraft", LOGS["zmqraft"])  # type: ignore[arg-type]
MPY6A_BACKUP, MPY6A_CHAIN, MPY6A_RESTORE = _suites("mpy6a", LOGS["mpy6a"])  # type: ignore[arg-type]
LIMESTONE_BACKUP, LIMESTONE_CHAIN, LIMESTONE_RESTORE = _suites("limestone", LOGS["limestone"])  # type: ignore[arg-type]
SUITES = (
    TASKFLUX_RESTORE,
    TASKFLUX_CHAIN,
    TASKFLUX_BACKUP,
    ZMQRAFT_RESTORE,
    ZMQRAFT_CHAIN,
    ZMQRAFT_BACKUP,
    MPY6A_RESTORE,
    MPY6A_CHAIN,
    MPY6A_BACKUP,
    LIMESTONE_RESTORE,
    LIMESTONE_CHAIN,
    LIMESTONE_BACKUP,
)
