"""Crash scenarios of upkeep: snapshot, compaction and repair finish, or leave what was there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tests.crash.promises import applied, contents
from tests.crash.zmqraft_peer import NOW, ROOT, Peer, opened, shown

from flintlog.core.dialect import GivenState
from flintlog.core.log import Log
from flintlog.dialects.zmqraft.dialect import DIALECT
from flintlog.dialects.zmqraft.layout import Entry, index_path
from flintlog.dialects.zmqraft.upkeep.compact import plan_compact
from flintlog.dialects.zmqraft.upkeep.repair import plan_repair
from flintlog.dialects.zmqraft.upkeep.snapshot import plan_snapshot
from flintlog.disk import Disk
from flintlog.errors import DamageError
from flintlog.testing import History, Scenario, Suite

DATAS = [b"entry %d" % number * 3 for number in range(14)]
COVERED = 9
WHOLE_BEFORE_DAMAGE = 4  # the slot of the fifth entry is damaged


def written(disk: Disk, history: History[str]) -> None:
    with opened(disk) as store:
        store.append([Entry(1, data) for data in DATAS])
        store.set_hard_state(term=1, vote="me")


def written_with_snapshot(disk: Disk, history: History[str]) -> None:
    written(disk, history)
    with opened(disk) as store:
        store.snapshot(COVERED, b"state", prune=False)


def damaged(disk: Disk, history: History[str]) -> None:
    written(disk, history)
    _poke(disk, index_path(4), 24 + 4, b"\xff\xff\xff\x00")


def damaged_before_another_directory(disk: Disk, history: History[str]) -> None:
    """The files behind the damage lie in the next directory of the tree."""
    first = (1 << 20) - 8
    with opened(disk) as store:
        store.install_snapshot(first - 1, 1, b"state")
        store.append([Entry(1, data) for data in DATAS])
    _poke(disk, index_path(first + 4), 24, b"\xff\xff\xff\x00")


def damaged_everywhere(disk: Disk, history: History[str]) -> None:
    damaged(disk, history)
    _poke(disk, "snap", 0, b"not a snapshot")
    with disk.open(f"{ROOT}/raft.pers", "write") as file:
        file.pwrite(b"\xc1", file.size())


def damaged_below_the_snapshot(disk: Disk, history: History[str]) -> None:
    """The header of a file that the snapshot covers: it opens no more, and nothing in it is needed."""
    written_with_snapshot(disk, history)
    _poke(disk, index_path(4), 0, b"not a token")


def misplaced(disk: Disk, history: History[str]) -> None:
    """The last two files stand in the directory above their own."""
    written_with_snapshot(disk, history)
    for first in (8, 12):
        name = index_path(first)
        disk.rename(f"{ROOT}/{name}", f"{ROOT}/log/{name.rpartition('/')[2]}")


def _poke(disk: Disk, name: str, offset: int, data: bytes) -> None:
    with disk.open(f"{ROOT}/{name}", "write") as file:
        file.pwrite(data, offset)


compact = applied("compact", lambda disk: plan_compact(disk, ROOT))
GIVEN = GivenState("a file", None, lambda: iter([b"sta", b"te"]))
snapshot = applied("snapshot", lambda disk: plan_snapshot(disk, ROOT, COVERED, GIVEN))
repair = applied("repair", lambda disk: plan_repair(disk, ROOT, lambda: NOW))
ALL_ENTRIES = tuple((1, data) for data in DATAS)
WITHOUT_SNAPSHOT = Peer(1, "me", 0, (0, 0, b""), ALL_ENTRIES)
WITH_SNAPSHOT = Peer(1, "me", 0, (COVERED, 1, b"state"), ALL_ENTRIES[COVERED:])


class SameOracle:
    """The peer is one of those given; the last of them once the verb returned."""

    def __init__(self, *allowed: Peer) -> None:
        self._allowed = allowed

    def recover(self, disk: Disk) -> Peer:
        with opened(disk) as store:
            return shown(store)

    def check(self, observed: Peer, issued: Sequence[str], acknowledged: Sequence[str]) -> str | None:
        allowed = self._allowed[-1:] if acknowledged else self._allowed
        return None if observed in allowed else f"{observed} is none of {allowed}"

    def extend(self, disk: Disk, observed: Peer) -> Peer:
        with opened(disk) as store:
            store.append([Entry(2, b"one more")])
        return Peer(1, "me", 0, observed.snapshot, (*observed.entries, (2, b"one more")))


class CoveredOracle:
    """Refused as before, or repaired with nothing lost; every original entry is kept or still in its place."""

    def recover(self, disk: Disk) -> tuple[Peer | None, bool]:
        try:
            with opened(disk) as store:
                return shown(store), _kept(disk)
        except DamageError:
            return None, _kept(disk)

    def check(
        self, observed: tuple[Peer | None, bool], issued: Sequence[str], acknowledged: Sequence[str]
    ) -> str | None:
        peer, kept = observed
        if not kept:
            return "an original entry is gone"
        if peer is None:
            return "the repair was acknowledged and the directory refuses to open" if acknowledged else None
        return None if peer == WITH_SNAPSHOT else f"{peer} is not {WITH_SNAPSHOT}"

    def extend(self, disk: Disk, observed: tuple[Peer | None, bool]) -> tuple[Peer | None, bool]:
        if observed[0] is None:
            plan = plan_repair(disk, ROOT, lambda: NOW + 60)
            assert not plan.lost
            plan.apply()
        with opened(disk) as store:
            store.append([Entry(2, b"one more")])
        return replace(WITH_SNAPSHOT, entries=(*WITH_SNAPSHOT.entries, (2, b"one more"))), True


Observed = tuple[str, tuple[bytes, ...], bool]


class RepairOracle:
    """Refused as before, or repaired; every original entry is kept or still in its place."""

    def recover(self, disk: Disk) -> Observed:
        verdict = Log(DIALECT, disk, ROOT).verify().verdict
        datas: tuple[bytes, ...] = ()
        if verdict != "corrupt":
            with opened(disk) as store:
                datas = tuple(entry.data for entry in store.entries(store.first_index))
        return verdict, datas, _kept(disk)

    def check(self, observed: Observed, issued: Sequence[str], acknowledged: Sequence[str]) -> str | None:
        verdict, datas, kept = observed
        if not kept:
            return "an original entry is gone"
        if verdict == "corrupt":
            return "the repair was acknowledged and the directory is corrupt" if acknowledged else None
        expected = tuple(DATAS[:WHOLE_BEFORE_DAMAGE])
        return None if datas == expected else f"{datas} is not what stands before the damage"

    def extend(self, disk: Disk, observed: Observed) -> Observed:
        if observed[0] == "corrupt":
            plan_repair(disk, ROOT, lambda: NOW + 60).apply()
        with opened(disk) as store:
            store.append([Entry(9, b"one more")])
        return "clean", (*DATAS[:WHOLE_BEFORE_DAMAGE], b"one more"), True


def _kept(disk: Disk) -> bool:
    """Does every entry that was written still lie in the directory or aside?"""
    content = b"".join(contents(disk, ROOT))
    return all(data in content for data in DATAS)


COMPACT = Suite(
    "tests.crash.zmqraft_upkeep:COMPACT",
    SameOracle(WITH_SNAPSHOT),
    (Scenario("compact-verb", compact, prepare=written_with_snapshot, atomic_bytes=4),),
)
SNAPSHOT = Suite(
    "tests.crash.zmqraft_upkeep:SNAPSHOT",
    SameOracle(WITHOUT_SNAPSHOT, WITH_SNAPSHOT),
    (Scenario("given-snapshot-verb", snapshot, prepare=written, atomic_bytes=4),),
)
REPAIR = Suite(
    "tests.crash.zmqraft_upkeep:REPAIR",
    RepairOracle(),
    (
        Scenario("repair-an-entry", repair, prepare=damaged, atomic_bytes=4),
        Scenario("repair-over-directories", repair, prepare=damaged_before_another_directory, atomic_bytes=4),
        Scenario("repair-all-files-of-a-peer", repair, prepare=damaged_everywhere, atomic_bytes=4),
    ),
)
REPAIR_COVERED = Suite(
    "tests.crash.zmqraft_upkeep:REPAIR_COVERED",
    CoveredOracle(),
    (
        Scenario("repair-below-the-snapshot", repair, prepare=damaged_below_the_snapshot, atomic_bytes=4),
        Scenario("repair-misplaced-files", repair, prepare=misplaced, atomic_bytes=4),
    ),
)
