"""The `flintlog` that plays the pages is the real one: it prints, reads, ends and is killed as a process of its own."""

from __future__ import annotations

import sys

import pytest
from scripts.pages.page_blocks import play

from flintlog import RaftStore


@pytest.mark.parametrize(
    "command",
    [
        "flintlog verify nowhere; echo $?",
        "flintlog dump peer --limit none; echo $?",
        "cd peer && flintlog state . --json | head -2",
        "echo x = 2 | flintlog snapshot peer --as-of 2 --data - --dry-run; echo $?",
        ": > it; flintlog tail peer -f >> it & until grep -q 'x 3' it; do sleep .1; done; kill $!; wait $!; echo $?",
    ],
)
def test_a_command_does_what_it_does_in_a_fresh_process(command, tmp_path):
    with RaftStore(tmp_path / "peer") as peer:
        peer.append_columns(1, [b"set x 1", b"set x 2", b"set x 3"])
    script = tmp_path / "flintlog"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m flintlog.cli.main "$@"\n')
    script.chmod(0o755)
    assert play(command, tmp_path) == play(f"PATH={tmp_path}:$PATH; {command}", tmp_path) != ""
