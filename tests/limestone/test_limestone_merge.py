"""The newest version of every key against a plain dictionary: compiled and not, in little memory, in many passes."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.limestone.snippets import KEYS, Session, encoded

from flintlog.columns.compile import Kernel
from flintlog.dialects.limestone import candidates, merge, passes, scan
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone.candidates import BASE, REMOVE, Keyed, Source, Sources
from flintlog.dialects.limestone.layout import Entry
from flintlog.dialects.limestone.merge import Merge, by_bytes, numeric
from flintlog.dialects.limestone.passes import CANDIDATE_SIZE, Passes

STORAGES = st.sampled_from([0, 1, 2, 256, 2**32, 2**64 - 1])
VERSIONS = st.tuples(st.integers(0, 3), st.sampled_from([0, 1, 2**63]))
ENTRIES = st.one_of(
    st.builds(lay.put, STORAGES, KEYS, st.binary(max_size=3), VERSIONS),
    st.builds(lay.remove, STORAGES, KEYS, VERSIONS),
)
FILES = st.lists(st.lists(ENTRIES, max_size=12), min_size=1, max_size=4)


def merged(files: list[list[Entry]], bases: int = 0, order=numeric, memory=1 << 30, chunk=1 << 16):
    """What comes out: (storage, key, entry) in order, and the number of passes. The first files are the base."""
    raw = [encoded([Session(1, tuple(entries))]) for entries in files]
    sources, start = [], 0
    for data in raw:
        sources.append(Source(memoryview(data), start))
        start += len(data)
    machine = Merge(Sources(sources), 2, order)

    def stream(merging, which):
        source = sources[which]
        for entries in scan.read_entries(source.buffer, scan.walk(source.buffer).snippets, chunk=chunk):
            flags = np.where(entries.type == lay.REMOVE, REMOVE, 0).astype(np.uint8)
            flags |= np.uint8(BASE if which < bases else 0)
            columns = Keyed(
                entries.storage, entries.offset, entries.length, entries.key, entries.key_length,
                entries.prefix, entries.major, entries.minor, flags,
            )  # fmt: skip
            yield merging.candidates(source, columns)

    run = Passes(machine, lambda merging: [stream(merging, which) for which in range(len(sources))], memory)
    rows = []
    for part in run:
        for address in part.address.tolist():
            which = int(machine.sources.of(np.array([address], np.uint64))[0])
            entry, _ = lay.decode(raw[which], address - sources[which].start)
            rows.append((entry.storage, entry.key, entry))
    return rows, run.count


def model(files: list[list[Entry]], bases: int = 0, order=numeric):
    """The same with a dictionary: of equal versions the later one counts, and the base least of all."""
    best: dict[tuple[int, bytes], tuple[tuple[bool, tuple[int, int], int, int], Entry]] = {}
    for which, entries in enumerate(files):
        for at, entry in enumerate(entries):
            rank = (which >= bases, entry.version, which, at)
            key = (entry.storage, entry.key)
            if key not in best or best[key][0] < rank:
                best[key] = (rank, entry)
    ordered = sorted(best, key=lambda key: (order(key[0]), key[1]))
    return [(storage, key, best[storage, key][1]) for storage, key in ordered]


@pytest.fixture(autouse=True)
def small_buckets(monkeypatch):
    """Little is enough to make many buckets, and keys that begin alike leave their beginning out."""
    monkeypatch.setattr(passes, "_BUCKET_CANDIDATES", 4)
    monkeypatch.setattr(candidates, "_COMMON_MIN", 2)


@settings(derandomize=True, max_examples=150, deadline=None)
@given(files=FILES, bases=st.integers(0, 2), chunk=st.integers(1, 20), life=st.booleans())
def test_the_newest_of_each_key_comes_out_in_order(files, bases, chunk, life):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Kernel, "worth_compiling", lambda self, size: life)
        rows, count = merged(files, bases, chunk=chunk)
    assert rows == model(files, bases)
    assert count == 1


@settings(derandomize=True, max_examples=60, deadline=None)
@given(files=FILES, candidates=st.integers(1, 12), chunk=st.integers(1, 8))
def test_little_memory_gives_the_same_in_more_passes(files, candidates, chunk):
    rows, _ = merged(files, memory=candidates * CANDIDATE_SIZE, chunk=chunk)
    assert rows == model(files)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(files=FILES, candidates=st.integers(1, 1000))
def test_storages_come_by_their_bytes_when_asked(files, candidates):
    rows, _ = merged(files, order=by_bytes, memory=candidates * CANDIDATE_SIZE)
    assert rows == model(files, order=by_bytes)


def random_entries(random_: random.Random, count: int, key) -> list[Entry]:
    return [
        lay.remove(random_.randrange(3), key(), (random_.randrange(4), at))
        if random_.random() < 0.2
        else lay.put(random_.randrange(3), key(), b"v", (random_.randrange(4), at))
        for at in range(count)
    ]


SHAPES = {
    "short": lambda random_: random_.randbytes(random_.randrange(4)),
    "eight bytes": lambda random_: random_.randrange(2000).to_bytes(8, "big"),
    "one beginning": lambda random_: b"/table/rows/" + str(random_.randrange(3000)).encode(),
    "two beginnings": lambda random_: random_.choice([b"A" * 20, b"B" * 20]) + random_.randbytes(3),
    "one window": lambda random_: (
        b"a" if random_.random() < 0.01 else b"tenant 17/order/" + str(random_.randrange(3000)).encode()
    ),
    "one window, deep": lambda random_: random_.choice([b"a", b"tenant"]) + b"=" * 30 + random_.randbytes(2),
    "zeros": lambda random_: bytes(random_.randrange(40)),
    "long and equal for long": lambda random_: (
        b"x" * 200 + random_.randbytes(random_.randrange(2)) + b"y" * 20
    ),
}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("memory", [1 << 30, 500 * CANDIDATE_SIZE])
def test_many_keys_of_every_shape(shape, memory, monkeypatch):
    monkeypatch.setattr(merge, "_WHOLE_KEYS_MAX", 50)
    monkeypatch.setattr(passes, "_BUCKET_CANDIDATES", 256)
    random_ = random.Random(7)
    files = [random_entries(random_, 3000, lambda: SHAPES[shape](random_)) for _ in range(3)]
    rows, count = merged(files, memory=memory, chunk=512)
    assert rows == model(files)
    if memory == 1 << 30:
        assert count == 1
    elif shape in ("eight bytes", "one window"):
        assert count > 1  # more keys than fit


@pytest.mark.long
@pytest.mark.parametrize("shape", ["eight bytes", "one window", "one window, deep"])
def test_the_memory_is_not_outgrown(shape, monkeypatch):
    """Also where keys are equal for longer than a window: those are told apart further on."""
    monkeypatch.setattr(passes, "_BUCKET_CANDIDATES", 64)
    most = 0
    plain = passes.Heap.add

    def add(heap, part):
        nonlocal most
        plain(heap, part)
        most = max(most, len(heap))

    monkeypatch.setattr(passes.Heap, "add", add)
    random_ = random.Random(7)
    files = [random_entries(random_, 5000, lambda: SHAPES[shape](random_)) for _ in range(2)]
    rows, _ = merged(files, memory=500 * CANDIDATE_SIZE, chunk=100)
    assert rows == model(files)
    # What is left after a cut may grow to twice as much, and two files are read at a time. How evenly a cut divides
    # depends on which file was read first, so there is some room; without any cut it would be 10,000.
    assert most <= 3 * 500 + 200


def test_a_log_of_updates_needs_no_second_pass():
    random_ = random.Random(1)
    files = [random_entries(random_, 5000, lambda: random_.randbytes(1)) for _ in range(2)]
    rows, count = merged(files, memory=2000 * CANDIDATE_SIZE, chunk=500)
    assert (rows, count) == (model(files), 1)


def test_a_source_that_fails_fails_the_merge():
    machine = Merge(Sources([Source(memoryview(b""), 0)]), 2)

    def broken():
        raise OSError("gone")
        yield

    with pytest.raises(OSError, match="gone"):
        list(Passes(machine, lambda merging: [broken()]))


def test_nothing_gives_nothing():
    assert merged([[]]) == ([], 1)
