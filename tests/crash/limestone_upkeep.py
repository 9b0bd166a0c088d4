"""Crash scenarios of upkeep: compaction, repair and migration finish, or leave what was there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.crash.limestone_store import NOW, ROOT, opened, rows_of
from tests.crash.promises import applied, contents

from flintlog.core.log import Log
from flintlog.core.workers import Threads
from flintlog.dialects.limestone.dialect import DIALECT
from flintlog.dialects.limestone.store import Datastore
from flintlog.dialects.limestone.upkeep.compact import plan_compact
from flintlog.dialects.limestone.upkeep.migrate import plan_migrate
from flintlog.dialects.limestone.upkeep.repair import plan_repair
from flintlog.dialects.limestone.upkeep.snapshot import plan_snapshot
from flintlog.disk import Disk
from flintlog.testing import History, Scenario, Suite

TARGET = "/other/place"
INSTANCE = "f71dffa3-e8a9-4833-ab36-191b88d518e9"
KEYS = (b"a", b"b", b"c")
Shown = tuple[str, tuple[bytes, ...], bool]


def written(disk: Disk, history: History[Any]) -> None:
    with opened(disk) as store:
        channel = store.channel()
        for key in KEYS:
            with channel.session() as session:
                session.put(1, key, b"value " + key)
            store.switch_epoch()


def written_as_shipped(disk: Disk, history: History[Any]) -> None:
    """All in one session."""
    with opened(disk, edition="shipped") as store:
        with store.channel().session() as session:
            for key in KEYS:
                session.put(1, key, b"value " + key)
        store.switch_epoch()


def damaged(disk: Disk, history: History[Any]) -> None:
    """The entry of the second session begins with no type."""
    written(disk, history)
    with disk.open(f"{ROOT}/pwal_0000", "write") as file:
        size = file.size() // len(KEYS)
        file.pwrite(b"\x7f", size + 9)


compact = applied("compact", lambda disk: plan_compact(disk, ROOT))
compact_by_workers = applied("compact", lambda disk: plan_compact(disk, ROOT, Threads(1)))
snapshot_by_workers = applied("snapshot", lambda disk: plan_snapshot(disk, ROOT, None, Threads(1)))
repair = applied("repair", lambda disk: plan_repair(disk, ROOT, lambda: NOW))
convert = applied("convert", lambda disk: plan_migrate(disk, ROOT, "shipped", TARGET, lambda: INSTANCE))


def keys_of(disk: Disk, root: str = ROOT) -> tuple[bytes, ...]:
    with Datastore(root, snapshot=False, disk=disk, instance=lambda: INSTANCE):
        return tuple(row["key"] for row in rows_of(disk, root))


def is_kept(disk: Disk) -> bool:
    """Does every value that was written still lie in the directory or aside?"""
    content = b"".join(contents(disk, ROOT))
    return all(b"value " + key in content for key in KEYS)


class CompactOracle:
    """All keys at any time."""

    def recover(self, disk: Disk) -> Shown:
        return "open", keys_of(disk), True

    def check(self, observed: Shown, issued: Sequence[str], acknowledged: Sequence[str]) -> str | None:
        return None if observed[1] == KEYS else f"{observed[1]} is not {KEYS}"

    def extend(self, disk: Disk, observed: Shown) -> Shown:
        with opened(disk) as store:
            with store.channel().session() as session:
                session.put(9, b"one", b"more")
            store.switch_epoch()
        return "open", (*(key for key in observed[1] if key != b"one"), b"one"), True


class RepairOracle:
    """Refused as before, or repaired; every original byte is kept or still in its place."""

    def recover(self, disk: Disk) -> Shown:
        verdict = Log(DIALECT, disk, ROOT).verify().verdict
        return verdict, () if verdict == "corrupt" else keys_of(disk), is_kept(disk)

    def check(self, observed: Shown, issued: Sequence[str], acknowledged: Sequence[str]) -> str | None:
        verdict, keys, kept = observed
        if not kept:
            return "an original entry is gone"
        if verdict == "corrupt":
            return "the repair was acknowledged and the directory is corrupt" if acknowledged else None
        return None if keys == (b"a", b"c") else f"{keys} is not what can be saved"

    def extend(self, disk: Disk, observed: Shown) -> Shown:
        if observed[0] == "corrupt":
            plan_repair(disk, ROOT, lambda: NOW + 60).apply()
        with opened(disk, snapshot=False) as store:
            with store.channel().session() as session:
                session.put(9, b"one", b"more")
            store.switch_epoch()
        return "clean", (b"a", b"c", b"one"), True


class ConvertOracle:
    """The target is whole or not there; the source is as it was."""

    def recover(self, disk: Disk) -> Shown:
        if disk.stat(TARGET) is None:
            return "none", (), keys_of(disk) == KEYS
        verdict = Log(DIALECT, disk, TARGET).verify().verdict
        return verdict, keys_of(disk, TARGET), keys_of(disk) == KEYS

    def check(self, observed: Shown, issued: Sequence[str], acknowledged: Sequence[str]) -> str | None:
        word, keys, same = observed
        if not same:
            return "the source is another"
        if word == "none":
            return "the conversion was acknowledged and is not there" if acknowledged else None
        return None if (word, keys) == ("clean", KEYS) else f"{word} with {keys} is not clean with {KEYS}"

    def extend(self, disk: Disk, observed: Shown) -> Shown:
        return observed


COMPACT = Suite(
    "tests.crash.limestone_upkeep:COMPACT",
    CompactOracle(),
    (Scenario("limestone-compact", compact, prepare=written),),
)
COMPACT_BY_WORKERS = Suite(
    "tests.crash.limestone_upkeep:COMPACT_BY_WORKERS",
    CompactOracle(),
    (
        Scenario("limestone-compact-by-workers", compact_by_workers, prepare=written),
        Scenario(
            "limestone-compact-by-workers-shipped",
            compact_by_workers,
            prepare=written_as_shipped,
            atomic_bytes=8,
        ),
        Scenario("limestone-snapshot-by-workers", snapshot_by_workers, prepare=written),
    ),
)
REPAIR = Suite(
    "tests.crash.limestone_upkeep:REPAIR",
    RepairOracle(),
    (Scenario("limestone-repair", repair, prepare=damaged),),
)
CONVERT = Suite(
    "tests.crash.limestone_upkeep:CONVERT",
    ConvertOracle(),
    (Scenario("limestone-convert", convert, prepare=written),),
)
