"""Logs in an object store: all views of all dialects from an S3 server on this machine are those of a local disk."""

from __future__ import annotations

import pytest
from pyarrow import fs
from tests.every_directory import every_directory
from tests.pipeline.in_process import rows
from tests.pipeline.object_store import object_store

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
    more = {"on_damage": "report"} if view == "entries" else {}
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
    found = load("s3://logs/store-0[0-6]", split_bytes="5000", **options)
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
