"""Logs in an object store: all views of all dialects from an S3 server on this machine are those of a local disk."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyarrow import fs
from tests.every_directory import every_directory
from tests.pipeline.in_process import rows
from tests.pipeline.object_store import object_store
from tests.pipeline.streamed import DIALECTS, finish, numbers_of, start, writer

from flintlog.core.dialect import dialect_names
from flintlog.pipeline.options import read_options

pytestmark = pytest.mark.spark

GOOD = (
    "taskflux/single-segment",
    "taskflux/snapshot-plus-suffix",
    "zmqraft/03_multi_files",
    "zmqraft/11_snapshot_pruned",
    "mpy6a/s1_multi_delay",
    "limestone/c01_basic_multichannel/dir",
    "limestone/c06_online_compaction/dir",
)
DAMAGED = (
    "taskflux/damaged-crc-in-sealed-segment",
    "zmqraft/d09_last_entry_data_cut",
    "mpy6a/s4_order_violation/in_file",
    "limestone/c16_unknown_type_in_durable/dir",
)


@pytest.fixture(scope="module")
def storage(tmp_path_factory):
    """A server, and the options that reach it."""
    with object_store(tmp_path_factory.mktemp("store") / "home") as options:
        yield options


@pytest.fixture(scope="module")
def uploaded(storage, tmp_path_factory):
    """Local directories and their addresses."""
    local = every_directory(tmp_path_factory.mktemp("local"))
    bucket = fs.S3FileSystem(**storage, allow_bucket_creation=True)
    bucket.create_dir("logs")
    found = {}
    for number, case in enumerate((*GOOD, *DAMAGED)):
        found[local[case]] = f"s3://logs/store-{number:02}"
        fs.copy_files(local[case], f"logs/store-{number:02}", destination_filesystem=bucket)
    return found


@pytest.fixture
def both(load, uploaded, storage):
    """Rows of the same directories from the local disk and from the server, without their names."""
    options = {f"storage.{name}": value for name, value in storage.items()}

    def read(paths, **more):
        here = rows(load(*paths, **more).drop("source"))
        there = rows(load(*(uploaded[path] for path in paths), **options, **more).drop("source"))
        return here, there

    return read


@pytest.mark.long
@pytest.mark.parametrize("view", ["entries", "files", "findings"])
def test_views_of_all_dialects_are_those_of_the_local_disk(both, uploaded, view):
    more = {"on_damage": "report", "details": "true"} if view == "entries" else {}
    here, there = both(list(uploaded), view=view, **more)
    assert there == here
    assert {row["dialect"] for row in there} == set(dialect_names())


def test_states_are_those_of_the_local_disk(both, uploaded):
    for dialect in dialect_names():
        good = [path for path in list(uploaded)[: len(GOOD)] if f"/{dialect}/" in path]
        here, there = both(good, view="state")
        assert there == here != [], dialect


def test_patterns_and_pieces_and_damage_in_a_bucket(load, uploaded, storage):
    options = {f"storage.{name}": value for name, value in storage.items()}
    found = load("s3://logs/store-0[0-6]", split_bytes="5000", columns="source", **options)
    sources = {row.source for row in found.select("source").distinct().collect()}
    assert sources == set(list(uploaded.values())[: len(GOOD)])
    with pytest.raises(
        Exception, match=r"s3://logs/store-07/log/.*\.log, byte 8: LSN 2: the record's checksum"
    ):
        load("s3://logs/store-07", **options).collect()
    with pytest.raises(Exception, match="s3://logs/none: there is no such directory"):
        load("s3://logs/none", **options)


def test_credentials_may_come_from_the_environment(storage, uploaded, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", storage["access_key"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", storage["secret_key"])
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{storage['endpoint_override']}")
    monkeypatch.setenv("AWS_REGION", storage["region"])
    assert read_options({"path": "s3://logs/store-00"}).dialects == ("taskflux",)


# Streams


@pytest.fixture
def bucket(storage):
    """Puts a copy of a directory in the place of the one before, file by file, as a synchronising tool does."""
    files = fs.S3FileSystem(**storage, allow_bucket_creation=True)
    files.create_dir("live")

    def put(local, name):
        there = {info.base_name for info in files.get_file_info(fs.FileSelector(f"live/{name}", True, True))}
        files_here = [path for path in Path(local).rglob("*") if path.is_file()]
        files_here.sort(key=lambda path: (path.name == "epoch", path))  # as docs/spark.md asks for
        for path in files_here:
            with files.open_output_stream(f"live/{name}/{path.relative_to(local)}") as target:
                target.write(path.read_bytes())
        for path in sorted(there - {path.name for path in files_here}):
            for info in files.get_file_info(fs.FileSelector(f"live/{name}", recursive=True)):
                if info.base_name == path and info.type == fs.FileType.File:
                    files.delete_file(info.path)

    return put


def test_a_stream_follows_the_copies_of_all_dialects_in_a_bucket(spark, storage, bucket, tmp_path):
    options = {f"storage.{name}": value for name, value in storage.items()}
    with ExitStack() as open_stores:
        writers = {
            name: open_stores.enter_context(writer(name, tmp_path / "logs" / name)) for name in DIALECTS
        }
        for numbers, drop in ((range(30), False), (range(30, 50), True), (range(50, 60), False)):
            for name, (write, rotate) in writers.items():
                rotate(drop)  # what was delivered is dropped
                write(numbers)
                bucket(tmp_path / "logs" / name, name)
            query = start(spark, "s3://live/*", tmp_path, now=True, max_entries_per_trigger="60", **options)
            finish(query)
    found = spark.read.parquet(f"{tmp_path}/out")
    for name in DIALECTS:
        assert numbers_of(found.where(f"dialect = '{name}'")) == list(range(60)), name


@pytest.mark.long
def test_a_killed_stream_of_a_bucket_leaves_nothing_twice_and_nothing_out(spark, storage, bucket, tmp_path):
    with writer("taskflux", tmp_path / "log") as (write, _):
        write(range(3000))
        bucket(tmp_path / "log", "killed")
        child = Path(__file__).with_name("streamed.py")
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "AWS_ACCESS_KEY_ID": storage["access_key"],
            "AWS_SECRET_ACCESS_KEY": storage["secret_key"],
            "AWS_ENDPOINT_URL": f"http://{storage['endpoint_override']}",
            "AWS_REGION": storage["region"],
        }
        process = subprocess.Popen(
            [sys.executable, str(child), "s3://live/killed", str(tmp_path)],
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
        try:
            assert process.stdout.readline()  # some batches are done
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            process.stdout.close()
        write(range(3000, 3100))
        bucket(tmp_path / "log", "killed")
    options = {f"storage.{name}": value for name, value in storage.items()}
    finish(start(spark, "s3://live/killed", tmp_path, now=True, **options))
    assert numbers_of(spark.read.parquet(f"{tmp_path}/out")) == list(range(3100))


def test_a_copy_that_was_replaced_by_another_log_is_told(spark, storage, bucket, tmp_path):
    options = {f"storage.{name}": value for name, value in storage.items()}
    for name, first in (("one", 0), ("two", 100)):
        with writer("taskflux", tmp_path / name) as (write, _):
            write(range(first, first + 20))
        bucket(tmp_path / name, "replaced")
        finish(start(spark, "s3://live/replaced", tmp_path, now=True, **options))
    found = spark.read.parquet(f"{tmp_path}/out")
    assert [row.position for row in found.where("operation = 'truncate'").collect()] == [0]
    assert numbers_of(found) == [*range(20), *range(100, 120)]
