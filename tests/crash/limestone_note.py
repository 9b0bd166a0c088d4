"""Crash scenarios of a compaction beside sessions: who follows the design note sees what we see, after any crash."""

from __future__ import annotations

from functools import partial

from tests.crash.limestone_original import compacts_beside, compacts_while_epochs_end, mixed_logs
from tests.crash.limestone_store import ROOT, LogOracle, State
from tests.limestone.note_rule import seen_by_the_note
from tests.limestone.original_rule import listed_above_the_epoch

from flintlog.disk import Disk
from flintlog.testing import Scenario, Suite


class NoteOracle(LogOracle):
    """The state, if the note's reader sees the same before our recovery and after it, and no catalog lists a log with
    sessions above its epoch."""

    def recover(self, disk: Disk) -> State:
        before = _seen(disk)
        ours = super().recover(disk)
        if listed_above_the_epoch(disk, ROOT):
            return frozenset({(0, b"a log is listed that is still needed", b"")})
        views = [before, _seen(disk)]
        return (
            ours if views == [ours] * 2 else frozenset({(0, b"not all see the same", repr(views).encode())})
        )


def _seen(disk: Disk) -> State:
    return frozenset((storage, key, value) for (storage, key), value in seen_by_the_note(disk, ROOT).items())


SUITE = Suite(
    "tests.crash.limestone_note:SUITE",
    NoteOracle(),
    tuple(
        Scenario(
            f"designed-{run.__name__.replace('_', '-')}",
            run,
            prepare=partial(mixed_logs, edition="designed"),
            atomic_bytes=1 << 12,
        )
        for run in (compacts_beside, compacts_while_epochs_end)
    ),
)
