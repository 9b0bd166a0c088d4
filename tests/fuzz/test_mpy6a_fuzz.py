"""Directories of sessions with bytes changed: whatever they hold, only our own errors come out."""

from __future__ import annotations

import random
import tracemalloc
from functools import cache

import pytest
from tests.fuzz.mutations import Files, Mutations, eight_others, refusals, ways_to_read
from tests.golden_cases import GOLDEN
from tests.mpy6a.stores import FAR, LONG, ONCE, ROOT, SHORT, T0, files_of, opened

from flintlog.core.log import Log
from flintlog.dialects.mpy6a import layout as lay
from flintlog.dialects.mpy6a.dialect import DIALECT
from flintlog.dialects.mpy6a.store import SessionStore
from flintlog.disk import Disk
from flintlog.errors import FlintlogError
from flintlog.testing import MemoryKernel, State

INPUTS = 10_000
GROUPS = 4
NUMBERS = [lay.uvarint(1 << bits) for bits in (0, 7, 20, 31, 32, 40, 62, 63)] + [b"\xff" * 11, bytes(9)]
MEMORY_MAX = 64 << 20


@cache
def originals() -> list[dict[str, bytes]]:
    """The recorded directories, and some that a store wrote: in use, closed, after a crash, strict, merged."""
    found = []
    for case in sorted((GOLDEN / "mpy6a").glob("s*")):
        places = [case / "dir", *sorted(place for place in (case / "dir").iterdir() if place.is_dir())]
        for place in places:
            files = {path.name: path.read_bytes() for path in place.iterdir() if path.is_file()}
            found += [files] if files else []
    assert len(found) > 20
    return found + [written(strict, turn) for strict in (False, True) for turn in range(4)]


def written(strict: bool, turn: int) -> dict[str, bytes]:
    store = opened(strict=strict, file_bytes=200, on_exhausted=lambda record: None)
    for number in range(8):
        store.put(SHORT, b"%d" % number * 20, now=T0 + number)
        store.put(ONCE, b"%d" % number, now=T0 + number)
    for session in store.due(T0 + 33, 6):
        session.store(now=T0 + 40) if session.topic == ONCE else session.delete()
    store.due_batch(T0 + 80, 10)
    if turn > 0:
        store.new(LONG, b"open")
        for session in store.due(FAR, 3)[1:]:
            session.append(b" changed")
    if turn == 1:
        store.snapshot()
        store.put(LONG, b"after", now=T0 + 90)
    if turn == 2:
        kernel = store._engine.disk.kernel
        assert isinstance(kernel, MemoryKernel)
        return {path.rpartition("/")[2]: data for path, data in kernel.device().durable().tree() if data}
    if turn == 3:
        store.compact()
    store._engine.drain()
    return files_of(store)


def machine(files: dict[str, bytes]) -> MemoryKernel:
    names = {1: {"srv": 2}, 2: {"sessions": 3}, 3: {name: at for at, name in enumerate(files, 10)}}
    return MemoryKernel(State(dict(enumerate(files.values(), 10)), names))


def number(random_: random.Random) -> bytes:
    return random_.choice(NUMBERS)


def in_a_field(data: bytearray, at: int, random_: random.Random) -> None:
    lie = number(random_)
    place = random_.choice((16, 28, 29, 32))
    data[place : place + len(lie)] = lie


def longer(data: bytearray, at: int, random_: random.Random) -> None:
    data += random_.choice((bytes(data), random_.randbytes(40), bytes(100)))


def gone(files: Files, name: str, random_: random.Random) -> bool:
    goes = random_.random() < 0.03 and len(files) > 1
    if goes:
        del files[name]
    return goes


mutated = Mutations(number, (eight_others, in_a_field, longer), move=gone).mutated


@pytest.mark.long
@pytest.mark.parametrize("group", range(GROUPS))
def test_only_our_own_errors_come_out_of_mutated_sessions(group):
    random_ = random.Random(group)
    refused = 0
    for number in range(INPUTS // GROUPS):
        kernel = machine(mutated(random_.choice(originals()), random_))
        log = Log(DIALECT, Disk(kernel), ROOT)
        refused += refusals(log, kernel, None if number % 4 == 0 else [log.verify])
    assert refused > 100


@pytest.mark.parametrize("group", range(2))
def test_opening_mutated_sessions_refuses_or_heals_and_then_stays_healed(group):
    random_ = random.Random(1000 + group)
    healthy = 0
    for number in range(700):
        files = mutated(random_.choice(originals()), random_)
        kernel = machine(files)
        before = dict(kernel.visible().tree())
        strict = "operations.log" not in files and number % 2 == 0
        try:
            store = SessionStore(ROOT, topics=(), disk=Disk(kernel), strict=strict)
        except FlintlogError:
            assert dict(kernel.visible().tree()) == before, number
            continue
        with store:
            try:
                shown = shown_by(store)
            except FlintlogError as error:
                assert error.code, number
                continue  # damage behind what opening looks through
        healthy += 1
        with SessionStore(ROOT, topics=(), disk=Disk(kernel), strict=strict) as store:
            assert store.findings == (), number
            assert shown_by(store) == shown, number
    assert healthy > 100


def shown_by(store: SessionStore) -> object:
    return (
        [(one.id, one.data) for one in store.sessions()],
        [(one.id, one.replay_time, one.attempts, one.data) for one in store.due(lay.TIME_MAX // 2, 1000)],
        list(store.exhausted()),
    )


def test_lengths_that_lie_take_no_memory():
    random_ = random.Random(99)
    tracemalloc.start()
    try:
        for _ in range(150):
            files = dict(random_.choice(originals()))
            for name in files:
                data = bytearray(files[name])
                for _ in range(3):
                    at = random_.randrange(len(data) + 1)
                    number = random_.choice(NUMBERS[3:8])
                    data[at : at + len(number)] = number
                files[name] = bytes(data)
            for read in ways_to_read(Log(DIALECT, Disk(machine(files)), ROOT)):
                try:
                    read()
                except FlintlogError:
                    continue
        assert tracemalloc.get_traced_memory()[1] < MEMORY_MAX
    finally:
        tracemalloc.stop()
