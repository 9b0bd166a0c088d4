"""`export`, `diff` and `tail` as an operator types them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pyarrow.dataset as ds
import pytest
from scripts.pages import contract

from flintlog.dialects.limestone.store import Datastore
from flintlog.dialects.taskflux.layout import AddRecord, encode_delta
from flintlog.dialects.taskflux.store import QueueStore, ReplicaLog


@pytest.fixture
def queues(tmp_path):
    path = tmp_path / "queues"
    with QueueStore(path, soft_limit=1024, hard_limit=1024, snapshot_threshold=1000) as store:
        store.queue().add_many([b"%d" % number for number in range(100)])
    return path


def names(fields):
    return [name for name, _ in fields]


# export


def test_export_says_what_it_added(typed, queues, tmp_path):
    target = tmp_path / "out"
    status, out, _ = typed("export", queues, target, "--dry-run")
    assert (status, out, target.exists()) == (0, "commit 1 would go up to position 99\n", False)
    status, out, _ = typed("export", queues, target, "--json")
    report = json.loads(out)
    assert (status, list(report)) == (0, names(contract.EXPORT_FIELDS))
    assert (report["commit"], report["rows"], report["position"]) == (1, 100, 99)
    assert ds.dataset(str(target)).count_rows() == 100
    assert typed("export", queues, target)[1] == f"nothing new: {target} holds everything up to position 99\n"
    assert typed("export", queues, target, "--dry-run")[1].startswith("nothing new")
    status, out, _ = typed("export", queues, tmp_path / "lines", "--format", "ndjson", "--view", "state")
    assert "commit 1: 100 rows up to position 99" in out
    assert "part-00000001-0000.ndjson" in out


def test_what_export_refuses_has_its_status(typed, queues, tmp_path):
    assert typed("export", tmp_path, tmp_path / "out")[0] == 4
    assert typed("export", queues, queues / "out")[0] == 2
    status, _, err = typed("export", queues, tmp_path / "out", "--master", "local[1]")
    assert (status, "--master is for --engine spark" in err) == (2, True)
    assert typed("export", queues, tmp_path / "out")[0] == 0
    assert typed("export", queues, tmp_path / "out", "--format", "delta")[0] == 3


# diff


def test_diff_tells_by_its_status_whether_replicas_are_equal(typed, tmp_path):
    paths = [tmp_path / name for name in "abc"]
    for path, count, term in zip(paths, (6, 6, 4), (1, 2, 1), strict=True):
        with ReplicaLog(path) as log:
            log.append_entries(0, [(1, encode_delta(AddRecord("", 1, b"x")))] * 4)
            log.append_entries(4, [(term, encode_delta(AddRecord("", 1, b"y")))] * (count - 4))
    assert typed("diff", paths[0], paths[0])[0] == 2
    status, out, _ = typed("diff", *paths, "--json", "--limit", 1)
    report = json.loads(out)
    assert (status, list(report)) == (1, names(contract.DIFF_FIELDS))
    assert (report["verdict"], report["divergence"], len(report["rows"])) == ("diverged", {"position": 4}, 1)
    status, out, _ = typed("diff", *paths)
    assert (status, out.splitlines()[-1]) == (1, "verdict: diverged")
    assert "2 differ, the first at position=4" in out
    assert f"  position=4 differs in {paths[0]}, {paths[1]}" in out
    status, out, _ = typed("diff", paths[0], paths[2])
    assert (status, out.splitlines()[-1]) == (1, "verdict: behind")
    with ReplicaLog(paths[2]) as log:
        log.append_entries(4, [(1, encode_delta(AddRecord("", 1, b"y")))] * 2)
    status, out, _ = typed("diff", paths[0], paths[2])
    assert (status, out.splitlines()[-1]) == (0, "verdict: equal")


# tail


def test_tail_shows_the_last_entries(typed, queues):
    status, out, _ = typed("tail", queues, "--json", "-n", 3)
    rows = [json.loads(line) for line in out.splitlines()]
    assert (status, [row["position"] for row in rows]) == (0, [97, 98, 99])
    assert list(rows[0]) == [*names(contract.ENTRY_FIELDS)[:-1], "taskflux"]
    assert len(typed("tail", queues, "--json", "-n", 60, "--no-payload")[1].splitlines()) == 60
    assert typed("tail", queues, "-n", 0)[1] == ""
    assert len(typed("tail", queues)[1].splitlines()) == 11


def test_tail_puts_the_channels_of_a_log_in_the_order_of_epochs(typed, tmp_path):
    with Datastore(tmp_path / "log", snapshot=False) as store:
        channels = [store.channel(), store.channel()]
        for number in range(8):
            with channels[number % 2].session() as session:
                session.put(1, b"%d" % number, b"x")
            store.switch_epoch()
    _, out, _ = typed("tail", tmp_path / "log", "--json", "-n", 5)
    assert [bytes.fromhex(json.loads(line)["key"]) for line in out.splitlines()] == [
        b"3",
        b"4",
        b"5",
        b"6",
        b"7",
    ]


def test_tail_follows_a_live_log_over_segments_and_snapshots(tmp_path):
    path = tmp_path / "queues"
    with QueueStore(path, soft_limit=600, hard_limit=600, snapshot_threshold=1000) as store:
        store.queue().add(b"0")
        command = [sys.executable, "-m", "flintlog.cli.main", "tail", str(path), "-f", "--json"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as child:
            seen = []
            for number in range(1, 31):
                seen.append(json.loads(child.stdout.readline())["position"])
                store.queue().add(b"%d" % number)
                if number % 10 == 0:
                    store.snapshot() if seen[-1] == store.last_lsn else None
            seen.append(json.loads(child.stdout.readline())["position"])
            child.send_signal(signal.SIGINT)
            assert child.wait() == 130
    assert seen == list(range(31))
