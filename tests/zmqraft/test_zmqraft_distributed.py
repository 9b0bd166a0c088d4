"""The work of many workers is that of one process; and they find damage in what stays before anything goes."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.golden_cases import materialise, snapshot_of
from tests.zmqraft.damaged import BY_CODE
from tests.zmqraft.recorded import ALL

from flintlog import RaftStore
from flintlog.core.dialect import GivenState
from flintlog.core.log import Log
from flintlog.core.workers import Threads
from flintlog.dialects.zmqraft.dialect import DIALECT
from flintlog.dialects.zmqraft.layout import Entry, index_path
from flintlog.disk import Disk
from flintlog.errors import DamageError, FlintlogError
from flintlog.testing import MemoryKernel

pytestmark = pytest.mark.usefixtures("still")

ROOT = "/srv/peer"
GIVEN = GivenState("state.bin", 5, lambda: iter([b"state"]))


def said(work):
    """What comes of it: a value, or what the error says."""
    try:
        return work()
    except FlintlogError as error:
        return type(error), str(error), error.file, error.offset


def rows(disk, path, as_of=None):
    return pa.Table.from_batches(
        Log(DIALECT, disk, path).state(as_of), schema=DIALECT.state_schema
    ).to_pylist()


def frame(disk, path, as_of=None):
    return Log(DIALECT, disk, path).state(as_of, workers=Threads(2)).to_pylist()


def content(disk, path=ROOT):
    found = {}
    for name in disk.list(path):
        inside = f"{path}/{name}"
        found |= content(disk, inside) if disk.is_directory(inside) else {inside: disk.read(inside, 1 << 20)}
    return found


def assert_seen_alike(disk, path):
    alone = said(lambda: Log(DIALECT, disk, path).verify().json())
    assert said(lambda: Log(DIALECT, disk, path).verify(workers=Threads(2)).json()) == alone
    assert said(lambda: frame(disk, path)) == said(lambda: rows(disk, path))


def written(terms, snapshot_at):
    disk = Disk(MemoryKernel())
    with RaftStore(ROOT, capacity=4, disk=disk) as store:
        for number, term in enumerate(terms):
            store.append([Entry(term, b"entry %d" % number)])
        if 0 < snapshot_at <= len(terms):
            store.snapshot(snapshot_at, [b"what it knows"], prune=False)
    return disk


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    terms=st.lists(st.integers(1, 3), max_size=14),
    snapshot_at=st.integers(0, 14),
    as_of=st.one_of(st.none(), st.integers(0, 15)),
)
def test_workers_say_and_remove_what_one_process_does(terms, snapshot_at, as_of):
    disk = written(terms, snapshot_at)
    assert_seen_alike(disk, ROOT)
    position = None if as_of is None else (as_of,)
    assert said(lambda: frame(disk, ROOT, position)) == said(lambda: rows(disk, ROOT, position))
    done = []
    before = content(disk)
    for who in (None, Threads(2)):
        plan = Log(DIALECT, disk, ROOT).plan_compact(who)
        done.append((plan.json(), plan.apply(), content(disk)) if who else (plan.json(),))
    assert done[0][0] == done[1][0]
    assert set(before) - set(done[1][2]) == {f"{ROOT}/{step['file']}" for step in done[0][0]["steps"]}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", ALL)
def test_a_golden_directory_is_to_workers_what_it_is_to_one_process(tmp_path, case):
    path = materialise(case, tmp_path, dialect="zmqraft")
    assert_seen_alike(Disk(), str(path))
    other = materialise(case, tmp_path / "other", dialect="zmqraft")
    done = [
        said(lambda: Log(DIALECT, Disk(), str(path)).plan_compact().apply()),
        said(lambda: Log(DIALECT, Disk(), str(other)).plan_compact(Threads(2)).apply()),
    ]
    if not isinstance(done[1], tuple):  # workers read more, so that they may refuse what one process does not
        assert done[0] == done[1]
        assert set(snapshot_of(path)) == set(snapshot_of(other))


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("code", "make"), BY_CODE)
def test_what_is_wrong_is_found_by_workers_too(tmp_path, code, make):
    make(tmp_path / "peer")
    assert_seen_alike(Disk(), str(tmp_path / "peer"))


def test_a_log_whose_rest_is_damaged_is_not_pruned():
    disk = written([1] * 12, 6)
    last = f"{ROOT}/{index_path(12)}"
    with disk.open(last, "write") as file:
        at = file.size() - len(b"entry 11") - 7
        file.pwrite(b"\xff" * 7, at)  # the term of the last entry
    before = content(disk)
    for plan in (
        lambda: Log(DIALECT, disk, ROOT).plan_compact(Threads(2)),
        lambda: Log(DIALECT, disk, ROOT).plan_snapshot((7,), GIVEN, Threads(2)),
    ):
        with pytest.raises(DamageError, match="the term is too high") as error:
            plan()
        assert (error.value.file, error.value.offset) == (last, at)
    assert content(disk) == before


def test_a_snapshot_after_workers_have_read_the_log():
    disk = written([1] * 12, 0)
    plan = Log(DIALECT, disk, ROOT).plan_snapshot((7,), GIVEN, Threads(2))
    assert plan.json() == Log(DIALECT, disk, ROOT).plan_snapshot((7,), GIVEN).json()
    plan.apply()
    assert [row["index"] for row in frame(disk, ROOT)] == [8, 9, 10, 11, 12]
