"""limestone directories on Spark: entries and state are those of the engine, also from ranges of one file."""

from __future__ import annotations

from contextlib import suppress

import pytest
from tests.limestone.recorded import every, lay_out
from tests.pipeline.in_process import details_in_process, rows, state_in_process

from flintlog.errors import FlintlogError

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def directories(tmp_path_factory):
    home = tmp_path_factory.mktemp("limestone")
    return {f"{case}/{variant}": lay_out(case, variant, home / variant) for case, variant in every()}


def readable(directories, read):
    found = {}
    for name, path in directories.items():
        with suppress(FlintlogError):
            found[name] = read(path)
    return found


@pytest.mark.parametrize(("view", "read"), [("entries", details_in_process), ("state", state_in_process)])
def test_spark_reads_every_directory_as_the_engine_does(view, read, spark, directories):
    engine = readable(directories, read)
    assert len(engine) > 50
    paths = [str(directories[name]) for name in engine]
    options = {"details": "true"} if view == "entries" else {}
    frame = spark.read.format("flintlog").option("view", view).options(**options).load(paths)
    expected = [row for found in engine.values() for row in found]
    assert sorted(rows(frame), key=repr) == sorted(expected, key=repr)


def test_numbers_with_their_highest_bit_set_arrive_whole(spark, directories):
    path = str(directories["c01_basic_multichannel/dir"])
    frame = spark.read.format("flintlog").option("view", "state").load(path)
    found = frame.selectExpr("max(write_version[1]) AS minor", "max(storage_id) AS storage").collect()[0]
    assert (int(found["minor"]), int(found["storage"])) == (2**63, 2**32)


def test_the_state_as_of_an_epoch(spark, directories):
    path = str(directories["c03_storage_ops/dir"])
    frame = spark.read.format("flintlog").option("view", "state").option("as_of", "1").load(path)
    assert rows(frame) == state_in_process(path, (1,))


def test_damage_fails_the_job_with_the_place(spark, directories):
    path = str(directories["c16_unknown_type_in_durable/dir"])
    with pytest.raises(Exception, match="no record begins here"):
        spark.read.format("flintlog").load(path).collect()
