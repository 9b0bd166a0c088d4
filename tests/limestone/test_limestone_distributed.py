"""The state by many workers is the state: the same walk, the same rows, the same bytes, whatever is cut where."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.limestone.directories import Directory
from tests.limestone.recorded import every, lay_out
from tests.limestone.snippets import ENTRIES, Session, encoded

from flintlog.core.log import Log
from flintlog.core.workers import Threads
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone import scan, tables
from flintlog.dialects.limestone.dialect import DIALECT
from flintlog.dialects.limestone.distributed import (
    Distribution,
    LogFile,
    Looking,
    Looks,
    look,
    looking,
    state,
    tasks,
    write_files,
    writing,
)
from flintlog.dialects.limestone.distributed.pieces import Scratch
from flintlog.dialects.limestone.distributed.tasks import LiveRecords
from flintlog.dialects.limestone.replay import State
from flintlog.dialects.limestone.store import Datastore, compaction
from flintlog.dialects.limestone.survey import survey
from flintlog.dialects.limestone.upkeep.snapshot import plan_snapshot
from flintlog.disk import Disk
from flintlog.disk.kernel import KernelInFront, LocalKernel
from flintlog.errors import DamageError, DiskError, RefusedError

pytestmark = pytest.mark.usefixtures("still")

EPOCHS = st.integers(1, 4)
LOGS = st.lists(
    st.lists(st.tuples(EPOCHS, st.lists(ENTRIES, max_size=8)), max_size=4), min_size=1, max_size=3
)
SMALL = settings(max_examples=60, deadline=None, derandomize=True)


def directory(root, logs, edition="shipped"):
    made = Directory(Path(root), edition).start(3)
    for number, sessions in enumerate(logs):
        ordered = [
            Session(epoch, tuple(entries)) for epoch, entries in sorted(sessions, key=lambda it: it[0])
        ]
        made.log(*ordered, name=f"pwal_{number:04d}")
    return str(made.root)


def spread_of(path, window, bucket, as_of=None, edition="shipped", workers=None):
    workers = workers or Threads(2)
    seen = Looking(Looks(workers, window), Disk(), path)
    epoch = seen.survey.durable if as_of is None else as_of
    order = compaction.order_of(edition)
    return Distribution(seen, epoch, order=order, window_bytes=window, bucket_entries=bucket)


def frame(made):
    return made.exchange().frame(functools.partial(state.rows, made.job), tables.STATE_SCHEMA)


def rows(path, as_of, edition):
    whole = State(survey(Disk(), path), as_of, order=compaction.order_of(edition))
    batches = [batch for live in whole for batch in tables.state_batches(whole.views, whole.names, live)]
    return pa.Table.from_batches(batches, schema=tables.STATE_SCHEMA).to_pylist()


@SMALL
@given(logs=LOGS, window=st.integers(1, 300), tail=st.binary(max_size=20))
def test_a_walk_by_windows_is_a_walk(logs, window, tail):
    with tempfile.TemporaryDirectory() as folder:
        sessions = [Session(epoch, tuple(entries)) for log in logs for epoch, entries in log]
        raw = encoded(sessions) + tail
        Path(folder, "pwal_0000").write_bytes(raw)
        found = look(LogFile(Disk(), folder, "pwal_0000", False), window).walk
        whole = scan.walk(memoryview(raw))
        assert found.stop == whole.stop
        for name in scan.Snippets.__dataclass_fields__:
            assert getattr(found.snippets, name).tolist() == getattr(whole.snippets, name).tolist(), name


class Telling(Threads):
    """Workers that tell which files they look at."""

    def __init__(self):
        super().__init__(1)
        self.names = []

    def map(self, function, items):
        self.names += [item.name for item in items]
        return super().map(function, items)


def test_a_file_whose_bytes_are_as_they_were_is_looked_at_once(tmp_path):
    path = directory(
        tmp_path, [[(1, [lay.put(1, b"a", b"x", (1, 1))])], [(1, [lay.put(1, b"b", b"y", (1, 2))])]]
    )
    long_ago = 1_700_000_000
    for name in ("pwal_0000", "pwal_0001"):
        os.utime(tmp_path / name, (long_ago, long_ago))
    workers = Telling()
    looks = Looks(workers)
    first = Looking(looks, Disk(), path).survey
    assert workers.names == ["pwal_0000", "pwal_0001"]
    os.rename(tmp_path / "pwal_0000", tmp_path / "pwal_0000.00000000000001.0")
    with open(tmp_path / "pwal_0001", "ab") as file:
        file.write(encoded([Session(2, (lay.put(1, b"c", b"z", (2, 1)),))]))
    again = Looking(looks, Disk(), path).survey
    assert workers.names == ["pwal_0000", "pwal_0001", "pwal_0001"]
    assert [len(read.snippets) for read in first.logs] == [1, 1]
    assert [len(read.snippets) for read in again.logs] == [1, 2]


def test_a_file_that_was_just_written_is_looked_at_again(tmp_path):
    path = directory(tmp_path, [[(1, [lay.put(1, b"a", b"x", (1, 1))])]])
    workers = Telling()
    looks = Looks(workers)
    for _ in range(2):
        now = time.time() + 1
        os.utime(tmp_path / "pwal_0000", (now, now))
        Looking(looks, Disk(), path)
    assert workers.names == ["pwal_0000", "pwal_0000"]


@pytest.mark.parametrize("size", [1, 63, 64, 1000, 70_000])
def test_a_record_that_is_longer_than_a_window_is_read_whole(tmp_path, monkeypatch, size):
    monkeypatch.setattr(looking, "_SLACK", 8)
    entries = (lay.put(1, b"k", b"x" * size, (1, 1)), lay.put(1, b"l", b"y" * size, (1, 2), (5, 6, 7)))
    path = directory(tmp_path, [[(1, list(entries))]])
    raw = (tmp_path / "pwal_0000").read_bytes()
    assert look(LogFile(Disk(), path, "pwal_0000", False), 64).walk.stop == scan.walk(memoryview(raw)).stop
    assert frame(spread_of(path, 64, 1)).to_pylist() == rows(path, None, "shipped")


@SMALL
@given(
    logs=LOGS,
    window=st.integers(1, 300),
    bucket=st.integers(1, 5),
    as_of=st.sampled_from([None, 1, 2]),
    edition=st.sampled_from(["designed", "shipped"]),
)
def test_the_rows_are_those_of_one_process(logs, window, bucket, as_of, edition):
    with tempfile.TemporaryDirectory() as folder:
        path = directory(folder, logs, "shipped")
        made = spread_of(path, window, bucket, as_of, edition)
        assert frame(made).to_pylist() == rows(path, as_of, edition)


@SMALL
@given(
    logs=LOGS,
    window=st.integers(1, 300),
    bucket=st.integers(1, 5),
    file_bytes=st.sampled_from([None, 1, 40, 200]),
    zero=st.booleans(),
)
def test_the_sorted_files_are_those_of_one_process(logs, window, bucket, file_bytes, zero):
    with tempfile.TemporaryDirectory() as folder:
        path = directory(Path(folder, "log"), logs)
        disk, head = Disk(), lay.encode_begin(3)
        options = {"file_bytes": file_bytes, "zero_versions": zero}
        write_files(
            spread_of(path, window, bucket, edition="designed"),
            lambda number: f"{folder}/workers-{number}",
            head,
            **options,
        )
        whole = State(survey(disk, path), order=compaction.order_of("designed"))
        compaction.write_files(disk, whole, lambda number: f"{folder}/process-{number}", head, **options)
        written = {item.name: item.read_bytes() for item in Path(folder).glob("*-*")}
        mine = {name.partition("-")[2]: data for name, data in written.items() if name.startswith("w")}
        theirs = {name.partition("-")[2]: data for name, data in written.items() if name.startswith("p")}
        assert mine == theirs


@pytest.mark.parametrize("edition", ["designed", "shipped"])
def test_a_compaction_by_workers_leaves_the_same_directory(tmp_path, edition):
    contents = []
    for name, workers in (("process", None), ("workers", Threads(2))):
        with Datastore(
            tmp_path / name,
            edition=edition,
            snapshot=False,
            workers=workers,
            clock=lambda: 1_700_000_000.0,
            instance=lambda: "00000000-0000-4000-8000-000000000000",
            compacted_bytes=20_000,
        ) as store:
            for first in (0, 500):
                with store.channel().session() as session:
                    keys = [b"key %04d" % (number % 700) for number in range(first, first + 500)]
                    session.put_many(1, keys, [b"%d" % first * 20] * 500)
                    session.remove(1, b"key 0003")
                store.switch_epoch()
            assert store.compact() is not None
        contents.append(
            {
                str(item.relative_to(tmp_path / name)): item.read_bytes()
                for item in (tmp_path / name).rglob("*")
                if item.is_file()
            }
        )
    assert contents[0] == contents[1]


@pytest.mark.parametrize("as_of", [None, 2])
def test_a_snapshot_by_workers_has_the_same_bytes(tmp_path, as_of):
    logs = [
        [(epoch, [lay.put(9 - epoch, b"k%d" % at, b"v" * at, (epoch, at)) for at in range(9)])]
        for epoch in (1, 2, 3)
    ]
    path = directory(tmp_path, logs)
    written = []
    for workers in (None, Threads(2)):
        said = plan_snapshot(Disk(), path, as_of, workers).apply()
        assert said == f"data/snapshot at epoch {as_of or 3}"
        written.append((tmp_path / "data" / "snapshot").read_bytes())
    assert written[0] == written[1]
    assert [item.name for item in (tmp_path / "data").iterdir()] == ["snapshot"]


def test_damage_is_refused_with_its_place(tmp_path):
    path = directory(
        tmp_path, [[(1, [lay.put(1, b"a", b"b", (1, 1))]), (2, [lay.put(1, b"c", b"d", (2, 1))])]]
    )
    log = tmp_path / "pwal_0000"
    raw = bytearray(log.read_bytes())
    raw[9] = 77
    log.write_bytes(raw)
    with pytest.raises(DamageError) as error:
        spread_of(path, 64, 10)
    assert (error.value.file, error.value.offset) == (str(log), 9)


def test_a_file_that_changes_between_the_look_and_the_work_is_an_error(tmp_path):
    path = directory(tmp_path, [[(1, [lay.put(1, b"a", b"b", (1, 1)), lay.put(1, b"b", b"b", (1, 1))])]])
    made = spread_of(path, 1000, 10)
    log = tmp_path / "pwal_0000"
    raw = bytearray(log.read_bytes())
    raw[9] = 77
    log.write_bytes(raw)
    with pytest.raises(RefusedError, match="changed while it was read"):
        frame(made)


@pytest.mark.parametrize(("case", "variant"), every())
def test_what_is_found_is_what_one_process_finds(tmp_path, case, variant):
    path = str(lay_out(case, variant, tmp_path))
    alone = Log(DIALECT, Disk(), path).verify()
    assert Log(DIALECT, Disk(), path).verify(workers=Threads(2)).json() == alone.json()


def step_of(function):
    return getattr(function, "func", function)


class Failing(Threads):
    """Workers that die in the middle of a step: one of its tasks is done, another is not."""

    def __init__(self, step):
        super().__init__(1)
        self._step = step

    def map(self, function, items):
        done = super().map(function, items)
        if step_of(function) is not self._step:
            return done
        return self._one_of(done)

    def _one_of(self, done):
        yield next(done)
        raise RuntimeError("the cluster is gone")


def names(path):
    return sorted(str(item.relative_to(path)) for item in path.rglob("*") if item.is_file())


def two_epochs(path, edition="designed", **options):
    """A store with a hundred keys that were written twice."""
    store = Datastore(path, edition=edition, snapshot=False, **options)
    for value in (b"old", b"new"):
        with store.channel().session() as session:
            session.put_many(1, [b"%03d" % number for number in range(100)], [value] * 100)
        store.switch_epoch()
    return store


STEPS = [writing.spread, writing.gather, writing.begins_of, writing.write]


@pytest.mark.parametrize("edition", ["designed", "shipped"])
@pytest.mark.parametrize("step", STEPS)
def test_workers_that_fail_leave_what_was_there(tmp_path, edition, step):
    if edition == "shipped" and step is writing.begins_of:
        return  # there is one file, which is cut nowhere
    path = tmp_path / "log"
    store = two_epochs(path, edition, workers=Failing(step), compacted_bytes=1000)
    with store, pytest.raises(RuntimeError, match="the cluster is gone"):
        store.compact()
    assert not [name for name in names(path) if "cmpct" in name or "compacted" in name]
    with Datastore(path) as store:
        assert store.snapshot.get(1, b"007") == b"new"


class Repeating(Threads):
    """Workers that run each task twice, and once more when the job is over."""

    def __init__(self):
        super().__init__(2)
        self.ran = []

    def map(self, function, items):
        self.ran.append((function, list(items)))
        for first, second in zip(super().map(function, items), super().map(function, items), strict=True):
            assert repr(first) == repr(second)
            yield second

    def late(self):
        """The steps whose tasks run now, and find no file."""
        for function, items in self.ran:
            for item in items if step_of(function) in STEPS else []:
                with pytest.raises(DiskError) as failed:
                    function(item)
                assert failed.value.errno == errno.ENOENT
                yield step_of(function)


@pytest.mark.parametrize("edition", ["designed", "shipped"])
def test_a_task_may_run_twice_and_finds_nothing_to_change_when_it_is_late(tmp_path, edition):
    written = []
    for name, workers in (("once", Threads(2)), ("twice", Repeating())):
        options = {
            "clock": lambda: 1_700_000_000.0,
            "instance": lambda: "0" * 8 + "-0000-4000-8000-" + "0" * 12,
        }
        with two_epochs(tmp_path / name, edition, workers=workers, compacted_bytes=1000, **options) as store:
            assert store.compact() is not None
        written.append({item: (tmp_path / name / item).read_bytes() for item in names(tmp_path / name)})
    assert written[0] == written[1]
    late = set(workers.late())
    assert late == set(STEPS) - (set() if edition == "designed" else {writing.begins_of})
    assert {item: (tmp_path / name / item).read_bytes() for item in names(tmp_path / name)} == written[1]


class Full(KernelInFront):
    """A file system that is full where scratch files of a step stand."""

    def __init__(self, kernel, word):
        super().__init__(kernel)
        self._word = word
        self._full = set()

    def open(self, path, flags):
        handle = super().open(path, flags)
        self._full.discard(handle)
        if self._word in path:
            self._full.add(handle)
        return handle

    def pwrite(self, handle, data, offset):
        if handle in self._full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().pwrite(handle, data, offset)


@pytest.mark.parametrize("edition", ["designed", "shipped"])
@pytest.mark.parametrize("word", [".part.", ".live."])
def test_a_file_system_that_is_full_of_scratch_is_told_and_left_clean(tmp_path, edition, word):
    path = tmp_path / "log"
    with two_epochs(path, edition) as store:
        store.rotate()
    before = names(path)
    disk = Disk(Full(LocalKernel(), word))
    with pytest.raises(DiskError, match="No space left") as failed:
        plan_snapshot(disk, str(path), None, Threads(2)).apply()
    assert failed.value.code == "disk-full" and "Free space" in failed.value.advice
    assert names(path) == before
    plan_snapshot(Disk(), str(path), None, Threads(2)).apply()


@pytest.mark.parametrize("edition", ["designed", "shipped"])
@pytest.mark.parametrize("verb", ["compact", "snapshot"])
def test_what_a_killed_driver_left_goes_with_the_next_opening(tmp_path, edition, verb):
    path = tmp_path / "log"
    two_epochs(path, edition).close()
    before = names(path)
    run = f"""
import os, signal
from flintlog.core.workers import Threads
from flintlog.core.log import open_log
from flintlog.dialects.limestone.distributed import writing

class Killed(Threads):
    def map(self, function, items):
        if getattr(function, "func", None) is writing.write:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().map(function, items)

open_log({str(path)!r}).plan_{verb}(workers=Killed(1)).apply()
"""
    killed = subprocess.run([sys.executable, "-c", run], capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    left = [name for name in names(path) if name not in before]
    assert any(".live." in name for name in left)
    with Datastore(path, snapshot=False) as store:
        assert not [name for name in names(path) if ".live." in name or ".part." in name or ".tmp" in name]
        assert store.compact() is not None
    with Datastore(path) as store:
        assert store.snapshot.get(1, b"007") == b"new"


def test_a_piece_that_is_not_whole_is_refused_and_never_taken_for_an_empty_one(tmp_path):
    scratch = Scratch(Disk(), str(tmp_path / "s"), files=1, pieces=3)
    with scratch.made():
        with pytest.raises(RefusedError, match="did not find what another one wrote"):
            scratch.read(0, 1)
        scratch.write(0, [(0, b"first"), (2, b"last")])
        assert [scratch.read(0, piece) for piece in range(3)] == [b"first", b"", b"last"]
        [file] = tmp_path.iterdir()
        whole = file.read_bytes()
        for begin in range(0, len(whole), 4):  # of these bytes a machine that died wrote nothing
            for left in (whole[:begin], whole[:begin] + bytes(4) + whole[begin + 4 :]):
                file.write_bytes(left)
                for piece, data in enumerate((b"first", b"", b"last")):
                    with contextlib.suppress(RefusedError):
                        assert scratch.read(0, piece) == data
    assert not list(tmp_path.iterdir())


@given(
    entries=st.lists(st.integers(0, 1000), max_size=60),
    bucket=st.integers(1, 5000),
    workers=st.integers(1, 40),
)
def test_tasks_read_every_window_once_and_hold_no_more_than_a_bucket_or_a_window(entries, bucket, workers):
    tasks, buckets = state.cut(entries, bucket, workers)
    assert [at for task in tasks for at in range(task.start, task.stop)] == list(range(len(entries)))
    for task in tasks:
        assert task.stop - task.start == 1 or sum(entries[task]) <= bucket
    assert buckets >= 1 and sum(entries) <= buckets * bucket


@given(totals=st.lists(st.integers(0, 1000), min_size=1, max_size=60), workers=st.integers(1, 40))
def test_shares_are_all_buckets_in_their_order_and_as_large_as_workers_need(totals, workers):
    shares = writing.shared(totals, workers)
    assert [size for share in shares for size in share.sizes] == totals
    for share in shares:
        assert share.before == sum(totals[: share.first])
        assert share.sizes and sum(share.sizes[:-1]) <= sum(totals) // (4 * workers)


def test_records_are_taken_in_portions_that_fit():
    lengths = [[100] * 3, [10, 2000, 10], [], [100] * 20]
    buckets = [LiveRecords(*([np.array(some)] * 6)) for some in lengths]
    found = [portion.length.tolist() for portion in tasks.portions(buckets, 1000)]
    assert [length for some in found for length in some] == [length for some in lengths for length in some]
    assert all(len(some) == 1 or sum(some) + 40 * len(some) <= 1000 for some in found)
    assert len(found) == 6


def test_a_log_that_would_fall_into_too_many_pieces_is_refused_with_the_setting_that_helps(
    tmp_path, monkeypatch
):
    path = directory(tmp_path, [[(1, [lay.put(1, b"a", b"x", (1, 1)), lay.put(1, b"b", b"x", (1, 2))])]])
    monkeypatch.setattr(state, "PIECES_MAX", 1)
    with pytest.raises(RefusedError, match=r"1 tasks would give pieces to 2 buckets each") as refused:
        spread_of(path, 64, 1)
    assert "spark.flintlog.taskBytes" in str(refused.value)
