"""Directories with bytes changed, and what must hold of whatever they hold then.

Mutations: flipped bits, cut files, zeroed stretches, splices of one file into another, numbers that lie, and what a
dialect has besides.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from flintlog.core.dialect import EntryQuery
from flintlog.core.log import Log
from flintlog.errors import FlintlogError
from flintlog.testing import MemoryKernel

Files = dict[str, bytes]
Change = Callable[[bytearray, int, random.Random], Any]


@dataclass(frozen=True)
class Mutations:
    """`number` gives bytes of a field, `others` change data at a place, `move` may do something to a whole file."""

    number: Callable[[random.Random], bytes]
    others: tuple[Change, ...]
    zeros_max: int = 600
    move: Callable[[Files, str, random.Random], bool] = lambda files, name, random_: False

    def mutated(self, files: Files, random_: random.Random) -> Files:
        files = dict(files)
        for _ in range(random_.choice((1, 1, 1, 2, 3))):
            name = random_.choice([name for name, content in files.items() if content] or [*files])
            if not self.move(files, name, random_):
                files[name] = self._changed(files[name], files, random_)
        return files

    def _changed(self, content: bytes, files: Files, random_: random.Random) -> bytes:
        data = bytearray(content)
        at = random_.randrange(len(data) + 1)
        match random_.randrange(5 + len(self.others)):
            case 0:
                del data[at:]
            case 1 if data:
                data[at % len(data)] ^= 1 << random_.randrange(8)
            case 2:
                number = self.number(random_)
                data[at : at + len(number)] = number
            case 3:
                other = random_.choice([*files.values()])
                begin = random_.randrange(len(other) + 1)
                data[at : at + random_.randrange(64)] = other[begin : begin + random_.randrange(200)]
            case 4:
                data[at : at + random_.randrange(self.zeros_max)] = bytes(random_.randrange(self.zeros_max))
            case which:
                self.others[which - 5](data, at, random_)
        return bytes(data)


def eight_others(data: bytearray, at: int, random_: random.Random) -> None:
    data[at : at + 8] = random_.randbytes(8)


def ways_to_read(log: Log) -> Iterator[Callable[[], object]]:
    """Each of the ways to read a directory; all lazily, so that one refusal does not hide the next."""
    yield log.verify
    yield log.plan_repair
    yield log.inspect
    yield lambda: [batch.num_rows for batch in log.state()]
    yield lambda: [
        batch.num_rows for split in log.splits(EntryQuery()) for batch in log.read_split(split, EntryQuery())
    ]


def refusals(log: Log, kernel: MemoryKernel, ways: Iterable[Callable[[], object]] | None = None) -> int:
    """How many ways to read refuse; only our own errors come out, and reading changes nothing."""
    before = len(kernel.log)
    refused = 0
    for read in ways or ways_to_read(log):
        try:
            read()
        except FlintlogError as error:
            refused += 1
            assert error.code and str(error)
    assert len(kernel.log) == before
    return refused


def assert_fields_or_our_own_errors(log: Log) -> None:
    """Entries byte by byte, as far as they go."""
    try:
        for field in log.fields(EntryQuery()):
            assert field.name and field.offset >= 0
    except FlintlogError as error:
        assert error.code
