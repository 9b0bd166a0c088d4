"""`doctor` and `completion`: they tell of this machine, and leave nothing behind."""

from __future__ import annotations

import io
import json
import subprocess

import pytest
from scripts.pages import contract

from flintlog.cli.doctor import _advice
from flintlog.cli.main import VERBS, main
from flintlog.cli.terminal import Screen

GOOD = {
    "file_system": "ext4",
    "mount_options": "rw,relatime",
    "free_bytes": 1 << 40,
    "files": 1000,
    "free_files": 900,
    "lock": True,
    "sync_p50_seconds": 1e-3,
    "numba_cache": "/cache",
    "java": "21",
    "packages": {"pyspark": "4.1"},
}


def test_doctor_tells_the_disk_and_leaves_nothing_behind(tmp_path, capsys):
    assert main(["doctor", str(tmp_path), "--json", "--rounds", "5"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found) == [name for name, _ in contract.DOCTOR_FIELDS]
    assert found["lock"] is True
    assert 0 < found["sync_p50_seconds"] <= found["sync_p99_seconds"]
    assert 0 < found["rename_p50_seconds"] <= found["rename_p99_seconds"]
    assert found["size_bytes"] > found["free_bytes"] > 0
    assert found["packages"]["pyarrow"]
    assert list(tmp_path.iterdir()) == []
    assert main(["doctor", str(tmp_path), "--rounds", "1"]) == 0
    assert "write and fdatasync: half within" in capsys.readouterr().out


def test_doctor_without_measuring_writes_nothing(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("flintlog.disk.kernel.LocalKernel.pwrite", None)
    assert main(["doctor", str(tmp_path), "--json", "--rounds", "0"]) == 0
    assert json.loads(capsys.readouterr().out)["lock"] is None


def test_doctor_where_nothing_can_be_written_says_so(tmp_path, capsys, monkeypatch):
    def refuse(*_):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("flintlog.disk.kernel.LocalKernel.open", refuse)
    assert main(["doctor", str(tmp_path)]) == 0
    assert "nothing can be written here" in capsys.readouterr().out


def test_doctor_of_no_directory(tmp_path, capsys):
    assert main(["doctor", str(tmp_path / "gone")]) == 4
    assert "no such directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("bad", "word"),
    [
        ({"file_system": "tmpfs"}, "memory"),
        ({"file_system": "nfs4"}, "network"),
        ({"mount_options": "rw,nobarrier"}, "nobarrier"),
        ({"free_bytes": 1 << 20}, "are free"),
        ({"free_files": 1}, "inodes"),
        ({"lock": False}, "flock"),
        ({"sync_p50_seconds": 0.2}, "slow"),
        ({"sync_p50_seconds": 1e-6}, "cache may answer"),
        ({"numba_cache": None}, "NUMBA_CACHE_DIR"),
        ({"java": None}, "no Java"),
        ({"packages": {"pyspark": None}}, "pip install pyspark"),
    ],
)
def test_advice_where_something_is_bad(bad, word):
    assert list(_advice(GOOD)) == []
    [line] = _advice({**GOOD, **bad})
    assert word in line


def completed(script, *words):
    """What bash offers behind these words."""
    asked = f"{script}\nCOMP_WORDS=({' '.join(repr(word) for word in words)})\nCOMP_CWORD={len(words) - 1}\n"
    asked += '_shtab_flintlog\nprintf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "--norc", "-c", asked], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.split()


def test_bash_completes_verbs_options_words_directories_and_files(tmp_path, capsys, monkeypatch):
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    monkeypatch.chdir(tmp_path)
    (tmp_path / "queues").mkdir()
    (tmp_path / "queues.tar").touch()
    assert set(completed(script, "flintlog", "")) == {verb.name for verb in VERBS}
    assert completed(script, "flintlog", "ver") == ["verify"]
    assert completed(script, "flintlog", "repair", "--u") == ["--undo"]
    assert completed(script, "flintlog", "export", "log", "--format", "p") == ["parquet"]
    assert completed(script, "flintlog", "verify", "que") == ["queues"]
    assert completed(script, "flintlog", "export", "log", "que") == ["queues"]
    assert completed(script, "flintlog", "diff", "log", "other", "que") == ["queues"]
    assert sorted(completed(script, "flintlog", "snapshot", "log", "--data", "que")) == [
        "queues",
        "queues.tar",
    ]
    assert completed(script, "flintlog", "completion", "f") == ["fish"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_every_verb_and_option(shell, capsys):
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(verb.name in script for verb in VERBS)
    assert ("--undo" if shell == "zsh" else "-l undo") in script
    assert main(["completion", shell, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["script"] == script


def test_colour_can_be_forced_and_taken_away():
    pipe = io.StringIO()
    assert not Screen.of(pipe, {}).colour
    assert Screen.of(pipe, {"FORCE_COLOR": "1"}).colour
    assert Screen.of(pipe, {"FORCE_COLOR": "1"}).width is None
    assert not Screen.of(pipe, {"FORCE_COLOR": "1", "NO_COLOR": "1"}).colour
