"""Golden directories with bytes changed: whatever they hold, only our own errors come out."""

from __future__ import annotations

import random
import struct
from functools import cache

import pytest
from tests.fuzz.mutations import (
    Files,
    Mutations,
    assert_fields_or_our_own_errors,
    eight_others,
    refusals,
    ways_to_read,
)
from tests.limestone.recorded import ROOT, every

from flintlog.core.log import Log
from flintlog.dialects.limestone.dialect import DIALECT
from flintlog.disk import Disk
from flintlog.testing import MemoryKernel, State

INPUTS = 5_000
GROUPS = 4
LENGTHS = (0, 1, 3, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFFFE, 1 << 24, 255, 256)
NAMES = (
    "pwal_0000",
    "pwal_0001.01700000000000.0",
    "pwal_0000.compacted",
    "cmpct_0001",
    "epoch",
    "pwal_x",
    "compaction_catalog",
    "compaction_catalog.back",
    "limestone-manifest.json.back",
    "epoch.01700000000000.9",
)


@cache
def golden_files() -> list[dict[str, bytes]]:
    """Every golden directory by names and bytes."""
    found = []
    for case, variant in every():
        root = ROOT / case / variant
        found.append(
            {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
        )
    return found


def machine(files: dict[str, bytes]) -> MemoryKernel:
    """A kernel in memory with these files in /log."""
    content = dict(enumerate(files.values(), 1000))
    names: dict[int, dict[str, int]] = {1: {"log": 2}, 2: {}}
    for number, name in enumerate(files, 1000):
        *folders, last = name.split("/")
        at = 2
        for folder in folders:
            at = names[at].setdefault(folder, len(names) + 1)
            names.setdefault(at, {})
        names[at][last] = number
    return MemoryKernel(State(content, names))


def length(random_: random.Random) -> bytes:
    return struct.pack("<I", random_.choice(LENGTHS))


def begun(data: bytearray, at: int, random_: random.Random) -> None:
    data[at:at] = struct.pack(
        "<BQ", random_.choice((2, 3, 4, 6)), random_.choice((0, 1, 5, 2**63, 2**64 - 1))
    )


def of_another_type(data: bytearray, at: int, random_: random.Random) -> None:
    data[at : at + 1] = bytes([random_.randrange(12)])


def moved(files: Files, name: str, random_: random.Random) -> bool:
    moves = random_.random() < 0.1
    if moves:
        files[random_.choice(NAMES)] = files.pop(name)
    return moves


mutated = Mutations(length, (begun, eight_others, of_another_type), 60, moved).mutated


@pytest.mark.long
@pytest.mark.parametrize("group", range(GROUPS))
def test_only_our_own_errors_come_out_of_mutated_directories(group):
    random_ = random.Random(group)
    refused = 0
    for _ in range(INPUTS // GROUPS):
        kernel = machine(mutated(random_.choice(golden_files()), random_))
        log = Log(DIALECT, Disk(kernel), "/log")
        refused += refusals(log, kernel, [*ways_to_read(log), lambda log=log: log.state((2,)).to_table()])
    assert refused > INPUTS // GROUPS // 2  # the mutations bite


def test_entries_explained_byte_by_byte_never_fail_otherwise():
    random_ = random.Random(77)
    for _ in range(1500):
        kernel = machine(mutated(random_.choice(golden_files()), random_))
        assert_fields_or_our_own_errors(Log(DIALECT, Disk(kernel), "/log"))


def test_a_clean_verdict_means_that_the_state_can_be_read():
    random_ = random.Random(3)
    originals = golden_files()
    opened = 0
    for _ in range(1500):
        disk = Disk(machine(mutated(random_.choice(originals), random_)))
        inventory = Log(DIALECT, disk, "/log").verify()
        if inventory.verdict in ("clean", "repairable"):
            rows = sum(batch.num_rows for batch in Log(DIALECT, disk, "/log").state())
            assert rows == inventory.facts["keys"]
            opened += 1
    assert opened > 300
