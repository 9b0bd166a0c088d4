"""The work of many workers is that of one process: the same findings, rows, bytes and errors."""

from __future__ import annotations

import functools

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.damaged_directories import CASES, numbered
from tests.golden_cases import cases, materialise, snapshot_of

from flintlog.core.log import Log
from flintlog.core.workers import Threads
from flintlog.dialects.taskflux.dialect import DIALECT
from flintlog.dialects.taskflux.layout import (
    AddRecord,
    CreateQueue,
    DeleteQueue,
    QueueSpec,
    RemoveRecord,
    encode_delta,
)
from flintlog.dialects.taskflux.spread import results
from flintlog.dialects.taskflux.store import QueueStore, ReplicaLog
from flintlog.disk import Disk
from flintlog.errors import DamageError, FlintlogError, RefusedError
from flintlog.testing import MemoryKernel

ROOT = "/srv/queues"
NAMES = ("", "a", "b")
STEPS = st.lists(
    st.tuples(st.sampled_from("AAAARRRCDX"), st.sampled_from(NAMES), st.integers(1, 40)), max_size=40
)


def deltas(steps):
    """Entries that mostly make sense; an X is anything."""
    last_id = {"": 0}
    for kind, name, number in steps:
        there = name in last_id
        if kind == "X" and number % 5 == 0:
            wild = (DeleteQueue(name), RemoveRecord(name, number), CreateQueue(QueueSpec(name or "c")), None)
            yield wild[number % 4]
        elif kind == "C" and not there:
            last_id[name] = 0
            yield CreateQueue(QueueSpec(name, 1, number))
        elif kind == "D" and name:
            last_id.pop(name, None)
            yield DeleteQueue(name)
        elif kind == "R" and last_id.get(name):
            yield RemoveRecord(name, number % last_id[name] + 1)
        elif there or number % 7 == 0:
            last_id[name] = last_id.get(name, 0) + 1
            yield AddRecord(name, number % 3 - 1, b"%d of %s" % (number, name.encode()))


def written(steps, limit, snapshot_at):
    """A disk with these entries in small segments, with a snapshot of some of them."""
    disk = Disk(MemoryKernel())
    options = {"disk": disk, "reserve_bytes": 0, "soft_limit": limit, "hard_limit": limit}
    with ReplicaLog(ROOT, **options) as log:
        for delta in deltas(steps):
            log._write([(1, b"" if delta is None else encode_delta(delta))])
    if snapshot_at is not None:
        said(lambda: Log(DIALECT, disk, ROOT).plan_snapshot((snapshot_at,)).apply())
    return disk


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
    return Log(DIALECT, disk, path).state_frame(Threads(2), as_of).to_pylist()


def content(disk, path=ROOT):
    found = {}
    for name in disk.list(path):
        inside = f"{path}/{name}"
        found |= content(disk, inside) if disk.is_directory(inside) else {inside: disk.read(inside, 1 << 20)}
    return found


@pytest.fixture
def tiny(monkeypatch):
    """Pieces of a few records."""
    monkeypatch.setattr(
        results.write_snapshot.__wrapped__, "__kwdefaults__", {"piece_rows": 2, "piece_bytes": 60}
    )
    monkeypatch.setattr(results.state_frame, "__kwdefaults__", {"piece_rows": 2})


SMALL = settings(max_examples=60, deadline=None, derandomize=True)
DIRECTORY = {
    "steps": STEPS,
    "limit": st.sampled_from([60, 150, 1 << 20]),
    "snapshot_at": st.sampled_from([None, 0, 3, 9]),
}


@pytest.mark.parametrize("what", ["state", "verify", "snapshot"])
def test_workers_say_and_write_what_one_process_does(tiny, what):
    @SMALL
    @given(**DIRECTORY, as_of=st.one_of(st.none(), st.integers(-1, 30)))
    def check(steps, limit, snapshot_at, as_of):
        position = None if as_of is None else (as_of,)
        disk = written(steps, limit, snapshot_at)
        if what == "state":
            assert said(lambda: frame(disk, ROOT, position)) == said(lambda: rows(disk, ROOT, position))
        elif what == "verify":
            alone = Log(DIALECT, disk, ROOT).verify().json()
            assert Log(DIALECT, disk, ROOT).verify(workers=Threads(2)).json() == alone
        else:
            other = written(steps, limit, snapshot_at)
            plans = [
                said(lambda: Log(DIALECT, disk, ROOT).plan_snapshot(position)),
                said(lambda: Log(DIALECT, other, ROOT).plan_snapshot(position, workers=Threads(2))),
            ]
            if isinstance(plans[0], tuple):
                assert plans[0] == plans[1]
            else:
                assert plans[0].json() == plans[1].json()
                assert said(plans[0].apply) == said(plans[1].apply)
            assert content(disk) == content(other)

    check()


@pytest.mark.parametrize("case", cases())
def test_a_golden_directory_is_to_workers_what_it_is_to_one_process(tmp_path, case):
    path = str(materialise(case, tmp_path))
    disk = Disk()
    alone = said(lambda: Log(DIALECT, disk, path).verify().json())
    assert said(lambda: Log(DIALECT, disk, path).verify(workers=Threads(2)).json()) == alone
    assert said(lambda: frame(disk, path)) == said(lambda: rows(disk, path))
    other = materialise(case, tmp_path / "other")
    same = [
        said(lambda: Log(DIALECT, disk, path).plan_snapshot().apply()),
        said(lambda: Log(DIALECT, disk, str(other)).plan_snapshot(workers=Threads(2)).apply()),
    ]
    if isinstance(same[0], tuple):
        assert same[0][0] == same[1][0]
    else:
        assert same[0] == same[1]
    assert snapshot_of(other) == snapshot_of(tmp_path / case / "dir")


@pytest.mark.parametrize(("name", "make"), [(name, make) for name, _, make in numbered(CASES)])
def test_what_is_wrong_is_found_by_workers_too(tmp_path, name, make):
    make(tmp_path / "spool")
    path = str(tmp_path / "spool")
    alone = Log(DIALECT, Disk(), path).verify().json()
    assert Log(DIALECT, Disk(), path).verify(workers=Threads(2)).json() == alone
    assert said(lambda: frame(Disk(), path)) == said(lambda: rows(Disk(), path))


def filled(**options):
    disk = Disk(MemoryKernel())
    with QueueStore(
        ROOT, disk=disk, reserve_bytes=0, soft_limit=100, hard_limit=100, snapshot_threshold=99, **options
    ) as store:
        for number in range(20):
            store.queue().add(b"record %d" % number, number % 3)
    return disk


def segment_of(disk, number):
    return f"{ROOT}/data/log/{disk.list(f'{ROOT}/data/log')[number]}"


def test_damage_is_refused_with_its_place():
    disk = filled()
    with disk.open(segment_of(disk, 1), "write") as file:
        file.pwrite(b"\xff", 30)
    for work in (frame, lambda disk: Log(DIALECT, disk, ROOT).plan_snapshot(workers=Threads(2))):
        with pytest.raises(DamageError) as error:
            work(disk)
        assert (error.value.file, error.value.offset) == (segment_of(disk, 1), 8)


class Meddling(Threads):
    """Workers in whose way something comes before their last work."""

    def __init__(self, meddle):
        super().__init__(2)
        self.meddle = meddle

    def frame(self, function, items, schema):
        self.meddle()
        return super().frame(function, items, schema)

    def map(self, function, items):
        if isinstance(function, functools.partial) and function.func is results.write:
            self.meddle()
        return super().map(function, items)


def test_a_segment_that_goes_while_the_rows_are_made_is_an_error():
    disk = filled()
    workers = Meddling(lambda: disk.unlink(segment_of(disk, 2)))
    with pytest.raises(RefusedError, match="removed or changed while the log was read"):
        Log(DIALECT, disk, ROOT).state_frame(workers)


def test_another_snapshot_while_the_rows_are_made_is_an_error():
    disk = filled()
    Log(DIALECT, disk, ROOT).plan_snapshot((9,)).apply()
    workers = Meddling(lambda: Log(DIALECT, disk, ROOT).plan_snapshot((12,)).apply())
    with pytest.raises(RefusedError, match="removed or changed while the log was read"):
        Log(DIALECT, disk, ROOT).state_frame(workers)


def test_workers_that_fail_leave_what_was_there():
    disk = filled()
    before = content(disk)

    def fail():
        raise RuntimeError("the cluster is gone")

    with pytest.raises(RuntimeError):
        Log(DIALECT, disk, ROOT).plan_snapshot(workers=Meddling(fail)).apply()
    assert content(disk) == before


def test_what_a_killed_driver_left_goes_with_the_next_opening():
    disk = filled()
    left = f"{ROOT}/data/temp/snapshot.new.0123456789ab"
    disk.open(left, "create").close()
    QueueStore(ROOT, disk=disk).close()
    assert disk.stat(left) is None
