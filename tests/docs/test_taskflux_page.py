"""docs/taskflux.md cannot rot: its code runs and prints what the page shows, and the calls and arguments are there."""

from __future__ import annotations

import inspect
import re

from scripts.pages.page_blocks import ROOT
from tests.docs.page_examples import test_each_example_prints_what_the_page_shows  # noqa: F401

from flintlog import QueueStore, ReplicaLog
from flintlog.dialects.taskflux.rules import Limits
from flintlog.dialects.taskflux.settings import Arguments
from flintlog.dialects.taskflux.store import Queue, Taken

PAGE = ROOT / "docs" / "taskflux.md"
EXAMPLES = 2


def table_below(title):
    text = PAGE.read_text().split(f"\n## {title}\n")[1].split("\n## ")[0]
    return [row.split("|") for row in text.splitlines() if row.startswith("| ")][1:]


def test_every_call_in_the_tables_is_there():
    owners = {"store": QueueStore, "queue": Queue, "taken": Taken}
    calls = [call for row in table_below("The calls") for call in re.findall(r"`(\w+)\.(\w+)", row[2])]
    assert len(calls) >= 16
    assert [(owner, name) for owner, name in calls if not hasattr(owners[owner], name)] == []
    named = [
        name for row in table_below("A node of a Raft cluster") for name in re.findall(r"`(\w+)\(", row[2])
    ]
    assert len(named) == 10
    assert [name for name in named if not hasattr(ReplicaLog, name)] == []


def test_every_argument_has_its_row_and_its_default():
    rows = {name: row[2].strip() for row in table_below("Opening") for name in re.findall(r"`(\w+)`", row[1])}
    arguments = inspect.signature(QueueStore).parameters
    known = {*arguments, *Arguments.__annotations__} - {"disk", "arguments"}
    assert set(rows) == known
    for name in ("preallocate", "snapshot_in_background", "path"):
        assert rows[name] == f"`{arguments[name].default}`"
    assert rows["reserve_bytes"] == f"{arguments['reserve_bytes'].default >> 20} MiB"
    limits = Limits()
    assert rows["soft_limit"] == f"{limits.soft >> 20} MiB, {limits.hard >> 20} MiB"
    assert rows["snapshot_threshold"] == str(limits.threshold)
