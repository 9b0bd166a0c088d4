"""Crash scenarios of exports: the log stands still, the target is written when the power fails."""

from __future__ import annotations

import json
from collections.abc import Sequence

from flintlog.dialects.zmqraft.layout import Entry
from flintlog.dialects.zmqraft.store import RaftStore, Stamps
from flintlog.disk import Disk
from flintlog.pipeline.jobs import export
from flintlog.pipeline.target import View
from flintlog.testing import History, Scenario, Suite

LOG, TARGET = "/srv/peer", "/srv/export"
HALF = 3
WHOLE = tuple(range(1, 2 * HALF + 1))
Observed = tuple[int, ...]


def append(disk: Disk, first: int) -> None:
    with RaftStore(LOG, disk=disk, capacity=4, stamps=Stamps(lambda: 0, "host", process=7)) as store:
        store.append([Entry(1, b"%d" % number) for number in range(first, first + HALF)])


def run(disk: Disk, view: View) -> None:
    export(None, LOG, TARGET, view=view, format="ndjson", disk=disk)


def shown(disk: Disk) -> tuple[int, ...]:
    """What whoever reads the directory sees."""
    found: list[int] = []
    for name in disk.list(TARGET):
        if name.endswith(".ndjson"):
            rows = disk.read(f"{TARGET}/{name}", 1 << 20).decode().splitlines()
            found += [json.loads(row)["index"] for row in rows if "zmqraft" not in row]
            found += [json.loads(row)["position"] for row in rows if "zmqraft" in row]
    return tuple(sorted(found))


class Rerun:
    """The next run brings everything, once."""

    def __init__(self, view: View) -> None:
        self._view: View = view

    def recover(self, disk: Disk) -> Observed:
        run(disk, self._view)
        return shown(disk)

    def check(self, observed: Observed, issued: Sequence[str], acknowledged: Sequence[str]) -> str | None:
        return None if observed == WHOLE else f"after the next run there is {observed}"

    def extend(self, disk: Disk, observed: Observed) -> Observed:
        run(disk, self._view)
        return WHOLE


def wrong_for_a_reader(view: View, observed: Observed, *, ended: bool) -> str | None:
    """Whoever reads in the meantime sees no row twice and nothing wrong; what had ended is there."""
    if ended:
        return None if observed == WHOLE else f"an export that had ended shows {observed}"
    if view == "entries":
        fits = observed == WHOLE[: len(observed)] and len(observed) >= HALF
    else:
        fits = set(observed) <= set(WHOLE) and len(set(observed)) == len(observed)
    return None if fits else f"a reader sees {observed}"


def _scenario(view: View) -> Scenario[str]:
    def prepare(disk: Disk, history: History[str]) -> None:
        append(disk, 1)
        run(disk, view)
        append(disk, 1 + HALF)

    def body(disk: Disk, history: History[str]) -> None:
        history.issue("export")
        run(disk, view)
        history.acknowledge("export")

    return Scenario(f"export-{view}", body, prepare=prepare)


ENTRIES: Suite = Suite("tests.crash.export_target:ENTRIES", Rerun("entries"), (_scenario("entries"),))
STATE: Suite = Suite("tests.crash.export_target:STATE", Rerun("state"), (_scenario("state"),))
