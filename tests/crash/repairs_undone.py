"""Crash scenarios of `repair --undo`: each file is the repaired or the original one, and a second undo finishes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.crash import limestone_upkeep, mpy6a_upkeep, taskflux_upkeep, zmqraft_upkeep

from flintlog.core.dialect import Dialect, dialect
from flintlog.core.journal import KEPT_DIRECTORY, read_record, tree
from flintlog.core.log import Log
from flintlog.disk import Disk
from flintlog.testing import History, Scenario, Suite

Files = dict[str, bytes]
Prepare = Callable[[Disk, History[str]], None]
Seen = tuple[tuple[tuple[str, bytes], ...], str]


class UndoOracle:
    """What the files were before the repair and after it is learned once, from a disk of its own."""

    def __init__(self, name: str, root: str, prepare: Prepare) -> None:
        self._dialect: Dialect = dialect(name)
        self._root = root
        self._prepare = prepare
        self._original: Files = {}
        self._repaired: Files = {}

    def prepare(self, disk: Disk, history: History[str]) -> None:
        self._prepare(disk, history)
        self._original = self._files(disk)
        Log(self._dialect, disk, self._root).plan_repair().apply()
        self._repaired = self._files(disk)
        assert self._repaired != self._original

    def undo(self, disk: Disk, history: History[str]) -> None:
        history.issue("undo")
        Log(self._dialect, disk, self._root).plan_undo().apply()
        history.acknowledge("undo")

    def recover(self, disk: Disk) -> Seen:
        """What an operator does: look, and finish an undo that was cut short."""
        files = self._files(disk)
        for name in self._original.keys() | self._repaired.keys():
            assert files.get(name) in (self._original.get(name), self._repaired.get(name)), name
        if self._stage(disk) == "undoing":
            Log(self._dialect, disk, self._root).plan_undo().apply()
        return tuple(self._files(disk).items()), self._stage(disk)

    def check(self, observed: Seen, issued: Sequence[str], acknowledged: Sequence[str]) -> str | None:
        files, stage = dict(observed[0]), observed[1]
        if acknowledged and stage != "undone":
            return f"the undo was acknowledged, and its record says {stage}"
        expected = self._original if stage == "undone" else self._repaired
        return None if files == expected else f"{stage}, and the files are others"

    def extend(self, disk: Disk, observed: Seen) -> Seen:
        if observed[1] != "undone":
            Log(self._dialect, disk, self._root).plan_undo().apply()
        return tuple(self._original.items()), "undone"

    def _place(self) -> str:
        return f"{self._root}/data" if self._dialect.name == "taskflux" else self._root

    def _files(self, disk: Disk) -> Files:
        return {name: disk.read(f"{self._place()}/{name}", 1 << 20) for name in tree(disk, self._place())}

    def _stage(self, disk: Disk) -> str:
        kept = f"{self._place()}/{KEPT_DIRECTORY}"
        [name] = [name for name in disk.list(kept) if disk.is_directory(f"{kept}/{name}")]
        record = read_record(disk, f"{kept}/{name}")
        assert record is not None
        return record.stage


def _suite(variable: str, oracle: UndoOracle, name: str) -> Suite:
    scenario = Scenario(name, oracle.undo, prepare=oracle.prepare, atomic_bytes=4)
    return Suite(f"tests.crash.repairs_undone:{variable}", oracle, (scenario,))


TASKFLUX = _suite(
    "TASKFLUX",
    UndoOracle("taskflux", taskflux_upkeep.ROOT, taskflux_upkeep.damaged_everywhere),
    "undo-queues",
)
ZMQRAFT = _suite(
    "ZMQRAFT", UndoOracle("zmqraft", zmqraft_upkeep.ROOT, zmqraft_upkeep.damaged_everywhere), "undo-peer"
)
MPY6A = _suite(
    "MPY6A",
    UndoOracle("mpy6a", mpy6a_upkeep.ROOT, mpy6a_upkeep.prepared(True, mpy6a_upkeep.SECOND, 1, 8, bytes(8))),
    "undo-sessions",
)
LIMESTONE = _suite(
    "LIMESTONE", UndoOracle("limestone", limestone_upkeep.ROOT, limestone_upkeep.damaged), "undo-keys"
)
