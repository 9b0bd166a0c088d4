"""What the tests of the command line share: typing a command in this process."""

from __future__ import annotations

import json

import pytest
from tests.golden_cases import snapshot_of

from flintlog.cli.main import main

READ_VERBS = (
    ["inspect"],
    ["inspect", "--json"],
    ["verify"],
    ["verify", "--json"],
    ["dump"],
    ["dump", "--json"],
    ["dump", "--hex"],
    ["state"],
    ["state", "--json"],
    ["repair"],
    ["repair", "--json", "--dry-run"],
)


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


@pytest.fixture
def check_read_verbs(typed):
    """No verb that reads, nor one of `more`, changes a byte; what one has to say of a failure is one line."""

    def check(path, *more):
        before = snapshot_of(path)
        for verb, *options in (*READ_VERBS, *more):
            status, _, talk = typed(verb, path, *options)
            assert status in (0, 1, 3, 4), (verb, options)
            assert "fault in flintlog" not in talk, (verb, options, talk)
            assert len(talk.splitlines()) <= 1, (verb, options)
            assert snapshot_of(path) == before, (verb, options)

    return check
