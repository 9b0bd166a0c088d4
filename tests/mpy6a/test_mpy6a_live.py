"""Every way to read a directory, while a process writes to it, shows what was there at one moment."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.mpy6a.stores import LONG, SHORT

from flintlog.cli.main import main
from flintlog.core.backup import take_backup
from flintlog.core.dialect import EntryQuery
from flintlog.core.finding import Severity
from flintlog.core.follow import Limits, beginning, step
from flintlog.core.live import holding
from flintlog.core.log import Log
from flintlog.dialects.mpy6a.dialect import DIALECT
from flintlog.disk import Disk
from flintlog.errors import UnsupportedError

DISK = Disk()
LOOKS = 25


@pytest.fixture(params=["ordinary", "strict"])
def live(request, tmp_path: Path) -> Iterator[str]:
    """A directory with a process that writes to it."""
    path = tmp_path / "sessions"
    command = [sys.executable, "-m", "tests.mpy6a.live_load", str(path), request.param]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as writer:
        try:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"ready\n"
            yield str(path)
            assert writer.poll() is None
        finally:
            writer.kill()


def assert_was_true(sessions: list[tuple[int, int]]) -> None:
    """Topics and numbers that were there together: see `live_load`."""
    newest = {}
    for topic in (SHORT, LONG):
        numbers = sorted(number for which, number in sessions if which == topic)
        assert numbers == list(range(numbers[0], numbers[-1] + 1)) if numbers else True
        newest[topic] = numbers[-1] if numbers else None
    if None not in newest.values():
        assert newest[SHORT] - newest[LONG] in (0, 1)


def test_a_healthy_directory_is_healthy_while_it_is_written(live):
    for _ in range(LOOKS):
        for found in (Log(DIALECT, DISK, live).inspect(), Log(DIALECT, DISK, live).verify()):
            wrong = [item for item in found.findings if item.severity is not Severity.NOTE]
            # What a writer is slow to finish looks like what a crash leaves, and is called so.
            assert all(item.message.startswith("torn tail") for item in wrong), wrong


def test_the_state_is_one_that_was_true_at_a_moment(live):
    for _ in range(LOOKS):
        rows = [row for batch in Log(DIALECT, DISK, live).state() for row in batch.to_pylist()]
        assert_was_true([(row["topic"], int(row["data"])) for row in rows])
        assert [row["replay_time"] for row in rows] == sorted(row["replay_time"] for row in rows)


def test_a_state_that_is_read_slowly_stays_the_same(live):
    for _ in range(5):
        batches = iter(Log(DIALECT, DISK, live).state())
        rows = next(batches).to_pylist()
        Log(DIALECT, DISK, live).verify()
        rows += [row for batch in batches for row in batch.to_pylist()]
        assert_was_true([(row["topic"], int(row["data"])) for row in rows])


def test_entries_and_bytes_of_a_held_directory_are_all_read(live):
    for _ in range(LOOKS):
        with holding(DISK, live) as held:
            splits = Log(DIALECT, held, live).splits(EntryQuery())
            read = [
                batch.num_rows
                for split in splits
                for batch in Log(DIALECT, held, live).read_split(split, EntryQuery())
            ]
        assert sum(read) > 0
        for query in (None, EntryQuery()):
            assert sum(len(field.data) for field in Log(DIALECT, DISK, live).fields(query)) > 0


def test_a_dump_reads_what_there_was(live, capsys):
    for _ in range(5):
        assert main(["dump", live, "--json"]) == 0
        assert main(["dump", live, "--hex", "--json"]) == 0
    assert capsys.readouterr().err == ""


def test_a_picture_and_a_backup_are_of_one_moment(live, tmp_path):
    for number in range(5):
        assert Log(DIALECT, DISK, live).picture().parts
        taken = take_backup(DISK, live, str(tmp_path / f"backups-{number}"))
        rows = [row for batch in Log(DIALECT, DISK, taken.path).state() for row in batch.to_pylist()]
        assert_was_true([(row["topic"], int(row["data"])) for row in rows])


def test_a_follower_of_a_held_directory_reads_on_or_is_told_what_it_missed(live):
    if DISK.stat(f"{live}/operations.log") is None:
        with pytest.raises(UnsupportedError):  # nothing tells in which order a strict store wrote
            step(Log(DIALECT, DISK, live).follower(), beginning(), Limits())
        return
    place, rows = beginning(), 0
    for _ in range(LOOKS):
        with holding(DISK, live) as held:
            place, batches = step(Log(DIALECT, held, live).follower(), place, Limits(), "report")
            rows += sum(batch.num_rows for batch in batches)
    assert rows > LOOKS
