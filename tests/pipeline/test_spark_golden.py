"""Directories that the original program wrote: Spark says what the engine and the original say."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress

import pytest
from tests.golden_cases import cases, expected, materialise
from tests.pipeline.in_process import details_in_process, rows, state_in_process

from flintlog.errors import FlintlogError

pytestmark = pytest.mark.spark

OPERATIONS = {"CreateQueue": "create", "DeleteQueue": "delete", "AddRecord": "add", "RemoveRecord": "remove"}
# The original drops good entries behind damage when it opens these; we show what is there, or refuse.
DROPPED_BY_THE_ORIGINAL = {"damaged-crc-in-sealed-segment", "damaged-missing-middle-segment"}
# Empty directories: nothing in them says whose they are.
NOT_RECOGNISED = {"missing-files"}


@pytest.fixture(scope="module")
def directories(tmp_path_factory):
    home = tmp_path_factory.mktemp("golden")
    return {case: materialise(case, home) for case in cases() if case not in NOT_RECOGNISED}


def readable(directories, read):
    """What the engine reads of each directory, without those it refuses."""
    found = {}
    for case, path in directories.items():
        with suppress(FlintlogError):
            found[case] = read(path)
    return found


def by_source(found):
    groups = defaultdict(list)
    for row in found:
        groups[row["source"]].append(row)
    return groups


@pytest.fixture(scope="module")
def entries(spark, directories):
    """Entries by case as Spark and as the engine give them, all in one job."""
    engine = readable(directories, details_in_process)
    reader = spark.read.format("flintlog").option("details", "true")
    frame = reader.load([str(directories[case]) for case in engine])
    groups = by_source(rows(frame))
    return {case: (groups[str(directories[case])], found) for case, found in engine.items()}


@pytest.fixture(scope="module")
def states(spark, directories):
    """The same for the state."""
    engine = readable(directories, state_in_process)
    frame = (
        spark.read.format("flintlog")
        .option("view", "state")
        .load([str(directories[case]) for case in engine])
    )
    groups = by_source(rows(frame))
    return {case: (groups[str(directories[case])], found) for case, found in engine.items()}


def test_entries_of_every_readable_case_are_those_of_the_engine(entries):
    assert len(entries) > 50
    for case, (spark_rows, engine_rows) in entries.items():
        assert spark_rows == engine_rows, case


def test_entries_are_those_that_the_original_recorded(entries, directories):
    checked = 0
    for case, (found, _) in entries.items():
        recorded = expected(case)["real_code_open"]
        if recorded["open"] != "ok" or case in DROPPED_BY_THE_ORIGINAL:
            continue
        assert [summary(row, directories[case]) for row in found] == [
            recorded_summary(e) for e in recorded["entries"]
        ], case
        checked += 1
    assert checked > 35


def summary(row, directory):
    record = (directory / row["file"]).read_bytes()[row["offset"] : row["offset"] + row["length"]]
    return row["position"], row["term"], f"{row['taskflux']['checksum']:08x}", record[20:].hex(), fields(row)


def fields(row):
    own = row["taskflux"]
    match row["operation"]:
        case "unreadable":
            return None
        case "add":
            return "add", row["stream"], int.from_bytes(row["key"], "big", signed=True), row["payload"].hex()
        case "remove":
            return "remove", row["stream"], own["id"]
    return row["operation"], row["stream"]


def recorded_summary(entry):
    return entry["index"], entry["term"], entry["crc"], entry["data"], recorded_fields(entry["delta"])


def recorded_fields(delta):
    operation = OPERATIONS.get(delta.get("type"))
    match operation:
        case None:
            return None
        case "add":
            return "add", delta["queue"], delta["priority"], delta["payload"]
        case "remove":
            return "remove", delta["queue"], delta["id"]
    return operation, delta["queue"]


def test_the_state_of_every_readable_case_is_that_of_the_engine(states):
    assert len(states) > 30
    for case, (spark_rows, engine_rows) in states.items():
        assert spark_rows == engine_rows, case


def test_the_state_holds_the_records_that_the_original_restored(states):
    checked = 0
    for case, (found, _) in states.items():
        recorded = expected(case)["real_code_open"]
        if "restored_queues" not in recorded or recorded.get("restore_error"):
            continue
        # As a set: the original does not keep equal keys in order.
        assert {(row["queue"], row["id"], row["key"], row["payload"].hex()) for row in found} == {
            (queue["name"], record["id"], record["priority"], record["payload"])
            for queue in recorded["restored_queues"]
            for record in queue["records_dequeue_order"]
        }, case
        checked += 1
    assert checked > 20


@pytest.mark.parametrize(
    ("case", "lsns"), [("single-segment", (0, 4, 9)), ("snapshot-plus-suffix", (23, 24))]
)
def test_the_state_at_a_position_is_that_of_the_engine(load, directories, case, lsns):
    seen = set()
    for lsn in lsns:
        found = rows(load(directories[case], view="state", as_of=str(lsn)))
        assert found == state_in_process(directories[case], (lsn,))
        seen.add(str(found))
    assert len(seen) > 1
