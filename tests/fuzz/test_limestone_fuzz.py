"""Golden directories with bytes changed: whatever they hold, only our own errors come out, and reading changes nothing.

Mutations: flipped bits, cut files, zeroed stretches, splices of one file into another, lengths that lie, names that
move. Each input goes through everything that reads a directory.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from functools import cache

import pytest
from tests.limestone.recorded import ROOT, every

from flintlog.core.dialect import EntryQuery
from flintlog.core.log import Log
from flintlog.dialects.limestone.dialect import DIALECT
from flintlog.disk import Disk
from flintlog.errors import FlintlogError
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


def mutated(files: dict[str, bytes], random_: random.Random) -> dict[str, bytes]:
    files = dict(files)
    for _ in range(random_.choice((1, 1, 1, 2, 3))):
        name = random_.choice([name for name, content in files.items() if content])
        if random_.random() < 0.1:
            files[random_.choice(NAMES)] = files.pop(name)
        else:
            files[name] = changed(files[name], files, random_)
        if not any(files.values()):
            break
    return files


def changed(content: bytes, files: dict[str, bytes], random_: random.Random) -> bytes:
    data = bytearray(content)
    at = random_.randrange(len(data) + 1)
    match random_.randrange(8):
        case 0:
            del data[at:]
        case 1:
            data[at % len(data)] ^= 1 << random_.randrange(8)
        case 2:
            data[at : at + 4] = struct.pack("<I", random_.choice(LENGTHS))
        case 3:
            other = random_.choice([*files.values()])
            begin = random_.randrange(len(other) + 1)
            data[at : at + random_.randrange(64)] = other[begin : begin + random_.randrange(200)]
        case 4:
            data[at : at + random_.randrange(60)] = bytes(random_.randrange(60))
        case 5:
            data[at:at] = struct.pack(
                "<BQ", random_.choice((2, 3, 4, 6)), random_.choice((0, 1, 5, 2**63, 2**64 - 1))
            )
        case 6:
            data[at : at + 8] = random_.randbytes(8)
        case _:
            data[at % len(data)] = random_.randrange(12)
    return bytes(data)


def read_everything(disk: Disk) -> Iterator[object]:
    """Each of the ways to read a directory; all lazily, so that one refusal does not hide the next."""
    yield lambda: Log(DIALECT, disk, "/log").verify()
    yield lambda: Log(DIALECT, disk, "/log").inspect()
    yield lambda: [batch.num_rows for batch in Log(DIALECT, disk, "/log").state()]
    yield lambda: [batch.num_rows for batch in Log(DIALECT, disk, "/log").state((2,))]
    yield lambda: [
        batch.num_rows
        for split in Log(DIALECT, disk, "/log").splits(EntryQuery())
        for batch in Log(DIALECT, disk, "/log").read_split(split, EntryQuery())
    ]


@pytest.mark.long
@pytest.mark.parametrize("group", range(GROUPS))
def test_only_our_own_errors_come_out_of_mutated_directories(group):
    random_ = random.Random(group)
    originals = golden_files()
    refused = 0
    for number in range(INPUTS // GROUPS):
        kernel = machine(mutated(random_.choice(originals), random_))
        before = len(kernel.log)
        for read in read_everything(Disk(kernel)):
            try:
                read()
            except FlintlogError as error:
                refused += 1
                assert error.code and str(error), number
        assert len(kernel.log) == before  # reading changes nothing
    assert refused > INPUTS // GROUPS // 2  # the mutations bite


def test_entries_explained_byte_by_byte_never_fail_otherwise():
    random_ = random.Random(77)
    originals = golden_files()
    for _ in range(1500):
        kernel = machine(mutated(random_.choice(originals), random_))
        try:
            for field in Log(DIALECT, Disk(kernel), "/log").fields(EntryQuery()):
                assert field.name and field.offset >= 0
        except FlintlogError as error:
            assert error.code


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
