"""Crash scenarios of epochs without sessions: one that was reported as durable is over after any crash."""

from __future__ import annotations

from collections.abc import Sequence

from tests.crash.limestone_store import opened

from flintlog.disk import Disk
from flintlog.testing import History, Scenario, Suite


def switches_without_sessions(disk: Disk, history: History[int]) -> None:
    """Epochs end with nothing in them, before and behind a compaction; an item is an epoch that becomes durable."""
    with opened(disk, snapshot=False, on_durable=history.acknowledge) as store:
        for epoch in (3, 9):
            history.issue(epoch - 1)
            store.switch_epoch(epoch)
        with store.channel().session() as session:
            session.put(1, b"a", b"1")
        history.issue(19)
        store.switch_epoch(20)
        assert store.compact() is not None
        history.issue(20)
        store.switch_epoch()


class EpochOracle:
    """The durable epoch: at least the last one that was reported."""

    def recover(self, disk: Disk) -> int:
        with opened(disk, snapshot=False) as store:
            assert store.epoch > store.durable_epoch
            return store.durable_epoch

    def check(self, observed: int, issued: Sequence[int], acknowledged: Sequence[int]) -> str | None:
        least = max(acknowledged, default=0)
        if observed < least:
            return f"epoch {least} was reported as durable, and the last one is {observed}"
        return None if observed in {least, *issued} else f"epoch {observed} was never durable"

    def extend(self, disk: Disk, observed: int) -> int:
        with opened(disk, snapshot=False) as store:
            store.switch_epoch(observed + 2)
        return observed + 1


SUITE = Suite(
    "tests.crash.limestone_epochs:SUITE",
    EpochOracle(),
    (Scenario("switches-without-sessions", switches_without_sessions, atomic_bytes=4),),
)
