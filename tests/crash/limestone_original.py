"""Crash scenarios of a compaction beside sessions: what the original sees is what we see, after any crash."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from tests.crash.limestone_store import ROOT, Driver, Item, LogOracle, State
from tests.limestone.original_rule import (
    compacted_by_the_original,
    listed_above_the_epoch,
    seen_by_the_original,
)

from flintlog.dialects.limestone import layout as lay
from flintlog.disk import Disk
from flintlog.testing import History, MemoryKernel, Scenario, Suite


def mixed_logs(disk: Disk, history: History[Item], edition: str = "shipped") -> None:
    """Two logs with durable sessions; each has the newer entry of one key."""
    with Driver(disk, history, edition=edition) as app:
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


def compacts_while_epochs_end(disk: Disk, history: History[Item]) -> None:
    """A log has a session that waits for its epoch, another one is open; both become durable under the compaction."""
    steps: list[Callable[[], None]] = []

    def on_progress(done: int, total: int) -> None:
        while steps:
            steps.pop(0)()

    with Driver(Disk(disk.kernel, on_progress), history) as app:
        app.write(0, (1, b"c", b"3"), (1, b"a", b"5"))
        app.switch()
        app.write(0, (1, b"c", None), (1, b"d", b"4"))
        with ExitStack() as session:
            session.enter_context(app.session(1, (1, b"a", None), (1, b"e", b"6")))
            steps += [session.close, app.switch]
            assert app.store.compact() is not None
        assert not steps
        app.write(0, (1, b"d", b"7"))
        app.switch()


class OriginalOracle(LogOracle):
    """The state, if the original sees the same, before our recovery and after it, and we see the same when it has
    compacted what it saw. No catalog lists a log that the original still needs, and no log went before its catalog."""

    def recover(self, disk: Disk) -> State:
        wrong = _went_early(disk) or listed_above_the_epoch(disk, ROOT)
        copy = Disk(MemoryKernel())
        compacted_by_the_original(disk, ROOT, copy)
        views = [_seen(disk), super().recover(copy)]
        ours = super().recover(disk)
        views.append(_seen(disk))
        if wrong:
            return frozenset({(0, b"the catalog and the logs contradict each other", b"")})
        return (
            ours if views == [ours] * 3 else frozenset({(0, b"not all see the same", repr(views).encode())})
        )


def _seen(disk: Disk) -> State:
    theirs = seen_by_the_original(disk, ROOT)
    return frozenset((storage, key, value) for (storage, key), value in theirs.items())


def _went_early(disk: Disk) -> bool:
    """The logs of `mixed_logs` may go when the catalog has reached their epochs."""
    catalog = lay.decode_catalog(disk.read(f"{ROOT}/{lay.CATALOG_FILE}", 1 << 20))
    channels = {name[:9] for name in disk.list(ROOT) if name.startswith("pwal_") and "compacted" not in name}
    return catalog.max_epoch < 2 and channels != {"pwal_0000", "pwal_0001"}


SUITE = Suite(
    "tests.crash.limestone_original:SUITE",
    OriginalOracle(),
    # Writes that arrive in part are a matter of `shipped-compacts`, which tears each at every byte.
    (
        Scenario("compacts-beside-sessions", compacts_beside, prepare=mixed_logs, atomic_bytes=1 << 12),
        Scenario(
            "compacts-while-epochs-end", compacts_while_epochs_end, prepare=mixed_logs, atomic_bytes=1 << 12
        ),
    ),
)
