"""The demo ends well, shows what it types, and overwrites nothing."""

from __future__ import annotations

import json

import pytest
from tests.golden_cases import snapshot_of

from flintlog.cli.main import main


@pytest.mark.parametrize(
    ("dialect", "upkeep", "shown"),
    [
        ("taskflux", "snapshot", "urgent: disk almost full"),
        ("zmqraft", "snapshot", "x is 5"),
        ("mpy6a", "compact", "call back 11"),
        ("limestone", "compact", "ada"),
    ],
)
def test_the_demo_walks_from_the_first_look_to_the_upkeep(
    dialect, upkeep, shown, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert main(["demo", dialect]) == 0
    captured = capsys.readouterr()
    typed = [line for line in captured.out.splitlines() if line.startswith("$ flintlog ")]
    verbs = [line.split()[2] for line in typed]
    assert verbs[:5] == ["inspect", "dump", "dump", "state", "verify"]
    assert {"repair", upkeep} <= set(verbs)
    assert "verdict: repairable" in captured.out and f"({dialect})" in captured.out
    assert shown in captured.out or shown in (tmp_path / ".demo" / "run-1-state").read_text()
    assert "written to .demo/run-1" in captured.err


def test_what_was_acknowledged_survives_the_crash_of_the_demo(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["demo"]) == 0
    capsys.readouterr()
    assert main(["state", ".demo/run-1", "--json"]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    queues = [record["queue"] for record in records]
    assert queues == ["mail"] * 2 + ["orders"] * 8
    assert bytes.fromhex(records[0]["payload"]) == b"urgent: disk almost full"


def test_a_second_demo_leaves_the_first_alone(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["demo"]) == 0
    before = snapshot_of(tmp_path / ".demo" / "run-1")
    assert main(["demo", "--json"]) == 0
    assert snapshot_of(tmp_path / ".demo" / "run-1") == before
    assert sorted(path.name for path in (tmp_path / ".demo").iterdir()) == ["run-1", "run-2"]
