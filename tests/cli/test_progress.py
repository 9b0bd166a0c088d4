"""Progress: rate and time left on a terminal, nothing in a pipe."""

from __future__ import annotations

import io
import json

import pytest

from flintlog import QueueStore
from flintlog.cli.main import main
from flintlog.cli.progress import UNKNOWN, Meter, ProgressLine, progress, progress_text


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.mark.parametrize(
    ("done", "total", "elapsed", "text"),
    [
        (0, 1 << 30, 0.0, "verify: 0% of 1.0 GiB, 0 B/s"),
        (512 << 20, 1 << 30, 1.0, "verify: 50% of 1.0 GiB, 512.0 MiB/s, 1 s left"),
        (1 << 20, 1 << 30, 1.0, "verify: 0% of 1.0 GiB, 1.0 MiB/s, 17 min 3 s left"),
        (1 << 20, 1 << 40, 1.0, "verify: 0% of 1.0 TiB, 1.0 MiB/s, 291 h 16 min left"),
        (9, 9, 1.0, "verify: 100% of 9 B, 9 B/s, 0 s left"),
        (12, 9, 1.0, "verify: 100% of 9 B, 12 B/s, 0 s left"),
        (0, 0, 1.0, "verify: 100% of 0 B, 0 B/s"),
    ],
)
def test_progress_tells_share_rate_and_time_left(done, total, elapsed, text):
    assert progress_text("verify", done, total, elapsed) == text


def test_the_line_is_drawn_over_itself_ten_times_a_second_at_most_and_erased():
    clock, stream = Clock(), io.StringIO()
    line = ProgressLine("verify", stream, clock)
    for step in range(1, 101):
        clock.now = 100.0 + step / 100
        line(step, 100)
    drawn = stream.getvalue().count("\r")
    assert 5 <= drawn <= 10
    assert "\n" not in stream.getvalue()
    line.erase()
    assert stream.getvalue().endswith("\r\x1b[K")


def test_what_ends_at_once_draws_nothing():
    clock, stream = Clock(), io.StringIO()
    line = ProgressLine("verify", stream, clock)
    line(100, 100)
    line.erase()
    assert stream.getvalue() == ""


def test_in_a_pipe_there_is_no_progress(capsys):
    with progress("verify") as tick:
        assert type(tick) is Meter
        tick(1, 2)
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


def test_progress_of_an_unknown_total_tells_what_was_written():
    assert progress_text("compact", 1 << 30, UNKNOWN, 2.0) == "compact: 1.0 GiB written, 512.0 MiB/s"


@pytest.mark.parametrize(
    "words",
    [
        ["verify"],
        ["state"],
        ["dump"],
        ["repair"],
        ["snapshot"],
        ["compact"],
        ["export", "{new}"],
        ["migrate", "--edition", "shipped", "--to", "{new}"],
    ],
)
def test_every_long_verb_tells_its_progress_to_programs(words, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("flintlog.cli.progress._REDRAW_SECONDS", 0)
    with QueueStore(tmp_path / "log") as store:
        store.queue().add(b"payload")
    verb, *options = (word.format(new=tmp_path / "new") for word in words)
    assert main([verb, str(tmp_path / "log"), *options, "--progress", "json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["finished"] for line in lines] == [False] * (len(lines) - 1) + [True]
    assert {line["verb"] for line in lines} == {verb}
    assert verb == "repair" or lines[-1]["done_bytes"] > 0


def test_a_verb_that_fails_tells_no_end(tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    assert main(["verify", str(tmp_path / "empty"), "--progress", "json"]) == 4
    assert "finished" not in capsys.readouterr().err
