"""`columns` and `where`: what is not asked for is not read, and whatever is read, the rows are right."""

from __future__ import annotations

import shutil

import pytest
from tests.golden_cases import materialise
from tests.pipeline.in_process import entries_in_process, rows, state_in_process

import flintlog
from flintlog.core.dialect import EntryQuery
from flintlog.dialects.limestone.store import Datastore
from flintlog.errors import UsageError
from flintlog.pipeline import reading
from flintlog.pipeline.where import Condition, Scope, parse, scope_of

# What the words mean


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("position = 7", [("position", "=", (7,))]),
        (
            "position>=-3 and Position <> 4",
            [("position", ">=", (-3,)), ("Position", "<>", (4,))],
        ),
        ("a BETWEEN 1 AND 2 AND b != 'x'", [("a", ">=", (1,)), ("a", "<=", (2,)), ("b", "<>", ("x",))]),
        ("a in ('it''s', 'AND') AND b IS NULL", [("a", "in", ("it's", "AND")), ("b", "null", ())]),
        ("a NOT IN (1,2) AND b is not null", [("a", "not in", (1, 2)), ("b", "not null", ())]),
        (
            "key = X'00fF' AND limestone.status = 'durable'",
            [("key", "=", (b"\x00\xff",)), ("limestone.status", "=", ("durable",))],
        ),
    ],
)
def test_conditions_are_joined_by_and(text, found):
    assert list(parse(text)) == [Condition(*one) for one in found]


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", "at its end"),
        ("position", "at its end"),
        ("position = 1 OR position = 2", "from 'OR position = 2' on"),
        ("NOT position = 1", "from 'position = 1' on"),
        ("position = 1.5", "from '.5' on"),
        ("position = (1)", "from '(1)' on"),
        ("position = 1;", "from ';' on"),
        ("position LIKE 'a%'", "from \"LIKE 'a%'\" on"),
        ("position = other", "from 'other' on"),
        ("position IN ()", "from ')' on"),
        ("key = X'0'", "from \"X'0'\" on"),
        ("1 = position", "from '1 = position' on"),
        ("position = 'open", 'from "\'open" on'),
    ],
)
def test_what_is_not_understood_is_refused_with_its_place(text, where):
    with pytest.raises(UsageError) as refused:
        parse(text)
    assert where in str(refused.value)
    assert "Join conditions by AND" in str(refused.value)


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("position = 7", (7,), (7,)),
        ("position > 7", (8,), None),
        ("position >= 7", (7,), None),
        ("position < 7", None, (6,)),
        ("position <= 7", None, (7,)),
        ("position BETWEEN 3 AND 9", (3,), (9,)),
        ("position > 3 AND position > 1", (4,), None),
        ("position < 3 AND position < 9", None, (2,)),
    ],
)
def test_comparisons_of_the_position_become_a_range(text, first, last):
    scope = scope_of(EntryQuery(), parse(text), entries=True)
    assert (scope.query.first, scope.query.last, scope.rest) == (first, last, ())


def test_names_become_sets_and_several_conditions_meet():
    text = (
        "operation IN ('add', 'remove') AND operation = 'add' AND stream = 'orders'"
        " AND file = 'log/1.log' AND source IN ('/a', '/b')"
    )
    assert scope_of(EntryQuery(), parse(text), entries=True) == Scope(
        EntryQuery(operations=frozenset({"add"}), streams=frozenset({"orders"})),
        frozenset({"log/1.log"}),
        frozenset({"/a", "/b"}),
    )


@pytest.mark.parametrize(
    "text", ["stream <> 'orders'", "position IN (3, 9)", "term = 3", "offset > 3", "stream IS NULL"]
)
def test_what_no_dialect_can_leave_out_is_looked_at_row_by_row(text):
    conditions = parse(text)
    assert scope_of(EntryQuery(), conditions, entries=True) == Scope(EntryQuery(), rest=conditions)


def test_of_the_state_only_directories_are_left_out():
    conditions = parse("position = 3 AND source = '/a'")
    found = scope_of(EntryQuery(), conditions, entries=False)
    assert found == Scope(EntryQuery(), sources=frozenset({"/a"}), rest=conditions[:1])


# On Spark

CONDITIONS = [
    ("position = 123", lambda row: row["position"] == 123),
    ("position BETWEEN 95 AND 130", lambda row: 95 <= row["position"] <= 130),
    ("position IN (7, 400)", lambda row: row["position"] in (7, 400)),
    (
        "position < 40 AND operation = 'add' AND stream = 'mail'",
        lambda row: row["position"] < 40 and row["operation"] == "add" and row["stream"] == "mail",
    ),
    ("operation IN ('create', 'delete')", lambda row: row["operation"] == "create"),
    ("stream = ''", lambda row: row["stream"] == ""),
    ("stream IS NULL", lambda row: False),
    ("key IS NULL AND payload IS NULL", lambda row: row["key"] is None),
    ("key = X'8000000000000003'", lambda row: row["key"] == b"\x80\0\0\0\0\0\0\x03"),
    ("payload = 'letter 7'", lambda row: row["payload"] == b"letter 7"),
    (
        "taskflux.key NOT IN (0, 1)",
        lambda row: (
            row["operation"] == "add"
            and row["stream"] == ""
            and (int.from_bytes(row["key"], "big", signed=True) not in (0, 1))
        ),
    ),
    ("length > 100 AND offset <> 0", lambda row: row["length"] > 100 and row["offset"]),
    ("position > 5000", lambda row: False),
    ("position > 10 AND position < 5", lambda row: False),
    ("term >= 18446744073709551616", lambda row: False),
]


@pytest.fixture(scope="module")
def everything(segmented):
    return entries_in_process(segmented)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("condition", "keeps"), CONDITIONS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_conditions_give_the_right_rows(spark, segmented, everything, condition, keeps):
    found = rows(flintlog.read(spark, segmented, where=condition))
    assert found == [row for row in everything if keeps(row)]


@pytest.mark.spark
@pytest.mark.parametrize("columns", [["position"], ["payload", "term"], "file, key", ["source", "taskflux"]])
def test_columns_are_those_that_are_named_in_their_order(spark, segmented, columns):
    names = [name.strip() for name in columns.split(",")] if isinstance(columns, str) else columns
    frame = flintlog.read(spark, segmented, columns=columns, where="position < 30 AND length > 90")
    assert frame.columns == names
    assert rows(frame) == [
        {name: row[name] for name in names}
        for row in entries_in_process(segmented, details=True)
        if row["position"] < 30 and row["length"] > 90
    ]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"columns": ["position", "price"]},
            "option columns: the view 'entries' has no column 'price'\nIt has source",
        ),
        ({"columns": "position,,term"}, "option columns: a name is missing"),
        ({"where": "price = 1"}, "option where: there is no column 'price'\nThere are source, dialect"),
        ({"where": "taskflux.price = 1"}, "option where: the column 'taskflux' has no 'price'"),
        ({"where": "position = 'x'"}, "option where: the column 'position' is int64, and 'x' is not"),
        ({"where": "stream = 7"}, "option where: the column 'stream' is string, and 7 is not"),
        ({"where": "taskflux = 7"}, "the column 'taskflux' is struct"),
        ({"where": "position = 1 OR term = 2"}, "cannot be understood from 'OR term = 2' on"),
        ({"pushdown": True}, "option pushdown: it is gone"),
    ],
)
def test_what_cannot_be_asked_is_refused(spark, segmented, options, words):
    with pytest.raises(Exception) as refused:
        flintlog.read(spark, segmented, **options).collect()
    assert words in str(refused.value)


def partitions(frame):
    return frame.rdd.getNumPartitions()


@pytest.mark.spark
def test_files_and_directories_that_cannot_match_are_not_planned(spark, segmented, tmp_path):
    names = sorted(path.name for path in (segmented / "data/log").iterdir())
    second = int(names[1].removesuffix(".log"))
    other = materialise("single-segment", tmp_path)

    def read(where=None, **options):
        return flintlog.read(spark, [segmented, other], where=where, **options)

    each = {"split_bytes": 65536}  # a task for each file; otherwise small ones share tasks
    assert partitions(read(**each)) == len(names) + 1 > 5
    assert partitions(read()) == -(-(len(names) + 1) // 16)
    assert partitions(read(f"position < {second} AND source = '{segmented}'", **each)) == 1
    assert partitions(read(f"position BETWEEN {second - 1} AND {second} AND stream = 'mail'", **each)) == 3
    assert partitions(read(f"file IN ('log/{names[2]}', 'log/{names[4]}')", **each)) == 2
    assert partitions(read(f"source = '{other}'", view="state")) == 1


@pytest.mark.spark
def test_files_outside_of_the_conditions_are_not_read(spark, segmented, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(segmented, copy)
    last_sealed = sorted((copy / "data/log").iterdir())[-2]
    last_sealed.write_bytes(b"not a segment")
    assert flintlog.read(spark, copy, where="position < 40").count() == 40
    assert flintlog.read(spark, copy, to=39).count() == 40
    with pytest.raises(Exception, match=f"{last_sealed.name}, byte 0: not a segment of a log"):
        flintlog.read(spark, copy).where("position < 40").count()


@pytest.mark.spark
def test_a_frame_may_be_used_twice_with_other_filters(spark, segmented):
    for frame in (flintlog.read(spark, segmented), flintlog.read(spark, segmented, where="position < 9")):
        both = frame.where("position = 1").unionAll(frame.where("position = 2"))
        assert [row["position"] for row in rows(both)] == [1, 2]
        assert frame.count() in (441, 9)


@pytest.mark.spark
def test_a_read_is_planned_anew_with_each_call(spark, tmp_path):
    with flintlog.QueueStore(tmp_path / "queues") as store:
        store.queue().add(b"one")
        assert flintlog.read(spark, tmp_path / "queues").count() == 1
        store.queue().add(b"two")
        assert flintlog.read(spark, tmp_path / "queues", columns="position").count() == 2


@pytest.mark.spark
def test_where_works_in_sql(spark, segmented, everything):
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW letters USING flintlog"
        f" OPTIONS (path '{segmented}', where \"stream = 'mail' AND position > 100\", columns 'position, payload')"
    )
    assert rows(spark.sql("SELECT * FROM letters")) == [
        {"position": row["position"], "payload": row["payload"]}
        for row in everything
        if row["stream"] == "mail" and row["position"] > 100
    ]


# Numbers, and the state


@pytest.mark.spark
@pytest.mark.parametrize("epoch", [2**63 - 2, 2**63 - 1, 2**64 - 3])
def test_a_number_without_room_is_refused_and_exact_with_details(spark, tmp_path, epoch):
    with Datastore(tmp_path / "log") as store, store.channel().session() as session:
        session.put(1, b"key", b"value")
    name = tmp_path / "log" / "pwal_0000"
    raw = bytearray(name.read_bytes())
    raw[1:9] = epoch.to_bytes(8, "little")  # of the marker, as damage could have it: nothing was made durable
    name.write_bytes(raw)
    plain = flintlog.read(spark, tmp_path / "log", columns="position,operation")
    if epoch < 2**63 - 1:
        assert rows(plain) == [{"position": epoch, "operation": "put"}]
    else:
        with pytest.raises(
            Exception, match=r"a position is 2\^63 - 1 or above.*Set the option details to true"
        ):
            plain.collect()
        assert flintlog.read(spark, tmp_path / "log", columns="operation").count() == 1
    (row,) = rows(flintlog.read(spark, tmp_path / "log", details=True))
    assert int(row["limestone"]["epoch"]) == epoch


@pytest.mark.spark
def test_the_state_is_the_same_by_one_task_and_by_many(spark, tmp_path, monkeypatch):
    with Datastore(tmp_path / "log") as store:
        channel = store.channel()
        with channel.session() as session:
            session.put_many(2, [b"%04d" % number for number in range(3000)], [b"x"] * 3000)
        store.switch_epoch()
    expected = state_in_process(tmp_path / "log")
    for spread in (1 << 62, 0):
        monkeypatch.setattr(reading, "SPREAD_BYTES", spread)
        assert rows(flintlog.read(spark, tmp_path / "log", view="state")) == expected
        some = flintlog.read(
            spark,
            tmp_path / "log",
            view="state",
            columns=["key", "source"],
            where="key < '0010' AND storage_id = 2",
        )
        assert rows(some) == [{"key": row["key"], "source": row["source"]} for row in expected[:10]]
