"""The data source as a data engineer meets it: options, columns, several directories, damage, a live log."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time

import pytest
from tests.golden_cases import materialise, snapshot_of
from tests.pipeline.in_process import entries_in_process, rows, state_in_process

from flintlog.core.dialect import NO_PAYLOAD, EntryQuery, Split
from flintlog.dialects.taskflux.store import QueueStore
from flintlog.errors import NotALogError, UsageError
from flintlog.pipeline.options import local_path, read_options
from flintlog.pipeline.source import FlintlogDataSource

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return materialise("single-segment", tmp_path_factory.mktemp("log"))


# Columns

NARROW = {
    ("position", "bigint", False),
    ("term", "bigint", True),
    ("operation", "string", False),
    ("stream", "string", True),
    ("key", "binary", True),
    ("payload", "binary", True),
    ("file", "string", False),
    ("offset", "bigint", False),
    ("length", "bigint", False),
}


def test_columns_have_the_types_and_nullability_that_the_dialect_declares(load, log):
    entries = {(f.name, f.dataType.simpleString(), f.nullable) for f in load(log).schema}
    state = [(f.name, f.dataType.simpleString(), f.nullable) for f in load(log, view="state").schema]
    assert entries == NARROW
    everything = {(f.name, f.dataType.simpleString(), f.nullable) for f in load(log, details="true").schema}
    assert everything == {
        *NARROW,
        ("source", "string", False),
        ("dialect", "string", False),
        ("taskflux", "struct<lsn:bigint,checksum:bigint,queue:string,key:bigint,id:decimal(20,0)>", True),
    }
    assert state == [
        ("source", "string", False),
        ("queue", "string", False),
        ("id", "decimal(20,0)", False),
        ("key", "bigint", False),
        ("payload", "binary", False),
    ]


def test_a_schema_given_by_the_user_chooses_columns(spark, log):
    chosen = (
        spark.read.schema("position long, source string, operation string").format("flintlog").load(str(log))
    )
    assert rows(chosen) == [
        {"position": row["position"], "source": str(log), "operation": row["operation"]}
        for row in entries_in_process(log)
    ]


@pytest.mark.parametrize("schema", ["price long", "position int"])
def test_a_schema_that_does_not_fit_is_refused_with_the_column(spark, log, schema):
    with pytest.raises(Exception, match=f"UsageError: .*{schema.split()[0]}"):
        spark.read.schema(schema).format("flintlog").load(str(log)).collect()


# Options


def test_positions_and_payload_are_options(load, log):
    found = rows(load(log, **{"from": "2", "to": "5", "payload": "false"}))
    assert found == entries_in_process(log, EntryQuery(first=(2,), last=(5,), skip=NO_PAYLOAD))
    assert [row["position"] for row in found] == [2, 3, 4, 5]
    assert {row["payload"] for row in found} == {None}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"view": "rows"},
            "option view: 'rows' is not a view. Choose one of: entries, state, files, findings",
        ),
        ({"dialect": "kafka"}, "'kafka' is not a dialect. Known: taskflux"),
        ({"from": "soon"}, "option from: 'soon' is not a position"),
        ({"to": ""}, "option to: '' is not a position"),
        ({"view": "state", "as_of": "1.5"}, "option as_of: '1.5' is not a position"),
        ({"payload": "no"}, "option payload: 'no' is neither true nor false"),
        ({"as_of": "3"}, "option as_of: the view 'entries' has none"),
        ({"view": "state", "from": "3"}, "option from: the view 'state' has none"),
        ({"form": "3"}, "option form: the view 'entries' has none"),
        ({"on_damage": "skip"}, "option on_damage: 'skip' is not one. Choose one of: fail, stop, report"),
        ({"split_bytes": "64m"}, "option split_bytes: '64m' is not a number of bytes"),
        ({"split_bytes": "0"}, "option split_bytes: '0' is not a number of bytes"),
        ({"edition": "second"}, "option edition: 'second' is not one. Choose one of: designed, shipped"),
        ({"edition": "designed"}, "is in the shipped edition. Name the other one, or leave the option out"),
        ({"view": "files", "payload": "false"}, "option payload: the view 'files' has none"),
        ({"path": "nosuch://bucket/log"}, "nosuch:// cannot be opened: Protocol not known: nosuch"),
    ],
)
def test_an_option_that_cannot_be_right_is_refused_by_name(log, options, words):
    with pytest.raises(UsageError) as refused:
        read_options({"path": str(log)} | options)
    assert words in str(refused.value)


def test_no_directory_is_refused():
    with pytest.raises(UsageError, match="no directory was named"):
        read_options({})


def test_a_refused_option_reaches_the_user_of_spark(load, log):
    with pytest.raises(Exception) as refused:
        load(log, view="rows")
    message, last = str(refused.value).splitlines()[-2:]
    assert message == "flintlog.errors.UsageError: option view: 'rows' is not a view"
    assert last == "Choose one of: entries, state, files, findings. SQLSTATE: 38000"


def test_a_directory_that_is_no_log_is_refused_with_its_name(load, tmp_path):
    with pytest.raises(Exception, match=f"NotALogError: {tmp_path}: no dialect recognises this directory"):
        load(tmp_path)


def test_option_names_and_words_may_be_written_in_any_case(log):
    found = read_options({"PATH": str(log), "View": "STATE", "AS_OF": "3", "dialect": "TaskFlux"})
    assert (found.view, found.as_of, found.dialect) == ("state", (3,), "taskflux")


def test_a_file_address_names_a_local_directory(log):
    assert local_path(f"file:{log}") == local_path(f"file://{log}") == str(log)
    assert local_path("file:/a b%20") == "/a b%20"  # not escaped: so Hadoop writes it
    assert local_path("/a#b?c") == "/a#b?c"


# Several directories, SQL


def test_several_directories_give_one_frame_with_their_names(load, log, segmented):
    counted = {
        row["source"]: row["count"] for row in load(log, segmented).groupBy("source").count().collect()
    }
    assert counted == {str(log): 10, str(segmented): 441}


def test_the_state_of_two_dialects_is_refused_with_what_to_do(log, tmp_path):
    peer = materialise("01_few", tmp_path, dialect="zmqraft")
    with pytest.raises(UsageError) as refused:
        read_options({"paths": f'["{log}", "{peer}"]', "view": "state"})
    assert f"{log} is a taskflux log and {peer} is a zmqraft log" in str(refused.value)
    assert "Read the directories of each dialect on their own" in str(refused.value)


def test_the_edition_that_was_asked_for_is_read(log):
    assert read_options({"path": str(log), "edition": "Shipped"}).sources == (str(log),)


def test_a_pattern_names_every_directory_that_fits(load, log, segmented, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    for name in ("replica-2", "replica-10", "other", ".replica-3"):
        (home / name).symlink_to(log)
    (home / "replica-file").touch()
    found = read_options({"path": f"{home}/replica-*"})
    assert found.sources == (f"{home}/replica-10", f"{home}/replica-2")
    assert read_options({"path": f"{tmp_path}/*/repl[h-j]ca-?"}).sources == found.sources[1:]
    assert load(f"{home}/replica-*").count() == 20
    with pytest.raises(NotALogError, match=f"{tmp_path}/none-.: no directory has such a name"):
        read_options({"path": f"{tmp_path}/none-*"})


def test_a_directory_that_is_called_like_a_pattern_is_meant_itself(log, tmp_path):
    for name in ("a[1]", "a1"):
        (tmp_path / name).symlink_to(log)
    assert read_options({"path": f"{tmp_path}/a[1]"}).sources == (f"{tmp_path}/a[1]",)


def test_sql_reads_a_temporary_view(spark, log):
    spark.sql(f"CREATE TEMPORARY VIEW changes USING flintlog OPTIONS (path '{log}', `from` '1')")
    try:
        assert rows(spark.sql("SELECT count(*) AS n FROM changes WHERE operation = 'add'")) == [{"n": 6}]
    finally:
        spark.sql("DROP VIEW changes")


def test_a_table_of_the_catalog_is_refused_with_what_to_type(spark, log):
    with pytest.raises(Exception, match="UsageError: Spark does not keep") as refused:
        spark.sql(f"CREATE TABLE changes USING flintlog OPTIONS (path '{log}', `from` '1')")
    typed = re.search(r"Type: (CREATE .*)\. SQLSTATE", str(refused.value))[1]
    spark.sql(typed.replace(" name ", " changes "))
    try:
        assert rows(spark.sql("SELECT min(position) AS first FROM changes")) == [{"first": 1}]
    finally:
        spark.sql("DROP VIEW changes")


def test_a_table_that_has_lost_its_directory_says_what_to_type(spark, log):
    spark.sql(f"CREATE TABLE lost (position long) USING flintlog LOCATION '{log}'")
    try:
        with pytest.raises(Exception, match=r"no directory was named\n.* CREATE TEMPORARY VIEW"):
            spark.sql("SELECT * FROM lost").collect()
    finally:
        spark.sql("DROP TABLE lost")


# What is no log


def test_a_pattern_may_pass_over_what_is_no_log(load, log, segmented, tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "one.jpg").write_bytes(b"jpg")
    (tmp_path / "empty").mkdir()
    for name, target in (("a", log), ("b", segmented)):
        (tmp_path / name).symlink_to(target)
    with pytest.raises(NotALogError, match=f"{tmp_path}/empty: no dialect recognises"):
        read_options({"path": f"{tmp_path}/*"})
    found = read_options({"path": f"{tmp_path}/*", "ignore_foreign": "true"})
    assert found.sources == (f"{tmp_path}/a", f"{tmp_path}/b")
    assert load(f"{tmp_path}/*", ignore_foreign="true").count() == 451


def test_what_is_named_itself_is_never_passed_over(log, tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "log").symlink_to(log)
    for paths in ([f"{tmp_path}/photos", f"{tmp_path}/*"], [f"{tmp_path}/*", f"{tmp_path}/photos"]):
        with pytest.raises(NotALogError, match=f"{tmp_path}/photos: no dialect recognises"):
            read_options({"paths": json.dumps(paths), "ignore_foreign": "true"})


def test_a_pattern_that_finds_no_log_at_all_is_refused(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    with pytest.raises(NotALogError, match=r"none of the 2 directories is a log .* Check the pattern"):
        read_options({"path": f"{tmp_path}/*", "ignore_foreign": "true"})


def test_with_a_dialect_a_pattern_passes_over_the_logs_of_others(log, tmp_path):
    (tmp_path / "queues").symlink_to(log)
    peer = materialise("01_few", tmp_path, dialect="zmqraft")
    asked = {"paths": json.dumps([f"{tmp_path}/*", f"{peer.parent}/*"]), "ignore_foreign": "true"}
    assert read_options({**asked, "dialect": "zmqraft"}).sources == (str(peer),)
    assert set(read_options(asked).dialects) == {"taskflux", "zmqraft"}


# Damage


def test_damage_among_the_entries_names_file_and_offset(load, tmp_path):
    damaged = materialise("damaged-crc-in-sealed-segment", tmp_path)
    before = snapshot_of(damaged)
    with pytest.raises(Exception) as refused:
        load(damaged).collect()
    assert f"{damaged}/log/0000000000000000002.log, byte 8: LSN 2: the record's checksum" in str(
        refused.value
    )
    assert f"flintlog: record-checksum in {damaged}" in str(refused.value)
    assert snapshot_of(damaged) == before


def test_damage_behind_the_last_position_asked_for_does_no_harm(load, tmp_path):
    damaged = materialise("damaged-wrong-record-marker", tmp_path)
    assert [row["position"] for row in rows(load(damaged, to="2"))] == [0, 1, 2]
    with pytest.raises(Exception, match="byte 116"):
        load(damaged, to="3").collect()


def test_the_state_of_a_damaged_directory_is_refused_with_the_directory(load, log, tmp_path):
    damaged = materialise("delta-empty", tmp_path)
    with pytest.raises(Exception) as refused:
        load(log, damaged, view="state").collect()
    assert "log/0000000000000000000.log, byte 8: LSN 0: the record holds no delta" in str(refused.value)
    assert f"flintlog: delta-empty in {damaged}" in str(refused.value)


# A live log


def test_a_live_log_is_read_as_a_prefix_while_it_is_written(load, tmp_path):
    root = tmp_path / "live"
    stop = threading.Event()
    with QueueStore(root, soft_limit=1 << 15, hard_limit=1 << 15, snapshot_threshold=1000) as store:
        queue = store.queue()
        queue.add(b"first")
        writer = threading.Thread(target=write_until, args=(queue, stop))
        writer.start()
        try:
            counts = [check_prefix(load(root), queue, store.last_lsn) for _ in range(3)]
        finally:
            stop.set()
            writer.join()
        assert counts == sorted(counts)
        assert counts[-1] > counts[0] > 0
        assert rows(load(root, view="state")) == state_in_process(root)


def write_until(queue, stop):
    while not stop.is_set():
        queue.add_many([b"x" * 50] * 20)
        stop.wait(0.005)


def check_prefix(frame, queue, acknowledged):
    positions = [row["position"] for row in rows(frame.select("position"))]
    assert positions == list(range(len(positions)))
    assert len(positions) > acknowledged
    return len(positions)


# The packages


def test_spark_finds_the_source_with_light_imports():
    code = (
        "import sys, pyspark.sql.datasource; theirs = set(sys.modules); import pyspark_flintlog;"
        "print(*({'numba', 'numpy', 'pyarrow', 'pandas'} & (set(sys.modules) - theirs)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_a_plan_is_kept_until_the_directory_changes(tmp_path):
    def planned() -> list[Split | None]:
        source = FlintlogDataSource({"path": str(tmp_path)})
        return [piece.split for task in source.reader(source.schema()).partitions() for piece in task.pieces]

    with QueueStore(tmp_path) as store:
        store.queue().add_many([b"x"] * 10)
    time.sleep(0.2)  # until then the clock of the file system does not tell a change
    first, second = planned(), planned()
    assert all(one is other for one, other in zip(first, second, strict=True))
    with QueueStore(tmp_path) as store:
        store.queue().add_many([b"x"] * 5000)
    assert planned()[0].end > first[0].end
