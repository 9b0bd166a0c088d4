"""What the tests of the command line share: typing a command in this process."""

from __future__ import annotations

import json

import pytest

from flintlog.cli.main import main


@pytest.fixture
def typed(capsys):
    """Type a command: its status, what it printed, and what it said on the standard error."""

    def run(*words):
        capsys.readouterr()
        status = main([str(word) for word in words])
        return status, *capsys.readouterr()

    return run


@pytest.fixture
def told(typed):
    """Type a command: its status, the JSON objects that it printed, and all that it said."""

    def run(*words):
        status, out, talk = typed(*words)
        return status, [json.loads(line) for line in out.splitlines() if line.startswith("{")], out + talk

    return run
