"""Streams: every durable entry once, across rotation, removal, truncation, restarts and a killed process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.pipeline.streamed import DIALECTS, finish, numbers_of, start, writer

from flintlog.dialects.taskflux.layout import AddRecord, encode_delta
from flintlog.dialects.taskflux.store import QueueStore, ReplicaLog
from flintlog.errors import UsageError
from flintlog.pipeline.source import FlintlogDataSource
from flintlog.pipeline.stream_options import stream_options

pytestmark = pytest.mark.spark
DATA = encode_delta(AddRecord("", 1, b"record"))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_entry_arrives_once_over_rotation_removal_and_restarts(spark, tmp_path, dialect):
    path = tmp_path / "log"
    with writer(dialect, path) as (write, rotate):
        write(range(100))
        rotate(False)
        write(range(100, 150))
        assert sum(finish(start(spark, path, tmp_path, now=True))) >= 150
        rotate(True)  # what was delivered is dropped
        write(range(150, 200))
        finish(start(spark, path, tmp_path, now=True))
    assert numbers_of(spark.read.parquet(f"{tmp_path}/out")) == list(range(200))


def test_a_running_stream_keeps_up_with_a_live_store_and_goes_on_after_a_stop(spark, tmp_path):
    path = tmp_path / "log"
    written, stop = [], threading.Event()

    def work(write):
        while not stop.is_set():
            numbers = range(len(written), len(written) + 20)
            write(numbers)
            written.extend(numbers)
            stop.wait(0.01)

    with writer("taskflux", path) as (write, _):
        write([-1])
        thread = threading.Thread(target=work, args=(write,))
        thread.start()
        try:
            for _ in range(2):
                query = start(
                    spark, path, tmp_path, max_entries_per_trigger="500", max_bytes_per_trigger="90000"
                )
                while not [one for one in query.recentProgress if one["numInputRows"]]:
                    assert query.isActive, query.exception()
                    stop.wait(0.05)
                assert max(one["numInputRows"] for one in query.recentProgress) <= 500
                query.stop()
        finally:
            stop.set()
            thread.join()
    finish(start(spark, path, tmp_path, now=True))
    assert numbers_of(spark.read.parquet(f"{tmp_path}/out")) == [-1, *written]


def test_several_dialects_are_one_stream(spark, tmp_path):
    with ExitStack() as open_stores:
        writers = {
            name: open_stores.enter_context(writer(name, tmp_path / "logs" / name)) for name in DIALECTS
        }
        for numbers in (range(30), range(30, 50)):
            for write, rotate in writers.values():
                write(numbers)
                rotate(False)
            finish(start(spark, f"{tmp_path}/logs/*", tmp_path, now=True, max_entries_per_trigger="60"))
    found = spark.read.parquet(f"{tmp_path}/out")
    for name in DIALECTS:
        assert numbers_of(found.where(f"dialect = '{name}'")) == list(range(50)), name


@pytest.mark.long
def test_a_killed_process_leaves_nothing_twice_and_nothing_out(spark, tmp_path):
    path = tmp_path / "log"
    with writer("zmqraft", path) as (write, _):
        write(range(3000))
        here = Path(__file__).parent
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(here)])}
        child = subprocess.Popen(
            [sys.executable, str(here / "streamed.py"), str(path), str(tmp_path)],
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
        try:
            assert child.stdout.readline()  # some batches are done
        finally:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            child.stdout.close()
        write(range(3000, 3100))
    finish(start(spark, path, tmp_path, now=True))
    assert numbers_of(spark.read.parquet(f"{tmp_path}/out")) == list(range(3100))


def test_a_truncation_is_a_row_and_limits_cut_batches(spark, tmp_path):
    with ReplicaLog(tmp_path / "log") as log:
        log.append_entries(0, [(1, DATA)] * 10)
        assert finish(start(spark, tmp_path / "log", tmp_path, now=True, max_entries_per_trigger="4")) == [
            4,
            4,
            2,
        ]
        log.append_entries(7, [(2, DATA)] * 2)
    finish(start(spark, tmp_path / "log", tmp_path, now=True))
    frame = spark.read.parquet(f"{tmp_path}/out").where("term = 2 OR operation = 'truncate'")
    found = sorted((row.position, row.operation) for row in frame.collect())
    assert found == [(7, "add"), (7, "truncate"), (8, "add")]


def test_what_was_removed_before_it_was_delivered_is_an_error_until_it_is_allowed(spark, tmp_path):
    path = tmp_path / "log"
    with QueueStore(path, soft_limit=1024, hard_limit=1024, snapshot_threshold=1000) as store:
        store.queue().add(b"0")
        finish(start(spark, path, tmp_path, now=True))
        for _ in range(10):
            store.queue().add_many([bytes(100)] * 5)
        store.snapshot()
        query = start(spark, path, tmp_path, now=True)
        with pytest.raises(Exception, match=r"LSN 1 to \d+ were removed before they were delivered"):
            query.awaitTermination()
        finish(start(spark, path, tmp_path, now=True, on_loss="report"))
    found = spark.read.parquet(f"{tmp_path}/out").where("operation = 'lost'").collect()
    assert [row.position for row in found] == [1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"start": "now"}, "option start: 'now' is neither earliest nor latest"),
        ({"max_entries_per_trigger": "0"}, "option max_entries_per_trigger: '0' is not a number above zero"),
        ({"max_bytes_per_trigger": "1k"}, "option max_bytes_per_trigger: '1k' is not"),
        ({"on_loss": "ignore"}, "option on_loss: 'ignore' is neither fail nor report"),
    ],
)
def test_an_option_of_a_stream_that_cannot_be_right_is_refused(options, words):
    with pytest.raises(UsageError) as refused:
        stream_options(options)
    assert words in str(refused.value)


def test_what_only_the_other_kind_of_read_can_do_is_refused(segmented):
    with pytest.raises(UsageError, match="option start: only a stream has it"):
        source = FlintlogDataSource({"path": str(segmented), "start": "latest"})
        source.reader(source.schema())
    for options, words in (({"view": "state"}, "is no stream"), ({"from": "3"}, "a stream has none")):
        source = FlintlogDataSource({"path": str(segmented), **options})
        with pytest.raises(UsageError, match=words):
            source.streamReader(source.schema()).initialOffset()


def test_a_refused_stream_says_so_and_what_to_do(spark, segmented, tmp_path):
    query = start(spark, segmented, tmp_path, now=True, view="state")
    with pytest.raises(
        Exception,
        match=r"UsageError: option view: 'state' is no stream\nA stream has the view entries\. SQLSTATE",
    ):
        query.awaitTermination()


def test_offsets_of_other_directories_and_versions_are_refused(segmented):
    source = FlintlogDataSource({"path": str(segmented), "start": "latest"})
    reader = source.streamReader(source.schema())
    assert reader.initialOffset()["sources"][str(segmented)]["position"] == 440
    with pytest.raises(UsageError, match="follows /elsewhere"):
        reader.partitions({"version": 1, "sources": {"/elsewhere": {}}}, reader.initialOffset())
    with pytest.raises(UsageError, match="version 2"):
        reader.partitions({"version": 2, "sources": {}}, reader.initialOffset())
