"""Standard streams that are closed, full or without a reader: a status, at most one line, never a trace."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from flintlog import QueueStore, RaftStore

VERBS = [
    "inspect q",
    "dump q",
    "dump q --decode json",
    "verify q --json",
    "state q",
    "repair q",
    "completion bash",
]
HELP = ["--help", "--version", "inspect --help"]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("streams")
    with QueueStore(home / "q") as store:
        store.queue().add(b"x")
    with RaftStore(home / "r") as store:
        store.append_columns(1, [b"x"])
    return home


def typed(home, words, redirections):
    """Status and what reached the standard error of a command as a shell runs it."""
    line = f'"{sys.executable}" -m flintlog.cli.main {words} {redirections}; exit ${{PIPESTATUS[0]}}'
    done = subprocess.run(
        ["bash", "-c", line], cwd=home, capture_output=True, text=True, timeout=120, check=False
    )
    assert "Traceback" not in done.stderr and "fault in flintlog" not in done.stderr
    assert "Exception ignored" not in done.stderr
    return done.returncode, done.stderr


@pytest.mark.sampled(4)
@pytest.mark.parametrize("words", [*VERBS, *HELP])
def test_a_closed_stream_leads_nowhere_and_the_status_is_that_of_the_verb(home, words):
    for closed in (">&-", "2>&-", "<&-", "<&- >&- 2>&-"):
        assert typed(home, words, closed)[0] == 0, closed


def test_a_closed_stream_hides_no_failure(home):
    for closed in (">&-", "2>&-", "<&-", "<&- >&- 2>&-", "2>/dev/full", ">/dev/full"):
        assert typed(home, "inspect nowhere", closed)[0] == 4, closed
        assert typed(home, "export", closed)[0] == 2, closed


@pytest.mark.parametrize("words", VERBS)
def test_output_that_cannot_be_written_is_told_in_one_line(home, words):
    status, talk = typed(home, words, ">/dev/full")
    assert (status, talk.count("\n")) == (3, 1)
    assert talk.startswith("flintlog: the output could not be written: No space left on device")


@pytest.mark.parametrize("words", VERBS)
def test_a_reader_that_has_gone_ends_a_verb_quietly(home, words):
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "flintlog.cli.main", *words.split()]
    with open(write, "wb") as pipe:
        done = subprocess.run(
            command, cwd=home, stdout=pipe, stderr=subprocess.PIPE, check=False, timeout=120
        )
    assert (
        done.returncode == 141 and b"Traceback" not in done.stderr and b"Exception ignored" not in done.stderr
    )


@pytest.mark.parametrize("words", HELP)
def test_help_that_cannot_be_written_leaves_no_trace(home, words):
    assert typed(home, words, ">/dev/full")[0] in (0, 3)  # the parser of Python keeps some failures to itself


def test_no_state_is_taken_from_an_input_that_is_closed_or_no_file(home):
    words = "snapshot r --as-of 1 --data -"
    assert typed(home, words, "<&-") == (
        2,
        "flintlog: the standard input is closed. Pipe the state to --data -\n",
    )
    told = "flintlog: the standard input cannot be read: Bad file descriptor. Nothing was changed\n"
    assert typed(home, words, "0>/dev/null") == (2, told)
