"""A state is told at every position that the log holds, and refused in one way at every other."""

from __future__ import annotations

import json

import pytest
from tests.backup_logs import LOGS

import flintlog
from flintlog.cli.main import main

ADDED = 12


def filled(name, path, *, first=0, count=ADDED):
    log = LOGS[name](path)
    log.added = first
    for _ in range(count):
        log.add()
        log.added += 1
    return log


@pytest.mark.parametrize("name", LOGS)
def test_the_newest_position_has_the_newest_state_while_the_store_is_open(name, tmp_path, capsys):
    log = filled(name, tmp_path / "log")
    found = flintlog.open(tmp_path / "log")
    rows = found.state().to_table()
    assert rows.num_rows == ADDED
    assert found.state(found.inspect().last).to_table() == rows
    target = tmp_path / "exported"
    words = ["export", str(tmp_path / "log"), str(target), "--view", "state", "--format", "ndjson", "--json"]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == ADDED
    log.close()
