"""A directory has one writer: a second one is told whose it is, or waits for it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest

from flintlog import Datastore, LockedError, QueueStore, RaftStore, ReplicaLog, SessionStore

STORES = [QueueStore, ReplicaLog, RaftStore, SessionStore, Datastore]


@pytest.mark.parametrize("store", STORES)
def test_a_second_store_of_this_process_is_told_so(store, tmp_path):
    with (
        store(tmp_path / "log"),
        pytest.raises(LockedError, match="this process has this directory open") as told,
    ):
        store(tmp_path / "log")
    assert told.value.advice == "Use the store that is open, or close it first"
    store(tmp_path / "log").close()


@pytest.mark.parametrize("store", STORES)
def test_a_store_of_another_process_is_told_and_can_be_waited_for(store, tmp_path):
    holder = subprocess.Popen(
        [
            sys.executable, "-c",
            f"import flintlog\nwith flintlog.{store.__name__}({str(tmp_path / 'log')!r}):\n"
            "    print('open', flush=True)\n    input()",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    assert holder.stdout.readline() == "open\n"
    with pytest.raises(LockedError, match="another process has this directory open"):
        store(tmp_path / "log")
    with pytest.raises(LockedError, match="another process"):
        store(tmp_path / "log", wait=0.1)
    opened = []
    waiting = threading.Thread(target=lambda: opened.append(store(tmp_path / "log", wait=30)))
    waiting.start()
    time.sleep(0.2)
    assert not opened
    holder.communicate("\n")
    waiting.join()
    opened[0].close()


def test_a_child_that_forked_waits_for_its_parent(tmp_path):
    store = QueueStore(tmp_path)
    child = os.fork()
    if not child:
        with QueueStore(tmp_path, wait=30) as other:
            other.queue().add(b"by the child")
        os._exit(0)
    store.close()
    assert os.waitpid(child, 0)[1] == 0
    with QueueStore(tmp_path) as again:
        assert again.queue().peek().payload == b"by the child"
