"""Every script in examples/ runs as it stands and prints what it is there to show."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SHOWN = {
    "embed_queue.py": [
        "refused (key-range): key 10 is outside 0..9, the range of queue 'jobs'. Give a key inside the range",
        "took id 2: rotate keys",
        "2 waiting, 1 handed out",
        "after a restart: ['rotate keys', 'renew certificate', 'send the report']",
        "done: rotate keys",
        "done: renew certificate",
        "done: send the report",
        "snapshot at LSN 6",
    ],
    "daily.py": [
        "entries: 2 new, up to 1",
        "state: 2 rows",
        "verify: clean",
        "compact: cmpct_0000 at epoch 1; 1 file removed",
        "entries: 2 new, up to 2",
        "state: 2 rows",
        "verify: clean",
        "compact: cmpct_0001 at epoch 2; 2 files removed",
        "entries: 0 new, up to 2",
        "state: as it was",
        "verify: clean",
        "compact: nothing to do",
    ],
    "worker_threads.py": [
        "100 jobs done, 8 of them at the second try",
        "0 waiting, 0 handed out, 201 entries in the log",
    ],
    "pysyncobj_journal.py": [
        "three nodes agree on 12 values",
        "every journal begins behind a dump now",
        "the leader was killed, another one leads, nothing acknowledged is lost",
        "the killed node is back and has caught up",
        "all three were killed at once and hold every acknowledged value again",
        "the three stores hold the same entries",
    ],
    "retry_sessions.py": [
        "3 calls wait, the next one until 60 s after noon",
        "minute 2: call Ada: answered at try 2",
        "minute 2: call Grace: answered at try 2",
        "given up after 3 tries: call nobody",
        "waiting: None, set aside: [b'call nobody']",
    ],
    "replicate.py": [
        "agreed on LSN 0 to 2",
        "LSN 3 of the follower is of term 3 now",
        "the leader's snapshot covers LSN 3",
        "the late node received it up to LSN 3",
        "leader: ['one', 'two', 'three', 'four']",
        "follower: ['one', 'two', 'three', 'four']",
        "late: ['one', 'two', 'three', 'four']",
    ],
}


def test_every_example_is_listed():
    assert sorted(path.name for path in (ROOT / "examples").glob("*.py")) == sorted(SHOWN)


@pytest.mark.parametrize("name", sorted(SHOWN))
def test_the_example_prints_what_it_is_there_to_show(name, tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / name), str(tmp_path / "place")],
        cwd=tmp_path,
        env=dict(os.environ, PYTHONPATH=str(ROOT / "src")),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == SHOWN[name]
    assert done.returncode == 0
