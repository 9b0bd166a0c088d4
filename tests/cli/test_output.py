"""The two forms of what a verb shows."""

from __future__ import annotations

import io
import json

import pytest
from scripts.pages import contract

from flintlog.cli.output import JsonOutput, TextOutput
from flintlog.cli.terminal import Screen
from flintlog.core.dialect import ByteField
from flintlog.core.finding import Finding, Severity
from flintlog.core.inventory import FileItem, Inventory
from flintlog.core.plan import Plan, Step
from flintlog.disk import Disk
from flintlog.testing import MemoryKernel

TORN = Finding(
    Severity.REPAIRABLE, "torn-tail", "the last record is torn", "log/8.log", 40, expected="20", found="7"
)
GAP = Finding(Severity.CORRUPT, "gap", "entries 4 to 7 are missing")
INVENTORY = Inventory(
    "taskflux",
    "shipped",
    "queues",
    (
        FileItem("log/0.log", "segment", 2048, (0,), (3,), 4),
        FileItem("log/8.log", "segment", 47, (8,), (8,), 1),
        FileItem("temp/x", "leftover", 0),
    ),
    (0,),
    (8,),
    (TORN, GAP),
    {"live_bytes": 1536, "queues": 2},
)


def text_of(show, screen=None):
    stream = io.StringIO()
    show(TextOutput(stream, screen or Screen()))
    return stream.getvalue()


def json_of(show):
    stream = io.StringIO()
    show(JsonOutput(stream))
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_inspect_lists_files_facts_range_and_health():
    assert text_of(lambda output: output.inventory(INVENTORY)) == (
        "queues: taskflux, shipped edition\n"
        "file       role         size  first  last  entries\n"
        "log/0.log  segment   2.0 KiB      0     3        4\n"
        "log/8.log  segment      47 B      8     8        1\n"
        "temp/x     leftover      0 B      -     -        -\n"
        "live bytes: 1.5 KiB\n"
        "queues: 2\n"
        "repairable: log/8.log, byte 40: the last record is torn (expected 20, found 7) [torn-tail]\n"
        "corrupt: entries 4 to 7 are missing [gap]\n"
        "range: 0 to 8; 2.0 KiB\n"
        "health: corrupt; `flintlog repair queues` shows what can be done and what is lost\n"
    )


def test_verify_has_a_line_per_file_and_the_verdict():
    assert text_of(lambda output: output.verification(INVENTORY)) == (
        "queues: taskflux, shipped edition\n"
        "file       health      byte  what was seen\n"
        "log/0.log  clean          -\n"
        "log/8.log  repairable    40  the last record is torn (expected 20, found 7) [torn-tail]\n"
        "temp/x     clean          -\n"
        "-          corrupt        -  entries 4 to 7 are missing [gap]\n"
        "verdict: corrupt; `flintlog repair queues` shows what can be done and what is lost\n"
    )


@pytest.mark.parametrize("show", [JsonOutput.inventory, JsonOutput.verification])
def test_an_inventory_in_json_is_one_object_with_the_documented_fields(show):
    (shown,) = json_of(lambda output: show(output, INVENTORY))
    assert list(shown) == [name for name, _ in contract.INVENTORY_FIELDS]
    assert list(shown["files"][0]) == [name for name, _ in contract.FILE_FIELDS]
    assert list(shown["findings"][0]) == [name for name, _ in contract.FINDING_FIELDS]
    assert shown["verdict"] == "corrupt"


ROWS = [
    [{"queue": "a", "id": 1, "payload": b"\x00\xff", "more": {"raw": b"\x01", "list": [b"\x02", 3]}}],
    [{"queue": "b", "id": 20, "payload": b"hi", "more": None}],
]


def test_rows_in_json_have_the_columns_in_order_and_bytes_as_lower_case_hex():
    shown = json_of(lambda output: output.rows(["id", "queue", "payload", "more"], iter(ROWS)))
    assert shown[0] == {"id": 1, "queue": "a", "payload": "00ff", "more": {"raw": "01", "list": ["02", 3]}}
    assert list(shown[1]) == ["id", "queue", "payload", "more"]
    assert shown[1]["payload"] == "6869"


def test_rows_in_text_are_a_table():
    shown = text_of(lambda output: output.rows(["queue", "id", "payload"], iter(ROWS)))
    assert shown == 'queue  id  payload\na       1  00ff\nb      20  "hi"\n'


FIELDS = [
    ByteField("log/0.log", 8, bytes.fromhex("aaf534c4"), "record marker", "a record begins"),
    ByteField("log/0.log", 28, bytes(range(20)), "data", "20 bytes"),
    ByteField("log/1.log", 0, b"", "nothing", ""),
]


def test_annotated_bytes_stand_in_lines_of_sixteen_beside_their_meaning():
    lines = text_of(lambda output: output.fields(iter(FIELDS))).splitlines()
    assert lines[0] == "log/0.log"
    assert lines[1] == f"{8:>12}  {'aa f5 34 c4':<48} record marker: a record begins"
    assert lines[2] == f"{28:>12}  00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f  data: 20 bytes"
    assert lines[3] == f"{44:>12}  10 11 12 13"
    assert lines[4] == "log/1.log"
    assert lines[5].split() == ["0", "nothing"]


def test_annotated_bytes_in_json_are_one_object_per_field():
    shown = json_of(lambda output: output.fields(iter(FIELDS)))
    assert list(shown[0]) == [name for name, _ in contract.BYTE_FIELDS]
    assert shown[0]["bytes"] == "aaf534c4"
    assert len(shown) == 3


def make_plan(done, **changes):
    steps = (Step("cut", "log/8.log", "the last record is torn"),)

    def apply(disk):
        done.append(1)
        return "cut log/8.log at byte 40"

    return Plan(
        "repair",
        "taskflux",
        "queues",
        changes.pop("steps", steps),
        apply,
        disk=Disk(MemoryKernel()),
        **changes,
    )


def test_a_plan_is_printed_and_nothing_is_done():
    done = []
    shown = text_of(lambda output: output.plan(make_plan(done, lost=("LSN 8",)), apply=False))
    assert shown == (
        "repair queues (taskflux)\n"
        "step  file       why\n"
        "cut   log/8.log  the last record is torn\n"
        "lost: LSN 8\n"
    )
    assert done == []


def test_an_applied_plan_says_what_was_done():
    done = []
    shown = text_of(lambda output: output.plan(make_plan(done), apply=True))
    assert shown.splitlines()[-1] == "done: cut log/8.log at byte 40"
    assert done == [1]


@pytest.mark.parametrize("apply", [False, True])
def test_a_plan_in_json_has_the_documented_fields(apply):
    done = []
    (shown,) = json_of(lambda output: output.plan(make_plan(done), apply=apply))
    assert list(shown) == [name for name, _ in contract.PLAN_FIELDS]
    assert shown["applied"] is apply
    assert shown["done"] == ("cut log/8.log at byte 40" if apply else None)
    assert len(done) == apply


def test_an_empty_plan_and_a_refusal_say_so():
    assert "nothing to do\n" in text_of(lambda output: output.plan(make_plan([], steps=()), apply=False))
    refused = make_plan([], steps=(), refusal="another process writes here")
    assert "refused: another process writes here\n" in text_of(
        lambda output: output.plan(refused, apply=False)
    )
