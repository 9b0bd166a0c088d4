"""Spark writes logs: frames and streams, what comes back, what is refused."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor

import pytest

import flintlog
from flintlog import Datastore, QueueStore
from flintlog.pipeline import jobs

pytestmark = pytest.mark.spark


def write(frame, path, **options):
    frame.write.format("flintlog").mode("append").options(**options).save(str(path))


def puts(spark, begin, end):
    """Keys that come from several tasks; some of them twice."""
    return spark.range(begin, end, 1, 3).selectExpr(
        "1 AS storage_id", "cast(id AS string) AS key", "repeat(cast(id AS string), 20) AS value"
    )


def digest(rows):
    found = hashlib.sha256()
    for row in sorted(rows):
        found.update(repr(row).encode())
    return found.hexdigest()


def state_of(spark, path):
    frame = flintlog.read(spark, str(path), view="state", columns=["storage_id", "key", "value"])
    return [(int(row.storage_id), bytes(row.key), bytes(row.value)) for row in frame.collect()]


@pytest.mark.parametrize("edition", ["designed", "shipped"])
def test_what_is_written_comes_back_also_when_it_was_compacted(edition, spark, tmp_path):
    path = tmp_path / "log"
    write(puts(spark, 0, 2000), path, dialect="limestone", edition=edition)
    write(puts(spark, 1500, 3000), path)
    expected = [(1, b"%d" % at, b"%d" % at * 20) for at in range(3000)]
    entries = flintlog.read(spark, str(path), columns=["position"])
    assert entries.count() == 3500
    assert digest(state_of(spark, path)) == digest(expected)
    jobs.compact(spark, str(path))
    assert flintlog.read(spark, str(path), columns=["position"]).count() == 3000
    assert digest(state_of(spark, path)) == digest(expected)
    assert flintlog.open(path).verify().verdict == "clean"
    with Datastore(path) as store:
        assert store.snapshot is not None
        assert digest((entry.storage, entry.key, entry.value) for entry in store.snapshot.scan()) == digest(
            expected
        )


def test_a_value_of_null_takes_the_key_away(spark, tmp_path):
    write(puts(spark, 0, 10), tmp_path / "log", dialect="limestone")
    gone = spark.range(5).selectExpr(
        "1 AS storage_id", "cast(id AS string) AS key", "cast(null AS binary) AS value"
    )
    write(gone, tmp_path / "log")
    assert sorted(key for _, key, _ in state_of(spark, tmp_path / "log")) == [
        b"%d" % at for at in range(5, 10)
    ]


def test_records_of_all_tasks_are_added_in_the_order_of_a_column(spark, tmp_path):
    frame = spark.range(0, 1000, 1, 4).selectExpr(
        "if(id % 2 = 0, 'even', 'odd') AS queue",
        "id % 3 AS key",
        "cast(id AS string) AS payload",
        "-id AS order",
    )
    write(frame, tmp_path, dialect="taskflux", create_queues="true")
    with QueueStore(tmp_path) as store:
        found = [(record.key, record.payload) for record in store.queue("even").records()]
        assert len(store.queue("odd")) == 500
    expected = [(at % 3, b"%d" % at) for at in range(998, -1, -2)]
    assert found == sorted(expected, key=lambda row: row[0])


def test_a_log_is_loaded_from_another(spark, tmp_path):
    with Datastore(tmp_path / "from") as store:
        with store.channel().session() as session:
            session.put_many(7, [b"%03d" % at for at in range(100)], [b"x"] * 100)
        store.switch_epoch()
    rows = flintlog.read(spark, str(tmp_path / "from"), view="state", columns=["storage_id", "key", "value"])
    write(rows, tmp_path / "to", dialect="limestone")
    assert state_of(spark, tmp_path / "to") == state_of(spark, tmp_path / "from")


def test_a_numbered_batch_counts_once(spark, tmp_path):
    for attempt in range(2):
        frame = spark.createDataFrame([(f"try {attempt}",)], "payload string")
        write(frame, tmp_path, dialect="taskflux", stream="nightly", batch="20261119")
    with QueueStore(tmp_path) as store:
        assert [record.payload for record in store.queue().records()] == [b"try 0"]


def test_a_frame_without_rows_makes_the_log_and_adds_nothing(spark, tmp_path):
    write(puts(spark, 0, 10).where("false"), tmp_path / "log", dialect="limestone")
    assert state_of(spark, tmp_path / "log") == []
    assert flintlog.open(tmp_path / "log").verify().verdict == "clean"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "there is no log in .* yet\nSet the option dialect"),
        ({"dialect": "zmqraft"}, "Spark cannot write a log of zmqraft.*\nHand them to the leader"),
        ({"dialect": "mpy6a"}, "Spark cannot write a log of mpy6a.*\nUse `SessionStore.put_many`"),
        ({"dialect": "sqlite"}, "'sqlite' is not a dialect"),
        (
            {"dialect": "limestone", "colour": "red"},
            "option colour: a write to a limestone log has no such option",
        ),
        ({"dialect": "limestone", "create_queues": "true"}, "option create_queues"),
        ({"dialect": "taskflux", "create_queues": "perhaps"}, "option create_queues"),
        ({"dialect": "limestone", "edition": "third"}, "option edition"),
        ({"dialect": "limestone", "batch": "1"}, "belong together"),
        ({"dialect": "limestone", "stream": "s", "batch": "-1"}, "option batch: '-1' is not a number"),
        (
            {"dialect": "taskflux"},
            "a taskflux log takes no column 'storage_id'\nSelect its columns: queue, key",
        ),
    ],
)
def test_what_cannot_be_written_is_refused_and_nothing_is_made(options, message, spark, tmp_path):
    with pytest.raises(Exception, match=message):
        write(puts(spark, 0, 10), tmp_path / "log", **options)
    assert not (tmp_path / "log").exists()


def test_a_log_is_never_replaced(spark, tmp_path):
    write(puts(spark, 0, 10), tmp_path / "log", dialect="limestone")
    with pytest.raises(Exception, match='a log is added to, and never replaced\nUse mode\\("append"\\)'):
        puts(spark, 0, 5).write.format("flintlog").mode("overwrite").save(str(tmp_path / "log"))
    assert len(state_of(spark, tmp_path / "log")) == 10


def test_a_remote_address_is_refused(spark):
    with pytest.raises(Exception, match="is not a local directory"):
        write(puts(spark, 0, 10), "s3://bucket/log", dialect="limestone")


def test_an_open_store_refuses_the_write_before_a_task_runs(spark, tmp_path):
    with (
        Datastore(tmp_path / "log"),
        pytest.raises(Exception, match="open for writing\nClose it there first"),
    ):
        write(puts(spark, 0, 10), tmp_path / "log")


def test_a_task_that_fails_leaves_nothing(spark, tmp_path):
    write(puts(spark, 0, 10), tmp_path / "log", dialect="limestone")
    before = sorted(path.name for path in (tmp_path / "log").rglob("*"))
    bad = puts(spark, 10, 20).selectExpr(
        "storage_id", "if(key = '17', raise_error('no such key'), key) AS key", "value"
    )
    with pytest.raises(Exception, match="no such key"):
        write(bad, tmp_path / "log")
    assert sorted(path.name for path in (tmp_path / "log").rglob("*")) == before
    assert len(state_of(spark, tmp_path / "log")) == 10


def test_a_frame_is_written_from_any_thread(spark, tmp_path):
    def add(number):
        flintlog.write(puts(spark, 0, 10), tmp_path / f"log-{number}", dialect="limestone")
        return len(state_of(spark, tmp_path / f"log-{number}"))

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(add, range(3))) == [10, 10, 10]


def test_writes_at_the_same_time_to_one_log_all_count(spark, tmp_path):
    flintlog.write(puts(spark, 0, 1), tmp_path / "log", dialect="limestone")

    def add(number):
        flintlog.write(puts(spark, 100 * number, 100 * number + 50), tmp_path / "log")

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(add, range(1, 4)))
    assert len(state_of(spark, tmp_path / "log")) == 151


@pytest.mark.parametrize(
    "column", ["current_timestamp()", "to_timestamp_ntz('2026-11-19')", "array(1)", "struct(id)"]
)
def test_a_column_of_another_kind_is_refused_by_its_name(column, spark, tmp_path):
    frame = spark.range(3).selectExpr("cast(id AS string) AS payload", f"{column} AS extra")
    with pytest.raises(Exception, match="a taskflux log takes no column 'extra'"):
        write(frame, tmp_path, dialect="taskflux")
    with pytest.raises(Exception, match=r"the column 'payload' is .* and cannot be binary"):
        write(frame.selectExpr("extra AS payload"), tmp_path, dialect="taskflux")


def test_records_are_added_in_the_order_of_a_timestamp(spark, tmp_path):
    frame = spark.range(3).selectExpr("cast(id AS string) AS payload", "timestamp_seconds(100 - id) AS order")
    write(frame, tmp_path, dialect="taskflux")
    with QueueStore(tmp_path) as store:
        assert [record.payload for record in store.queue().records()] == [b"2", b"1", b"0"]


def test_a_numbered_batch_without_rows_counts(spark, tmp_path):
    for rows in (0, 3):
        frame = spark.range(rows).selectExpr("cast(id AS string) AS payload")
        write(frame, tmp_path, dialect="taskflux", stream="nightly", batch="1")
    with QueueStore(tmp_path) as store:
        assert len(store.queue()) == 0


def test_a_directory_whose_name_looks_like_a_pattern_is_written_to(spark, tmp_path):
    path = tmp_path / "log[1]"
    Datastore(path).close()
    write(puts(spark, 0, 3), path)
    assert flintlog.open(path).state().to_table().num_rows == 3


# Streams


def letters(path, names):
    for name in names:
        (path / f"{name}.json").write_text(f'{{"payload": "{name}"}}\n')


def run(spark, source, target, checkpoint, dialect="taskflux", mode="append", columns=("payload",)):
    query = (
        spark.readStream.schema("payload string")
        .option("maxFilesPerTrigger", 1)
        .json(str(source))
        .selectExpr(*columns)
        .writeStream.format("flintlog")
        .option("dialect", dialect)
        .option("checkpointLocation", str(checkpoint))
        .outputMode(mode)
        .trigger(availableNow=True)
        .start(str(target))
    )
    query.awaitTermination()


def payloads(path):
    with QueueStore(path) as store:
        return sorted(record.payload.decode() for record in store.queue().records())


def test_a_stream_adds_each_row_once_also_when_a_batch_comes_again(spark, tmp_path):
    source, target, checkpoint = (tmp_path / name for name in ("source", "spool", "checkpoint"))
    source.mkdir()
    letters(source, "abc")
    run(spark, source, target, checkpoint)
    assert payloads(target) == ["a", "b", "c"]
    # The driver died between the commit of the last batch and Spark's note of it.
    last = max((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
    letters(source, "de")
    run(spark, source, target, checkpoint)
    assert payloads(target) == ["a", "b", "c", "d", "e"]
    assert not list((target / "data" / "temp").iterdir())


def test_a_stream_of_keys_counts_once(spark, tmp_path):
    source, target, checkpoint = (tmp_path / name for name in ("source", "log", "checkpoint"))
    source.mkdir()
    letters(source, "ab")
    columns = ("1 AS storage_id", "payload AS key", "payload AS value")
    run(spark, source, target, checkpoint, "limestone", columns=columns)
    first = flintlog.read(spark, str(target), columns=["position"]).count()
    last = max((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
    run(spark, source, target, checkpoint, "limestone", columns=columns)
    assert flintlog.read(spark, str(target), columns=["position"]).count() == first
    assert [(key, value) for storage, key, value in state_of(spark, target) if storage == 1] == [
        (b"a", b"a"), (b"b", b"b"),
    ]  # fmt: skip


def test_a_stream_with_another_checkpoint_is_another_stream(spark, tmp_path):
    (tmp_path / "source").mkdir()
    letters(tmp_path / "source", "a")
    for name in ("one", "two"):
        run(spark, tmp_path / "source", tmp_path / "spool", tmp_path / name)
    assert payloads(tmp_path / "spool") == ["a", "a"]


def test_a_stream_that_is_refused_says_why(spark, tmp_path):
    (tmp_path / "source").mkdir()
    letters(tmp_path / "source", "a")
    with pytest.raises(Exception, match="a limestone log takes no column 'payload'"):
        run(spark, tmp_path / "source", tmp_path / "log", tmp_path / "checkpoint", "limestone")
    with pytest.raises(Exception, match="no queue 'nobody'"):
        run(
            spark, tmp_path / "source", tmp_path / "spool", tmp_path / "checkpoint-2",
            columns=("payload", "'nobody' AS queue"),
        )  # fmt: skip
