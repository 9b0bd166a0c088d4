"""The table of docs/verbs/README.md: each cell is typed, on a small log of its dialect, and says what then happens."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest
from scripts.pages.page_blocks import ROOT
from tests.backup_logs import LOGS
from tests.limestone.directories import Directory, session

from flintlog.cli.main import VERBS, main
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone.layout import Manifest

PAGE = ROOT / "docs" / "verbs" / "README.md"
DIALECTS = ("taskflux", "zmqraft", "mpy6a", "limestone")
POSITION = {"taskflux": "5", "zmqraft": "5", "mpy6a": "1,5", "limestone": "5"}
NEWEST = {
    "taskflux": "data/log/*.log",
    "zmqraft": "log/*/*/*/*.rlog",
    "mpy6a": "operations.log",
    "limestone": "pwal_*",
}
PREPARE = {
    "repair --undo": ["repair damaged --apply"],
    "backup list": ["backup log place"],
    "backup verify": ["backup log place"],
    "restore": ["backup log place"],
    "restore --to": ["backup log place"],
}
COMMANDS = {
    "inspect": "inspect log",
    "dump": "dump log --limit 3",
    "dump --reverse": "dump log --reverse --limit 3",
    "dump --decode": "dump log --decode text --limit 3",
    "dump --hex": "dump log --hex --limit 1",
    "tail": "tail log -n 3",
    "tail -f": "tail live -f -n 1 --json",
    "state": "state log",
    "state --as-of": "state log --as-of POSITION",
    "verify": "verify log",
    "repair": "repair damaged",
    "repair --apply": "repair damaged --apply",
    "repair --undo": "repair damaged --undo",
    "snapshot": "snapshot log",
    "snapshot --data": "snapshot log --as-of POSITION --data state.bin",
    "compact": "compact closed",
    "migrate": "migrate older",
    "migrate --edition": "migrate log --edition shipped --to other",
    "backup": "backup log place",
    "backup list": "backup list place",
    "backup verify": "backup verify place",
    "restore": "restore place restored",
    "restore --to": "restore place restored --to POSITION",
    "export": "export log lake",
    "export --view state": "export log lake --view state --format ndjson",
    "diff": "diff log longer",
    "web": "web log --json",
    "doctor": "doctor log --rounds 2",
    "completion": "completion bash",
}
# A plan for a directory that is damaged; replicas that differ; what goes on until it is interrupted.
FINE = {"repair": (1, 3), "diff": (1,), "tail -f": (130,), "web": (130,)}


def write_logs(dialect, home):
    """A log as a crash left it, a little later (`longer`), closed, and then damaged; and one of an older version."""
    log = LOGS[dialect](home / "closed")
    for name in ("log", "longer"):
        for _ in range(12):
            log.add()
        shutil.copytree(home / "closed", home / name)
    if dialect == "zmqraft":
        log.store.snapshot(20, b"what the application knows", prune=False)
    log.close()
    shutil.copytree(home / "closed", home / "damaged", symlinks=True)
    newest = max((home / "damaged").glob(NEWEST[dialect]))
    with newest.open("r+b") as file:
        file.truncate(newest.stat().st_size - 3)
    if dialect == "limestone":
        old = Directory(home / "older", "designed").start(1).log(session(1, "a", "b"))
        old.write(lay.MANIFEST_FILE, Manifest(1).encode())
    else:
        shutil.copytree(home / "log", home / "older")
    (home / "state.bin").write_bytes(b"what the application knows")


def typed(capsys, command, dialect):
    capsys.readouterr()
    status = main(command.replace("POSITION", POSITION[dialect]).split())
    return status, *capsys.readouterr()


@contextmanager
def running(row, directory):
    """A command that goes on until it is interrupted, in a process of its own; it ends with SIGINT."""
    words = COMMANDS[row].replace(directory, str(Path(directory).resolve())).split()
    with subprocess.Popen(
        [sys.executable, "-m", "flintlog.cli.main", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:
        watchdog = threading.Timer(120, process.kill)
        watchdog.start()
        yield process
        process.send_signal(signal.SIGINT)
        process.communicate()
        watchdog.cancel()


def followed(dialect):
    """`tail -f` beside a store that writes, until it has shown what came."""
    log = LOGS[dialect](Path("live").resolve())
    log.add()
    with running("tail -f", "live") as tail:
        before = tail.stdout.readline()
        log.add()
        came = tail.stdout.readline()
    log.close()
    assert before and came and before != came, dialect
    return tail.returncode, came, ""


def served(dialect):
    """`web`, until it has answered."""
    with running("web", "log") as web:
        told = web.stdout.readline()
        with urlopen(json.loads(told)["url"] + "api/log/inspect", timeout=60) as answer:
            assert json.load(answer)["dialect"] == dialect
    return web.returncode, told, ""


GOING_ON = {"tail -f": followed, "web": served}


def cell(capsys, row, dialect):
    """`works`, or the reason that the command gives."""
    for command in PREPARE.get(row, []):
        assert typed(capsys, command, dialect)[0] == 0, command
    if row in GOING_ON:
        status, out, talk = GOING_ON[row](dialect)
    else:
        status, out, talk = typed(capsys, COMMANDS[row], dialect)
    if status in FINE.get(row, (0,)):
        assert out.strip(), row
        assert "nothing to do" not in out and "refused" not in out, row
        return "works"
    assert status in (2, 3), (row, status, talk)
    reason = re.fullmatch(r"flintlog: (?:/\S+: )?(.+?)(?:\. .*)?\n", talk)
    assert reason, (row, talk)
    return reason[1]


def column(dialect):
    """What the page says of a dialect, by row."""
    lines = re.findall(r"^\| `(.+?)` \| (.+) \|$", PAGE.read_text(), re.MULTILINE)
    return {name: cells.split(" | ")[DIALECTS.index(dialect)] for name, cells in lines}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_cell_says_what_the_command_does(dialect, tmp_path, monkeypatch, capsys):
    write_logs(dialect, tmp_path / "made")
    found = {}
    for number, row in enumerate(COMMANDS):
        home = tmp_path / str(number)
        shutil.copytree(tmp_path / "made", home, symlinks=True)
        monkeypatch.chdir(home)
        found[row] = cell(capsys, row, dialect)
    assert column(dialect) == found


def page_of(verb):
    return ROOT / "docs" / "web.md" if verb == "web" else PAGE.with_name(f"{verb}.md")


def test_every_verb_has_a_row_and_a_page():
    assert {row.split()[0] for row in COMMANDS} == {verb.name for verb in VERBS}
    missing = [verb.name for verb in VERBS if not page_of(verb.name).is_file()]
    assert missing == []


@pytest.mark.parametrize("verb", [verb.name for verb in VERBS if verb.name != "web"])
def test_the_page_of_a_verb_is_complete_and_not_long(verb):
    page = page_of(verb).read_text()
    assert page.startswith(f"# {verb}\n")
    sections = re.findall(r"^## (.*)$", page, re.MULTILINE)
    assert {"A session", "Options", "What it reads and writes", "Exit status"} <= set(sections)
    assert 40 <= len(page.splitlines()) <= 170
