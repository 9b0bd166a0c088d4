"""A state is told at every position that the log holds, and refused in one way at every other."""

from __future__ import annotations

import json

import pytest
from tests.backup_logs import LOGS
from tests.web.explorer import serving

import flintlog
from flintlog.cli.main import main
from flintlog.core.dialect import GivenState
from flintlog.core.position import position_text
from flintlog.core.workers import Threads
from flintlog.errors import RefusedError, UsageError
from flintlog.pipeline.options import ReadOptions
from flintlog.pipeline.views import directory_batches

ADDED = 12
SNAPSHOT_AT_ANY = ("taskflux", "zmqraft", "limestone", "limestone-shipped")


def filled(name, path, *, first=0, count=ADDED):
    log = LOGS[name](path)
    log.added = first
    for _ in range(count):
        log.add()
        log.added += 1
    return log


def behind_a_snapshot(name, path):
    """A log that has forgotten how it began, and its first and last position that can be asked for."""
    log = filled(name, path)
    log.store.compact() if name.startswith("limestone") else log.churn()
    first = flintlog.open(path).inspect().last
    log.close()
    filled(name, path, first=ADDED, count=1).close()
    found = flintlog.open(path)
    last = found.inspect().last
    return found, found.inspect().first if found.dialect == "mpy6a" else first, last


def moved(position, by):
    return (*position[:-1], position[-1] + by)


def asked(log, position):
    """What every door to the state says of a position."""
    yield log.state(position).to_table
    yield lambda: log.state(position, workers=Threads(2))
    yield lambda: list(
        directory_batches(ReadOptions((log.path,), (log.dialect,), "state", as_of=position), log)
    )
    yield lambda: log.picture(position)


def state_given():
    return GivenState("state.bin", 1, lambda: iter([b"x"]))


@pytest.mark.parametrize("name", LOGS)
def test_a_position_that_the_log_has_not_reached_is_refused_by_every_door(name, tmp_path, capsys):
    log, _, last = behind_a_snapshot(name, tmp_path / "log")
    assert log.state(last).to_table() == log.state().to_table()
    for beyond in (moved(last, 1), moved(last, 50), (last[0] + 7, *last[1:])):
        words = f"{log.unit} {position_text(beyond)} is beyond the log, which ends at {position_text(last)}"
        for door in asked(log, beyond):
            with pytest.raises(RefusedError, match=words) as caught:
                door()
            assert position_text(last) in caught.value.advice
        assert main(["state", log.path, "--as-of", position_text(beyond)]) == 3
        assert words in capsys.readouterr().err
        with serving(tmp_path / "log") as client:
            reply = client.ask("log", "state", as_of=position_text(beyond))
            assert (reply.status, reply.error["code"]) == (409, "refused") and words in reply.error["message"]
        if name in SNAPSHOT_AT_ANY:
            with pytest.raises(RefusedError, match=words):
                log.plan_snapshot(beyond, state_given() if name == "zmqraft" else None)


@pytest.mark.parametrize("name", LOGS)
def test_a_position_before_a_snapshot_is_refused_by_every_door(name, tmp_path, capsys):
    log, first, last = behind_a_snapshot(name, tmp_path / "log")
    before = moved(first, -1)
    words = (
        f"{log.unit} {position_text(before)} is before the log, which reaches back to {position_text(first)}"
    )
    for door in asked(log, before):
        with pytest.raises(RefusedError, match=words):
            door()
    assert main(["state", log.path, "--as-of", position_text(before)]) == 3
    assert words in capsys.readouterr().err
    if name in SNAPSHOT_AT_ANY:
        with pytest.raises(RefusedError, match=words):
            log.plan_snapshot(before, state_given() if name == "zmqraft" else None)
    assert log.state(first).to_table().num_rows <= log.state(last).to_table().num_rows


@pytest.mark.parametrize("name", LOGS)
def test_an_empty_log_has_reached_nothing(name, tmp_path):
    LOGS[name](tmp_path).close()
    log = flintlog.open(tmp_path)
    with pytest.raises(RefusedError, match="is beyond the log"):
        log.state((1, 7) if log.dialect == "mpy6a" else 7).to_table()


@pytest.mark.parametrize("name", ["taskflux", "zmqraft", "limestone"])
def test_a_negative_number_is_no_position(name, tmp_path):
    filled(name, tmp_path).close()
    with pytest.raises(UsageError):
        flintlog.open(tmp_path).state(-1)


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


@pytest.mark.parametrize("name", LOGS)
def test_a_backup_does_not_restore_what_it_does_not_reach(name, tmp_path, capsys):
    log, _, last = behind_a_snapshot(name, tmp_path / "log")
    beyond = position_text(moved(last, 1))
    assert main(["backup", log.path, str(tmp_path / "place")]) == 0
    for more in ([], ["--backup", "1"]):
        words = ["restore", str(tmp_path / "place"), str(tmp_path / "new"), "--to", beyond, *more]
        assert main(words) == 3
        assert beyond in capsys.readouterr().err
        assert not (tmp_path / "new").exists()
