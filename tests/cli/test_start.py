"""The command line starts fast: what is heavy is loaded when it is needed, and not before."""

from __future__ import annotations

import subprocess
import sys

import pytest

from flintlog import Datastore, QueueStore, RaftStore, SessionStore, Topic
from flintlog.dialects.zmqraft.layout import Entry

HEAVY = {"numba", "llvmlite", "pyarrow", "pyspark", "pandas"}


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """A small directory of each dialect."""
    home = tmp_path_factory.mktemp("small")
    with QueueStore(home / "taskflux") as queues:
        queues.queue().add(b"x")
    with RaftStore(home / "zmqraft") as peer:
        peer.append([Entry(1, b"x")])
    with SessionStore(home / "mpy6a", topics=[Topic(1, 30)]) as sessions:
        sessions.put(1, b"x", now=1_700_000_000)
    with Datastore(home / "limestone") as store:
        with store.channel().session() as session:
            session.put(1, b"k", b"v")
        store.switch_epoch()
    return home


def loaded(*words):
    """The libraries that a command loads."""
    code = (
        "import sys\nfrom flintlog.cli.main import main\n"
        f"try:\n    status = main({list(map(str, words))!r})\nexcept SystemExit as end:\n    status = end.code or 0\n"
        "print(*sys.modules, file=sys.stderr)\nsys.exit(status)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["doctor", "--help"], ["repair", "--help"]])
def test_help_loads_nothing_heavy(words):
    assert not loaded(*words) & (HEAVY | {"numpy"})


@pytest.mark.parametrize("dialect", ["taskflux", "zmqraft", "mpy6a", "limestone"])
def test_a_look_at_a_small_directory_loads_nothing_heavy(dialect, logs):
    assert not loaded("inspect", logs / dialect) & HEAVY
    assert not loaded("verify", logs / dialect) & (HEAVY - {"pyarrow"})
    assert dialect == "limestone" or not loaded("verify", logs / dialect) & HEAVY
