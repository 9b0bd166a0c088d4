"""Arguments and names that no person types: one clear line and a status, whatever they are."""

from __future__ import annotations

import os
import shutil
import socket
from contextlib import chdir

import pytest

from flintlog import QueueStore
from flintlog.cli.main import VERBS, main

pytestmark = pytest.mark.usefixtures("still")

ODD = ["", "\0", "a\0b", "\udcff", "a\nb", "\x1b[2J", "x" * 300, "x" * 5000, "..", "9" * 5000]
ON_A_DIRECTORY = [verb.name for verb in VERBS if verb.takes_directory and verb.name != "restore"]
LOOKS = [
    ["inspect"],
    ["dump"],
    ["dump", "--hex"],
    ["tail"],
    ["state"],
    ["verify"],
    ["repair"],
    ["snapshot", "--dry-run"],
    ["compact", "--dry-run"],
    ["repair", "--undo"],
]


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    home = tmp_path_factory.mktemp("odd") / "log"
    with QueueStore(home) as store:
        store.queue().add(b"x")
    return home


def typed(capsys, words):
    """The status; what is told is checked to be one clear line."""
    try:
        status = main([str(word) for word in words])
    except SystemExit as end:
        status = end.code
    out, talk = capsys.readouterr()
    assert "fault in flintlog" not in talk and "Traceback" not in talk, (words, talk)
    assert "\x1b" not in out + talk and "\udcff" not in out + talk
    assert status in (0, 1, 2, 3, 4)
    if status in (2, 4) and "usage: flintlog" not in talk:
        assert talk.startswith("flintlog: ") and talk.count("\n") == 1
    return status


@pytest.mark.parametrize("odd", ODD)
def test_a_directory_that_cannot_be_is_refused_in_one_line(odd, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for verb in ON_A_DIRECTORY:
        assert typed(capsys, [verb, odd]) in (2, 3, 4)


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize(
    "words",
    [
        ["backup", "{log}"],
        ["export", "{log}", "--format", "ndjson"],
        ["diff", "{log}"],
        ["migrate", "{log}", "--edition", "shipped", "--to"],
        ["snapshot", "{log}", "--data"],
        ["snapshot", "{log}", "--as-of"],
        ["dump", "{log}", "--file"],
        ["dump", "{log}", "--queue"],
        ["dump", "{log}", "--operation"],
        ["dump", "{log}", "--key"],
        ["dump", "{log}", "--from"],
        ["dump", "{log}", "--limit"],
        ["dump", "{log}", "--decode"],
        ["tail", "{log}", "-n"],
        ["state", "{log}", "--as-of"],
        ["repair", "{log}", "--undo"],
        ["web", "{log}", "--host"],
    ],
)
def test_an_odd_word_is_told_in_one_line(words, odd, log, capsys, tmp_path, monkeypatch):
    (tmp_path / "in").mkdir()
    monkeypatch.chdir(tmp_path / "in")
    if words[0] == "web" and odd == "":
        return  # everybody is served
    typed(capsys, [word.format(log=log) for word in words] + [odd])


def names(folder):
    for name in (b"a\nb", b"\xff\xfe.log", b"x" * 255, b"\x1b[2J", b"..."):
        (folder / os.fsdecode(name)).write_bytes(b"?")
    os.mkfifo(folder / "pipe")
    (folder / "dangling").symlink_to("nowhere")
    bind(folder / "socket")


def bind(path):
    """A socket among files; its address may be no longer than a line."""
    with chdir(path.parent), socket.socket(socket.AF_UNIX) as unbound:
        unbound.bind(path.name)


@pytest.mark.parametrize("where", ["", "data", "data/log", "data/temp"])
def test_odd_names_in_a_directory_are_shown_so_that_a_terminal_stands_still(where, log, capsys, tmp_path):
    shutil.copytree(log, tmp_path / "log")
    (tmp_path / "log" / where).mkdir(exist_ok=True)
    names(tmp_path / "log" / where)
    for words in LOOKS:
        status = typed(capsys, [words[0], tmp_path / "log", *words[1:]])
        refused = "--undo" in words or ("--hex" in words and where == "data/temp")  # a pipe is not read
        assert status == (3 if refused else 0), words


@pytest.mark.parametrize(
    "file", ["data/tflux.metadata", "data/log/0000000000000000000.log", "data/log", "data/temp"]
)
@pytest.mark.parametrize("becomes", ["a directory", "a file", "a pipe", "a socket", "a loop", "nothing"])
def test_a_file_of_another_kind_is_told(file, becomes, log, capsys, tmp_path):
    shutil.copytree(log, tmp_path / "log")
    path = tmp_path / "log" / file
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    match becomes:
        case "a directory":
            path.mkdir()
        case "a file":
            path.write_bytes(b"?")
        case "a pipe":
            os.mkfifo(path)
        case "a socket":
            bind(path)
        case "a loop":
            path.symlink_to(path.name)
    for words in LOOKS:
        typed(capsys, [words[0], tmp_path / "log", *words[1:]])


@pytest.mark.parametrize("where", ["data", "data/kept", "elsewhere"])
def test_a_link_to_itself_is_told_with_its_place_or_does_not_matter(where, log, capsys, tmp_path):
    shutil.copytree(log, tmp_path / "log")
    (tmp_path / "log" / where).mkdir(exist_ok=True)
    (tmp_path / "log" / where / "loop").symlink_to("loop")
    for words in LOOKS:
        status = main([words[0], str(tmp_path / "log"), *words[1:]])
        talk = capsys.readouterr().err
        assert "could not be written" not in talk and "fault" not in talk
        if "--undo" not in words:
            assert status == (3 if where == "data" else 0), (words, talk)
            assert ("loop: stat failed: Too many levels of symbolic links" in talk) == (where == "data")
