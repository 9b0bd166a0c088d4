"""One rule for verdicts, over every damaged directory: verify, opening, the state, repair and undo say the same."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest
from tests.every_damage import DIALECTS, damaged, open_store
from tests.golden_cases import snapshot_of

from flintlog import QueueStore
from flintlog.core.dialect import Dialect, dialect
from flintlog.core.inventory import Inventory
from flintlog.core.log import Log, open_log
from flintlog.core.plan import Plan
from flintlog.core.rounds import repair
from flintlog.disk import Disk, KernelInFront, LocalKernel
from flintlog.errors import FlintlogError

pytestmark = pytest.mark.usefixtures("still")

CORRUPT_AND_OPENS = {"limestone": {"blob-missing"}}


def files_of(root: Path) -> dict[str, bytes]:
    found = snapshot_of(root).items()
    return {name: raw for name, raw in found if raw is not None and "kept" not in name.split("/")}


def opens(name: str, root: Path) -> bool:
    copy = root.parent / f"{root.name}-opened"
    shutil.copytree(root, copy)
    try:
        open_store(name, copy)
    except FlintlogError:
        return False
    finally:
        shutil.rmtree(copy)
    return True


def reads(log: Dialect, root: Path) -> bool:
    try:
        for _ in Log(log, Disk(), str(root)).state():
            pass
    except FlintlogError:
        return False
    return True


def wrong_before(log: Dialect, root: Path, seen: Inventory, plan: Plan) -> str | None:
    """What the verbs say of a directory as it is, where it is not the same."""
    codes = {item.code for item in seen.findings if item.severity != "note"}
    opened, read = opens(log.name, root), reads(log, root)
    gives_up = bool(plan.lost) or plan.refusal is not None
    if plan.exit_status != seen.exit_status:
        return f"verify says {seen.exit_status}, repair {plan.exit_status}"
    if gives_up and seen.verdict in ("clean", "repairable"):
        return f"{seen.verdict}, and a repair gives up {plan.lost} {plan.refusal}"
    if seen.verdict == "corrupt" and not gives_up:
        return f"corrupt by {codes}, and a repair gives nothing up"
    if (opened and not read) or (read and not opened and seen.verdict != "repairable"):
        return f"opens: {opened}, and has a state: {read}"
    if seen.verdict == "clean" and not opened:
        return "clean, and does not open"
    if (
        seen.verdict in ("corrupt", "unsupported")
        and opened
        and not codes & CORRUPT_AND_OPENS.get(log.name, set())
    ):
        return f"{seen.verdict} by {codes}, and opens"
    return None


def wrong_after(log: Dialect, root: Path, plan: Plan) -> str | None:
    """What a repair does, where it does not do what it says."""
    before = files_of(root)
    try:
        done = repair(Log(log, Disk(), str(root)), plan)
    except FlintlogError as error:
        return f"the repair fails: {error}"
    if done.after.verdict == "clean" and not (opens(log.name, root) and reads(log, root)):
        return "clean after the repair, and does not open"
    if done.further is not None and done.further.exit_status != done.after.exit_status:
        return "after the repair verify and repair do not say the same"
    Log(log, Disk(), str(root)).plan_undo().apply()
    return None if files_of(root) == before else "the undo is not exact"


@pytest.mark.long
@pytest.mark.parametrize("name", DIALECTS)
def test_every_verb_says_the_same_of_every_damaged_directory(name, tmp_path):
    log = dialect(name)
    wrong, repaired = {}, 0
    for case, root in damaged(name, tmp_path):
        seen = Log(log, Disk(), str(root)).verify()
        plan = Log(log, Disk(), str(root)).plan_repair()
        problem = wrong_before(log, root, seen, plan)
        if problem is None and plan.refusal is None and not plan.empty:
            repaired += 1
            problem = wrong_after(log, root, plan)
        if problem is not None:
            wrong[case] = problem
        shutil.rmtree(root)
    assert not wrong
    assert repaired > 30


class Going(KernelInFront):
    """A kernel under which each file in turn goes away for a moment, as when another repair works here."""

    def __init__(self) -> None:
        super().__init__(LocalKernel())
        self.going = ""

    def open(self, path: str, flags: int) -> int:
        if self.going and path.endswith(self.going):
            self.going = ""
            raise FileNotFoundError(errno.ENOENT, "gone", path)
        return super().open(path, flags)


def test_a_repair_that_is_planned_again_bears_with_files_that_go_meanwhile(tmp_path):
    with QueueStore(tmp_path / "log") as store:
        store.queue().add(b"one")
    [segment] = (tmp_path / "log").rglob("0*.log")
    segment.write_bytes(segment.read_bytes()[:-4] + b"\xff" * 4)
    kernel = Going()
    plan = open_log(str(tmp_path / "log"), disk=Disk(kernel)).plan_repair()
    assert plan.steps
    segment.touch()  # so that the plan is made again before it is carried out
    kernel.going = segment.name
    assert plan.apply().startswith("repaired") and not kernel.going
