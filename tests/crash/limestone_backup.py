"""Crash scenarios of backups and of the way back: there as a whole, or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.crash.limestone_store import ROOT, opened, rows_of
from tests.crash.limestone_upkeep import INSTANCE

from flintlog.dialects.limestone.store import Datastore, back_up, check_backup, restore, restore_files
from flintlog.disk import Disk
from flintlog.errors import FlintlogError
from flintlog.testing import History, Scenario, Suite

FULL, SECOND, TARGET = "/backups/full", "/backups/second", "/other/place"
ALL = frozenset({b"a", b"b", b"blob"})
Shown = tuple[str, frozenset[bytes]]


def written(disk: Disk, history: History[Any]) -> None:
    """A compacted file, a log on top of it, and a blob."""
    with opened(disk, edition="shipped", snapshot=False) as store:
        _put(store, b"a")
        store.compact()
        _put(store, b"b")
        _put(store, b"blob", (store.blobs.add(b"content"),))


def written_plainly(disk: Disk, history: History[Any]) -> None:
    """No folders: nothing else makes the way to the target durable."""
    with opened(disk, snapshot=False) as store:
        _put(store, b"a")
        _put(store, b"b")


def _put(store: Datastore, key: bytes, blobs: Sequence[int] = ()) -> None:
    with store.channel().session() as session:
        session.put(1, key, b"", blobs=blobs)
    store.switch_epoch()


def backed_up(disk: Disk, history: History[Any]) -> None:
    written(disk, history)
    with opened(disk, snapshot=False) as store:
        back_up(store, FULL)


def chained(disk: Disk, history: History[Any]) -> None:
    """The second backup builds on the first."""
    backed_up(disk, history)
    with opened(disk, snapshot=False) as store:
        _put(store, b"new")
        back_up(store, SECOND, since=[FULL])


def backs_up(disk: Disk, history: History[Any]) -> None:
    with opened(disk, snapshot=False) as store:
        history.issue("backup")
        back_up(store, FULL)
        history.acknowledge("backup")


def backs_up_what_is_new(disk: Disk, history: History[Any]) -> None:
    with opened(disk, snapshot=False) as store:
        history.issue("backup")
        back_up(store, SECOND, since=[FULL])
        history.acknowledge("backup")


def restores(disk: Disk, history: History[Any]) -> None:
    history.issue("restore")
    restore(SECOND, TARGET, chain=[FULL], disk=disk)
    history.acknowledge("restore")


def restores_to_an_epoch(disk: Disk, history: History[Any]) -> None:
    history.issue("restore")
    restore(FULL, TARGET, epoch=2, disk=disk)
    history.acknowledge("restore")


def restores_files(disk: Disk, history: History[Any]) -> None:
    history.issue("restore")
    restore_files(ROOT, TARGET, disk=disk)
    history.acknowledge("restore")


class BackupOracle:
    """The backup holds what its list says, or is not there; the directory is as it was."""

    def __init__(self, place: str, chain: Sequence[str] = ()) -> None:
        self._place = place
        self._chain = chain

    def recover(self, disk: Disk) -> Shown:
        with opened(disk, snapshot=False):
            keys = frozenset(row["key"] for row in rows_of(disk))
        if disk.stat(self._place) is None:
            return "none", keys
        try:
            check_backup(self._place, chain=self._chain, disk=disk)
        except FlintlogError as error:
            return str(error), keys
        return "whole", keys

    def check(self, observed: Shown, issued: Sequence[str], acknowledged: Sequence[str]) -> str | None:
        word, keys = observed
        if keys != ALL:
            return f"the directory holds {set(keys)}"
        if word == "none":
            return "the backup was acknowledged and is not there" if acknowledged else None
        return None if word == "whole" else word

    def extend(self, disk: Disk, observed: Shown) -> Shown:
        with opened(disk, snapshot=False) as store:
            _put(store, b"one more")
        return observed[0], observed[1] | {b"one more"}


class RestoreOracle:
    """The restored directory is what it shall be, or is not there."""

    def __init__(self, expected: frozenset[bytes]) -> None:
        self._expected = expected

    def recover(self, disk: Disk) -> Shown:
        if disk.stat(TARGET) is None:
            return "none", frozenset()
        with Datastore(TARGET, snapshot=False, disk=disk, instance=lambda: INSTANCE) as store:
            rows = rows_of(disk, TARGET)
            contents = {store.blobs.read(int(number)) for row in rows for number in row["blob_ids"]}
        if contents != ({b"content"} if b"blob" in self._expected else set()):
            return f"the blobs hold {contents}", frozenset()
        return "there", frozenset(row["key"] for row in rows)

    def check(self, observed: Shown, issued: Sequence[str], acknowledged: Sequence[str]) -> str | None:
        word, keys = observed
        if word == "none":
            return "the restore was acknowledged and is not there" if acknowledged else None
        return None if (word, keys) == ("there", self._expected) else f"{word}: {set(keys)}"

    def extend(self, disk: Disk, observed: Shown) -> Shown:
        if observed[0] == "none":
            return observed
        with Datastore(TARGET, snapshot=False, disk=disk, instance=lambda: INSTANCE) as store:
            _put(store, b"one more")
        return observed[0], observed[1] | {b"one more"}


def _suite(name: str, oracle: Any, *scenarios: Scenario[Any]) -> Suite:
    return Suite(f"tests.crash.limestone_backup:{name}", oracle, scenarios)


# A copy that arrives in part is one that is not whole, wherever it ends: pages are enough here.
PAGE = 1 << 12

BACKUP = _suite(
    "BACKUP",
    BackupOracle(FULL),
    Scenario("limestone-backup", backs_up, prepare=written, atomic_bytes=PAGE),
)
CHAIN = _suite(
    "CHAIN",
    BackupOracle(SECOND, [FULL]),
    Scenario("limestone-backup-of-what-is-new", backs_up_what_is_new, prepare=backed_up, atomic_bytes=PAGE),
)
RESTORE = _suite(
    "RESTORE",
    RestoreOracle(ALL | {b"new"}),
    Scenario("limestone-restore", restores, prepare=chained, atomic_bytes=PAGE),
)
RESTORE_EPOCH = _suite(
    "RESTORE_EPOCH",
    RestoreOracle(frozenset({b"a", b"b"})),
    Scenario("limestone-restore-to-an-epoch", restores_to_an_epoch, prepare=backed_up, atomic_bytes=PAGE),
)
RESTORE_FILES = _suite(
    "RESTORE_FILES",
    RestoreOracle(frozenset({b"a", b"b"})),
    Scenario("limestone-restore-files", restores_files, prepare=written_plainly, atomic_bytes=PAGE),
)
