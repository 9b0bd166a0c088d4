"""`flintlog snapshot --data`: the state comes from the application, by a file or by the standard input."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from scripts.pages import contract
from tests.golden_cases import snapshot_of

from flintlog import QueueStore, RaftStore
from flintlog.dialects.zmqraft.layout import Entry, index_path

STATE = bytes(range(256)) * 40


@pytest.fixture
def peer(tmp_path):
    path = tmp_path / "peer"
    with RaftStore(path, capacity=4) as store:
        store.append([Entry(1, b"entry %d" % number) for number in range(11)])
    return path


@pytest.fixture
def state(tmp_path):
    path = tmp_path / "state.bin"
    path.write_bytes(STATE)
    return path


def held(path):
    with RaftStore(path) as store:
        data = b"".join(store.read_snapshot())
        return store.snapshot_index, data, [entry.data for entry in store.entries(store.first_index)]


def test_the_plan_comes_first_and_changes_nothing(peer, state, typed):
    before = snapshot_of(peer)
    status, out, _ = typed("snapshot", peer, "--as-of", 9, "--data", state, "--dry-run", "--json")
    plan = json.loads(out)
    assert list(plan) == [name for name, _ in contract.PLAN_FIELDS]
    assert (status, plan["verb"], plan["applied"], plan["lost"]) == (0, "snapshot", False, [])
    assert [(step["action"], step["file"]) for step in plan["steps"]] == [
        ("write", "snap"),
        ("remove", index_path(1)),
        ("remove", index_path(4)),
    ]
    assert f"{len(STATE)} bytes from {state}" in plan["steps"][0]["reason"]
    assert plan["facts"]["freed_bytes"] > 0
    assert snapshot_of(peer) == before


def test_the_state_is_installed_and_the_log_goes_on_behind_it(peer, state, typed):
    status, out, _ = typed("snapshot", peer, "--as-of", 9, "--data", state)
    assert status == 0
    assert f"done: snapshot at index 9, {len(STATE)} bytes; 2 index files removed" in out
    assert held(peer) == (9, STATE, [b"entry 9", b"entry 10"])
    assert not (peer / index_path(4)).exists()
    assert typed("verify", peer)[0] == 0


def test_a_second_snapshot_at_the_same_index_replaces_the_first(peer, state, typed):
    typed("snapshot", peer, "--as-of", 11, "--data", state)
    state.write_bytes(b"better")
    assert typed("snapshot", peer, "--as-of", 11, "--data", state)[0] == 0
    assert held(peer) == (11, b"better", [])


def piped(*arguments, data):
    return subprocess.run(
        [sys.executable, "-m", "flintlog.cli.main", *map(str, arguments)],
        input=data,
        capture_output=True,
        check=False,
    )


def test_the_state_comes_through_a_pipe(peer):
    done = piped("snapshot", peer, "--as-of", 10, "--data", "-", data=STATE)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"from the standard input" in done.stdout
    assert held(peer) == (10, STATE, [b"entry 10"])


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        ([], 2, "only the application knows the state of a zmqraft log"),
        (["--as-of", "9"], 2, "--as-of INDEX --data FILE"),
        (["--data", "STATE"], 2, "--as-of INDEX, from 4 to 11"),
        (["--data", "STATE", "--as-of", "12"], 3, "index 12 is beyond the log, which ends at 11"),
        (["--data", "STATE", "--as-of", "3"], 3, "index 3 is before the log, which reaches back to 4"),
        (["--data", "STATE", "--as-of", "3,9"], 2, "is not a position of a zmqraft log"),
        (["--data", "STATE.gone", "--as-of", "9"], 2, "no file with a state stands here"),
        (["--data", "DIRECTORY", "--as-of", "9"], 2, "no file with a state stands here"),
        (["--data", "PIPE", "--as-of", "9"], 2, "Pipe it to --data -"),
    ],
)
@pytest.mark.parametrize("dry", [[], ["--dry-run"]], ids=["apply", "dry-run"])
def test_what_cannot_be_is_refused_in_one_line(dry, options, status, message, peer, state, tmp_path, typed):
    with RaftStore(peer) as store:
        store.snapshot(4, b"older")
    before = snapshot_of(peer)
    reader, writer = os.pipe()
    names = {"PIPE": f"/dev/fd/{reader}", "DIRECTORY": str(tmp_path), "STATE": str(state)}
    for name, place in names.items():
        options = [option.replace(name, place) for option in options]
    found, _, talk = typed("snapshot", peer, *options, *dry)
    os.close(reader)
    os.close(writer)
    assert found == status
    assert message in talk
    assert len(talk.splitlines()) == 1
    assert snapshot_of(peer) == before


def test_a_log_without_entries_has_nothing_to_cover(tmp_path, state, typed):
    RaftStore(tmp_path / "new").close()
    status, _, talk = typed("snapshot", tmp_path / "new", "--as-of", 0, "--data", state)
    assert (status, "no entry yet" in talk) == (3, True)


def test_a_directory_in_use_and_a_damaged_one_are_refused(peer, state, typed):
    with RaftStore(peer):
        status, _, talk = typed("snapshot", peer, "--as-of", 9, "--data", state)
        assert (status, "this process has this directory open" in talk) == (3, True)
    (peer / index_path(4)).unlink()
    before = snapshot_of(peer)
    status, _, talk = typed("snapshot", peer, "--as-of", 9, "--data", state)
    assert (status, "missing before this file: index 4 to 7" in talk) == (3, True)
    assert snapshot_of(peer) == before


def test_a_dialect_that_knows_its_state_takes_none(tmp_path, state, typed):
    QueueStore(tmp_path / "queues").close()
    status, _, talk = typed("snapshot", tmp_path / "queues", "--data", state)
    assert (status, "follows from its entries" in talk) == (2, True)
