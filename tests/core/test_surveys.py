"""Surveys that the calls of a log share: what they say, how often files are read, and when it is done again."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.backup_logs import LOGS
from tests.every_directory import every_directory

import flintlog
from flintlog import Log
from flintlog.core.dialect import dialect_names
from flintlog.core.log import open_log
from flintlog.disk import Disk, KernelInFront, LocalKernel
from flintlog.errors import FlintlogError

pytestmark = pytest.mark.usefixtures("still")


class Counting(KernelInFront):
    """Counts how often each file is opened; nobody writes here, so there is nothing to wait for."""

    def __init__(self) -> None:
        super().__init__(LocalKernel())
        self.opened: Counter[str] = Counter()

    def open(self, path: str, flags: int) -> int:
        self.opened[path] += 1
        return super().open(path, flags)

    def pause(self, seconds: float) -> None:
        pass


def rest() -> None:
    """Wait until the next change has another time than those before it."""
    time.sleep(0.2)


def said(ask: Callable[[], object]) -> object:
    try:
        return ask()
    except FlintlogError as error:
        return error.code, str(error)


def everything(log: Log) -> list[object]:
    """What its calls say; each could spoil what a later one is served."""
    asked = (
        lambda: log.inspect().json(),
        lambda: log.verify().json(),
        lambda: log.plan_repair().json(),
        lambda: log.picture(),
        lambda: log.state().to_table().to_pylist(),
    )
    return [said(ask) for ask in (*asked, asked[0], *asked[2:])]


@pytest.mark.parametrize("dialect", dialect_names())
def test_calls_that_share_surveys_say_what_each_says_alone(dialect, tmp_path, part):
    mine, of = part(8)
    directories = [*every_directory(tmp_path, dialect).values()][mine::of]
    rest()
    for path in directories:
        log = open_log(path, disk=Disk(Counting()))
        alone = everything(log)
        with log:
            assert everything(log) == alone, path


@pytest.fixture(params=LOGS)
def root(request, tmp_path) -> Path:
    store = LOGS[request.param](str(tmp_path / "log"))
    for _ in range(12):
        store.add()
    store.close()
    rest()
    return tmp_path / "log"


def damage(root: Path) -> Path:
    """Change bytes near the beginning of the largest file."""
    path = max((path for path in root.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)
    raw = bytearray(path.read_bytes())
    raw[:8] = b"\xff" * 8
    path.write_bytes(raw)
    return path


def test_a_verdict_and_its_repair_read_a_damaged_log_once(root):
    damaged = str(damage(root))
    rest()
    counts = []
    for ask in ("verify", "plan_repair"):
        kernel = Counting()
        getattr(open_log(str(root), disk=Disk(kernel)), ask)()
        counts.append(kernel.opened[damaged])
    both, alone = counts
    assert both <= alone


def test_a_change_is_seen_by_the_next_call(root):
    with flintlog.open(root) as log:
        assert log.health == log.verify().verdict == "clean" and log.plan_repair().empty
        damage(root)
        assert not log.plan_repair().empty
        assert log.health != "clean"


def test_nothing_is_held_when_with_is_over(root):
    kernel = Counting()
    with open_log(str(root), disk=Disk(kernel)) as log:
        assert log.health == "clean"
        kernel.opened.clear()
        assert log.health == "clean" and not kernel.opened
    assert log.health == "clean" and kernel.opened


def test_verify_always_reads(root):
    kernel = Counting()
    with open_log(str(root), disk=Disk(kernel)) as log:
        assert log.verify().verdict == "clean"
        kernel.opened.clear()
        assert log.verify().verdict == "clean" and kernel.opened
