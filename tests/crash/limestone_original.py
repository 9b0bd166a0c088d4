"""Crash scenarios of a compaction beside sessions: what the original sees is what we see, after any crash."""

from __future__ import annotations

from tests.crash.limestone_store import ROOT, Driver, Item, LogOracle, State
from tests.limestone.original_rule import seen_by_the_original

from flintlog.dialects.limestone import layout as lay
from flintlog.disk import Disk
from flintlog.testing import History, Scenario, Suite


def mixed_logs(disk: Disk, history: History[Item]) -> None:
    """Two logs with durable sessions; each has the newer entry of one key."""
    with Driver(disk, history, edition="shipped") as app:
        app.write(0, (1, b"a", b"1"))
        app.write(1, (1, b"b", b"1"))
        app.switch()
        app.write(0, (1, b"b", b"2"))
        app.write(1, (1, b"a", None))
        app.switch()


def compacts_beside(disk: Disk, history: History[Item]) -> None:
    """A session is open when its log is rotated and compacted."""
    with Driver(disk, history) as app:
        app.write(0, (1, b"c", b"3"))
        app.switch()
        with app.session(0, (1, b"d", b"4")):
            assert app.store.compact() is not None
        app.switch()


class OriginalOracle(LogOracle):
    """The state, if the original sees the same after our recovery, and no log went before the catalog that lists it."""

    def recover(self, disk: Disk) -> State:
        early = _went_early(disk)
        ours = super().recover(disk)
        theirs = seen_by_the_original(disk, ROOT)
        seen = frozenset((storage, key, value) for (storage, key), value in theirs.items())
        if early:
            return frozenset({(0, b"logs are gone that the catalog does not know of", b"")})
        return ours if seen == ours else frozenset({(0, b"the original sees", repr(theirs).encode())})


def _went_early(disk: Disk) -> bool:
    """The logs of `mixed_logs` may go when the catalog has reached their epochs."""
    catalog = lay.decode_catalog(disk.read(f"{ROOT}/{lay.CATALOG_FILE}", 1 << 20))
    channels = {name[:9] for name in disk.list(ROOT) if name.startswith("pwal_") and "compacted" not in name}
    return catalog.max_epoch < 2 and channels != {"pwal_0000", "pwal_0001"}


SUITE = Suite(
    "tests.crash.limestone_original:SUITE",
    OriginalOracle(),
    # Writes that arrive in part are a matter of `shipped-compacts`, which tears each at every byte.
    (Scenario("compacts-beside-sessions", compacts_beside, prepare=mixed_logs, atomic_bytes=1 << 12),),
)
