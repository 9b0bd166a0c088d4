"""The command itself: usage, errors in one line, exit statuses, terminals, pipes and interrupts."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import time

import pytest
from tests.golden_cases import materialise

from flintlog.cli.main import VERBS, main

COMMAND = [sys.executable, "-m", "flintlog.cli.main"]


def run(*arguments, **options):
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=False, **options)


def directory_verbs():
    extra = {"migrate": ("--edition", "designed", "--to", "elsewhere"), "export": ("elsewhere",)}
    return [(verb.name, *extra.get(verb.name, ())) for verb in VERBS if verb.takes_directory]


def test_version_names_the_release():
    done = run("--version")
    assert done.returncode == 0
    assert re.fullmatch(r"flintlog \d+\.\d+\.\d+\S*\n", done.stdout)


def test_help_lists_every_verb_and_the_exit_statuses():
    done = run("--help")
    assert done.returncode == 0
    for verb in VERBS:
        assert re.search(rf"\n    {verb.name}\s", done.stdout)
    for status in range(5):
        assert f"\n  {status}  " in done.stdout


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_the_help_of_every_verb_has_an_example_that_parses(verb, capsys):
    with pytest.raises(SystemExit) as caught:
        main([verb.name, "--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert "--json" in text
    assert verb.examples
    for example in verb.examples:
        assert f"  {example}\n" in text
        assert example.split()[:2] == ["flintlog", verb.name]


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["explode", "queues"],
        ["export"],
        ["verify", "queues", "--colour"],
        ["dump", "queues", "--from", "x"],
        ["dump", "queues", "--limit", "-1"],
        ["state", "queues", "--as-of", "1.5"],
        ["migrate", "queues", "--edition"],
    ],
)
def test_wrong_usage_exits_with_2_and_prints_nothing_on_stdout(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "usage: flintlog" in captured.err


@pytest.mark.parametrize("arguments", directory_verbs(), ids=lambda arguments: arguments[0])
def test_a_directory_that_is_not_there_exits_with_4(arguments, tmp_path, capsys):
    verb, *rest = arguments
    missing = tmp_path / "missing"
    assert main([verb, str(missing), *rest]) == 4
    captured = capsys.readouterr()
    assert captured.out == ""
    expected = f"flintlog: {missing}: there is no such directory. Check the spelling of the path\n"
    assert captured.err == expected
    assert not missing.exists()


@pytest.mark.parametrize("arguments", directory_verbs(), ids=lambda arguments: arguments[0])
def test_a_directory_of_something_else_exits_with_4_and_stays_as_it_is(arguments, tmp_path, capsys):
    verb, *rest = arguments
    (tmp_path / "letter.txt").write_text("dear reader")
    assert main([verb, str(tmp_path), *rest]) == 4
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "no dialect recognises this directory" in captured.err
    assert len(captured.err.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_debug_shows_the_trace_in_front_of_the_line(tmp_path, capsys):
    assert main(["verify", str(tmp_path / "missing"), "--debug"]) == 4
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("Traceback")
    assert lines[-1].startswith("flintlog: ")


def test_a_fault_of_ours_is_one_line_and_not_a_trace(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("flintlog.cli.look.named_log", lambda arguments: 1 / 0)
    assert main(["verify", str(tmp_path)]) == 3
    assert capsys.readouterr().err == (
        "flintlog: ZeroDivisionError: division by zero. This is a fault in flintlog; --debug shows where\n"
    )


def test_an_interrupt_ends_with_130_and_a_word(tmp_path, monkeypatch, capsys):
    def interrupted(arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("flintlog.cli.look.named_log", interrupted)
    assert main(["verify", str(tmp_path)]) == 130
    assert capsys.readouterr().err == "flintlog: interrupted; nothing was changed\n"


def test_ctrl_c_in_a_real_process_leaves_no_trace_on_the_screen(tmp_path):
    """The dump blocks on a full pipe, as it does behind `less`, and is interrupted there."""
    log = materialise("cluster-node0", tmp_path)
    loop = (
        "import signal, sys; from flintlog.cli import dump; from flintlog.cli.main import main\n"
        # A job in the background of a shell starts with interrupts ignored.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "once = dump._batches\n"
        "def forever(*arguments):\n"
        "    while True: yield from once(*arguments)\n"
        "dump._batches = forever\n"
        f"sys.exit(main(['dump', {str(log)!r}]))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", loop], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline().startswith("file")
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        _, talk = process.communicate(timeout=60)
    assert process.returncode == 130
    assert talk == "flintlog: interrupted; nothing was changed\n"


def test_a_reader_that_stops_reading_is_no_error(tmp_path):
    log = materialise("cluster-node0", tmp_path)
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [*COMMAND, "dump", str(log), "--json"],
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    finally:
        os.close(writing)
    assert done.stderr == ""
    assert done.returncode == 141


def test_a_full_disk_behind_the_output_is_told_and_refused(tmp_path):
    log = materialise("single-segment", tmp_path)
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*COMMAND, "state", str(log)], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 3
    assert done.stderr == "flintlog: the output could not be written: No space left on device\n"


def on_a_terminal(*arguments, **environment):
    """What the command prints when its output is a terminal."""
    mine, its = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, *arguments],
        stdin=its,
        stdout=its,
        stderr=subprocess.PIPE,
        env={**os.environ, "TERM": "xterm", **environment},
    ) as process:
        os.close(its)
        parts = []
        while True:
            try:
                part = os.read(mine, 65536)
            except OSError:
                break
            if not part:
                break
            parts.append(part)
        process.wait()
    os.close(mine)
    return b"".join(parts).decode().replace("\r\n", "\n")


def test_a_terminal_gets_colour_and_a_pipe_and_no_color_get_plain_text(tmp_path):
    log = str(materialise("single-segment", tmp_path))
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    plain = run("verify", log, env=environment).stdout
    coloured = on_a_terminal("verify", log, NO_COLOR="", COLUMNS="500")
    assert "\x1b" not in plain
    assert "\x1b[32mclean\x1b[0m" in coloured
    assert re.sub(r"\x1b\[\d+m", "", coloured) == plain
    assert on_a_terminal("verify", log, NO_COLOR="1", COLUMNS="500") == plain


def test_lines_fit_a_narrow_terminal(tmp_path):
    log = str(materialise("snapshot-plus-suffix", tmp_path))
    lines = on_a_terminal("dump", log, NO_COLOR="1", COLUMNS="70").splitlines()
    assert len(lines) > 5
    assert max(len(line) for line in lines) <= 70
