"""A real cluster: a master and two workers on this machine, jobs by `spark-submit` and by command, a killed worker."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.pipeline.cluster import HOME, Cluster
from tests.pipeline.samples import contents, write_samples

from flintlog import Datastore
from flintlog.core.dialect import EntryQuery, detect
from flintlog.core.log import Log, open_log
from flintlog.disk import Disk
from flintlog.pipeline.session import write_package

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("cluster")]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def in_process(path):
    """What the jobs must give."""
    disk = Disk()
    spoken = detect(disk, str(path))
    pieces = Log(spoken, disk, str(path)).splits(EntryQuery())
    entries = [
        batch for piece in pieces for batch in Log(spoken, disk, str(path)).read_split(piece, EntryQuery())
    ]
    return {
        "entries": sum(batch.num_rows for batch in entries),
        "verdict": Log(spoken, disk, str(path)).verify(lambda done, total: None).json()["verdict"],
        "state": sum(batch.num_rows for batch in Log(spoken, disk, str(path)).state()),
        "equal": True,
    }


def compacted_here(path, target):
    """A copy of a directory, compacted in this process; returns what it holds and what was said."""
    shutil.copytree(path, target)
    plan = open_log(str(target)).plan_compact()
    return plan.apply(), contents(target)


@pytest.mark.long
def test_every_job_runs_on_a_cluster_that_was_sent_the_package(cluster, tmp_path):
    samples = write_samples(tmp_path)
    shutil.copytree(tmp_path, tmp_path / "replica", ignore=shutil.ignore_patterns("replica"))
    expected = {name: in_process(path) for name, path in samples.items()}
    package = write_package(str(tmp_path / "flintlog.zip"))
    done = subprocess.run(
        [
            str(HOME / "bin" / "spark-submit"), "--master", cluster.url, "--py-files", package,
            str(Path(__file__).with_name("cluster_jobs.py")), str(tmp_path),
        ],
        env=cluster.environment(),
        capture_output=True,
        text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["master"] == cluster.url
    for name, path in samples.items():
        found = report[name]
        assert {key: found[key] for key in expected[name]} == expected[name], name
        assert found["exported"] > 0
        if name == "limestone":  # rotated logs are named by the time, and so is the catalog
            said, _ = compacted_here(tmp_path / "replica" / name, tmp_path / "here" / name)
            here, there = (
                sorted((folder / name).glob("cmpct_*")) for folder in (tmp_path / "here", tmp_path)
            )
            assert [item.read_bytes() for item in here] == [item.read_bytes() for item in there]
            assert found["compact"] == said
        else:
            _, here = compacted_here(tmp_path / "replica" / name, tmp_path / "here" / name)
            assert here == contents(path), name


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A log that takes a cluster some seconds to compact."""
    path = tmp_path_factory.mktemp("large") / "log"
    with Datastore(path, snapshot=False) as store:
        channels = [store.channel(), store.channel()]
        for number in range(8):
            with channels[number % 2].session() as session:
                keys = [
                    b"%012d" % ((at * 7919) % 900_001)
                    for at in range(number * 100_000, (number + 1) * 100_000)
                ]
                session.put_many(1, keys, [b"v" * 100] * len(keys))
            store.switch_epoch()
    return path


MOMENTS = {"sorting": "*.part.*", "merging": "*.live.*", "writing": "cmpct_????.tmp.????????????"}


def compacting(cluster, path, moment):
    """A compaction by the command, at the moment at which a file of such a name is written; in a session of its own."""
    job = subprocess.Popen(
        [sys.executable, "-m", "flintlog.cli.main", "compact", str(path), "--engine", "spark", "--master", cluster.url],
        env=cluster.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )  # fmt: skip
    while job.poll() is None and not any(map(_size, path.glob(MOMENTS[moment]))):
        time.sleep(0.002)
    assert job.poll() is None
    return job


def _size(file):
    with contextlib.suppress(FileNotFoundError):
        return file.stat().st_size
    return 0


@pytest.mark.long
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_worker_that_is_killed_in_the_middle_changes_nothing_about_the_result(
    cluster, large, tmp_path, moment
):
    path = tmp_path / "log"
    shutil.copytree(large, path)
    job = compacting(cluster, path, moment)
    os.kill(cluster.executors()[0], signal.SIGKILL)
    out, err = job.communicate()
    assert job.returncode == 0, err[-3000:]
    assert "done: cmpct_0000" in out
    compacted_here(large, tmp_path / "here")
    [mine], [theirs] = (sorted(folder.glob("cmpct_*")) for folder in (path, tmp_path / "here"))
    assert mine.read_bytes() == theirs.read_bytes()
    assert sorted(item.name for item in path.iterdir()) == sorted(
        item.name for item in (tmp_path / "here").iterdir()
    )


@pytest.mark.long
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_driver_that_is_killed_leaves_the_old_state_or_the_new_one(cluster, large, tmp_path, moment):
    path = tmp_path / "log"
    shutil.copytree(large, path)
    before = _rows(path)
    job = compacting(cluster, path, moment)
    os.killpg(job.pid, signal.SIGKILL)
    job.communicate()
    assert _rows(path) == before
    with Datastore(path, snapshot=False) as store:  # opening takes the leftovers away
        assert not list(path.rglob("*.tmp*"))
        assert store.compact() is not None
    assert _rows(path) == before


def _rows(path):
    disk = Disk()
    found = open_log(str(path), disk=disk).state()
    return sum(batch.num_rows for batch in found)


ROWS = 300_000


def writing(cluster, dialect, path):
    """A write of many rows by six tasks, in a session of its own."""
    script = Path(__file__).with_name("cluster_writing.py")
    return subprocess.Popen(
        [sys.executable, str(script), cluster.url, dialect, str(path), str(ROWS)],
        env=cluster.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )  # fmt: skip


def until(job, happens):
    while job.poll() is None and not happens():
        time.sleep(0.002)


def written(path):
    """How many rows count, and how many of them are different."""
    column = {"limestone": "key", "taskflux": "payload"}
    log = open_log(str(path))
    rows = [row for batch in log.state() for row in batch[column[log.dialect]].to_pylist()]
    mine = [row for row in rows if b"batch" not in row and row != b"kills"]
    return len(mine), len(set(mine))


SCRATCH = {"limestone": "compaction_temp", "taskflux": "data/temp"}
LOGS = {"limestone": "pwal_*", "taskflux": "data/log/*"}


@pytest.mark.long
@pytest.mark.parametrize("dialect", ["limestone", "taskflux"])
@pytest.mark.parametrize("killed", ["executor", "task", "driver", "committing driver"])
def test_a_write_that_is_killed_anywhere_counts_once_in_the_end(cluster, dialect, killed, tmp_path):
    path = tmp_path / "log"
    job = writing(cluster, dialect, path)
    until(job, lambda: len(list((path / SCRATCH[dialect]).glob("load.*"))) >= 3)
    assert job.poll() is None
    if killed == "executor":
        os.kill(cluster.executors()[0], signal.SIGKILL)
    elif killed == "task":
        os.kill(cluster.workers()[0], signal.SIGKILL)
    else:
        if killed == "committing driver":
            there = set(path.glob(LOGS[dialect]))
            until(job, lambda: set(path.glob(LOGS[dialect])) != there or list(path.glob("*/*/load.segment")))
        os.killpg(job.pid, signal.SIGKILL)
    out, err = job.communicate()
    if killed in ("executor", "task"):
        assert job.returncode == 0, err[-3000:]
        assert written(path) == (ROWS, ROWS)
        assert not list((path / SCRATCH[dialect]).glob("load.*"))
        return
    assert written(path) in [(0, 0), (ROWS, ROWS)]
    again = writing(cluster, dialect, path)
    out, err = again.communicate()
    assert "written" in out, err[-3000:]
    assert written(path) == (ROWS, ROWS)
    assert open_log(str(path)).verify().exit_status == 0
