"""Exports to an object store: the same rows as on the local disk, in every format, here and on Spark."""

from __future__ import annotations

import pyarrow.dataset as ds
import pytest
from pyarrow import fs
from tests.pipeline.object_store import object_store
from tests.pipeline.streamed import writer

from flintlog.cli.main import main
from flintlog.errors import FlintlogError, RefusedError
from flintlog.pipeline.jobs import export

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def storage(tmp_path_factory):
    with object_store(tmp_path_factory.mktemp("store") / "home") as options:
        fs.S3FileSystem(**options, allow_bucket_creation=True).create_dir("lake")
        yield options


def rows(target, storage=None):
    files = None if storage is None else fs.S3FileSystem(**storage)
    found = ds.dataset(str(target).removeprefix("s3://"), format="parquet", filesystem=files)
    return sorted(found.to_table().to_pylist(), key=repr)


def test_what_is_exported_to_an_object_store_is_what_is_exported_here(spark, storage, tmp_path):
    log, here = str(tmp_path / "log"), tmp_path / "here"
    with writer("taskflux", log) as (write, rotate):
        for number, numbers in enumerate((range(60), range(60, 90))):
            write(numbers)
            rotate(False)
            there = [(None, "s3://lake/here"), (spark, "s3://lake/there")]
            local = export(None, log, str(here))
            for engine, address in there:
                made = export(engine, log, address, storage=storage)
                assert (made.commit, made.rows) == (number + 1, local.rows)
                assert export(engine, log, address, storage=storage).commit is None
                assert rows(address, storage) == rows(here)
    export(None, log, str(tmp_path / "state"), view="state")
    for _ in range(2):
        export(spark, log, "s3://lake/state", view="state", storage=storage)
        assert rows("s3://lake/state", storage) == rows(tmp_path / "state")


def test_a_run_that_was_killed_leaves_nothing_out_and_nothing_twice(storage, tmp_path, monkeypatch):
    from flintlog.pipeline.target import Target

    log, address = str(tmp_path / "log"), "s3://lake/killed"
    with writer("zmqraft", log) as (write, _):
        write(range(20))
        with monkeypatch.context() as patch:
            patch.setattr(Target, "prepare", None)  # dies before the commit
            with pytest.raises(TypeError):
                export(None, log, address, storage=storage)
        assert export(None, log, address, storage=storage).rows == 20
        write(range(20, 30))
        with monkeypatch.context() as patch:
            patch.setattr(Target, "finish", None)  # and before the files move
            with pytest.raises(TypeError):
                export(None, log, address, storage=storage)
        assert export(None, log, address, storage=storage).commit is None
    assert sorted(row["position"] for row in rows(address, storage)) == list(range(1, 31))


def test_a_delta_table_in_an_object_store_has_every_row_once(storage, tmp_path):
    from deltalake import DeltaTable

    from flintlog.pipeline.delta import Table

    log, address = str(tmp_path / "log"), "s3://lake/delta"
    with writer("taskflux", log) as (write, _):
        for numbers in (range(20), range(20, 30)):
            write(numbers)
            export(None, log, address, format="delta", storage=storage)
    table = DeltaTable(address, storage_options=Table(address, tuple(storage.items()))._options)
    assert sorted(table.to_pyarrow_table()["position"].to_pylist()) == list(range(30))


def test_a_log_in_an_object_store_is_exported(storage, tmp_path):
    log = tmp_path / "log"
    with writer("zmqraft", str(log)) as (write, _):
        write(range(20))
    fs.copy_files(str(log), "lake/log", destination_filesystem=fs.S3FileSystem(**storage))
    made = export(None, "s3://lake/log", str(tmp_path / "here"), storage=storage)
    assert made.rows == 20


def test_an_export_that_another_one_overtook_does_not_count(storage, tmp_path, monkeypatch):
    from flintlog.pipeline.target import Target

    log, address = str(tmp_path / "log"), "s3://lake/twice"
    with writer("zmqraft", log) as (write, _):
        write(range(20))
    prepare = Target.prepare

    def overtaken(self, place, parts):
        monkeypatch.setattr(Target, "prepare", prepare)
        export(None, log, address, storage=storage)
        return prepare(self, place, parts)

    monkeypatch.setattr(Target, "prepare", overtaken)
    with pytest.raises(RefusedError, match="another export has committed meanwhile"):
        export(None, log, address, storage=storage)
    assert export(None, log, address, storage=storage).commit is None
    assert len(rows(address, storage)) == 20


def test_an_address_that_cannot_be_written_is_an_error_that_names_it(storage, tmp_path):
    log = str(tmp_path / "log")
    with writer("zmqraft", log) as (write, _):
        write(range(3))
    with pytest.raises(FlintlogError, match="s3://"):
        export(None, log, "s3://lake/x", storage=storage | {"secret_key": "wrong"})


def test_the_command_exports_to_an_address(storage, tmp_path, capsys):
    log = str(tmp_path / "log")
    with writer("zmqraft", log) as (write, _):
        write(range(5))
    known = [word for name, value in storage.items() for word in ("--fs-option", f"{name}={value}")]
    assert main(["export", log, "s3://lake/command", *known]) == 0
    assert "commit 1: 5 rows up to position 5" in capsys.readouterr().out
    assert len(rows("s3://lake/command", storage)) == 5
