"""`backup` and `restore` as an operator types them, for every dialect."""

from __future__ import annotations

import json

import pytest
from scripts.pages import contract
from tests.backup_logs import LOGS

from flintlog.core.backup import BACKUP_FILE, copying
from flintlog.disk import Disk


@pytest.fixture(params=LOGS)
def kind(request):
    return LOGS[request.param]


def names(fields):
    return [name for name, _ in fields]


def filled(kind, path, items=6):
    log = kind(path)
    for _ in range(items):
        log.add()
        log.added += 1
    return log


def contents(path):
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def test_a_live_log_is_backed_up_listed_verified_and_restored(typed, kind, tmp_path):
    log, place = filled(kind, tmp_path / "log"), tmp_path / "place"
    status, out, _ = typed("backup", tmp_path / "log", place)
    assert status == 0 and f"made full backup {place}/0001" in out
    log.add()
    status, out, _ = typed("backup", tmp_path / "log", place, "--json")
    made = json.loads(out)
    assert (status, list(made)) == (0, names(contract.BACKUP_FIELDS))
    assert (made["backup"], made["applied"], made["source"]) == ("0002", True, str(tmp_path / "log"))
    assert all(list(item) == ["name", "size", "sha256", "held_by"] for item in made["files"])
    log.close()

    status, out, _ = typed("backup", "list", place, "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert status == 0
    assert all(list(row) == names(contract.BACKUP_LIST_FIELDS) for row in rows)
    assert [row["backup"] for row in rows] == ["0001", "0002"]
    assert rows[1]["last"] == made["last"] and rows[0]["kind"] == "full"
    assert "0002" in typed("backup", "list", place)[1]

    status, out, _ = typed("backup", "verify", place)
    assert (status, out.count("verdict: clean")) == (0, 2)
    assert f"{place}/0002" in typed("backup", "verify", place, 2)[1]

    status, out, _ = typed("restore", place, tmp_path / "new", "--dry-run", "--json")
    plan = json.loads(out)
    assert (status, list(plan), plan["applied"]) == (0, names(contract.PLAN_FIELDS), False)
    assert not (tmp_path / "new").exists()
    status, out, _ = typed("restore", place, tmp_path / "new")
    assert status == 0 and "done: " in out
    assert kind.items(Disk(), str(tmp_path / "new")) == list(range(7))
    assert typed("restore", place, tmp_path / "old", "--backup", 1)[0] == 0
    assert kind.items(Disk(), str(tmp_path / "old")) == list(range(6))
    assert typed("verify", tmp_path / "old")[0] == 0


def test_restore_to_a_position(typed, kind, tmp_path):
    filled(kind, tmp_path / "log").close()
    place = tmp_path / "place"
    typed("backup", tmp_path / "log", place)
    last = json.loads(typed("backup", "list", place, "--json")[1])["last"]
    to = ",".join(map(str, last)) if isinstance(last, list) else last
    assert typed("restore", place, tmp_path / "new", "--to", to)[0] == 0
    assert kind.items(Disk(), str(tmp_path / "new")) == list(range(6))
    if kind is LOGS["mpy6a-strict"]:
        return  # nothing tells an earlier state
    if isinstance(last, int):
        assert typed("restore", place, tmp_path / "earlier", "--to", last - 2)[0] == 0
        assert kind.items(Disk(), str(tmp_path / "earlier")) == list(range(4))
    status, _, err = typed("restore", place, tmp_path / "other", "--to", f"{to}9")
    assert status == 3 and "no backup here holds position" in err
    assert not (tmp_path / "other").exists()


def test_a_damaged_backup_does_not_hide_the_others(typed, tmp_path):
    filled(LOGS["taskflux"], tmp_path / "log").close()
    place = tmp_path / "place"
    typed("backup", tmp_path / "log", place)
    typed("backup", tmp_path / "log", place, "--full")
    file = next((place / "0001" / "log").iterdir())
    file.write_bytes(file.read_bytes()[:-5])
    status, out, err = typed("backup", "verify", place)
    assert (status, out.count("verdict: clean")) == (3, 1)
    assert str(file) in err and "not what was copied" in err
    assert typed("backup", "verify", place, 1)[0] == 3
    assert typed("backup", "verify", place, 2)[0] == 0
    (place / "0001" / BACKUP_FILE).write_text("{}")
    status, out, _ = typed("backup", "list", place, "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert status == 3
    assert [row["problem"] is None for row in rows] == [False, True]
    status, _, err = typed("backup", tmp_path / "log", place)
    assert status == 3 and "--full" in err


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["backup", "nowhere", "place"], 4, "no such directory"),
        (["backup", "list", "nowhere"], 3, "there is no backup here"),
        (["backup", "verify", "nowhere"], 3, "there is no backup here"),
        (["backup", "verify", "place", "7"], 3, "there is no backup 7"),
        (["backup", "log", "place", "7"], 2, "goes with verify only"),
        (["backup", "log", "log/inside"], 2, "inside the log directory"),
        (["restore", "nowhere", "new"], 3, "there is no backup here"),
        (["backup", "place/0001", "other"], 3, "this is a backup"),
        (["restore", "place", "place/0002"], 2, "among the backups"),
        (["restore", "place", "log"], 3, "this path exists and is not an empty directory"),
        (["restore", "place", "new", "--backup", "7"], 3, "there is no backup 7"),
        (["restore", "place", "new", "--backup", "1", "--to", "99"], 3, "LSN 99 is beyond the log"),
        (["restore", "place", "new", "--backup", "1", "--to", "1,2"], 2, "one LSN"),
    ],
)
def test_what_cannot_be_is_one_line_and_changes_nothing(
    typed, tmp_path, monkeypatch, arguments, status, words
):
    monkeypatch.chdir(tmp_path)
    filled(LOGS["taskflux"], tmp_path / "log").close()
    typed("backup", "log", "place")
    before = contents(tmp_path)
    found, _, err = typed(*arguments)
    assert (found, len(err.splitlines())) == (status, 1)
    assert words in err
    assert contents(tmp_path) == before


@pytest.mark.parametrize("arguments", [["backup", "log", "place", "--full"], ["restore", "place", "new"]])
def test_an_interrupt_leaves_everything_as_it_was(typed, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    filled(LOGS["taskflux"], tmp_path / "log").close()
    typed("backup", "log", "place")
    before = contents(tmp_path), sorted(tmp_path.rglob("*"))
    real = copying._copy
    calls = []

    def copy(*arguments):
        calls.append(arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(copying, "_copy", copy)
    assert typed(*arguments)[0] == 130
    assert len(calls) == 2
    assert (contents(tmp_path), sorted(tmp_path.rglob("*"))) == before
