"""Directories of Raft peers: Spark says what the engine says, and what the original recorded."""

from __future__ import annotations

from collections import defaultdict

import pytest
from tests.golden_cases import cases, expected, materialise
from tests.pipeline.in_process import details_in_process, entries_in_process, rows, state_in_process

from flintlog.core.dialect import NO_PAYLOAD, EntryQuery

pytestmark = pytest.mark.spark

GOOD = [case for case in cases("zmqraft") if not case.startswith("d")]


@pytest.fixture(scope="module")
def directories(tmp_path_factory):
    home = tmp_path_factory.mktemp("peers")
    return {case: str(materialise(case, home, dialect="zmqraft")) for case in GOOD}


@pytest.fixture(scope="module")
def read(spark, directories):
    """A view of all good cases in one job, by case."""

    def read(view):
        found = defaultdict(list)
        reader = spark.read.format("flintlog").option("view", view)
        reader = reader.option("details", "true") if view == "entries" else reader
        for row in rows(reader.load(list(directories.values()))):
            found[row["source"]].append(row)
        return {case: found[path] for case, path in directories.items()}

    return read


def test_entries_of_every_good_case_are_those_of_the_engine_and_of_the_original(read, directories):
    found = read("entries")
    assert sum(map(len, found.values())) > 150
    for case, path in directories.items():
        assert found[case] == details_in_process(path), case
        recorded = expected(case, "zmqraft").get("log", {"entries": [], "firstIndex": 1})
        live = [row for row in found[case] if row["position"] >= recorded["firstIndex"]]
        assert [
            (row["term"], row["zmqraft"]["type"], row["zmqraft"]["request_id"].hex(), row["payload"].hex())
            for row in live
        ] == [
            (entry["term"], entry["type"], entry["requestId"], entry["data"]) for entry in recorded["entries"]
        ], case


def test_the_state_of_every_good_case_is_that_of_the_engine(read, directories):
    found = read("state")
    assert sum(map(len, found.values())) > 150
    for case, path in directories.items():
        assert found[case] == state_in_process(path), case


def test_a_range_and_an_earlier_state_are_those_of_the_engine(load, directories):
    path = directories["03_multi_files"]
    found = rows(load(path, **{"from": "20", "to": "30", "payload": "false"}))
    assert found == entries_in_process(path, EntryQuery(first=(20,), last=(30,), skip=NO_PAYLOAD))
    assert [row["position"] for row in found] == list(range(20, 31))
    assert {row["file"] for row in found} == {
        f"log/00000/00/00/000000000000{first:02x}.rlog" for first in (0x10, 0x18)
    }
    earlier = rows(load(path, view="state", as_of="9"))
    assert earlier == state_in_process(path, (9,))
    assert len(earlier) == 9


def test_damage_names_the_directory_and_the_place(load, tmp_path):
    damaged = materialise("d12_middle_file_missing", tmp_path, dialect="zmqraft")
    for options in ({}, {"view": "state"}):
        with pytest.raises(Exception, match=r"missing be(fore|hind) this file: index 24 to 31") as caught:
            load(damaged, **options).collect()
        assert str(damaged) in str(caught.value)
