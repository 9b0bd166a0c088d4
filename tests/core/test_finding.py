"""Findings, the verdict that follows from them, and the words they are told in."""

from __future__ import annotations

import pytest

from flintlog.core.finding import Finding, Severity, exit_status, gravest, verdict
from flintlog.core.inventory import FileItem, Inventory
from flintlog.core.plan import Plan, Step
from flintlog.disk import Disk
from flintlog.errors import DamageError, UnsupportedError

NOTE = Finding(Severity.NOTE, "leftover", "a scratch file", "temp/x")
TORN = Finding(Severity.REPAIRABLE, "torn-tail", "the last record is torn", "log/0.log", 40)
WRONG = Finding(Severity.CORRUPT, "record-crc", "wrong checksum", "log/0.log", 20, expected="1", found="2")
NEWER = Finding(Severity.UNSUPPORTED, "segment-version", "version 9", "log/0.log", 4)


@pytest.mark.parametrize(
    ("findings", "word", "status"),
    [
        ([], "clean", 0),
        ([NOTE], "clean", 0),
        ([NOTE, TORN], "repairable", 1),
        ([WRONG, TORN], "corrupt", 3),
        ([WRONG, NEWER, NOTE], "unsupported", 4),
    ],
)
def test_the_gravest_finding_is_the_verdict_and_the_exit_status(findings, word, status):
    assert (verdict(findings), exit_status(findings)) == (word, status)


def test_among_equally_grave_findings_the_first_is_named():
    later = Finding(Severity.CORRUPT, "other", "later")
    assert gravest([TORN, WRONG, later]) is WRONG
    assert gravest([]) is None


def test_a_finding_in_json_has_the_fields_of_the_contract_first():
    assert list(WRONG.json()) == ["severity", "code", "file", "offset", "message", "expected", "found"]
    assert WRONG.json()["severity"] == "corrupt"


def test_damage_becomes_an_error_with_place_values_and_the_next_command():
    error = WRONG.error("queues")
    assert isinstance(error, DamageError)
    assert error.code == "record-crc"
    assert str(error) == (
        "queues/log/0.log, byte 20: wrong checksum (expected 1, found 2). "
        "Nothing was changed; `flintlog repair queues` shows what can be done"
    )


def test_an_unknown_version_becomes_an_unsupported_error():
    error = NEWER.error("queues")
    assert isinstance(error, UnsupportedError)
    assert error.place == "queues/log/0.log, byte 4"


def test_an_inventory_in_json_has_the_fields_of_the_contract():
    files = (FileItem("log/0.log", "segment", 100, (0,), (7,), 8),)
    inventory = Inventory("taskflux", "shipped", "queues", files, (0,), (7,), (TORN,))
    shown = inventory.json()
    assert {"dialect", "edition", "files", "first", "last", "findings", "verdict"} <= set(shown)
    assert (shown["first"], shown["last"], shown["verdict"]) == (0, 7, "repairable")
    assert shown["files"][0] == {
        "name": "log/0.log",
        "role": "segment",
        "size": 100,
        "first": 0,
        "last": 7,
        "entries": 8,
    }
    assert inventory.exit_status == 1


def test_a_plan_without_steps_is_empty_and_shows_its_steps_in_order():
    plan = Plan("repair", "taskflux", "queues", (), lambda: "", disk=Disk())
    assert plan.empty
    steps = (Step("cut", "log/0.log", "torn"), Step("remove", "temp/x", "leftover"))
    full = Plan("repair", "taskflux", "queues", steps, lambda: "", ("LSN 8",), disk=Disk())
    assert not full.empty
    assert [step["action"] for step in full.json()["steps"]] == ["cut", "remove"]
    assert full.json()["lost"] == ["LSN 8"]
