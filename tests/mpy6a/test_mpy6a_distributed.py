"""The work of many workers is that of one process: the same findings, rows and files, whatever is cut where."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.golden_cases import snapshot_of
from tests.mpy6a.recorded import GOOD, TOLD, lay_out
from tests.mpy6a.stores import LONG, ROOT, SHORT, T0, files_of, opened

from flintlog.core.log import Log
from flintlog.core.workers import Threads
from flintlog.dialects.mpy6a import distributed
from flintlog.dialects.mpy6a.dialect import DIALECT
from flintlog.disk import Disk
from flintlog.errors import DamageError, FlintlogError
from flintlog.testing import MemoryKernel

pytestmark = pytest.mark.usefixtures("still")

STEPS = st.lists(
    st.tuples(st.sampled_from("pppprrrdtsn"), st.sampled_from([SHORT, LONG]), st.integers(0, 20)), max_size=30
)
SMALL = settings(max_examples=60, deadline=None, derandomize=True)


def written(steps, *, strict=False):
    """A disk with sessions in several files, some of them done with, some open; the process died."""
    disk = Disk(MemoryKernel())
    store = opened(disk, strict=strict)
    now = T0
    held = []
    for kind, topic, number in steps:
        now += number % 3
        if kind == "p":
            store.put(topic, b"%d at %d" % (number, now) * (number % 4), now=now)
        elif kind == "r":
            store.rotate(30 if topic == SHORT else 600, now=now)
        elif kind == "s":
            store.snapshot()
        elif kind == "n" and not strict:
            store.new(topic, b"new %d" % number)
        elif kind in "dt":
            now += 20
            for session in store.due(now=now, limit=number % 4 + 1):
                if kind == "d" and number % 2:
                    session.delete()
                elif not strict and number % 3 == 0:
                    session.append(b" and more")
                held.append(session)
    store._engine._lock_file.close()
    return disk, store.last


def said(work):
    """What comes of it: a value, or what the error says."""
    try:
        return work()
    except FlintlogError as error:
        return type(error), str(error), error.file, error.offset


def rows(disk, path=ROOT, as_of=None):
    batches = Log(DIALECT, disk, path).state(as_of)
    return pa.Table.from_batches(batches, schema=DIALECT.state_schema).to_pylist()


def frame(disk, path=ROOT, as_of=None):
    return Log(DIALECT, disk, path).state(as_of, workers=Threads(2)).to_pylist()


@pytest.fixture(params=[(1, 1), (70, 120), (1 << 20, 1 << 20)])
def pieces(request, monkeypatch):
    mark, part = request.param
    monkeypatch.setattr(distributed.state_frame, "__kwdefaults__", {"mark_bytes": mark, "range_bytes": part})


def test_the_rows_are_those_of_one_process(pieces):
    @SMALL
    @given(steps=STEPS, strict=st.booleans(), back=st.one_of(st.none(), st.integers(0, 20)))
    def check(steps, strict, back):
        disk, last = written(steps, strict=strict)
        as_of = None if back is None else (last.term, max(last.index - back, 0))
        assert said(lambda: frame(disk, ROOT, as_of)) == said(lambda: rows(disk, ROOT, as_of))

    check()


@SMALL
@given(steps=STEPS, strict=st.booleans())
def test_what_is_found_and_what_is_merged_is_the_same(steps, strict):
    disks = [written(steps, strict=strict)[0] for _ in range(2)]
    found = [Log(DIALECT, disks[0], ROOT).verify(workers=who).json() for who in (None, Threads(2))]
    assert found[0] == found[1]
    plans = [
        Log(DIALECT, disk, ROOT).plan_compact(who)
        for disk, who in zip(disks, (None, Threads(2)), strict=True)
    ]
    assert plans[0].json() == plans[1].json()
    assert said(plans[0].apply) == said(plans[1].apply)
    assert content(disks[0]) == content(disks[1])


def content(disk):
    return {name: disk.read(f"{ROOT}/{name}", 1 << 20) for name in disk.list(ROOT)}


@pytest.mark.parametrize("name", TOLD)
def test_a_golden_directory_is_to_workers_what_it_is_to_one_process(tmp_path, name):
    path = str(lay_out(name, tmp_path))
    disk = Disk()
    found = [
        said(lambda who=who: Log(DIALECT, disk, path).verify(workers=who).json())
        for who in (None, Threads(2))
    ]
    assert found[0] == found[1]
    assert said(lambda: frame(disk, path)) == said(lambda: rows(disk, path))


@pytest.mark.parametrize("name", GOOD)
def test_a_golden_directory_is_merged_to_the_same_bytes(tmp_path, name):
    done = []
    for number, who in enumerate((None, Threads(2))):
        path = lay_out(name, tmp_path / str(number))
        done.append((Log(DIALECT, Disk(), str(path)).plan_compact(who).apply(), snapshot_of(path)))
    assert done[0] == done[1]


def several_files(**options):
    store = opened(**options)
    for number in range(30):
        store.put(SHORT, b"session %d" % number, now=T0 + number)
        if number % 7 == 6:
            store.rotate(30, now=T0 + number)
    return store


def test_damage_is_refused_with_its_place(monkeypatch):
    store = several_files()
    store.close()
    disk = store._engine.disk
    first = min(store._engine.machine.files.values(), key=lambda file: file.id)
    with disk.open(f"{ROOT}/{first.name}", "write") as file:
        file.pwrite(bytes(8), 8)
    monkeypatch.setattr("flintlog.dialects.mpy6a.entries.EXAMINE_BYTES", 0)  # it is found by whoever reads it
    assert said(lambda: frame(disk)) == said(lambda: rows(disk))
    with pytest.raises(DamageError) as error:
        frame(disk)
    assert (error.value.file, error.value.offset) == (f"{ROOT}/{first.name}", 0)


class Failing(Threads):
    """Workers that die after they have written."""

    def map(self, function, items):
        if function is distributed.fill:
            list(super().map(function, items))
            raise RuntimeError("the cluster is gone")
        return super().map(function, items)


def test_workers_that_fail_leave_what_was_there():
    store = several_files()
    before = files_of(store)
    with pytest.raises(RuntimeError):
        store.compact(Failing(2))
    assert files_of(store) == before
    store.put(SHORT, b"it goes on", now=T0 + 40)
    assert store.compact(Threads(2)) == 0
    assert len(rows(store._engine.disk)) == 31


def test_what_a_killed_driver_left_goes_with_the_next_opening():
    store = several_files()
    store.close()
    disk = store._engine.disk
    left = f"{ROOT}/data.0123456789ab-0.new"
    disk.open(left, "create").close()
    opened(disk).close()
    assert disk.stat(left) is None
