"""What cannot be meant (a filter for what a log does not have, no path) is a mistake, and says so."""

from __future__ import annotations

import pytest
from tests.backup_logs import LOGS

from flintlog.cli.main import main
from flintlog.core.log import Log

STREAM = {"taskflux": "queue", "zmqraft": None, "mpy6a": "topic", "limestone": "storage"}


@pytest.fixture(params=STREAM)
def log(request, tmp_path):
    written = LOGS[request.param](tmp_path / "log")
    for _ in range(3):
        written.add()
    written.close()
    return request.param, str(tmp_path / "log")


def test_a_word_for_what_the_log_does_not_have_is_refused(log, capsys):
    dialect, path = log
    for word in ("queue", "topic", "storage"):
        status = main(["dump", path, f"--{word}", "1"])
        talk = capsys.readouterr().err
        if word == STREAM[dialect]:
            assert status == 0 and "log has no" not in talk
        else:
            assert status == 2 and f"log has no {word}s" in talk, talk
    assert main(["dump", path, "--stream", "1"]) == (2 if STREAM[dialect] is None else 0)


def test_a_kind_that_no_entry_is_of_is_refused_and_the_kinds_are_named(log, capsys):
    path = log[1]
    assert main(["dump", path, "--kind", "nonsense"]) == 2
    talk = capsys.readouterr().err
    kinds = talk.partition("There are ")[2].strip().split(", ")
    assert kinds
    for kind in kinds:
        assert main(["dump", path, "--kind", kind, "--limit", "1"]) == 0


def test_every_kind_of_a_log_can_be_asked_for(log, capsys):
    from flintlog.core.dialect import EntryQuery, detect
    from flintlog.disk import Disk

    disk = Disk()
    spoken = detect(disk, log[1])
    seen = set()
    for split in Log(spoken, disk, log[1]).splits(EntryQuery()):
        for batch in Log(spoken, disk, log[1]).read_split(split, EntryQuery()):
            seen |= set(batch.column("operation").to_pylist())
    assert seen <= set(spoken.operations)


@pytest.mark.parametrize("words", [["--from", "1,2,3"], ["--to", "1,2,3"], ["--hex", "--from", "1,2,3"]])
def test_what_is_no_position_here_is_refused(log, words, capsys):
    assert main(["dump", log[1], *words]) == 2
    assert f"is not a position of a{'n' if log[0] == 'mpy6a' else ''} {log[0]} log" in capsys.readouterr().err


@pytest.mark.parametrize(
    "verb", ["inspect", "state", "verify", "repair", "compact", "dump", "tail", "doctor"]
)
def test_an_empty_path_is_not_the_working_directory(verb, log, monkeypatch, capsys):
    monkeypatch.chdir(log[1])
    assert main([verb, ""]) == 2
    assert "the path is empty" in capsys.readouterr().err
