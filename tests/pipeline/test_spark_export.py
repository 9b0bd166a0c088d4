"""Exports on Spark: the same rows as in process, read back by Spark, by pyarrow and by delta-rs; also by the verb."""

from __future__ import annotations

import json

import pyarrow.dataset as ds
import pytest
from tests.pipeline.streamed import DIALECTS, writer

from flintlog.cli.main import main
from flintlog.pipeline.jobs import export

pytestmark = pytest.mark.spark


def parquet(target):
    return sorted(ds.dataset(str(target), format="parquet").to_table().to_pylist(), key=repr)


def lines(target):
    return sorted(line for file in target.glob("*.ndjson") for line in file.read_text().splitlines())


@pytest.mark.parametrize("dialect", DIALECTS)
def test_spark_exports_what_this_process_does(spark, tmp_path, dialect):
    log, here, there = str(tmp_path / "log"), tmp_path / "here", tmp_path / "there"
    with writer(dialect, log) as (write, rotate):
        for numbers in (range(60), range(60, 90)):
            write(numbers)
            rotate(False)
            assert export(None, log, str(here)).rows == export(spark, log, str(there)).rows > 0
        assert export(spark, log, str(there)).commit is None
        assert parquet(there) == parquet(here)
        assert spark.read.parquet(str(there)).count() == len(parquet(here))
        (there / "_flintlog" / "staged" / "spark").mkdir(exist_ok=True)
        (there / "_flintlog" / "staged" / "spark" / "part-0.parquet").write_bytes(
            b"left over by a killed run"
        )
        states = [tmp_path / "state here", tmp_path / "state there"]
        for engine, target in zip((None, spark), states, strict=True):
            export(engine, log, str(target), view="state")
        assert parquet(states[0]) == parquet(states[1])


def test_spark_writes_lines_and_delta_tables(spark, tmp_path):
    from deltalake import DeltaTable

    log = str(tmp_path / "log")
    with writer("taskflux", log) as (write, _):
        for numbers in (range(200), range(200, 250)):
            write(numbers)
            for kind in ("ndjson", "delta"):
                export(spark, log, str(tmp_path / kind), format=kind)
        export(None, log, str(tmp_path / "here"), format="ndjson")
    assert lines(tmp_path / "ndjson") == lines(tmp_path / "here")
    table = DeltaTable(str(tmp_path / "delta"))
    assert table.transaction_version("flintlog-export") == 2
    assert sorted(table.to_pyarrow_table()["position"].to_pylist()) == list(range(250))


def test_the_verbs_work_on_spark(spark, tmp_path, capsys):
    paths = [str(tmp_path / name) for name in "ab"]
    for path, numbers in zip(paths, (range(30), range(20)), strict=True):
        with writer("zmqraft", path) as (write, _):
            write(numbers)
    assert main(["export", paths[0], str(tmp_path / "out"), "--engine", "spark", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 30
    assert main(["diff", *paths, "--engine", "spark", "--json", "--limit", "2"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["verdict"], [row["position"] for row in report["rows"]]) == ("behind", [21, 22])
