"""`flintlog.open`: one object for reading a log of any dialect, from Python and without Spark."""

from __future__ import annotations

import duckdb
import polars
import pyarrow as pa
import pytest
from tests.backup_logs import LOGS
from tests.golden_cases import snapshot_of

import flintlog
from flintlog import Log, QueueStore
from flintlog.core.dialect import EntryQuery
from flintlog.errors import DamageError, NotALogError, UsageError


@pytest.fixture(params=LOGS)
def log(request, tmp_path) -> Log:
    """A log of each dialect with twelve things in it."""
    store = LOGS[request.param](str(tmp_path))
    for _ in range(12):
        store.add()
    store.close()
    return flintlog.open(tmp_path)


def test_a_log_of_any_dialect_says_what_it_is_and_how_it_is(log):
    assert repr(log) == f"<Log {log.dialect} {log.path}>"
    assert log.health == log.verify().verdict == log.inspect().verdict == "clean"
    assert log.edition == log.inspect().edition
    assert log.plan_repair().empty


def test_a_column_alone_is_the_one_of_all_columns(log):
    whole = log.entries().to_table()
    for name in whole.schema.names:
        query = EntryQuery(skip=frozenset(whole.schema.names) - {name})
        read = [batch for split in log.splits(query) for batch in log.read_split(split, query)]
        assert {*read[0].schema.names} == {name, "offset"}
        assert pa.Table.from_batches(read)[name] == whole[name]


def test_entries_and_state_are_arrow_for_whoever_takes_it(log):
    for rows in (log.entries(), log.state()):
        table = rows.to_table()
        assert table.schema == rows.schema and table.num_rows >= 1
        assert pa.table(rows) == table == pa.Table.from_batches(rows, rows.schema)
        assert len(rows.to_pandas()) == table.num_rows
        assert len(polars.DataFrame(rows)) == table.num_rows
        assert duckdb.sql("SELECT count(*) FROM rows").fetchall() == [(table.num_rows,)]
        assert list(duckdb.sql("FROM rows LIMIT 0").columns) == table.schema.names


def test_a_range_is_a_part_of_all_entries(log):
    rows = log.entries().to_table().to_pylist()
    ends = {row["position"] for row in rows}
    first, last = sorted(ends)[1], sorted(ends)[-2]
    some = log.entries(str(first), last, payload=False).to_table().to_pylist()
    assert {row["position"] for row in some} <= {at for at in ends if first <= at <= last}
    assert all(row["payload"] is None for row in some)


def test_reading_changes_nothing_and_locks_nothing(log, tmp_path):
    before = snapshot_of(tmp_path)
    with log:
        log.verify()
        log.entries().to_table()
        log.state().to_table()
        log.plan_repair()
        list(log.fields())
    assert snapshot_of(tmp_path) == before


def test_rows_are_read_anew_each_time(tmp_path):
    with QueueStore(tmp_path) as store:
        rows = flintlog.open(tmp_path).state()
        assert rows.to_table().num_rows == 0
        store.queue().add(b"new")
        assert rows.to_table().num_rows == 1


def test_what_is_no_log_and_no_position_is_told(tmp_path, log):
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "nowhere", tmp_path / "empty"):
        with pytest.raises(NotALogError):
            flintlog.open(path)
    with pytest.raises(UsageError, match="not a position"):
        log.state("seven")
    with pytest.raises(UsageError):
        log.entries(first=(1, 2, 3))


def test_a_word_that_is_none_is_told_and_one_word_needs_no_list(tmp_path):
    with QueueStore(tmp_path) as store:
        store.create("mail").add(b"letter")
    log = flintlog.open(str(tmp_path).encode())
    assert log.entries(operations="add").to_table().num_rows == 1
    assert log.entries(streams="mail").to_table().num_rows == 2
    assert log.entries(key=0).to_table().num_rows == log.entries(key="0").to_table().num_rows == 1
    for wrong in (
        {"on_damage": "raise"},
        {"on_damage": None},
        {"operations": ["nope"]},
        {"key": b"0"},
        {"first": 1.5},
    ):
        with pytest.raises(UsageError):
            log.entries(**wrong)


def test_damage_is_an_error_an_end_or_a_row(tmp_path):
    with QueueStore(tmp_path) as store:
        for number in range(9):
            store.queue().add(b"payload %d" % number)
    (segment,) = (tmp_path / "data" / "log").iterdir()
    raw = bytearray(segment.read_bytes())
    raw[200] ^= 1
    segment.write_bytes(raw)
    log = flintlog.open(tmp_path)
    with pytest.raises(DamageError):
        log.entries().to_table()
    stopped = log.entries(on_damage="stop").to_table().num_rows
    *told, last = log.entries(on_damage="report").to_table().to_pylist()
    assert 0 < stopped == len(told) < 9
    assert (last["operation"], last["damage"]["code"]) == ("damage", "record-checksum")
