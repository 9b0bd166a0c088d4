"""The benchmark runs in small and gives every row; what it measures is not for a test to judge."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.mpy6a import QUICK as QUICK_MPY6A
from benchmarks.results import Results
from benchmarks.table import RECORDS_PER_SECOND, SECONDS_PER_MILLION, Table, aligned, figure, row
from benchmarks.taskflux import QUICK
from benchmarks.zmqraft import QUICK as QUICK_ZMQRAFT
from scripts.pages import performance

ROOT = Path(__file__).parent.parent
ROWS = {
    "taskflux": [
        "add, 1 thread",
        "add, against the floor",
        "add, 16 threads",
        f"add_many of {QUICK.batch}",
        "take + ack, 1 thread",
        "take + ack, 16 threads",
        f"take + ack, batches of {QUICK.batch}",
        "open, log",
        "open, snapshot",
        "scan",
        "add beside a snapshot, rate",
        "add beside a snapshot, p50",
        "add beside a snapshot, p99",
        "add beside a snapshot, longest",
    ],
    "zmqraft": [
        "append, one by one",
        "append, one by one, against the floor",
        *(
            f"append, batches of {count}{against}"
            for count, _ in QUICK_ZMQRAFT.batches
            for against in ("", ", against the floor")
        ),
        "append, 16 threads",
        "append, 16 threads, against the floor",
        "read, columns",
        "read, Arrow",
        "read, raw bytes",
        "read, Entry objects",
        "open",
        "find_request, first",
        f"truncate {QUICK_ZMQRAFT.truncated:,}",
        "snapshot, written and installed",
        "snapshot, read",
    ],
    "mpy6a": [
        "store, 1 thread",
        "due + delete, 1 thread",
        "store, 16 threads",
        "due + delete, 16 threads",
        *(
            f"{what}, batches of {count}"
            for count in QUICK_MPY6A.batches
            for what in ("store", "due + delete")
        ),
        "resident memory, opened",
        f"resident memory, {QUICK_MPY6A.handed_out} handed out",
        f"open, {QUICK_MPY6A.stored[1]:,} stored",
    ],
    "limestone": [
        "write, put_many, 1 channel",
        "write, put, 1 channel",
        "write, put_many, 2 channels",
        "write, put, 2 channels",
        "write, put, against put_many",
        "get, one key",
        "get, one key, RocksDB",
        *(
            f"{job}, 50,000 entries, {keys}{against}"
            for keys in ("all keys distinct", "5,000 keys")
            for job in ("open", "compact")
            for against in ("", ", against the original")
        ),
    ],
    "spark": [
        *(
            f"Spark {job}, 50,000 entries, {keys}{against}"
            for keys in ("all keys distinct", "5,000 keys")
            for job in ("compact", "state")
            for against in ("", ", against this process")
        ),
        "Spark start, first query",
        "Spark start, first compaction",
        *(
            f"Spark {question}, {way}"
            for question in (
                "count",
                "filter on position",
                "group by operation",
                "sum of payload lengths",
                "max(position)",
            )
            for way in ("spark.read", "flintlog.read")
        ),
        "Spark scan to noop, flintlog.read",
        "Spark five questions, spark.read",
        "Spark five questions, flintlog.read",
        *(
            f"Spark write, {dialect}{against}"
            for dialect in ("limestone", "taskflux")
            for against in ("", ", against the store")
        ),
        "Spark compact, twice the data",
    ],
}


def benchmarks(directory: Path, *arguments: str) -> str:
    command = [
        sys.executable,
        "-W",
        "error",
        "-m",
        "benchmarks",
        "--quick",
        "--directory",
        str(directory),
        *arguments,
    ]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "topic", [pytest.param(topic, marks=pytest.mark.long if topic == "spark" else ()) for topic in ROWS]
)
def test_every_row_is_measured_and_the_directory_is_left_clean(topic, tmp_path):
    found = json.loads(benchmarks(tmp_path, "--json", "--only", f"{topic}/"))
    assert [one["name"] for one in found["rows"]] == ROWS[topic]
    for one in found["rows"]:
        assert all(math.isfinite(one[field]) and one[field] > 0 for field in ("ours", "peer", "ratio"))
        assert one["peer_name"] in one["everyone"]
    assert {"cores", "processor", "versions"} <= set(found["facts"])
    assert ("first use" in found["facts"]) == (topic == "taskflux")
    assert list(tmp_path.iterdir()) == []


def test_one_topic_can_be_chosen_and_the_directory_is_made_and_removed(tmp_path):
    printed = benchmarks(tmp_path / "new", "--only", "taskflux/scan").splitlines()
    assert printed[1].startswith("scan ")
    assert printed[2] == ""
    assert not (tmp_path / "new").exists()


def test_the_ratio_is_taken_inside_each_round_and_above_one_when_ours_is_better():
    figures = {"ours": [10, 100, 20], "a": [5, 50, 4], "b": [1, 1, 1]}
    faster = row("r", RECORDS_PER_SECOND, figures, ["a", "b"], compared="")
    assert (faster.ours, faster.peer, faster.peer_name, faster.ratio) == (20, 5, "a", 2)
    figures = {"ours": [2.0], "a": [5.0], "b": [4.0]}
    quicker = row("s", SECONDS_PER_MILLION, figures, ["a", "b"], compared="", ours_max=2)
    assert (quicker.peer_name, quicker.ratio, quicker.reached) == ("b", 2, True)
    enough = row("t", RECORDS_PER_SECOND, {"ours": [580_000], "a": [1]}, ["a"], compared="", ours_min=600_000)
    assert (enough.aim, enough.reached) == ("600,000 records/s", False)


@pytest.mark.parametrize(
    ("value", "text"), [(1234567.0, "1,234,567"), (12.345, "12.3"), (0.012345, "0.0123"), (0.0, "0.0")]
)
def test_figures_show_three_digits_that_count(value, text):
    assert figure(value) == text


def test_the_table_is_aligned():
    assert aligned([("a", "1"), ("bbb", "22")], right={1}) == ["a     1", "bbb  22"]
    assert Table().lines()[0].split() == ["ours", "peer", "ratio", "aim", "best", "peer"]


def test_saved_figures_are_the_last_three_runs_of_each_row(tmp_path):
    file = tmp_path / "figures.json"

    def run(topic: str, name: str, ratio: float) -> None:
        table = Table(facts={"cores": "2"})
        table.begin(topic)
        figures = {"ours": [10.0 * ratio], "peer": [10.0]}
        table.rows.append(row(name, RECORDS_PER_SECOND, figures, ["peer"], compared="", ratio_min=2))
        table.end()
        results = Results.read(file)
        results.add(table)
        results.write(file)

    for ratio in (1.0, 3.0, 4.0, 1.5):
        run("taskflux/add", "add", ratio)
    run("limestone/write", "old name", 1)
    run("limestone/write", "put", 1)
    add, put = Results.read(file).rows
    assert [run.ratio for run in add.runs] == [3.0, 4.0, 1.5]
    assert (put.name, len(put.runs)) == ("put", 1)
    assert performance.verdict(add) == "reached in 2 of 3 runs"
    assert performance.missed(Results.read(file)) == ["add", "put"]
    assert (
        "| add | 15.0 | 10.0 peer | records/s | 1.50 to 4.00 | 2 times | reached in 2 of 3 runs |"
        in performance.table([add])
    )
