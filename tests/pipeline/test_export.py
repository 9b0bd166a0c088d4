"""Exports without Spark: what is new, exactly once, wherever the process is killed; readable by everyone."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from tests.pipeline.streamed import DIALECTS, writer

from flintlog.cli.output import plain
from flintlog.columns import ndjson
from flintlog.core.log import open_log
from flintlog.dialects.taskflux.store import QueueStore
from flintlog.disk import Disk
from flintlog.disk.kernel import LocalKernel
from flintlog.errors import DamageError, LockedError, RefusedError, UsageError
from flintlog.pipeline.jobs import export


def parquet(target):
    return ds.dataset(str(target), format="parquet").to_table().to_pylist()


def lines(target):
    found = []
    for file in sorted(Path(target).glob("*.ndjson")):
        found += [json.loads(line) for line in file.read_text().splitlines()]
    return found


def delta(target):
    from deltalake import DeltaTable

    return pa.table(DeltaTable(str(target)).to_pyarrow_table()).to_pylist()


READERS = {"parquet": parquet, "ndjson": lines, "delta": delta}


def numbers(rows):
    found = []
    for row in rows:
        payload = row.get("payload")
        if row["operation"] in ("add", "state", "new", "put"):
            found.append(int(bytes.fromhex(payload) if isinstance(payload, str) else payload))
    return sorted(found)


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_each_run_adds_what_is_new_and_everyone_can_read_it(tmp_path, dialect, kind):
    log, target = str(tmp_path / "log"), str(tmp_path / "out")
    with writer(dialect, log) as (write, rotate):
        write(range(50))
        first = export(None, log, target, format=kind)
        assert (first.commit, first.rows >= 50) == (1, True)
        assert export(None, log, target, format=kind).commit is None
        rotate(True)
        write(range(50, 70))
        second = export(None, log, target, format=kind)
        assert second.commit == 2
    assert numbers(READERS[kind](target)) == list(range(70))


@pytest.mark.parametrize("kind", READERS)
def test_a_state_takes_the_place_of_the_one_before(tmp_path, kind):
    log, target = str(tmp_path / "log"), str(tmp_path / "out")

    def expected():
        found = open_log(log).state()
        rows = [row for batch in found for row in batch.to_pylist()]
        return [plain(row) for row in rows] if kind == "ndjson" else rows

    with QueueStore(log) as store:
        store.queue().add_many([b"a", b"b", b"c"])
        assert export(None, log, target, view="state", format=kind).rows == 3
        assert READERS[kind](target) == expected()
        store.queue().take().ack()
        report = export(None, log, target, view="state", format=kind)
        assert (report.commit, report.rows, report.position) == (2, 2, 3)
        assert READERS[kind](target) == expected()
        assert export(None, log, target, view="state", format=kind).commit is None
        for _ in range(2):
            store.queue().take().ack()
        assert export(None, log, target, view="state", format=kind).rows == 0
        assert READERS[kind](target) == []


class KillingKernel(LocalKernel):
    """Kills its process in front of one call that changes something."""

    def __init__(self, at):
        self.left = at

    def _count(self):
        self.left -= 1
        if self.left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def pwrite(self, handle, data, offset):
        self._count()
        return super().pwrite(handle, data, offset)

    def rename(self, source, target):
        self._count()
        super().rename(source, target)

    def unlink(self, path):
        self._count()
        super().unlink(path)

    def sync(self, handle):
        self._count()
        super().sync(handle)

    def sync_directory(self, path):
        self._count()
        super().sync_directory(path)


def killed(log, target, kind, at):
    """Was a run killed at that call, or did it end first?"""
    child = os.fork()
    if not child:
        try:
            export(None, log, target, format=kind, part_bytes=1, disk=Disk(KillingKernel(at)))
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_killed_at_any_call_and_run_again_nothing_is_missing_and_nothing_is_there_twice(tmp_path):
    log, target = str(tmp_path / "log"), str(tmp_path / "out")
    written, at, kills = 0, 0, 0
    with QueueStore(log, soft_limit=1024, hard_limit=1024, snapshot_threshold=1000) as store:
        while True:
            numbers_now = range(written, written + 30)
            store.queue().add_many([b"%d" % number for number in numbers_now])
            written += 30
            was_killed = killed(log, target, "ndjson", at)
            shown = numbers(lines(target))
            assert shown == list(range(len(shown)))  # whoever looks meanwhile sees a prefix
            if not was_killed:
                break
            kills += 1
            if kills % 2:  # killed twice in a row every other time
                export(None, log, target, format="ndjson", part_bytes=1)
                assert numbers(lines(target)) == list(range(written))
            at += 1
    assert kills >= 15
    export(None, log, target, format="ndjson")
    assert numbers(lines(target)) == list(range(written))
    assert sorted(os.listdir(f"{target}/_flintlog/staged")) == []


@pytest.mark.parametrize("step", ["prepare", "move_early", "finish"])
def test_a_delta_table_is_whole_wherever_the_process_is_killed(tmp_path, step):
    log, target = str(tmp_path / "log"), str(tmp_path / "out")
    code = f"""
import os, signal
from flintlog.pipeline.jobs import export
from flintlog.pipeline.target import Target
whole = Target.{step}
def dying(self, *arguments):
    if {step == "move_early"}:
        whole(self, *arguments)
    os.kill(os.getpid(), signal.SIGKILL)
Target.{step} = dying
export(None, {log!r}, {target!r}, format="delta")
"""
    with QueueStore(log) as store:
        store.queue().add_many([b"%d" % number for number in range(10)])
        export(None, log, target, format="delta")
        store.queue().add_many([b"%d" % number for number in range(10, 20)])
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run([sys.executable, "-c", code], env=environment, check=False)
        assert done.returncode == -signal.SIGKILL
        committed = 20 if step == "finish" else 10
        assert numbers(delta(target)) == list(range(committed))
        store.queue().add_many([b"%d" % number for number in range(20, 25)])
        export(None, log, target, format="delta")
    assert numbers(delta(target)) == list(range(25))
    assert len(list(Path(target).glob("part-*"))) == 2 + (step == "finish")


def test_a_target_that_is_something_else_is_refused(tmp_path):
    log, other, target = tmp_path / "log", tmp_path / "other", tmp_path / "out"
    for path in (log, other):
        with QueueStore(path) as store:
            store.queue().add(b"x")
    export(None, str(log), str(target))
    with pytest.raises(RefusedError, match=f"this is an export of source '{log}'"):
        export(None, str(other), str(target))
    with pytest.raises(RefusedError, match="this is an export of view 'entries', not 'state'"):
        export(None, str(log), str(target), view="state")
    with pytest.raises(RefusedError, match="this is an export of format 'parquet', not 'delta'"):
        export(None, str(log), str(target), format="delta")
    assert len(parquet(target)) == 1
    with pytest.raises(UsageError, match="inside the log directory"):
        export(None, str(log), str(log / "out"))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes").write_text("mine")
    with pytest.raises(UsageError, match="something else than an export"):
        export(None, str(log), str(tmp_path / "full"))
    with pytest.raises(UsageError, match="no export of"):
        export(None, str(log), str(target), format="csv")


def test_nothing_is_removed_behind_a_link(tmp_path):
    log, target, outside = tmp_path / "log", tmp_path / "out", tmp_path / "outside"
    with QueueStore(log) as store:
        store.queue().add(b"x")
    export(None, str(log), str(target))
    outside.mkdir()
    (outside / "precious").write_bytes(b"do not touch")
    staged = target / "_flintlog" / "staged"
    (staged / "link").symlink_to(outside)
    export(None, str(log), str(target))
    assert os.listdir(staged) == []
    staged.rmdir()
    staged.symlink_to(outside)
    with pytest.raises(RefusedError, match="symbolic link"):
        export(None, str(log), str(target))
    assert os.listdir(outside) == ["precious"]


def test_a_broken_or_incomplete_target_is_refused_with_the_file(tmp_path):
    log, target = tmp_path / "log", tmp_path / "out"
    with QueueStore(log) as store:
        store.queue().add(b"x")
    (name,) = export(None, str(log), str(target)).files
    os.unlink(target / name)
    with pytest.raises(DamageError, match=f"{name}: commit 1 names this file"):
        export(None, str(log), str(target))
    commit = target / "_flintlog" / "00000001.json"
    good = commit.read_text()
    broken = ["{", "[" * 100_000, '{"version": 1}', good.replace(name, "../../etc/passwd")]
    broken += [good.replace(f'"{name}"', "5"), good.replace('"number": 1', '"number": null')]
    broken += [good.replace('"place": {', '"place": null, "was": {')]
    for content in broken:
        assert content != good
        commit.write_text(content)
        with pytest.raises(DamageError, match="this commit"):
            export(None, str(log), str(target))


def test_a_table_that_lost_its_log_keeps_its_files(tmp_path):
    log, target = tmp_path / "log", tmp_path / "out"
    with QueueStore(log) as store:
        for _ in range(2):
            store.queue().add(b"x")
            export(None, str(log), str(target), format="delta")
    shutil.move(target / "_delta_log", tmp_path / "aside")
    with pytest.raises(RefusedError, match="the table has transaction 0 and _flintlog knows 2"):
        export(None, str(log), str(target), format="delta")
    shutil.move(tmp_path / "aside", target / "_delta_log")
    shutil.move(target / "_flintlog", tmp_path / "aside")
    with pytest.raises(UsageError, match="something else than an export"):
        export(None, str(log), str(target), format="delta")
    assert len(delta(target)) == 2


def test_two_exports_to_one_target_do_not_meet(tmp_path):
    log, target = tmp_path / "log", tmp_path / "out"
    with QueueStore(log) as store:
        store.queue().add(b"x")
    export(None, str(log), str(target))
    with Disk().open(f"{target}/_flintlog/lock", "write") as file:
        assert file.lock()
        with pytest.raises(LockedError):
            export(None, str(log), str(target))


def test_lines_are_what_the_command_line_prints():
    from decimal import Decimal

    schema = pa.schema(
        [
            pa.field("text", pa.string()),
            pa.field("raw", pa.binary()),
            pa.field("number", pa.decimal128(20, 0)),
            pa.field("many", pa.list_(pa.decimal128(20, 0))),
            pa.field("own", pa.struct([pa.field("a", pa.int64()), pa.field("b", pa.string())])),
        ]
    )
    rows = [
        {
            "text": 'a"b\\c\n\x01é',
            "raw": b"\x00\xff",
            "number": Decimal(2**64 - 1),
            "many": [1, None],
            "own": None,
        },
        {"text": None, "raw": None, "number": None, "many": [], "own": {"a": 1, "b": None}},
        {"text": "", "raw": b"", "number": Decimal(0), "many": None, "own": {"a": None, "b": "x"}},
    ]
    batch = pa.RecordBatch.from_pylist(rows, schema=schema)
    for some in (batch, batch.slice(1), batch.slice(3)):
        expected = [json.dumps(plain(row), ensure_ascii=False) for row in some.to_pylist()]
        assert bytes(ndjson.encode(some)).decode().splitlines() == expected
