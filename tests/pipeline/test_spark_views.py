"""All views of all golden directories of all dialects at once: Spark says what the engine says."""

from __future__ import annotations

from collections import defaultdict

import pytest
from tests.every_directory import every_directory
from tests.pipeline.in_process import details_in_process, entries_in_process, rows

from flintlog.core.dialect import EntryQuery, Split, detect, dialect_names
from flintlog.core.entries import COMMON_FIELDS, plan_entries, read_entries
from flintlog.core.log import Log
from flintlog.disk import Disk
from flintlog.errors import FlintlogError
from flintlog.pipeline.options import read_options
from flintlog.pipeline.source import EntriesReader, SourceSplit, arrow_schema, packed

pytestmark = pytest.mark.spark

DISK = Disk()


@pytest.fixture(scope="module")
def directories(tmp_path_factory):
    return list(every_directory(tmp_path_factory.mktemp("golden")).values())


def by_source(frame):
    groups = defaultdict(list)
    for row in rows(frame):
        groups[row["source"]].append(row)
    return groups


def numbers(position):
    return None if position is None else list(position)


def inventory(path, look):
    spoken = detect(DISK, path)
    found = Log(spoken, DISK, path).inspect() if look == "files" else Log(spoken, DISK, path).verify()
    assert Log(spoken, DISK, path).edition in (None, found.edition)  # the quick answer
    directory = {"source": path, "dialect": found.dialect, "edition": found.edition}
    if look == "findings":
        return [{**directory, **item.json()} for item in found.findings]
    return [
        {
            **directory,
            "file": item.name,
            "role": item.role,
            "size": item.size,
            "first": numbers(item.first),
            "last": numbers(item.last),
            "entries": item.entries,
        }
        for item in found.files
    ]


@pytest.mark.long
@pytest.mark.parametrize("view", ["files", "findings"])
def test_files_and_findings_of_every_directory_are_those_of_the_engine(load, directories, view):
    found = by_source(load(*directories, view=view))
    for path in directories:
        assert found[path] == inventory(path, view), path
    told = {(row["dialect"], row["edition"]) for group in found.values() for row in group}
    assert {name for name, _ in told} == set(dialect_names())
    assert {
        ("limestone", "designed"),
        ("limestone", "shipped"),
        ("taskflux", "shipped"),
        ("mpy6a", None),
    } <= told
    assert sum(map(len, found.values())) > 150


def test_entries_of_all_dialects_stand_in_one_frame(load, directories):
    engine = {}
    for path in directories:
        try:
            engine[path] = details_in_process(path)
        except FlintlogError:
            continue
    frame = load(*engine, details="true")
    assert frame.columns == ["source", *(field.name for field in COMMON_FIELDS), *dialect_names()]
    found = by_source(frame)
    nothing = dict.fromkeys(dialect_names())
    for path, expected in engine.items():
        assert found[path] == [{**nothing, **row} for row in expected], path
    assert {row["dialect"] for group in found.values() for row in group} == set(dialect_names())


@pytest.mark.parametrize("on_damage", ["stop", "report"])
def test_damage_is_passed_over_or_told_in_one_frame(load, directories, on_damage):
    query = EntryQuery(on_damage=on_damage)
    frame = load(*directories, on_damage=on_damage, details="true")
    found = by_source(frame)
    nothing = {**dict.fromkeys(dialect_names()), **({"damage": None} if on_damage == "report" else {})}
    for path in directories:
        spoken = detect(DISK, path)
        expected = [
            {"source": path, **nothing, **row}
            for split in plan_entries(Log(spoken, DISK, path), query)
            for batch in read_entries(Log(spoken, DISK, path), split, query)
            for row in batch.to_pylist()
        ]
        assert found[path] == expected, path
    damages = [row for group in found.values() for row in group if row["operation"] == "damage"]
    assert len(damages) > 30 if on_damage == "report" else not damages
    assert {field.name for field in frame.schema if not field.nullable} >= (
        {"position", "length"} if on_damage == "stop" else {"source"}
    )


def test_conditions_hold_for_rows_of_damage(load, directories):
    some = directories[::4]
    columns = "source,operation,offset,position,taskflux,mpy6a"
    told = rows(load(*some, on_damage="report", columns=columns))
    for condition, keeps in (
        ("operation = 'damage'", lambda row: row["operation"] == "damage"),
        ("position >= 2", lambda row: row["position"] is not None and row["position"] >= 2),
    ):
        found = rows(load(*some, on_damage="report", columns=columns, where=condition))
        assert found == [row for row in told if keeps(row)] != []


def test_pieces_of_any_size_give_the_same_rows(load, segmented):
    frame = load(segmented, split_bytes="1000")
    assert rows(frame) == entries_in_process(segmented)
    assert frame.rdd.getNumPartitions() > 2 * len(list((segmented / "data/log").iterdir()))


def test_tasks_are_of_even_size_and_in_order():
    def piece(number, size):
        return SourceSplit("a", "taskflux", Split(f"{number}", 0, size, number, None))

    sizes = [64 << 20] * 40 + [1] * 500 + [3 << 20, 70 << 20] * 20
    pieces = [piece(number, size) for number, size in enumerate(sizes)]
    tasks = packed(pieces, 64 << 20)
    assert [one for task in tasks for one in task.pieces] == pieces
    weights = [sum(one.weight for one in task.pieces) for task in tasks]
    assert all(
        weight <= 64 << 20 or len(task.pieces) == 1 for weight, task in zip(weights, tasks, strict=True)
    )
    assert len(tasks) < 40 + 500 // 100 + 40
    assert packed([], 64 << 20) == []


def test_a_thousand_directories_are_planned_and_read_in_few_tasks(load, tmp_path, directories):
    few = [path for path in directories if "/01_few/" in path or "/single-segment/" in path]
    for number in range(1000):
        (tmp_path / f"store-{number:04}").symlink_to(few[number % len(few)])
    read = read_options({"path": f"{tmp_path}/store-*"})
    assert len(read.sources) == 1000
    assert len(set(read.dialects)) == 2
    assert len(EntriesReader(read, arrow_schema(read)).partitions()) <= 70
    counted = load(f"{tmp_path}/store-*", payload="false").groupBy("source").count().collect()
    assert len(counted) == 1000
    sizes = {path: len(entries_in_process(path)) for path in few}
    assert all(row["count"] == sizes[few[int(row["source"][-4:]) % len(few)]] for row in counted)
