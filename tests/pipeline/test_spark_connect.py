"""Spark Connect: a client that has no JVM reads, writes and is refused as any other session is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from flintlog.dialects.taskflux.store import QueueStore

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """What one client saw of a log through one server."""
    log = tmp_path_factory.mktemp("connect") / "queues"
    with QueueStore(log) as store:
        store.queue().add_many([b"tea", b"milk", b"salt"])
        store.queue().take().ack()
    script = Path(__file__).with_name("connected.py")
    done = subprocess.run([sys.executable, str(script), str(log)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_client_reads_a_log_its_state_and_sql(seen):
    assert seen["client"] == "pyspark.sql.connect.session"
    assert seen["operations"] == ["add", "add", "add", "remove"]
    assert seen["state"] == ["milk", "salt"]
    assert seen["sql"] == ["remove"]


def test_conditions_of_a_client_are_right(seen):
    assert seen["filtered"] == 1


def test_a_client_writes_a_log(seen):
    assert seen["written"] == 2


def test_a_client_is_told_which_option_is_wrong_and_what_to_do(seen):
    assert "UsageError: option view: 'rows' is not a view\nChoose one of: entries, state" in seen["refused"]
